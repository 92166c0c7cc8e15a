//! Reading small files of folders that somebody else may have written: regular files only, bounded, and never through a
//! link that leads out of the folder.

use std::{
    io::{self, Read as _},
    path::Path,
};

use cap_std::{ambient_authority, fs::Dir};

use crate::Stat;

/// A folder that is read from within.
pub type Folder = Dir;

/// A folder, or none where it does not exist.
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

/// A folder below another, reached by no link that leads out of it; or none where it does not exist.
///
/// # Errors
/// Where it exists and cannot be read.
pub fn open_below(path: &Path, below: &str) -> io::Result<Option<Dir>> {
    let Some(folder) = open_folder(path)? else { return Ok(None) };
    match folder.open_dir(below) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The bytes of a file in `folder`, at most `max`, or none where there is no such file.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] over `max`; [`io::ErrorKind::InvalidInput`] for what is no regular file.
pub fn read(folder: &Dir, name: &str, max: u64) -> io::Result<Option<Vec<u8>>> {
    Ok(read_stat(folder, name, max)?.map(|(bytes, _)| bytes))
}

/// The same, with the state of the file just before it was read, where the system tells it.
pub(crate) fn read_stat(folder: &Dir, name: &str, max: u64) -> io::Result<Option<(Vec<u8>, Option<Stat>)>> {
    let metadata = match folder.metadata(name) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // Opening a pipe would wait for somebody to write.
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("over {max} bytes"));
    if metadata.len() > max {
        return Err(too_large());
    }
    let file = folder.open(name)?;
    // Of the file that is open, which need not be the one that was looked at before.
    let stat = Stat::new(&file.metadata()?);
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0));
    file.take(max + 1).read_to_end(&mut bytes)?;
    // It may have grown meanwhile.
    if bytes.len() as u64 > max {
        return Err(too_large());
    }
    Ok(Some((bytes, stat)))
}
