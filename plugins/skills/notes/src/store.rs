//! What the notes need of a key-value store.

use patchbay_sdk::kv::{self, Scope};
pub(crate) use patchbay_sdk::kv::{Entry, Error};

/// The host's store, in one scope. Each function is one step: done or not done, and durable once it has answered.
pub(crate) trait Store {
    /// The value and version of a key.
    fn get(&mut self, key: &str) -> Result<Option<Entry>, Error>;
    /// Writes, if the key is at version `expect` (0: there is none), else fails with the kind `conflict`.
    fn put(&mut self, key: &str, value: &[u8], expect: u64) -> Result<u64, Error>;
    /// Deletes; whether there was something.
    fn delete(&mut self, key: &str) -> Result<bool, Error>;
    /// At most `limit` keys that begin with `prefix`, sorted by bytes, after `after`. None: there are no more.
    fn keys(&mut self, prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>, Error>;
}

/// The store that the sessions of a workspace share.
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

/// Whether somebody else wrote in between.
pub(crate) fn is_conflict(error: &Error) -> bool {
    error.kind == "conflict"
}
