//! Unpacks package archives (`.tar.gz`) into a new folder. Archives are untrusted: the number of bytes and entries and their names
//! are checked while reading, and nothing is written outside of the folder.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    path::{Component, Path, PathBuf},
    str,
};

use flate2::read::MultiGzDecoder;
use patchbay_core::{Code, text};
use tar::{Archive, Entry, EntryType};

/// Size limit of all unpacked files together, in bytes.
pub const UNPACKED_BYTES: u64 = 64 << 20;
/// Limit on entries: twice the limit of files in a package, to leave room for folders.
const ENTRIES: u64 = 20_000;
/// Bytes allowed for an entry's headers, padding and long names.
const ENTRY_BYTES: u64 = 2 << 10;
/// Maximum number of segments in an entry's path, with room for folders above the package.
const DEPTH: usize = 32;

/// Why an archive was not unpacked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TarballError {
    /// The archive is damaged, or not a `.tar.gz`.
    #[error("cannot read the archive: {0}; expected a .tar.gz")]
    Damaged(String),
    /// The files or the headers of the archive are too large in total.
    #[error("the archive has more than {} MiB unpacked, the limit of a package", UNPACKED_BYTES >> 20)]
    TooLarge,
    /// The archive has too many entries.
    #[error("the archive has more than {ENTRIES} files and folders")]
    TooMany,
    /// The archive has an entry that is not allowed in a package.
    #[error("the archive's entry '{name}' {why}")]
    Entry {
        /// The name, shortened.
        name: String,
        /// What is wrong with it, after the name.
        why: String,
    },
    /// A file cannot be written to the folder.
    #[error("cannot unpack '{name}': {source}")]
    Write {
        /// The name of the entry, shortened.
        name: String,
        /// The error reported by the operating system.
        source: io::Error,
    },
    /// The folder named by `--path` is not in the archive.
    #[error("the archive has no folder '{path}'; it has {}", .there.join(", "))]
    NoFolder {
        /// The folder that was requested.
        path: String,
        /// The top-level entries of the archive.
        there: Vec<String>,
    },
}

impl TarballError {
    /// Returns the stable code of the error.
    pub fn code(&self) -> Code {
        match self {
            Self::Write { .. } => Code::FolderUnusable,
            Self::NoFolder { .. } => Code::InvalidArgs,
            _ => Code::ArchiveInvalid,
        }
    }
}

/// Unpacks a `.tar.gz` into the empty folder `into`. Times and modes in the archive are ignored, and links are created last, so no
/// entry is written through a link. After an error, the folder may contain some of the files.
///
/// # Errors
/// [`TarballError`].
pub fn unpack_tarball(archive: impl Read, into: &Path) -> Result<(), TarballError> {
    let mut bounded =
        BoundedReader { inner: MultiGzDecoder::new(archive), left: UNPACKED_BYTES + ENTRIES * ENTRY_BYTES };
    let unpacked = entries(&mut bounded, into);
    match unpacked {
        Err(TarballError::Damaged(_)) if bounded.left == 0 => Err(TarballError::TooLarge),
        other => other,
    }
}

fn entries(archive: impl Read, into: &Path) -> Result<(), TarballError> {
    let mut archive = Archive::new(archive);
    let (mut count, mut bytes, mut links) = (0, 0, Vec::new());
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        count += 1;
        if count > ENTRIES {
            return Err(TarballError::TooMany);
        }
        let raw = entry.path_bytes().into_owned();
        let refused = |why: String| TarballError::Entry { name: shown(&raw), why };
        let kind = entry.header().entry_type();
        // Git stores the commit in a global header.
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let path = inner_path(&raw).map_err(|why| refused(why.to_owned()))?;
        let written = |source| TarballError::Write { name: shown(&raw), source };
        let parent = path.parent().unwrap_or(Path::new(""));
        match kind {
            EntryType::Directory => fs::create_dir_all(into.join(&path)).map_err(written)?,
            EntryType::Regular | EntryType::Continuous => {
                fs::create_dir_all(into.join(parent)).map_err(written)?;
                bytes += write(&mut entry, &into.join(&path), UNPACKED_BYTES - bytes, &raw)?;
            }
            EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                if !stays_inside(parent, &target) {
                    return Err(refused(format!(
                        "is a link to '{}', which may lead out of the package",
                        shown(&target)
                    )));
                }
                fs::create_dir_all(into.join(parent)).map_err(written)?;
                links.push((into.join(&path), target, raw));
            }
            other => return Err(refused(format!("is {}, which a package may not have", named(other)))),
        }
    }
    for (link, target, raw) in links {
        let target = str::from_utf8(&target).unwrap_or_default();
        let made = std::os::unix::fs::symlink(target, link);
        made.map_err(|source| TarballError::Write { name: shown(&raw), source })?;
    }
    Ok(())
}

/// Writes a new file of at most `limit` bytes, and returns its size.
fn write(entry: &mut Entry<'_, impl Read>, to: &Path, limit: u64, raw: &[u8]) -> Result<u64, TarballError> {
    if entry.size() > limit {
        return Err(TarballError::TooLarge);
    }
    let created = OpenOptions::new().write(true).create_new(true).open(to);
    let mut file = created.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            TarballError::Entry { name: shown(raw), why: "occurs twice (some systems ignore letter case)".to_owned() }
        }
        _ => TarballError::Write { name: shown(raw), source: error },
    })?;
    let size = entry.size();
    let copied = copy(entry.take(limit), &mut file, raw)?;
    if copied == size { Ok(copied) } else { Err(damaged(io::ErrorKind::UnexpectedEof.into())) }
}

/// Copies the contents of the file `raw`, and returns their size. Unlike `io::copy`, the error tells a damaged archive from a full
/// disk.
fn copy(mut from: impl Read, mut to: impl Write, raw: &[u8]) -> Result<u64, TarballError> {
    let (mut copied, mut buffer) = (0, vec![0; 64 << 10]);
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(copied),
            Ok(read) => {
                let wrote = to.write_all(&buffer[..read]);
                wrote.map_err(|source| TarballError::Write { name: shown(raw), source })?;
                copied += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(damaged(error)),
        }
    }
}

/// Returns the path in the package's folder. The error continues a sentence that begins with the entry's name.
fn inner_path(raw: &[u8]) -> Result<PathBuf, &'static str> {
    let name = str::from_utf8(raw).map_err(|_| "has a name that is not UTF-8")?;
    if name.contains('\\') || name.chars().any(char::is_control) {
        return Err("has a backslash or a control character in its name");
    }
    let mut path = PathBuf::new();
    for component in Path::new(name).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => return Err("leads out of the package with '..'"),
            Component::RootDir | Component::Prefix(_) => return Err("has an absolute name"),
        }
    }
    if path.components().count() > DEPTH { Err("is too many folders deep") } else { Ok(path) }
}

/// Returns whether a link in the folder `parent` stays inside the package, regardless of other links. Its target can contain `..`
/// only at the beginning, where each `..` leaves a real folder, not a link.
fn stays_inside(parent: &Path, target: &[u8]) -> bool {
    let Ok(target) = str::from_utf8(target) else { return false };
    let mut components = Path::new(target).components().filter(|component| *component != Component::CurDir).peekable();
    let mut up = 0;
    while components.next_if_eq(&Component::ParentDir).is_some() {
        up += 1;
    }
    let is_plain = !target.is_empty() && !target.chars().any(char::is_control);
    is_plain
        && up <= parent.components().count()
        && components.all(|component| matches!(component, Component::Normal(_)))
}

/// The message is cleaned, because errors of the library quote the archive.
fn damaged(error: io::Error) -> TarballError {
    TarballError::Damaged(text::excerpt(&error.to_string(), 200))
}

fn named(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Link => "a hard link",
        EntryType::Char | EntryType::Block => "a device",
        EntryType::Fifo => "a pipe",
        EntryType::GNUSparse => "a sparse file",
        _ => "of an unknown kind",
    }
}

fn shown(raw: &[u8]) -> String {
    text::excerpt(&String::from_utf8_lossy(raw), 200)
}

/// Returns the package's folder in `root`, where an archive was unpacked: the folder `path` if it is set; otherwise the only folder
/// if there is nothing else, as in archives of releases; otherwise `root` itself.
///
/// # Errors
/// [`TarballError::NoFolder`], [`TarballError::Entry`] for a path that leads out, [`TarballError::Write`] if `root` cannot be read.
pub fn unpacked_folder(root: &Path, path: Option<&str>) -> Result<PathBuf, TarballError> {
    let failed = |source| TarballError::Write { name: ".".to_owned(), source };
    let entries = fs::read_dir(root).and_then(|entries| entries.collect::<io::Result<Vec<_>>>()).map_err(failed)?;
    let Some(path) = path else {
        let only = match &*entries {
            [only] => only.file_type().is_ok_and(|kind| kind.is_dir()).then(|| only.path()),
            _ => None,
        };
        return Ok(only.unwrap_or_else(|| root.to_owned()));
    };
    let refused = |why: &str| TarballError::Entry { name: text::excerpt(path, 200), why: why.to_owned() };
    let folder = root.join(inner_path(path.as_bytes()).map_err(refused)?);
    // If the folder is a link, its target counts.
    let inside = folder.canonicalize().ok().zip(root.canonicalize().ok());
    match inside {
        Some((folder, root)) if folder.is_dir() && folder.starts_with(&root) => Ok(folder),
        _ => {
            let mut there: Vec<String> =
                entries.iter().map(|entry| shown(entry.file_name().as_encoded_bytes())).collect();
            there.sort();
            there.truncate(20);
            Err(TarballError::NoFolder { path: text::excerpt(path, 200), there })
        }
    }
}

/// Fails after `left` bytes, because a small archive can unpack to any size.
struct BoundedReader<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 && !buffer.is_empty() {
            return Err(io::Error::other("too large"));
        }
        let read = self.inner.read(&mut buffer[..most])?;
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
