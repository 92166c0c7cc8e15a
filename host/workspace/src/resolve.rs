//! From a path to an open directory and a name in it. One part at a time, each opened from the directory before it
//! and never through a link: links are read, and their parts put in place of their name. So each name is judged
//! where it is, also behind a link; and whoever swaps a directory for a link meanwhile is either noticed or too late.

use std::{io::ErrorKind, path::Path, sync::Arc};

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;

use crate::{
    Workspace,
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
    /// Its own path below the root, where a link was followed; `None` where the path given is its own.
    pub(crate) link_target: Option<String>,
}

/// A directory on the way to what is resolved, with its name in the directory above it.
struct Above {
    dir: Arc<Dir>,
    name: String,
}

/// Follows `path` to a regular file that may be read.
pub(crate) fn follow(workspace: &Workspace, path: RelPath<'_>, work: &mut Work) -> Result<Found, FileError> {
    match resolve(workspace, path, work)? {
        Resolved::File(found) => Ok(found),
        Resolved::Directory(_) => Err(FileError::Directory { path: path.shown() }),
    }
}

/// Follows `path` to a directory.
pub(crate) fn follow_to_directory(workspace: &Workspace, path: RelPath<'_>) -> Result<Arc<Dir>, FileError> {
    match resolve(workspace, path, &mut Work::default())? {
        Resolved::Directory(dir) => Ok(dir),
        Resolved::File(_) => Err(FileError::Failed { path: path.shown(), source: ErrorKind::NotADirectory.into() }),
    }
}

enum Resolved {
    File(Found),
    Directory(Arc<Dir>),
}

fn resolve(workspace: &Workspace, path: RelPath<'_>, work: &mut Work) -> Result<Resolved, FileError> {
    let Workspace { root, rules } = workspace;
    let protected = || FileError::Protected { path: path.shown(), why: guard::OWN_FOLDER };
    rules.check_root(path)?;
    let mut above: Vec<Above> = Vec::new();
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
        let dir = above.last().map_or(root, |above| &above.dir);
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
            let dir = Arc::new(dir.open_dir_nofollow(&name).map_err(io)?);
            if rules.protect_directory(&dir).map_err(FileError::io(path.as_str()))? {
                return Err(protected());
            }
            above.push(Above { dir, name });
        } else if !ahead.is_empty() {
            return Err(FileError::NotFound { path: path.shown() });
        } else if metadata.is_file() {
            if rules.identities.have(&metadata) {
                return Err(protected());
            }
            let link_target = (links > 0).then(|| {
                let parents = above.iter().map(|above| format!("{}/", above.name));
                parents.chain([name.clone()]).collect()
            });
            return Ok(Resolved::File(Found { dir: Arc::clone(dir), name, size: metadata.len(), link_target }));
        } else {
            return Err(FileError::Special { path: path.shown() });
        }
    }
    Ok(Resolved::Directory(above.pop().map_or_else(|| Arc::clone(root), |above| above.dir)))
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
    workspace: &Workspace,
    parts: impl Iterator<Item = &'a str>,
    path: RelPath<'_>,
    make: bool,
) -> Result<Arc<Dir>, FileError> {
    let Workspace { root, rules } = workspace;
    let io = |error| FileError::io(path.as_str())(error);
    rules.check_root(path)?;
    let mut dir = Arc::clone(root);
    for part in parts {
        guard::check_git_part(&dir, part, path)?;
        let mut made = false;
        let mut opened = dir.open_dir_nofollow(part);
        if make && opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            match dir.create_dir(part) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(io(error)),
                created => {
                    made = created.is_ok();
                    opened = dir.open_dir_nofollow(part);
                }
            }
        }
        let below = match (opened, dir.symlink_metadata(part)) {
            (Ok(below), _) => below,
            (Err(_), Ok(there)) if there.is_symlink() => return Err(FileError::Link { path: path.shown() }),
            (Err(_), Ok(there)) if !there.is_dir() => {
                return Err(FileError::NotDirectory { path: path.shown(), part: shown(part) });
            }
            (Err(error), _) => return Err(io(error)),
        };
        // A directory that was just made may be at the path of a folder of Patchbay's that did not exist until now.
        let is_protected = if made { rules.protect_new(&below) } else { rules.protect_directory(&below) };
        if is_protected.map_err(io)? {
            if made {
                let _ = dir.remove_dir(part);
            }
            return Err(FileError::Protected { path: path.shown(), why: guard::OWN_FOLDER });
        }
        dir = Arc::new(below);
    }
    Ok(dir)
}
