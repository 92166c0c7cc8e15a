//! Lists the files that belong to a skill in a folder, within the limits of one skill.
//!
//! Called by `discover.rs`. Every regular file below the folder belongs to the skill, except hidden files, temporary files of
//! editors and build tools, and the component (`*.wasm` directly in the folder) with its sources. Links are followed only inside
//! the folder.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::{OsStr, OsString},
    io,
};

use cap_std::fs::{Dir, DirEntry, FileType, Metadata, ReadDir};
use patchbay_core::{Code, text};

use crate::{Problem, is_source, names};

/// Maximum number of files of a skill, and also the most folders.
const FILES: usize = 1_000;
/// Size limit of all files of a skill except its component, in bytes.
const BYTES: u64 = 32 << 20;
/// Size limit of one of these files, in bytes.
pub(crate) const FILE_BYTES: u64 = 8 << 20;
/// How deep folders can be nested, counted from the skill's folder.
const DEPTH: usize = 8;
/// The longest path of a file, in bytes.
const PATH_BYTES: usize = 255;
/// The most diagnostics about files that are left out. Further files are only counted.
const SKIPPED: usize = 10;
/// The most directory entries that are read for a skill, including ignored ones. A linked folder is read again for each link to it.
const ENTRIES: usize = 10_000;
/// Maximum number of links that are followed for a skill. Following one can take milliseconds, because links can lead to other
/// links.
const LINKS: usize = 100;

/// The content of a skill's folder.
#[derive(Default)]
pub(crate) struct Listing {
    /// The files of the skill by composed path below its folder, without the component.
    pub(crate) files: BTreeMap<String, Metadata>,
    /// Names of the `*.wasm` files directly in the folder, sorted.
    pub(crate) components: Vec<String>,
    /// One problem for each file that is left out.
    pub(crate) skipped: Vec<Problem>,
    /// The limit that the folder exceeds, in which case `files` is incomplete. `None` within the limits.
    pub(crate) over: Option<Problem>,
    /// Whether the folder itself has more than [`ENTRIES`] entries. In this case `components` is empty, because the file system
    /// decides which entries were read.
    pub(crate) is_cut: bool,
    /// Whether the folder has an entry named exactly `SKILL.md`. Some systems also open a name that differs in case.
    pub(crate) has_skill_md: bool,
    /// The number of entries that were read, including ignored ones: at most one more than [`ENTRIES`].
    pub(crate) entries: usize,
    folders: usize,
    links: usize,
    totals: Totals,
}

/// The number and total size of one skill's files, counted against its limits.
#[derive(Default)]
pub(crate) struct Totals {
    files: usize,
    bytes: u64,
}

impl Totals {
    /// Counts the file at `path`.
    ///
    /// # Errors
    /// The first limit that the skill exceeds with this file.
    pub(crate) fn add(&mut self, path: &str, bytes: u64) -> Result<(), Problem> {
        if path.len() > PATH_BYTES {
            return Err(limited(format!("A path of more than {PATH_BYTES} bytes")));
        }
        if path.matches('/').count() > DEPTH {
            return Err(limited(format!("Folders more than {DEPTH} deep")));
        }
        // The smaller limit of SKILL.md, with its own diagnostic, is checked when it is read.
        if bytes > FILE_BYTES && path != crate::discover::SKILL_MD {
            return Err(limited(format!("'{}' is larger than {} MiB", text::excerpt(path, 80), FILE_BYTES >> 20)));
        }
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > BYTES {
            return Err(limited(format!("More than {} MiB of files", BYTES >> 20)));
        }
        self.files += 1;
        if self.files > FILES { Err(too_many("files", FILES)) } else { Ok(()) }
    }
}

/// Returns whether `path` can be the path of a skill's file, other than SKILL.md and the component.
pub(crate) fn is_file_path(path: &str) -> bool {
    let top = !path.contains('/');
    let is_own = top && (path == crate::discover::SKILL_MD || path.ends_with(".wasm"));
    // Ignored names include `.` and `..`.
    !is_own && !path.contains('\0') && path.split('/').all(|name| !name.is_empty() && !is_ignored(name.as_bytes()))
}

/// Lists the files of the skill in `folder`. Stops at the first exceeded limit and reports it in [`Listing::over`]. The sources of
/// a component are ignored. Without a component, nothing counts as a source: scripts are part of the skill.
///
/// # Errors
/// The folder itself cannot be read.
pub(crate) fn list(folder: &Dir) -> io::Result<Listing> {
    list_for(folder, ListingUse::Loading)
}

/// Like [`list`], but for embedding the files in a component: leaves out SKILL.md and sources.
pub(crate) fn list_to_embed(folder: &Dir) -> io::Result<Listing> {
    list_for(folder, ListingUse::Embedding)
}

/// The purpose of listing a folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ListingUse {
    Loading,
    /// The component does not exist yet, or is about to be replaced.
    Embedding,
}

fn list_for(folder: &Dir, purpose: ListingUse) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let embeds = purpose == ListingUse::Embedding;
    let entries = listing.read(folder.entries()?)?.map(|entries| {
        // Components are found before any limit is checked, because a skill keeps its component even over a limit.
        let is_component = |(name, (kind, _)): &(OsString, (FileType, DirEntry))| is_component(name, *kind);
        let (components, mut others) = entries.into_iter().partition::<FolderEntries, _>(is_component);
        listing.components = components.into_keys().filter_map(|name| name.into_string().ok()).collect();
        if embeds || !listing.components.is_empty() {
            others.retain(|name, _| name.to_str().is_none_or(|name| !is_source(name)));
        }
        if embeds {
            others.remove(OsStr::new(crate::discover::SKILL_MD));
        }
        others
    });
    listing.is_cut = entries.is_none();
    let skill_md = OsStr::new(crate::discover::SKILL_MD);
    listing.has_skill_md = entries.as_ref().is_none_or(|entries| entries.contains_key(skill_md));
    listing.over = listing.add(folder, "", Place::default(), entries).err();
    listing.skipped.sort_by(|a, b| a.message.cmp(&b.message));
    if listing.skipped.len() > SKIPPED {
        let more = listing.skipped.len() - SKIPPED;
        listing.skipped.truncate(SKIPPED);
        listing.skip(format!("{more} more files are left out."));
    }
    Ok(listing)
}

#[derive(Clone, Copy, Default)]
struct Place {
    /// The number of folders above, up to the skill's folder.
    depth: usize,
    /// Whether a link leads to this folder, or to a folder above it.
    behind_link: bool,
}

/// Entries of one folder by name.
type FolderEntries = BTreeMap<OsString, (FileType, DirEntry)>;

/// Returns true if an entry directly in the skill's folder is a component.
fn is_component(name: &OsStr, kind: FileType) -> bool {
    !kind.is_dir() && name.to_str().is_some_and(|name| name.ends_with(".wasm"))
}

/// Returns true for names that never belong to a skill: hidden files, and temporary files of editors and build tools.
fn is_ignored(name: &[u8]) -> bool {
    name.starts_with(b".")
        || name.ends_with(b"~")
        || name.ends_with(b".pyc")
        || matches!(name, b"__pycache__" | b"node_modules")
}

impl Listing {
    /// Reads the entries of a folder that are not ignored. Returns `None` if the skill has more than [`ENTRIES`].
    fn read(&mut self, folder: ReadDir) -> io::Result<Option<FolderEntries>> {
        let mut found = BTreeMap::new();
        for entry in folder {
            self.entries += 1;
            if self.entries > ENTRIES {
                return Ok(None);
            }
            let entry = entry?;
            let name = entry.file_name();
            if !is_ignored(name.as_encoded_bytes()) {
                found.insert(name, (entry.file_type()?, entry));
            }
        }
        Ok(Some(found))
    }

    /// Adds the entries of the folder at `path` below `root`, the skill's folder. `None` stands for too many entries.
    fn add(&mut self, root: &Dir, path: &str, place: Place, entries: Option<FolderEntries>) -> Result<(), Problem> {
        let entries = entries.ok_or_else(|| too_many("entries in its folders", ENTRIES))?;
        if self.files.len() + entries.len() > 2 * FILES {
            return Err(too_many("files", FILES));
        }
        // If some system considers several names equal, the first name in byte order is kept.
        let mut seen = HashMap::<String, String>::new();
        for (name, (kind, entry)) in entries {
            let Some(name) = name.to_str() else {
                let shown = text::excerpt(&format!("{path}{}", name.to_string_lossy()), 80);
                self.skip(format!("The name of '{shown}' is not UTF-8."));
                continue;
            };
            let file = format!("{path}{name}");
            let caseless = patchbay_core::caseless(name).into_owned();
            if let Some(first) = seen.get(&caseless) {
                let (file, first) = (text::excerpt(&file, 80), text::excerpt(first, 80));
                self.skip(format!(
                    "'{file}' and '{first}' are one name on systems that ignore case or Unicode \
                    normal form."
                ));
                continue;
            }
            seen.insert(caseless, name.to_owned());
            if kind.is_dir() {
                // Reading a folder by its path takes fewer system calls. Inside a linked folder, however, the system would follow
                // the link again.
                let folder = match place.behind_link {
                    true => entry.open_dir().and_then(|folder| folder.entries()),
                    false => root.read_dir(&file),
                };
                self.folder(root, folder, &file, place)?;
            } else if kind.is_symlink() {
                self.link(root, &file, place)?;
            } else if kind.is_file() {
                // The file may have been removed after its folder was read.
                if let Ok(metadata) = entry.metadata() {
                    self.file(file, metadata)?;
                }
            } else {
                self.skip(format!("'{}' is not a regular file.", text::excerpt(&file, 80)));
            }
        }
        Ok(())
    }

    /// Adds the files of `folder`, which is at `path` below the skill's folder. A folder that cannot be read is left out.
    fn folder(&mut self, root: &Dir, folder: io::Result<ReadDir>, path: &str, place: Place) -> Result<(), Problem> {
        if place.depth == DEPTH {
            return Err(limited(format!("Folders more than {DEPTH} deep")));
        }
        self.folders += 1;
        if self.folders > FILES {
            return Err(too_many("folders", FILES));
        }
        match folder.and_then(|folder| self.read(folder)) {
            Ok(entries) => self.add(root, &format!("{path}/"), Place { depth: place.depth + 1, ..place }, entries),
            Err(error) => {
                self.skipped.push(unreadable(path, &error));
                Ok(())
            }
        }
    }

    /// Adds the target of a link, if the target is in the skill's folder.
    fn link(&mut self, root: &Dir, path: &str, place: Place) -> Result<(), Problem> {
        self.links += 1;
        if self.links > LINKS {
            return Err(too_many("links", LINKS));
        }
        match root.metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                self.folder(root, root.read_dir(path), path, Place { behind_link: true, ..place })
            }
            Ok(metadata) if metadata.is_file() => self.file(path.to_owned(), metadata),
            Ok(_) => {
                self.skip(format!("'{}' is not a regular file.", text::excerpt(path, 80)));
                Ok(())
            }
            Err(_) => {
                self.skip(format!("'{}' is a link to nothing in the skill's folder.", text::excerpt(path, 80)));
                Ok(())
            }
        }
    }

    /// Adds one file, or returns the limit that it exceeds.
    fn file(&mut self, path: String, metadata: Metadata) -> Result<(), Problem> {
        self.totals.add(&path, metadata.len())?;
        match names::composed(&path) {
            Some(path) => drop(self.files.insert(path.into_owned(), metadata)),
            None => self.skip(format!("The path '{}' mixes Unicode normal forms.", text::excerpt(&path, 80))),
        }
        Ok(())
    }

    /// Records a file that is left out.
    fn skip(&mut self, message: String) {
        self.skipped.push(Problem::new(Code::SkillFileSkipped, message));
    }
}

/// Creates the problem of a file or folder that cannot be read.
pub(crate) fn unreadable(path: &str, error: &io::Error) -> Problem {
    let message = format!("'{}' cannot be read: {}.", text::excerpt(path, 80), error.kind());
    Problem::new(Code::SkillFileSkipped, message)
}

fn too_many(what: &str, limit: usize) -> Problem {
    limited(format!("More than {} {what}", crate::limit::grouped(limit as u64)))
}

/// Creates the problem of a skill with too many entries in its folder to search for a component. Only the name `component` is used
/// then.
pub(crate) fn cut(component: &str) -> Problem {
    let entries = crate::limit::grouped(ENTRIES as u64);
    let message = format!(
        "More than {entries} entries in its folder; the skill's files cannot be read, except a component with the name '{component}'."
    );
    Problem::new(Code::SkillFilesLimited, message)
}

/// Creates the problem of a skill that exceeds a limit on files. Its instructions and tools still work.
fn limited(what: String) -> Problem {
    Problem::new(Code::SkillFilesLimited, format!("{what}; the skill's files cannot be read."))
}
