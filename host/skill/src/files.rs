//! Reading small files of folders that others may have written: regular files only, bounded, and never through a link
//! that leads out of the folder, into a `.git`, or to a hidden file.

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

use crate::Stat;

/// A folder that is read from within.
pub type Folder = Dir;

/// Opens a folder; `None` where it does not exist.
///
/// # Errors
/// Where it exists and cannot be read.
pub fn open_folder(path: &Path) -> io::Result<Option<Dir>> {
    match Dir::open_ambient_dir(path, ambient_authority()) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens the folder `below` of the workspace at `path`, by the rules for plugins' paths: no link leads out of the workspace
/// or into a `.git`. `None` where it does not exist.
///
/// # Errors
/// Where it exists and cannot be read, or is out of bounds.
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

/// Reads a file in `folder`, at most `max` bytes; `None` where there is no such file.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] over `max`; [`io::ErrorKind::InvalidInput`] for what is no regular file, and for a link
/// that is not followed.
pub fn read(folder: &Dir, name: &str, max: u64) -> io::Result<Option<Vec<u8>>> {
    Ok(read_stat(folder, name, max)?.map(|(bytes, _)| bytes))
}

/// The digest of a file in `folder` of at most `max` bytes, and its state just before it was read; `None` where there is no
/// such file. It is read in pieces, never as a whole.
pub(crate) fn digest_stat(folder: &Dir, name: &str, max: u64) -> io::Result<Option<(Digest, Option<Stat>)>> {
    let Some((file, metadata)) = open(folder, name, max)? else { return Ok(None) };
    let mut file = file.take(max + 1);
    let digest = Digest::of_reader(&mut file)?;
    if file.limit() == 0 {
        return Err(too_large(max));
    }
    Ok(Some((digest, Stat::new(&metadata))))
}

/// The same, with the state of the file just before it was read, where the system tells it.
pub(crate) fn read_stat(folder: &Dir, name: &str, max: u64) -> io::Result<Option<(Vec<u8>, Option<Stat>)>> {
    let Some((file, metadata)) = open(folder, name, max)? else { return Ok(None) };
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.take(max + 1).read_to_end(&mut bytes)?;
    // It may have grown meanwhile.
    if bytes.len() as u64 > max {
        return Err(too_large(max));
    }
    Ok(Some((bytes, Stat::new(&metadata))))
}

/// Opens a regular file of at most `max` bytes; with its metadata as it is opened.
fn open(folder: &Dir, name: &str, max: u64) -> io::Result<Option<(impl io::Read, Metadata)>> {
    let (file, metadata) = match open_file_below(folder, name) {
        Ok(opened) => opened,
        Err(FileError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(io_error(error)),
    };
    if metadata.len() > max {
        return Err(too_large(max));
    }
    Ok(Some((file, metadata)))
}

fn too_large(max: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("over {max} bytes"))
}

/// Keeps the system's own kind of error; the guard's words become [`io::ErrorKind::InvalidInput`].
fn io_error(error: FileError) -> io::Error {
    let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
    match error {
        FileError::Failed { source, .. } => source,
        FileError::Refused { .. } => io::ErrorKind::PermissionDenied.into(),
        FileError::Special { .. } | FileError::Directory { .. } => invalid("not a regular file".to_owned()),
        error => invalid(error.to_string()),
    }
}
