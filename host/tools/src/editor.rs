//! The user's editor. Skills read files and change them through it. Implemented by fronts that run in an editor; the services of a
//! call use it.

use std::path::Path;

use futures_util::future::BoxFuture;

/// Reads and writes text files as an editor has them, with unsaved changes. The caller has checked the path.
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
