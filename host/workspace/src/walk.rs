//! Listing, in the order of whole paths' bytes. A plain recursive walk gives another: `a/c` comes before `a-b` there,
//! and after it here. So a directory stands twice among its siblings: under its name, as what may be listed, and
//! under its name with a `/`, as what lies below.

use std::io;

use cap_fs_ext::DirExt as _;
use cap_std::fs::{Dir, FileType};

use crate::{
    Entry, Workspace,
    error::{FileError, shown},
    glob::Glob,
    guard,
    ignored::Ignored,
    limits,
    path::{RelPath, fault_of_part},
    resolve,
    work::Work,
};

/// See [`Workspace::walk`](crate::Workspace::walk). `work` is what was done already.
pub(crate) fn walk(
    workspace: &Workspace,
    glob: &str,
    after: Option<&str>,
    limit: u32,
    work: Work,
) -> Result<Vec<Entry>, FileError> {
    workspace.rules.check_root(RelPath::ROOT)?;
    let limit = usize::try_from(limit.min(limits::PAGE)).unwrap_or_default();
    let mut walk = Walk {
        workspace,
        glob: Glob::parse(glob)?,
        after: after.unwrap_or_default(),
        limit,
        ignored: Ignored::default(),
        work,
        found: Vec::new(),
    };
    walk.directory(&workspace.root, "", 0)?;
    Ok(walk.found)
}

struct Walk<'a> {
    workspace: &'a Workspace,
    glob: Glob,
    after: &'a str,
    limit: usize,
    ignored: Ignored,
    work: Work,
    found: Vec<Entry>,
}

/// A name in a directory, as reading the directory tells.
struct Sibling {
    /// For [`Kind::Below`] with a `/` at its end.
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    File,
    Link,
    Directory,
    Below,
}

impl Walk<'_> {
    /// The directory at `prefix`, which is empty or ends with `/`, and has `depth` parts.
    fn directory(&mut self, dir: &Dir, prefix: &str, depth: usize) -> Result<(), FileError> {
        let Some(siblings) = self.siblings(dir, prefix)? else { return Ok(()) };
        self.ignored.enter(dir, prefix)?;
        for Sibling { name, kind } in siblings {
            if self.found.len() >= self.limit {
                break;
            }
            let path = format!("{prefix}{name}");
            match kind {
                Kind::Below => self.below(dir, &path, &name, depth + 1)?,
                Kind::File | Kind::Link | Kind::Directory => self.entry(dir, path, &name, kind)?,
            }
        }
        self.ignored.leave(prefix);
        Ok(())
    }

    /// What is in `dir`, sorted, without what comes before the page. None where it cannot be read any more, or not
    /// by us.
    fn siblings(&mut self, dir: &Dir, prefix: &str) -> Result<Option<Vec<Sibling>>, FileError> {
        let io = |error| FileError::io(if prefix.is_empty() { "." } else { prefix })(error);
        let entries = match dir.entries() {
            Err(error) if is_passed_over(&error) && !prefix.is_empty() => return Ok(None),
            entries => entries.map_err(io)?,
        };
        let mut siblings = Vec::new();
        for entry in entries {
            self.work.entry()?;
            let entry = entry.map_err(io)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if fault_of_part(&name).is_some() || guard::is_git(&name) || guard::is_temporary(&name) {
                continue;
            }
            let Some(kind) = entry.file_type().ok().and_then(|kind| known(dir, &name, kind)) else { continue };
            if kind.is_dir() {
                siblings.push(Sibling { name: format!("{name}/"), kind: Kind::Below });
                siblings.push(Sibling { name, kind: Kind::Directory });
            } else if kind.is_symlink() {
                siblings.push(Sibling { name, kind: Kind::Link });
            } else if kind.is_file() {
                siblings.push(Sibling { name, kind: Kind::File });
            }
        }
        siblings.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(Some(siblings))
    }

    /// One entry, if it is to be listed.
    fn entry(&mut self, dir: &Dir, path: String, name: &str, kind: Kind) -> Result<(), FileError> {
        let is_directory = matches!(kind, Kind::Directory);
        if path.as_str() <= self.after
            || !self.glob.matches(&path, &mut self.work)?
            || self.ignored.hides(&path, is_directory, &mut self.work)?
        {
            return Ok(());
        }
        if path.len() > limits::PATH_BYTES {
            return Err(FileError::TooDeep { path: shown(&path) });
        }
        let size = match kind {
            Kind::Link => match resolve::follow(self.workspace, RelPath::parse(&path)?, &mut self.work) {
                Ok(target) => target.size,
                Err(error @ (FileError::Failed { .. } | FileError::TooManyEntries)) => return Err(error),
                Err(_) => return Ok(()),
            },
            // It may be another thing by now.
            Kind::File => match dir.symlink_metadata(name) {
                Ok(metadata) if metadata.is_file() && !self.workspace.rules.identities.have(&metadata) => {
                    metadata.len()
                }
                Err(error) if !is_passed_over(&error) => return Err(FileError::io(&path)(error)),
                _ => return Ok(()),
            },
            Kind::Directory if self.is_protected(dir, name) => return Ok(()),
            Kind::Directory | Kind::Below => 0,
        };
        self.found.push(Entry { path, is_directory, size });
        Ok(())
    }

    /// Whether the directory `name` of `dir` is one of Patchbay's own.
    fn is_protected(&self, dir: &Dir, name: &str) -> bool {
        let identities = &self.workspace.rules.identities;
        !identities.is_empty() && dir.symlink_metadata(name).is_ok_and(|metadata| identities.have(&metadata))
    }

    /// What lies below the directory at `prefix`, which ends with `/`, as does its `name`.
    fn below(&mut self, parent: &Dir, prefix: &str, name: &str, depth: usize) -> Result<(), FileError> {
        let (path, name) = (prefix.trim_end_matches('/'), name.trim_end_matches('/'));
        let is_before_the_page = prefix < self.after && !self.after.starts_with(prefix);
        if is_before_the_page
            || !self.glob.reaches_below(path, &mut self.work)?
            || self.ignored.hides(path, true, &mut self.work)?
        {
            return Ok(());
        }
        if depth >= limits::DEPTH || prefix.len() >= limits::PATH_BYTES {
            return Err(FileError::TooDeep { path: shown(path) });
        }
        match parent.open_dir_nofollow(name) {
            Ok(dir) if self.workspace.rules.protect_directory(&dir).map_err(FileError::io(path))? => Ok(()),
            Ok(dir) => self.directory(&dir, prefix, depth),
            Err(error) if is_passed_over(&error) => Ok(()),
            Err(error) => match parent.symlink_metadata(name) {
                // Some systems have another error for a link. If it is still a directory, the fault is ours.
                Ok(there) if there.is_dir() => Err(FileError::io(path)(error)),
                _ => Ok(()),
            },
        }
    }
}

/// The type that the directory told, or where it did not, the one of the thing itself.
fn known(dir: &Dir, name: &str, told: FileType) -> Option<FileType> {
    if told == FileType::unknown() { Some(dir.symlink_metadata(name).ok()?.file_type()) } else { Some(told) }
}

/// What vanished or became a link, and what is not for this process to read, is no reason to list nothing.
fn is_passed_over(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_and_every_part_of_a_link_is_work() {
        let all = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(all.path()).unwrap();
        let root = &workspace.root;
        root.create_dir("a").unwrap();
        root.write("a/b", "").unwrap();
        root.write("a/c", "").unwrap();
        let walk_after = |entries| {
            let mut work = Work::default();
            (0..limits::ENTRIES - entries).for_each(|_| work.entry().unwrap());
            walk(&workspace, "**", None, 100, work).map(|found| found.len())
        };
        assert_eq!(walk_after(3).unwrap(), 3);
        assert!(matches!(walk_after(2), Err(FileError::TooManyEntries)));
        root.symlink("a/./b", "d").unwrap();
        assert_eq!(walk_after(8).unwrap(), 4);
        assert!(matches!(walk_after(7), Err(FileError::TooManyEntries)));
    }
}
