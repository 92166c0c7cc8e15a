//! The modules of the host's capabilities with the simulated functions. The SDK exports them instead of the bindings when
//! the feature `testing` is enabled; signatures and types are those of the bindings.

pub use crate::bindings::patchbay::host::{inference, log, progress, tool_calls, tool_index, tools};

/// A small durable key-value store for the skill. Needs the capability `kv`.
pub mod kv {
    pub use crate::bindings::patchbay::host::kv::{Entry, Error, Scope};
    use crate::testing::host::{call, error};

    /// Returns the value and the version of a key.
    pub fn get(scope: Scope, key: &str) -> Result<Option<Entry>, Error> {
        call("kv.get", key, |host, shared| {
            let entry = shared.entries.get(&(host.scope_id(scope), key.to_owned()));
            Ok(entry.map(|(value, version)| Entry { value: value.clone(), version: *version }))
        })
    }

    /// Writes a key if it has the version `expect` (0: it does not exist), else fails with the kind `conflict`.
    pub fn put(scope: Scope, key: &str, value: &[u8], expect: Option<u64>) -> Result<u64, Error> {
        call("kv.put", key, |host, shared| {
            let place = (host.scope_id(scope), key.to_owned());
            let found = shared.entries.get(&place).map_or(0, |(_, version)| *version);
            if expect.is_some_and(|expect| expect != found) {
                return Err(error("conflict"));
            }
            shared.version += 1;
            shared.entries.insert(place, (value.to_vec(), shared.version));
            Ok(shared.version)
        })
    }

    /// Deletes a key. Returns true if it existed.
    pub fn delete(scope: Scope, key: &str) -> Result<bool, Error> {
        call("kv.delete", key, |host, shared| {
            Ok(shared.entries.remove(&(host.scope_id(scope), key.to_owned())).is_some())
        })
    }

    /// Returns at most `limit` keys with `prefix` after the key `after`, sorted by bytes.
    pub fn keys(scope: Scope, prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>, Error> {
        call("kv.keys", prefix, |host, shared| {
            let scope = host.scope_id(scope);
            let keys = shared.entries.keys().filter(|(of, key)| *of == scope && key.starts_with(prefix));
            let keys = keys.map(|(_, key)| key).filter(|key| after.is_none_or(|after| key.as_str() > after));
            Ok(keys.take(limit as usize).cloned().collect())
        })
    }
}

/// Requests to the origins that the operator granted. Needs `http:HOST`.
pub mod http {
    pub use crate::bindings::patchbay::host::http::{Auth, Error, Pair, Placement, Request, Response};
    use crate::testing::host::call;

    /// Sends a request. The response is that of [`Host::with_response`](crate::testing::Host::with_response).
    pub fn send(request: &Request) -> Result<Response, Error> {
        call("http.send", &request.url, |_, shared| {
            shared.requests.push(request.clone());
            shared.responses.get(&request.url).cloned().ok_or_else(|| Error {
                kind: "unavailable".to_owned(),
                message: format!("no response for {}; add one with Host::with_response", request.url),
            })
        })
    }
}

/// The call that runs.
pub mod call {
    pub use crate::bindings::patchbay::host::call::{CallInfo, Error};
    use crate::testing::host::call;

    /// Returns the id `call`: in tests there is one call.
    pub fn info() -> Result<CallInfo, Error> {
        call("call.info", "", |_, _| Ok(CallInfo { id: "call".to_owned(), attempt: 1, extra: Vec::new() }))
    }

    /// Returns the largest number: tests have no limits. Use `on_call` for an error.
    pub fn remaining(limit: &str) -> Result<u64, Error> {
        call("call.remaining", limit, |_, _| Ok(u64::MAX))
    }
}

/// The files of the skill itself.
pub mod skill_files {
    pub use crate::bindings::patchbay::host::skill_files::{Entry, Error};
    use crate::testing::host::{call, error};

    /// Returns at most `limit` files whose path begins with `prefix` and follows `after`, sorted by bytes. Digests are empty.
    pub fn entries(prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<Entry>, Error> {
        call("skill_files.entries", prefix, |_, shared| {
            let entry = |(path, bytes): (&String, &Vec<u8>)| Entry {
                path: path.clone(),
                size: bytes.len() as u64,
                digest: String::new(),
                extra: Vec::new(),
            };
            let asked = |path: &str| path.starts_with(prefix) && after.is_none_or(|after| path > after);
            let files = shared.skill_files.iter().filter(|(path, _)| asked(path));
            Ok(files.take(limit as usize).map(entry).collect())
        })
    }

    /// Reads at most `max` bytes of a file from `offset`; no bytes after its end.
    pub fn read(path: &str, offset: u64, max: u32) -> Result<Vec<u8>, Error> {
        call("skill_files.read", path, |_, shared| {
            let bytes = shared.skill_files.get(path).ok_or_else(|| error("not-found"))?;
            let start = bytes.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
            Ok(bytes[start..].iter().take(max as usize).copied().collect())
        })
    }
}

/// Reading of files below the workspace root. Needs `workspace-read`.
pub mod workspace_read {
    pub use crate::bindings::patchbay::host::workspace_read::{Entry, Error};
    use crate::testing::host::{call, error};

    /// Reads at most `max` bytes of a file from `offset`; no bytes after its end.
    pub fn read(path: &str, offset: u64, max: u32) -> Result<Vec<u8>, Error> {
        call("workspace.read", path, |_, shared| {
            let bytes = shared.files.get(path).ok_or_else(|| error("not-found"))?;
            let start = bytes.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
            let most = shared.max_read.unwrap_or(usize::MAX).min(max as usize);
            Ok(bytes[start..].iter().take(most).copied().collect())
        })
    }

    /// Lists at most `limit` files and folders that match `glob` and come after the path `after`, sorted by bytes.
    pub fn walk(glob: &str, after: Option<&str>, limit: u32) -> Result<Vec<Entry>, Error> {
        call("workspace.walk", glob, |_, shared| {
            let entry = |(path, bytes): (&String, &Vec<u8>)| Entry {
                path: path.trim_end_matches('/').to_owned(),
                is_directory: path.ends_with('/'),
                size: bytes.len() as u64,
            };
            let glob: Vec<&str> = glob.split('/').collect();
            let mut entries: Vec<Entry> = shared.files.iter().map(entry).collect();
            entries.retain(|entry| after.is_none_or(|after| entry.path.as_str() > after));
            entries.retain(|entry| path_matches(&glob, &entry.path.split('/').collect::<Vec<_>>()));
            entries.truncate(limit as usize);
            Ok(entries)
        })
    }

    /// Returns true if the folders and the name of a path match those of a glob. `**` stands for any folders.
    fn path_matches(glob: &[&str], path: &[&str]) -> bool {
        match (glob, path) {
            ([], []) => true,
            (["**", rest @ ..], _) => (0..=path.len()).any(|skipped| path_matches(rest, &path[skipped..])),
            ([first, glob @ ..], [name, path @ ..]) => {
                name_matches(first.as_bytes(), name.as_bytes()) && path_matches(glob, path)
            }
            _ => false,
        }
    }

    /// Returns true if a name matches a pattern with `*` and `?`.
    fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=name.len()).any(|skipped| name_matches(rest, &name[skipped..])),
            ([b'?', pattern @ ..], [_, name @ ..]) => name_matches(pattern, name),
            ([first, pattern @ ..], [byte, name @ ..]) => first == byte && name_matches(pattern, name),
            _ => false,
        }
    }
}

/// Writing of files below the workspace root. Needs `workspace-write`.
pub mod workspace_write {
    pub use crate::bindings::patchbay::host::workspace_write::Error;
    use crate::testing::host::{call, error};

    /// Creates or replaces a file.
    pub fn write(path: &str, contents: &[u8]) -> Result<(), Error> {
        call("workspace.write", path, |_, shared| {
            shared.files.insert(path.to_owned(), contents.to_vec());
            Ok(())
        })
    }

    /// Deletes a file. Needs `workspace-delete`.
    pub fn delete(path: &str) -> Result<(), Error> {
        call("workspace.delete", path, |_, shared| {
            shared.files.remove(path).map(drop).ok_or_else(|| error("not-found"))
        })
    }
}
