//! The host's key-value store in the scope that all sessions of a workspace share.

use patchbay_sdk::kv::{self, Entry, Error, Scope};

/// Returns the value and version of a key.
pub(crate) fn get(key: &str) -> Result<Option<Entry>, Error> {
    kv::get(Scope::Workspace, key)
}

/// Writes a key if it has the version `expect` (0: it does not exist). Otherwise fails with the kind `conflict`.
pub(crate) fn put(key: &str, value: &[u8], expect: u64) -> Result<u64, Error> {
    kv::put(Scope::Workspace, key, value, Some(expect))
}

/// Deletes a key. Returns true if it existed.
pub(crate) fn delete(key: &str) -> Result<bool, Error> {
    kv::delete(Scope::Workspace, key)
}

/// Returns at most `limit` keys with `prefix` after the key `after`, sorted by bytes. An empty list means the end.
pub(crate) fn keys(prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>, Error> {
    kv::keys(Scope::Workspace, prefix, after, limit)
}

/// Returns true if another call has written the key since it was read.
pub(crate) fn is_conflict(error: &Error) -> bool {
    error.kind == "conflict"
}
