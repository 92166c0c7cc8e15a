//! The modules of the host's capabilities with the simulated functions. The SDK exports them instead of the bindings
//! when the feature `testing` is enabled; signatures and types are the same.

pub use crate::bindings::patchbay::host::{inference, tool_calls, tool_index, tools};

/// Diagnostics for the operator. Always granted.
pub mod log {
    pub use crate::bindings::patchbay::host::log::Level;
    use crate::testing::host::record;

    /// Writes a message to the log. Outside of [`Host::run`](crate::testing::Host::run) it is lost.
    pub fn write(level: Level, message: &str) {
        record(|shared| shared.logged.push((level, message.to_owned())));
    }
}

/// Partial output of a running tool. Always granted.
pub mod progress {
    use crate::testing::host::record;

    /// Reports partial output. Outside of [`Host::run`](crate::testing::Host::run) it is lost.
    pub fn report(text: &str) {
        record(|shared| shared.progress.push(text.to_owned()));
    }
}

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

    /// Writes a key if it has the version `expect` (0: it does not exist), otherwise fails with the kind `conflict`.
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

    /// Sends a request. The response was set with [`Host::with_response`](crate::testing::Host::with_response).
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

/// The interface of the running call.
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

    /// Returns true if the folders and the name of a path match those of a glob. `**` matches any number of folders.
    pub(super) fn path_matches(glob: &[&str], path: &[&str]) -> bool {
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

/// Several file changes in one question. Needs `workspace-write`, `workspace-delete` or both.
pub mod workspace_changes {
    pub use crate::bindings::patchbay::host::workspace_changes::{Change, Error};
    use crate::testing::host::call;

    /// Allows all changes. The target of the call is their paths, one per line; use `on_call` for a denial.
    pub fn declare(changes: &[Change]) -> Result<(), Error> {
        let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
        call("workspace.declare", &paths.join("\n"), |_, _| Ok(()))
    }
}

/// Searches in all files below the workspace root. Needs `workspace-read`.
pub mod workspace_search {
    use super::workspace_read::path_matches;
    pub use crate::bindings::patchbay::host::workspace_search::{
        Entry, Error, File, Line, NameQuery, NameResults, Pair, Position, Skipped, Span, TextQuery, TextResults,
    };
    use crate::testing::host::call;

    /// Returns matching lines. Patterns use the syntax of the crate `regex-lite`. Only the limits of the query apply.
    pub fn search(query: &TextQuery) -> Result<TextResults, Error> {
        call("workspace_search.search", &query.pattern, |_, shared| {
            let escaped = query.fixed.then(|| regex_lite::escape(&query.pattern));
            let mut pattern = regex_lite::RegexBuilder::new(escaped.as_deref().unwrap_or(&query.pattern));
            let pattern = pattern.case_insensitive(query.ignore_case).build().map_err(|problem| Error {
                kind: "invalid".to_owned(),
                message: format!("the pattern '{}' does not parse: {problem}", query.pattern),
            })?;
            let mut results = TextResults {
                files: Vec::new(),
                searched: 0,
                bytes: 0,
                skipped: Vec::new(),
                stopped: None,
                next: None,
                extra: Vec::new(),
            };
            let mut left = query.max_lines;
            for (path, bytes) in &shared.files {
                let after = query.after.as_ref().filter(|after| path <= &after.path);
                let from = match after {
                    Some(Position { path: last, line: Some(line) }) if last == path => *line,
                    Some(_) => continue,
                    None => 0,
                };
                if path.ends_with('/') || !is_selected(&query.globs, path) {
                    continue;
                }
                if bytes.contains(&0) {
                    skip(&mut results.skipped, "binary", path);
                    continue;
                }
                let text = String::from_utf8_lossy(bytes);
                let lines: Vec<&str> = text.lines().collect();
                let matches: Vec<usize> =
                    (0..lines.len()).filter(|index| *index as u64 >= from && pattern.is_match(lines[*index])).collect();
                let (shown, hidden) = matches.split_at(matches.len().min(left as usize));
                let end = hidden.first().map_or(lines.len(), |hidden| *hidden);
                let context = query.context as usize;
                let is_near = |index: &usize| shown.iter().any(|hit| hit.abs_diff(*index) <= context);
                let found: Vec<Line> = (from as usize..end)
                    .filter(is_near)
                    .map(|index| {
                        let matched = pattern.find(lines[index]).filter(|_| shown.contains(&index));
                        let matched = matched.map(|matched| (matched.start(), matched.end()));
                        line(index, lines[index], matched, query.max_line_bytes as usize)
                    })
                    .collect();
                left -= shown.len() as u32;
                let last = found.last().map(|line| line.number);
                if !found.is_empty() {
                    results.files.push(File { path: path.clone(), lines: found });
                }
                if !hidden.is_empty() {
                    results.stopped = Some("lines".to_owned());
                    results.next = Some(Position { path: path.clone(), line: Some(last.unwrap_or(from)) });
                    return Ok(results);
                }
                results.searched += 1;
                results.bytes += bytes.len() as u64;
            }
            Ok(results)
        })
    }

    /// Returns the files and folders whose paths match.
    pub fn find(query: &NameQuery) -> Result<NameResults, Error> {
        call("workspace_search.find", &query.globs.join(" "), |_, shared| {
            let text = |text: &str| if query.ignore_case { text.to_lowercase() } else { text.to_owned() };
            let globs: Vec<String> = query.globs.iter().map(|glob| text(glob)).collect();
            let mut entries = Vec::new();
            for (path, bytes) in &shared.files {
                let (name, is_directory) = path.strip_suffix('/').map_or((path.as_str(), false), |name| (name, true));
                let is_before = query.after.as_deref().is_some_and(|after| name <= after);
                if is_before || (is_directory && !query.directories) || !is_selected(&globs, &text(name)) {
                    continue;
                }
                entries.push(Entry { path: name.to_owned(), is_directory, size: bytes.len() as u64 });
            }
            let is_cut = entries.len() > query.max_entries as usize;
            entries.truncate(query.max_entries as usize);
            let next = entries.last().filter(|_| is_cut).map(|last| last.path.clone());
            Ok(NameResults { entries, stopped: is_cut.then(|| "entries".to_owned()), next, extra: Vec::new() })
        })
    }

    /// Returns true if a glob matches, or there are none, and no excluding glob matches.
    fn is_selected(globs: &[String], path: &str) -> bool {
        let (excluded, included): (Vec<_>, Vec<_>) = globs.iter().partition(|glob| glob.starts_with('!'));
        let above = path.match_indices('/').map(|(end, _)| &path[..end]).chain([path]).collect::<Vec<_>>();
        (included.is_empty() || included.iter().any(|glob| glob_matches(glob, path)))
            && !excluded.iter().any(|glob| above.iter().any(|path| glob_matches(&glob[1..], path)))
    }

    fn glob_matches(glob: &str, path: &str) -> bool {
        path_matches(&glob.split('/').collect::<Vec<_>>(), &path.split('/').collect::<Vec<_>>())
    }

    fn skip(skipped: &mut Vec<Skipped>, reason: &str, path: &str) {
        match skipped.iter_mut().find(|skipped| skipped.reason == reason) {
            Some(skipped) => {
                skipped.count += 1;
                skipped.paths.push(path.to_owned());
            }
            None => skipped.push(Skipped { reason: reason.to_owned(), count: 1, paths: vec![path.to_owned()] }),
        }
    }

    /// Returns at most `most` bytes of a line. Starts at the match if it would be cut off otherwise.
    fn line(index: usize, line: &str, matched: Option<(usize, usize)>, most: usize) -> Line {
        let begin = matched.map_or(0, |(start, end)| if end <= most { 0 } else { start });
        let end = line.floor_char_boundary(begin.saturating_add(most).min(line.len()));
        let offset = |at: usize| u32::try_from(at.min(end) - begin).unwrap_or(u32::MAX);
        Line {
            number: index as u64 + 1,
            text: line[begin..end].to_owned(),
            start: begin as u64,
            size: line.len() as u64,
            matched: matched.map(|(start, end)| Span { start: offset(start), end: offset(end) }),
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
