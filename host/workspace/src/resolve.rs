//! Resolves a path to an open directory and a name in it. Used by every operation of [`Workspace`].
//!
//! Each segment is opened relative to the directory before it and never through a link. A link is read, and the segments
//! of its target replace its name. So every name is checked in the directory that really contains it. If another process
//! swaps a directory for a link at the same time, either the swap is noticed or it has no effect.

use std::{io::ErrorKind, path::Path, sync::Arc};

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;

use crate::{
    Workspace,
    error::{FileError, shown},
    guard, limits, linked,
    path::RelPath,
    work::WorkBudget,
};

/// A regular file, as it was when its path was resolved.
pub(crate) struct ResolvedFile {
    /// The directory that contains it.
    pub(crate) dir: Arc<Dir>,
    pub(crate) name: String,
    /// The file's size in bytes.
    pub(crate) size: u64,
    /// Its real path below the root if a link was followed, otherwise `None`.
    pub(crate) link_target: Option<String>,
}

/// An opened directory of the path, with its name in the directory above it.
struct OpenParent {
    dir: Arc<Dir>,
    name: String,
}

/// Resolves `path` to a regular file that may be read, following links.
pub(crate) fn follow(
    workspace: &Workspace,
    path: RelPath<'_>,
    work: &mut WorkBudget,
) -> Result<ResolvedFile, FileError> {
    match resolve(workspace, path, work)? {
        ResolvedPath::File(found) => Ok(found),
        ResolvedPath::Directory(_) => Err(FileError::Directory { path: path.shown() }),
    }
}

/// Resolves `path` to a directory, following links.
pub(crate) fn follow_to_directory(workspace: &Workspace, path: RelPath<'_>) -> Result<Arc<Dir>, FileError> {
    match resolve(workspace, path, &mut WorkBudget::default())? {
        ResolvedPath::Directory(dir) => Ok(dir),
        ResolvedPath::File(_) => Err(FileError::Failed { path: path.shown(), source: ErrorKind::NotADirectory.into() }),
    }
}

enum ResolvedPath {
    File(ResolvedFile),
    Directory(Arc<Dir>),
}

fn resolve(workspace: &Workspace, path: RelPath<'_>, work: &mut WorkBudget) -> Result<ResolvedPath, FileError> {
    let Workspace { root, rules } = workspace;
    let protected = || FileError::Protected { path: path.shown(), why: guard::OWN_FOLDER };
    rules.check_root(path)?;
    let mut above: Vec<OpenParent> = Vec::new();
    // The segments that remain, the last one first.
    let mut ahead: Vec<String> = path.parts().rev().map(str::to_owned).collect();
    let (mut links, mut lookups) = (0, 0);
    while let Some(name) = ahead.pop() {
        work.count_entry()?;
        lookups += 1;
        if lookups > limits::LOOKUPS {
            return Err(FileError::Circle { path: path.shown() });
        }
        match name.as_str() {
            // These only occur in targets of links: `RelPath` has none of them.
            "" | "." => continue,
            ".." => match above.pop() {
                Some(_) => continue,
                None => return Err(FileError::LeadsOut { path: path.shown() }),
            },
            name => {
                if let Some(why) = guard::read_refusal(name) {
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
                // The link has just been replaced by something else.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    return Err(FileError::NotFound { path: path.shown() });
                }
                target => target.map_err(io)?,
            };
            ahead.extend(parts_of_link(&target, path)?);
        } else if metadata.is_dir() {
            let dir = Arc::new(dir.open_dir_nofollow(&name).map_err(io)?);
            if rules.is_protected(&dir).map_err(FileError::io(path.as_str()))? {
                return Err(protected());
            }
            above.push(OpenParent { dir, name });
        } else if !ahead.is_empty() {
            return Err(FileError::NotFound { path: path.shown() });
        } else if metadata.is_file() {
            if rules.identities.include(&metadata) {
                return Err(protected());
            }
            let link_target = (links > 0).then(|| {
                let parents = above.iter().map(|above| format!("{}/", above.name));
                parents.chain([name.clone()]).collect()
            });
            let dir = Arc::clone(dir);
            return Ok(ResolvedPath::File(ResolvedFile { dir, name, size: metadata.len(), link_target }));
        } else {
            return Err(FileError::Special { path: path.shown() });
        }
    }
    Ok(ResolvedPath::Directory(above.pop().map_or_else(|| Arc::clone(root), |above| above.dir)))
}

/// Returns the segments of a link's target, the last one first. Segments may be `.`, `..` or empty.
fn parts_of_link(target: &Path, path: RelPath<'_>) -> Result<Vec<String>, FileError> {
    // Names that are not UTF-8 cannot be used, not even through a link.
    let Some(target) = target.to_str() else { return Err(FileError::NotFound { path: path.shown() }) };
    if target.starts_with('/') || Path::new(target).is_absolute() {
        return Err(FileError::LeadsOut { path: path.shown() });
    }
    Ok(target.split('/').rev().map(str::to_owned).collect())
}

/// Opens the directory at `parts`, none of which may be a link, to write in it. If `make` is
/// true, creates missing directories.
pub(crate) fn descend<'a>(
    workspace: &Workspace,
    parts: impl Iterator<Item = &'a str>,
    path: RelPath<'_>,
    make: bool,
) -> Result<Arc<Dir>, FileError> {
    let Workspace { root, rules } = workspace;
    let io = |error| FileError::io(path.as_str())(error);
    rules.check_root_for_writing(path)?;
    let mut chain = vec![Arc::clone(root)];
    // The names of new directories, each with the directory that contains it.
    let mut new = Vec::new();
    for part in parts {
        let dir = &chain[chain.len() - 1];
        guard::check_git_part(dir, part, path)?;
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
        // A new directory may have the path of one of Patchbay's own folders that did not exist until now.
        if let Some(why) = rules.write_refusal(&below, made).map_err(io)? {
            if made {
                let _ = dir.remove_dir(part);
            }
            return Err(FileError::Protected { path: path.shown(), why });
        }
        if made {
            new.push((Arc::clone(dir), part));
        }
        chain.push(Arc::new(below));
    }
    // A link may lead to one of the new directories.
    let now = (!new.is_empty()).then(|| rules.linked_now());
    let names: Vec<&str> = path.parts().collect();
    let why = linked::refusal(now.as_ref().unwrap_or_else(|| rules.linked()), &chain, &names).map_err(io)?;
    if let Some(why) = why {
        for (dir, part) in new.iter().rev() {
            let _ = dir.remove_dir(part);
        }
        return Err(FileError::Protected { path: path.shown(), why });
    }
    Ok(chain.pop().unwrap_or_else(|| Arc::clone(root)))
}
