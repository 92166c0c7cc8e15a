//! The changes of files that a person allowed once in a call. The call may revert them without a question: a patch that fails in
//! its third file restores the first two. `permit` calls it.

use parking_lot::Mutex;
use patchbay_core::Digest;
use patchbay_sandbox::{ExistingFile, GuestEffect};

/// A change of a file.
#[derive(Clone)]
pub(super) struct FileChange {
    path: String,
    before: Option<ExistingFile>,
    after: Option<ExistingFile>,
}

impl FileChange {
    /// Returns the change that `effect` makes to a file that is `before`; `None` for other effects.
    pub(super) fn of(effect: GuestEffect<'_>, before: Option<ExistingFile>) -> Option<Self> {
        let (path, after) = match effect {
            GuestEffect::Write { path, contents } => (path, Some(contents)),
            GuestEffect::Delete { path } => (path, None),
            _ => return None,
        };
        let after = after.map(|new| ExistingFile { size: new.len() as u64, digest: Digest::of(new) });
        Some(Self { path: path.to_owned(), before, after })
    }

    /// Returns the file that the change leaves; `None` if it deletes it.
    pub(super) fn after(&self) -> Option<ExistingFile> {
        self.after
    }

    fn reverts(&self, other: &Self) -> bool {
        (&self.path, self.before, self.after) == (&other.path, other.after, other.before)
    }
}

/// The changes that were allowed once and are not reverted.
#[derive(Default)]
pub(super) struct AllowedChanges(Mutex<Vec<FileChange>>);

impl AllowedChanges {
    /// Adds a change that was allowed, if there is one.
    pub(super) fn extend(&self, change: Option<FileChange>) {
        self.0.lock().extend(change);
    }

    /// Returns whether `change` reverts an allowed change. Each can be reverted once.
    pub(super) fn revert(&self, change: &FileChange) -> bool {
        let mut allowed = self.0.lock();
        let reverted = allowed.iter().position(|allowed| change.reverts(allowed));
        reverted.map(|index| allowed.remove(index)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(contents: &str) -> Option<ExistingFile> {
        Some(ExistingFile { size: contents.len() as u64, digest: Digest::of(contents.as_bytes()) })
    }

    fn write(path: &str, before: Option<ExistingFile>, contents: &str) -> FileChange {
        FileChange::of(GuestEffect::Write { path, contents: contents.as_bytes() }, before).unwrap()
    }

    #[test]
    fn allowed_change_is_reverted_once() {
        let allowed = AllowedChanges::default();
        allowed.extend(Some(write("a.md", file("old"), "new")));
        assert!(!allowed.revert(&write("a.md", file("new"), "other")), "other contents");
        assert!(!allowed.revert(&write("a.md", file("other"), "old")), "the file was changed since");
        assert!(!allowed.revert(&write("b.md", file("new"), "old")), "another file");
        let back = write("a.md", file("new"), "old");
        assert!(allowed.revert(&back));
        assert!(!allowed.revert(&back), "it is reverted");
    }

    #[test]
    fn created_file_is_deleted_again() {
        let allowed = AllowedChanges::default();
        allowed.extend(Some(write("a.md", None, "new")));
        let delete = |before| FileChange::of(GuestEffect::Delete { path: "a.md" }, before).unwrap();
        assert!(!allowed.revert(&delete(file("other"))));
        assert!(allowed.revert(&delete(file("new"))));
    }
}
