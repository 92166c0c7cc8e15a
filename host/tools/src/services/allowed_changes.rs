//! The file changes that the user allowed once in a call: those that are declared but not made yet, and those that were
//! made, which the call may revert without a question. For example, a patch that fails in its third file restores the
//! first two. Called by `permit`.

use parking_lot::Mutex;
use patchbay_core::Digest;
use patchbay_sandbox::{ExistingFile, FileEdit};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileChange {
    path: String,
    before: Option<ExistingFile>,
    after: Option<ExistingFile>,
}

impl FileChange {
    /// Returns the change that `edit` makes to a file. `before` is the file before the change.
    pub(super) fn of(edit: FileEdit<'_>, before: Option<ExistingFile>) -> Self {
        let after = edit.contents.map(|new| ExistingFile { size: new.len() as u64, digest: Digest::of(new) });
        Self { path: edit.path.to_owned(), before, after }
    }

    fn reverts(&self, other: &Self) -> bool {
        (&self.path, self.before, self.after) == (&other.path, other.after, other.before)
    }
}

/// The changes of one call that were allowed once.
#[derive(Default)]
pub(super) struct AllowedChanges(Mutex<Changes>);

#[derive(Default)]
struct Changes {
    /// Allowed by an answer about several changes, and not made yet.
    declared: Vec<FileChange>,
    /// Changes that were made and not reverted.
    made: Vec<FileChange>,
}

impl AllowedChanges {
    /// Adds a change that is made now.
    pub(super) fn add_made(&self, change: FileChange) {
        self.0.lock().made.push(change);
    }

    /// Adds changes that may be made later in the call.
    pub(super) fn declare(&self, changes: Vec<FileChange>) {
        self.0.lock().declared.extend(changes);
    }

    /// Returns whether an earlier answer covers `changes`: they were all declared, or a single change of a file can be made
    /// according to [`Self::make`].
    pub(super) fn cover(&self, changes: &[FileChange], is_declaration: bool) -> bool {
        match changes {
            [change] if !is_declaration => self.make(change),
            changes => self.are_declared(changes),
        }
    }

    /// Returns whether all of `changes` are declared and not made yet.
    pub(super) fn are_declared(&self, changes: &[FileChange]) -> bool {
        let allowed = self.0.lock();
        !changes.is_empty() && changes.iter().all(|change| allowed.declared.contains(change))
    }

    /// Returns whether `change` can be made without a question, because it was declared or because it reverts one that was made.
    /// Each declared change can be made once, and reverted once.
    pub(super) fn make(&self, change: &FileChange) -> bool {
        let mut allowed = self.0.lock();
        if let Some(index) = allowed.declared.iter().position(|declared| declared == change) {
            let change = allowed.declared.remove(index);
            allowed.made.push(change);
            return true;
        }
        let reverted = allowed.made.iter().position(|made| change.reverts(made));
        reverted.map(|index| allowed.made.remove(index)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(contents: &str) -> Option<ExistingFile> {
        Some(ExistingFile { size: contents.len() as u64, digest: Digest::of(contents.as_bytes()) })
    }

    fn edit(path: &str, before: Option<ExistingFile>, new: Option<&str>) -> FileChange {
        FileChange::of(FileEdit { path, contents: new.map(str::as_bytes) }, before)
    }

    #[test]
    fn allowed_change_is_reverted_once() {
        let allowed = AllowedChanges::default();
        allowed.add_made(edit("a.md", file("old"), Some("new")));
        assert!(!allowed.make(&edit("a.md", file("new"), Some("other"))), "other contents");
        assert!(!allowed.make(&edit("a.md", file("other"), Some("old"))), "the file was changed since");
        assert!(!allowed.make(&edit("b.md", file("new"), Some("old"))), "another file");
        let back = edit("a.md", file("new"), Some("old"));
        assert!(allowed.make(&back));
        assert!(!allowed.make(&back), "it is reverted");
    }

    #[test]
    fn created_file_is_deleted_again() {
        let allowed = AllowedChanges::default();
        allowed.add_made(edit("a.md", None, Some("new")));
        assert!(!allowed.make(&edit("a.md", file("other"), None)));
        assert!(allowed.make(&edit("a.md", file("new"), None)));
    }

    #[test]
    fn declared_changes_are_made_once_and_reverted() {
        let allowed = AllowedChanges::default();
        let changes = [edit("a.md", file("old"), Some("new")), edit("b.md", file("b"), None)];
        assert!(!allowed.are_declared(&changes) && !allowed.are_declared(&[]));
        allowed.declare(changes.to_vec());
        assert!(allowed.are_declared(&changes));
        assert!(!allowed.make(&edit("a.md", file("other"), Some("new"))), "the file is another one");
        assert!(!allowed.make(&edit("a.md", file("old"), Some("more"))), "other contents");
        assert!(changes.iter().all(|change| allowed.make(change)));
        assert!(!allowed.make(&changes[0]) && !allowed.are_declared(&changes[..1]), "it is made");
        assert!(allowed.make(&edit("b.md", None, Some("b"))), "reverted");
    }
}
