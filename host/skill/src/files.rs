//! Reads small files from untrusted folders: only regular files up to a given size, and never through a link that leads out of the
//! folder, into a `.git` folder, or to a hidden file.
//!
//! Used by discovery in this crate, by personas in the crate `session`, and by the crates `plugin` and `provider` for
//! components and adapters.

use std::{
    io::{self, Read as _},
    path::Path,
    sync::Arc,
};

use cap_std::{
    ambient_authority,
    fs::{Dir, Metadata},
};
use patchbay_core::Digest;
use patchbay_workspace::{FileError, Workspace, open_file_below};

use crate::{Stat, names};

/// An opened folder. Paths below it cannot leave it.
pub type Folder = Dir;

/// Opens a folder. `None` if it does not exist.
///
/// # Errors
/// The folder exists but cannot be opened.
pub fn open_folder(path: &Path) -> io::Result<Option<Dir>> {
    match Dir::open_ambient_dir(path, ambient_authority()) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens the folder `below` in the workspace at `path`, by the same rules as for paths from plugins: no link may lead out of the
/// workspace or into a `.git` folder. `None` if the folder does not exist.
///
/// # Errors
/// The folder exists but cannot be opened, or the path breaks one of these rules.
pub fn open_below(path: &Path, below: &str) -> io::Result<Option<Dir>> {
    let workspace = match Workspace::open(path) {
        Ok(workspace) => workspace,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let folder = match workspace.open_folder(below) {
        Ok(folder) => folder,
        Err(FileError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(io_error(error)),
    };
    Arc::try_unwrap(folder).or_else(|shared| shared.try_clone()).map(Some)
}

/// Reads a file in `folder` of at most `max` bytes. `None` if it does not exist.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] over `max`; [`io::ErrorKind::InvalidInput`] if it is not a regular file, or is a
/// link that may not be followed.
pub fn read(folder: &Dir, name: &str, max: u64) -> io::Result<Option<Vec<u8>>> {
    Ok(read_stat(folder, name, max)?.map(|(bytes, _)| bytes))
}

/// A file that was hashed but not kept in memory.
pub(crate) struct HashedFile {
    pub(crate) digest: Digest,
    /// Number of bytes that were read.
    pub(crate) size: u64,
    /// State of the file just before it was read, if the system reports it.
    pub(crate) stat: Option<Stat>,
}

/// Hashes a file in `folder` of at most `max` bytes. `None` if it does not exist. The file is read in pieces and not kept in
/// memory.
pub(crate) fn hash(folder: &Dir, name: &str, max: u64) -> io::Result<Option<HashedFile>> {
    let Some((file, metadata)) = open(folder, name, max)? else { return Ok(None) };
    let mut file = file.take(max + 1);
    let digest = Digest::of_reader(&mut file)?;
    if file.limit() == 0 {
        return Err(too_large(max));
    }
    Ok(Some(HashedFile { digest, size: max + 1 - file.limit(), stat: Stat::new(&metadata) }))
}

/// Like [`read`], with the state of the file just before it was read, if the system reports it.
pub(crate) fn read_stat(folder: &Dir, name: &str, max: u64) -> io::Result<Option<(Vec<u8>, Option<Stat>)>> {
    let Some((file, metadata)) = open(folder, name, max)? else { return Ok(None) };
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.take(max + 1).read_to_end(&mut bytes)?;
    // The file may have grown after its metadata was read.
    if bytes.len() as u64 > max {
        return Err(too_large(max));
    }
    Ok(Some((bytes, Stat::new(&metadata))))
}

/// Opens a regular file of at most `max` bytes, and returns it with its current metadata.
fn open(folder: &Dir, name: &str, max: u64) -> io::Result<Option<(impl io::Read, Metadata)>> {
    let opened = match (open_file_below(folder, name), names::alternative(name)) {
        (Err(FileError::NotFound { .. }), Some(alternative)) => open_file_below(folder, &alternative),
        (opened, _) => opened,
    };
    let (file, metadata) = match opened {
        Ok(opened) => opened,
        Err(FileError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(io_error(error)),
    };
    if metadata.len() > max {
        return Err(too_large(max));
    }
    Ok(Some((file, metadata)))
}

/// Returns device and inode of a file or folder, if the system has them.
#[cfg(unix)]
#[allow(clippy::unnecessary_wraps)]
pub(crate) fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    use cap_std::fs::MetadataExt as _;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
pub(crate) fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}

fn too_large(max: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("over {max} bytes"))
}

/// Converts an error of the crate `workspace`. System errors keep their kind; other refusals become
/// [`io::ErrorKind::InvalidInput`].
fn io_error(error: FileError) -> io::Error {
    let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
    match error {
        FileError::Failed { source, .. } => source,
        FileError::Refused { .. } => io::ErrorKind::PermissionDenied.into(),
        FileError::Special { .. } | FileError::Directory { .. } => invalid("not a regular file".to_owned()),
        error => invalid(error.to_string()),
    }
}
