//! Implements [`Workspace::walk`](crate::Workspace::walk): listing in the byte order of whole paths.
//!
//! A plain recursive walk has another order: it lists `a/c` before `a-b`, but byte order has `a-b` first. So each
//! directory is sorted twice among its siblings: by its name, as the entry itself, and by its name with a `/`, as its
//! contents.

use std::{io, time::Instant};

use cap_fs_ext::DirExt as _;
use cap_std::fs::{Dir, FileType};

use crate::{
    FileEntry, Workspace,
    error::{FileError, shown},
    glob::Glob,
    guard,
    ignored::IgnoreStack,
    limits,
    path::{RelPath, part_error},
    resolve,
    work::WorkBudget,
};

/// Lists one page. `work` is the budget of the call; tests pass a budget that is partly used.
pub(crate) fn walk(
    workspace: &Workspace,
    glob: &str,
    after: Option<&str>,
    limit: u32,
    work: WorkBudget,
) -> Result<Vec<FileEntry>, FileError> {
    workspace.rules.check_root(RelPath::ROOT)?;
    let limit = usize::try_from(limit.min(limits::PAGE)).unwrap_or_default();
    let mut walk = Walk::new(workspace, Glob::parse(glob)?, after.unwrap_or_default(), limit, work);
    walk.directory(&workspace.root, "", 0)?;
    Ok(walk.found)
}

/// Implements [`Workspace::list`]: stops at `limit` entries, at `until`, or at the first error.
pub(crate) fn list(workspace: &Workspace, limit: usize, until: Instant) -> Vec<FileEntry> {
    let Ok(glob) = Glob::parse("**") else { return Vec::new() };
    if workspace.rules.check_root(RelPath::ROOT).is_err() {
        return Vec::new();
    }
    let mut walk = Walk::new(workspace, glob, "", limit, WorkBudget::until(until));
    // An incomplete list serves its purpose.
    let _ = walk.directory(&workspace.root, "", 0);
    walk.found
}

/// The state of one walk.
struct Walk<'a> {
    workspace: &'a Workspace,
    glob: Glob,
    after: &'a str,
    limit: usize,
    ignored: IgnoreStack,
    work: WorkBudget,
    found: Vec<FileEntry>,
}

/// A name in a directory, with the type from the directory entry.
struct Sibling {
    /// The name; for [`SiblingKind::Below`] with a `/` at its end.
    name: String,
    kind: SiblingKind,
}

#[derive(Clone, Copy)]
enum SiblingKind {
    File,
    Link,
    /// A directory as an entry.
    Directory,
    /// The contents of a directory.
    Below,
}

impl<'a> Walk<'a> {
    fn new(workspace: &'a Workspace, glob: Glob, after: &'a str, limit: usize, work: WorkBudget) -> Self {
        Self { workspace, glob, after, limit, ignored: IgnoreStack::default(), work, found: Vec::new() }
    }

    /// Walks the directory with the path `prefix`, which is empty or ends with `/` and has `depth` parts.
    fn directory(&mut self, dir: &Dir, prefix: &str, depth: usize) -> Result<(), FileError> {
        let Some(siblings) = self.siblings(dir, prefix)? else { return Ok(()) };
        self.ignored.enter(dir, prefix)?;
        for Sibling { name, kind } in siblings {
            if self.found.len() >= self.limit {
                break;
            }
            let path = format!("{prefix}{name}");
            match kind {
                SiblingKind::Below => self.below(dir, &path, &name, depth + 1)?,
                SiblingKind::File | SiblingKind::Link | SiblingKind::Directory => self.entry(dir, path, &name, kind)?,
            }
        }
        self.ignored.leave(prefix);
        Ok(())
    }

    /// Reads and sorts the names in `dir`. `None` if the directory was removed or may not be read.
    fn siblings(&mut self, dir: &Dir, prefix: &str) -> Result<Option<Vec<Sibling>>, FileError> {
        let io = |error| FileError::io(if prefix.is_empty() { "." } else { prefix })(error);
        let entries = match dir.entries() {
            Err(error) if is_skipped(&error) && !prefix.is_empty() => return Ok(None),
            entries => entries.map_err(io)?,
        };
        let mut siblings = Vec::new();
        for entry in entries {
            self.work.count_entry()?;
            let entry = entry.map_err(io)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if part_error(&name).is_some() || guard::is_git(&name) || guard::is_temporary_name(&name) {
                continue;
            }
            let Some(kind) = entry.file_type().ok().and_then(|kind| file_type(dir, &name, kind)) else { continue };
            if kind.is_dir() {
                siblings.push(Sibling { name: format!("{name}/"), kind: SiblingKind::Below });
                siblings.push(Sibling { name, kind: SiblingKind::Directory });
            } else if kind.is_symlink() {
                siblings.push(Sibling { name, kind: SiblingKind::Link });
            } else if kind.is_file() {
                siblings.push(Sibling { name, kind: SiblingKind::File });
            }
        }
        siblings.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(Some(siblings))
    }

    /// Adds one entry to the page if it matches.
    fn entry(&mut self, dir: &Dir, path: String, name: &str, kind: SiblingKind) -> Result<(), FileError> {
        let is_directory = matches!(kind, SiblingKind::Directory);
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
            SiblingKind::Link => match resolve::follow(self.workspace, RelPath::parse(&path)?, &mut self.work) {
                Ok(target) => target.size,
                Err(error @ (FileError::Failed { .. } | FileError::TooManyEntries)) => return Err(error),
                Err(_) => return Ok(()),
            },
            // The entry may have been replaced since its directory was read.
            SiblingKind::File => match dir.symlink_metadata(name) {
                Ok(metadata) if metadata.is_file() && !self.workspace.rules.identities.include(&metadata) => {
                    metadata.len()
                }
                Err(error) if !is_skipped(&error) => return Err(FileError::io(&path)(error)),
                _ => return Ok(()),
            },
            SiblingKind::Directory if self.is_protected(dir, name) => return Ok(()),
            SiblingKind::Directory | SiblingKind::Below => 0,
        };
        self.found.push(FileEntry { path, is_directory, size });
        Ok(())
    }

    /// Returns true if the directory `name` of `dir` is one of Patchbay's own folders.
    fn is_protected(&self, dir: &Dir, name: &str) -> bool {
        let identities = &self.workspace.rules.identities;
        !identities.is_empty() && dir.symlink_metadata(name).is_ok_and(|metadata| identities.include(&metadata))
    }

    /// Walks the contents of a directory. Its path `prefix` and its `name` end with `/`.
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
            Ok(dir) if self.workspace.rules.is_protected(&dir).map_err(FileError::io(path))? => Ok(()),
            Ok(dir) => self.directory(&dir, prefix, depth),
            Err(error) if is_skipped(&error) => Ok(()),
            Err(error) => match parent.symlink_metadata(name) {
                // Some systems return another error for a link. If it is still a directory, report the error.
                Ok(there) if there.is_dir() => Err(FileError::io(path)(error)),
                _ => Ok(()),
            },
        }
    }
}

/// Returns `entry_type`, or the type from the file's metadata if the directory entry has none.
fn file_type(dir: &Dir, name: &str, entry_type: FileType) -> Option<FileType> {
    if entry_type == FileType::unknown() {
        Some(dir.symlink_metadata(name).ok()?.file_type())
    } else {
        Some(entry_type)
    }
}

/// Returns true for errors that only skip an entry: it was removed, became a link, or may not be read.
fn is_skipped(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_parts_of_links_are_counted() {
        let all = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(all.path()).unwrap();
        let root = &workspace.root;
        root.create_dir("a").unwrap();
        root.write("a/b", "").unwrap();
        root.write("a/c", "").unwrap();
        let walk_after = |entries| {
            let mut work = WorkBudget::default();
            (0..limits::ENTRIES - entries).for_each(|_| work.count_entry().unwrap());
            walk(&workspace, "**", None, 100, work).map(|found| found.len())
        };
        assert_eq!(walk_after(3).unwrap(), 3);
        assert!(matches!(walk_after(2), Err(FileError::TooManyEntries)));
        root.symlink("a/./b", "d").unwrap();
        assert_eq!(walk_after(8).unwrap(), 4);
        assert!(matches!(walk_after(7), Err(FileError::TooManyEntries)));
    }
}
