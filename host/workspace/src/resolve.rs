//! From a path to an open directory and a name in it. One part at a time, each opened from the directory before it
//! and never through a link: links are read, and their parts put in place of their name. So each name is judged
//! where it is, also behind a link; and whoever swaps a directory for a link meanwhile is either noticed or too late.

use std::{io::ErrorKind, path::Path, sync::Arc};

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;

use crate::{
    error::{FileError, shown},
    guard, limits,
    path::RelPath,
    work::Work,
};

/// A regular file, as it was when its path was followed.
pub(crate) struct Found {
    /// Where it is.
    pub(crate) dir: Arc<Dir>,
    /// Its name there.
    pub(crate) name: String,
    /// Its size, in bytes.
    pub(crate) size: u64,
}

/// Follows `path` to a regular file that may be read.
pub(crate) fn follow(root: &Arc<Dir>, path: RelPath<'_>, work: &mut Work) -> Result<Found, FileError> {
    let mut above: Vec<Arc<Dir>> = Vec::new();
    let mut ahead: Vec<String> = path.parts().rev().map(str::to_owned).collect();
    let (mut links, mut lookups) = (0, 0);
    while let Some(name) = ahead.pop() {
        work.entry()?;
        lookups += 1;
        if lookups > limits::LOOKUPS {
            return Err(FileError::Circle { path: path.shown() });
        }
        match name.as_str() {
            // Only links have these: a path of a guest has neither.
            "" | "." => continue,
            ".." => match above.pop() {
                Some(_) => continue,
                None => return Err(FileError::LeadsOut { path: path.shown() }),
            },
            name => {
                if let Some(why) = guard::against_reading(name) {
                    return Err(FileError::Protected { path: path.shown(), why });
                }
            }
        }
        let dir = above.last().unwrap_or(root);
        let io = FileError::io(path.as_str());
        let metadata = match dir.symlink_metadata(&name) {
            Ok(metadata) => metadata,
            Err(error) => return Err(io(error)),
        };
        if metadata.is_symlink() {
            links += 1;
            if links > limits::LINKS {
                return Err(FileError::Circle { path: path.shown() });
            }
            let target = match dir.read_link_contents(&name) {
                // A moment ago it was one.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    return Err(FileError::NotFound { path: path.shown() });
                }
                target => target.map_err(io)?,
            };
            ahead.extend(parts_of_link(&target, path)?);
        } else if metadata.is_dir() {
            let dir = dir.open_dir_nofollow(&name).map_err(io)?;
            above.push(Arc::new(dir));
        } else if !ahead.is_empty() {
            return Err(FileError::NotFound { path: path.shown() });
        } else if metadata.is_file() {
            return Ok(Found { dir: Arc::clone(dir), name, size: metadata.len() });
        } else {
            return Err(FileError::Special { path: path.shown() });
        }
    }
    Err(FileError::Directory { path: path.shown() })
}

/// The parts of a link, the last first. They may be `.` and `..`, and empty.
fn parts_of_link(target: &Path, path: RelPath<'_>) -> Result<Vec<String>, FileError> {
    // What is not UTF-8 cannot be named, by a link either.
    let Some(target) = target.to_str() else { return Err(FileError::NotFound { path: path.shown() }) };
    if target.starts_with('/') || Path::new(target).is_absolute() {
        return Err(FileError::LeadsOut { path: path.shown() });
    }
    Ok(target.split('/').rev().map(str::to_owned).collect())
}

/// Opens the directory at `parts`, where no link may be on the way. `make`: makes what is missing.
pub(crate) fn descend<'a>(
    root: &Arc<Dir>,
    parts: impl Iterator<Item = &'a str>,
    path: RelPath<'_>,
    make: bool,
) -> Result<Arc<Dir>, FileError> {
    let mut dir = Arc::clone(root);
    for part in parts {
        let mut opened = dir.open_dir_nofollow(part);
        if make && opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            match dir.create_dir(part) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(FileError::io(path.as_str())(error));
                }
                _ => opened = dir.open_dir_nofollow(part),
            }
        }
        let below = match (opened, dir.symlink_metadata(part)) {
            (Ok(below), _) => below,
            (Err(_), Ok(there)) if there.is_symlink() => return Err(FileError::Link { path: path.shown() }),
            (Err(_), Ok(there)) if !there.is_dir() => {
                return Err(FileError::NotDirectory { path: path.shown(), part: shown(part) });
            }
            (Err(error), _) => return Err(FileError::io(path.as_str())(error)),
        };
        dir = Arc::new(below);
    }
    Ok(dir)
}
