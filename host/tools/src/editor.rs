//! The user's editor, through which skills that change files read and write. Implemented by fronts that run in an editor;
//! the services of a call use it.

use std::{fmt, path::Path, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

/// Reads and writes text files as an editor has them: with changes that are not saved. The caller has checked the path.
pub trait Editor: Send + Sync {
    /// Returns whether [`Editor::read`] works.
    fn can_read(&self) -> bool;

    /// Returns whether [`Editor::write`] works.
    fn can_write(&self) -> bool;

    /// Returns the text of the file at the absolute `path`. The error is the editor's message.
    fn read<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<String, String>>;

    /// Replaces the text of the file at the absolute `path`, or creates it. The error is the editor's message.
    fn write<'a>(&'a self, path: &'a Path, text: &'a str) -> BoxFuture<'a, Result<(), String>>;
}

/// The editor of one session, shared by the session and its agents. Empty until a front gives one.
#[derive(Clone, Default)]
pub struct EditorSlot(Arc<Mutex<Option<Arc<dyn Editor>>>>);

impl fmt::Debug for EditorSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EditorSlot").field("has_editor", &self.get().is_some()).finish()
    }
}

impl EditorSlot {
    /// Makes all calls from now on use `editor`.
    pub fn set(&self, editor: Arc<dyn Editor>) {
        *self.0.lock() = Some(editor);
    }

    /// Returns the editor; `None` if the session has none.
    pub fn get(&self) -> Option<Arc<dyn Editor>> {
        self.0.lock().clone()
    }
}
