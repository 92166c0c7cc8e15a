//! Implements [`Workspace::walk`](crate::Workspace::walk): listing in the byte order of whole paths.
//!
//! A plain recursive walk has another order: it lists `a/c` before `a-b`, but byte order has `a-b` first. So each
//! directory is sorted twice among its siblings: by its name, as the entry itself, and by its name with a `/`, as its
//! contents.

use std::{io, sync::Arc, time::Instant};

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
    selection::Selection,
    work::WorkBudget,
};

/// Lists one page. `work` is the budget of the call; tests pass a budget that is partly used.
pub(crate) fn walk(
    workspace: &Workspace,
    glob: &str,
    after: Option<&str>,
    limit: u32,
    mut work: WorkBudget,
) -> Result<Vec<FileEntry>, FileError> {
    let limit = usize::try_from(limit.min(limits::PAGE)).unwrap_or_default();
    let mut page = ListedPage { workspace, limit, found: Vec::new() };
    let start = WalkStart { after: after.unwrap_or_default(), is_included: false };
    visit(workspace, &Selection::of(Glob::parse(glob)?), start, &mut work, &mut page)?;
    Ok(page.found)
}

/// Implements [`Workspace::list`]: stops at `limit` entries, at `until`, or at the first error.
pub(crate) fn list(workspace: &Workspace, limit: usize, until: Instant) -> Vec<FileEntry> {
    let Ok(glob) = Glob::parse("**") else { return Vec::new() };
    let mut page = ListedPage { workspace, limit, found: Vec::new() };
    let mut work = WorkBudget::until(until);
    // An error only ends the list, which may be incomplete.
    let _ = visit(workspace, &Selection::of(glob), WalkStart::default(), &mut work, &mut page);
    page.found
}

#[derive(Clone, Copy, Default)]
pub(crate) struct WalkStart<'a> {
    /// The walk begins with the next path in byte order.
    pub(crate) after: &'a str,
    /// True if the path `after` itself is visited, too.
    pub(crate) is_included: bool,
}

/// Receives the selected entries of a walk, sorted by the bytes of their paths.
pub(crate) trait WalkVisitor {
    /// Returns true if the walk may end.
    fn is_full(&self) -> bool;

    /// Receives one entry. An error ends the walk.
    fn visit(&mut self, entry: WalkEntry<'_>, work: &mut WorkBudget) -> Result<(), FileError>;
}

/// An entry as its directory listed it. It may have been replaced since.
pub(crate) struct WalkEntry<'a> {
    /// The directory that contains it.
    pub(crate) dir: &'a Arc<Dir>,
    pub(crate) name: &'a str,
    /// The path below the root of the workspace.
    pub(crate) path: String,
    pub(crate) kind: EntryKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Link,
    Directory,
}

/// Walks over everything that `selection` selects and that no `.gitignore` hides.
pub(crate) fn visit(
    workspace: &Workspace,
    selection: &Selection,
    start: WalkStart<'_>,
    work: &mut WorkBudget,
    visitor: &mut impl WalkVisitor,
) -> Result<(), FileError> {
    workspace.rules.check_root(RelPath::ROOT)?;
    let mut walk = Walk { workspace, selection, start, ignored: IgnoreStack::default(), work, visitor };
    walk.directory(&workspace.root, "", 0)
}

/// Returns an entry with its size. `None` if it was removed or replaced, or may not be listed.
pub(crate) fn measured(
    workspace: &Workspace,
    entry: WalkEntry<'_>,
    work: &mut WorkBudget,
) -> Result<Option<FileEntry>, FileError> {
    let WalkEntry { dir, name, path, kind } = entry;
    let identities = &workspace.rules.identities;
    let size = match kind {
        EntryKind::Link => match resolve::follow(workspace, RelPath::parse(&path)?, work) {
            Ok(target) => target.size,
            Err(error @ (FileError::Failed { .. } | FileError::TooManyEntries)) => return Err(error),
            Err(_) => return Ok(None),
        },
        EntryKind::File => match dir.symlink_metadata(name) {
            Ok(metadata) if metadata.is_file() && !identities.include(&metadata) => metadata.len(),
            Err(error) if !is_skipped(&error) => return Err(FileError::io(&path)(error)),
            _ => return Ok(None),
        },
        EntryKind::Directory => {
            let is_protected = !identities.is_empty()
                && dir.symlink_metadata(name).is_ok_and(|metadata| identities.include(&metadata));
            if is_protected {
                return Ok(None);
            }
            0
        }
    };
    Ok(Some(FileEntry { path, is_directory: kind == EntryKind::Directory, size }))
}

struct ListedPage<'a> {
    workspace: &'a Workspace,
    limit: usize,
    found: Vec<FileEntry>,
}

impl WalkVisitor for ListedPage<'_> {
    fn is_full(&self) -> bool {
        self.found.len() >= self.limit
    }

    fn visit(&mut self, entry: WalkEntry<'_>, work: &mut WorkBudget) -> Result<(), FileError> {
        self.found.extend(measured(self.workspace, entry, work)?);
        Ok(())
    }
}

struct Walk<'a, V> {
    workspace: &'a Workspace,
    selection: &'a Selection,
    start: WalkStart<'a>,
    ignored: IgnoreStack,
    work: &'a mut WorkBudget,
    visitor: &'a mut V,
}

/// A name in a directory, with the type from the directory entry.
struct Sibling {
    /// The name; for [`SiblingKind::Below`] with a `/` at its end.
    name: String,
    kind: SiblingKind,
}

#[derive(Clone, Copy)]
enum SiblingKind {
    Entry(EntryKind),
    /// The contents of a directory.
    Below,
}

impl<V: WalkVisitor> Walk<'_, V> {
    /// Walks the directory with the path `prefix`, which is empty or ends with `/` and has `depth` segments.
    fn directory(&mut self, dir: &Arc<Dir>, prefix: &str, depth: usize) -> Result<(), FileError> {
        let Some(siblings) = self.siblings(dir, prefix)? else { return Ok(()) };
        self.ignored.enter(dir, prefix)?;
        for Sibling { name, kind } in siblings {
            if self.visitor.is_full() {
                break;
            }
            let path = format!("{prefix}{name}");
            match kind {
                SiblingKind::Below => self.below(dir, &path, &name, depth + 1)?,
                SiblingKind::Entry(kind) => self.entry(WalkEntry { dir, name: &name, path, kind })?,
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
                siblings.push(Sibling { name, kind: SiblingKind::Entry(EntryKind::Directory) });
            } else if kind.is_symlink() {
                siblings.push(Sibling { name, kind: SiblingKind::Entry(EntryKind::Link) });
            } else if kind.is_file() {
                siblings.push(Sibling { name, kind: SiblingKind::Entry(EntryKind::File) });
            }
        }
        siblings.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(Some(siblings))
    }

    /// Passes one entry to the visitor if it is selected.
    fn entry(&mut self, entry: WalkEntry<'_>) -> Result<(), FileError> {
        let path = entry.path.as_str();
        let is_before = path < self.start.after || (path == self.start.after && !self.start.is_included);
        if is_before
            || !self.selection.matches(path, self.work)?
            || self.ignored.hides(path, entry.kind == EntryKind::Directory, self.work)?
        {
            return Ok(());
        }
        if path.len() > limits::PATH_BYTES {
            return Err(FileError::TooDeep { path: shown(path) });
        }
        self.visitor.visit(entry, self.work)
    }

    /// Walks the contents of a directory. Its path `prefix` and its `name` end with `/`.
    fn below(&mut self, parent: &Dir, prefix: &str, name: &str, depth: usize) -> Result<(), FileError> {
        let (path, name) = (prefix.trim_end_matches('/'), name.trim_end_matches('/'));
        let is_before_the_start = prefix < self.start.after && !self.start.after.starts_with(prefix);
        if is_before_the_start
            || !self.selection.reaches_below(path, self.work)?
            || self.ignored.hides(path, true, self.work)?
        {
            return Ok(());
        }
        if depth >= limits::DEPTH || prefix.len() >= limits::PATH_BYTES {
            return Err(FileError::TooDeep { path: shown(path) });
        }
        match parent.open_dir_nofollow(name) {
            Ok(dir) if self.workspace.rules.is_protected(&dir).map_err(FileError::io(path))? => Ok(()),
            Ok(dir) => self.directory(&Arc::new(dir), prefix, depth),
            Err(error) if is_skipped(&error) => Ok(()),
            Err(error) => match parent.symlink_metadata(name) {
                // Some systems return another error for a link. If `name` is still a directory, report the error.
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
