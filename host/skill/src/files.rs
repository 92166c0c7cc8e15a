//! Reading small files of folders that others may have written: regular files only, bounded, and never through a link
//! that leads out of the folder, into a `.git`, or to a hidden file.

use std::{
    io::{self, Read as _},
    path::Path,
    sync::Arc,
};

use cap_std::{ambient_authority, fs::Dir};
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

/// The same, with the state of the file just before it was read, where the system tells it.
pub(crate) fn read_stat(folder: &Dir, name: &str, max: u64) -> io::Result<Option<(Vec<u8>, Option<Stat>)>> {
    let (file, metadata) = match open_file_below(folder, name) {
        Ok(opened) => opened,
        Err(FileError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(io_error(error)),
    };
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("over {max} bytes"));
    if metadata.len() > max {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.take(max + 1).read_to_end(&mut bytes)?;
    // It may have grown meanwhile.
    if bytes.len() as u64 > max {
        return Err(too_large());
    }
    Ok(Some((bytes, Stat::new(&metadata))))
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
