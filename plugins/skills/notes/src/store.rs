//! The interface to the host's key-value store, as a trait, so that tests can replace the host.

use patchbay_sdk::kv::{self, Scope};
pub(crate) use patchbay_sdk::kv::{Entry, Error};

/// A key-value store in one scope. Each function is atomic, and durable once it has returned.
pub(crate) trait Store {
    /// Returns the value and version of a key.
    fn get(&mut self, key: &str) -> Result<Option<Entry>, Error>;
    /// Writes a key if it has the version `expect` (0: it does not exist). Otherwise fails with the kind `conflict`.
    fn put(&mut self, key: &str, value: &[u8], expect: u64) -> Result<u64, Error>;
    /// Deletes a key. Returns true if it existed.
    fn delete(&mut self, key: &str) -> Result<bool, Error>;
    /// Returns at most `limit` keys with `prefix` after the key `after`, sorted by bytes. An empty list means the end.
    fn keys(&mut self, prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>, Error>;
}

/// The store that all sessions of a workspace share.
pub(crate) struct Workspace;

impl Store for Workspace {
    fn get(&mut self, key: &str) -> Result<Option<Entry>, Error> {
        kv::get(Scope::Workspace, key)
    }

    fn put(&mut self, key: &str, value: &[u8], expect: u64) -> Result<u64, Error> {
        kv::put(Scope::Workspace, key, value, Some(expect))
    }

    fn delete(&mut self, key: &str) -> Result<bool, Error> {
        kv::delete(Scope::Workspace, key)
    }

    fn keys(&mut self, prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>, Error> {
        kv::keys(Scope::Workspace, prefix, after, limit)
    }
}

/// Returns true if another call has written the key since it was read.
pub(crate) fn is_conflict(error: &Error) -> bool {
    error.kind == "conflict"
}
