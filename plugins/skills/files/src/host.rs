//! The interface to the workspace, as a trait, so that tests can replace the host.

use patchbay_sdk::workspace;
pub(crate) use patchbay_sdk::workspace::{Entry, Error};

/// The files of a workspace. Paths are relative to it, with `/`.
pub(crate) trait Files {
    /// Reads at most `max` bytes of a file from `offset`; no bytes at its end.
    fn read(&mut self, path: &str, offset: u64, max: u32) -> Result<Vec<u8>, Error>;
    /// Lists at most `limit` matching entries after the path `after`, sorted by path.
    fn walk(&mut self, glob: &str, after: Option<&str>, limit: u32) -> Result<Vec<Entry>, Error>;
    /// Creates or replaces a file atomically.
    fn write(&mut self, path: &str, contents: &[u8]) -> Result<(), Error>;
}

/// The workspace of the host.
pub(crate) struct Workspace;

impl Files for Workspace {
    fn read(&mut self, path: &str, offset: u64, max: u32) -> Result<Vec<u8>, Error> {
        workspace::read(path, offset, max)
    }

    fn walk(&mut self, glob: &str, after: Option<&str>, limit: u32) -> Result<Vec<Entry>, Error> {
        workspace::walk(glob, after, limit)
    }

    fn write(&mut self, path: &str, contents: &[u8]) -> Result<(), Error> {
        workspace::write(path, contents)
    }
}
