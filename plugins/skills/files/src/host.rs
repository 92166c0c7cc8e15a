//! What the tools need of the workspace.

use patchbay_sdk::workspace;
pub(crate) use patchbay_sdk::workspace::{Entry, Error};

/// The files of a workspace. Paths are relative to it, with `/`.
pub(crate) trait Files {
    /// At most `max` bytes of a file from `offset` on; none at its end.
    fn read(&mut self, path: &str, offset: u64, max: u32) -> Result<Vec<u8>, Error>;
    /// At most `limit` entries that match, sorted by path, after `after`.
    fn walk(&mut self, glob: &str, after: Option<&str>, limit: u32) -> Result<Vec<Entry>, Error>;
    /// Makes or replaces a file, whole or not at all.
    fn write(&mut self, path: &str, contents: &[u8]) -> Result<(), Error>;
}

/// The host's.
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
