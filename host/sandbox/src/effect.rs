//! Effects that a guest requests from the host. A host function builds the effect from the values that it will use, and passes it
//! to the [`PermitSource`](crate::PermitSource) if the call lacks a permit. A yes covers only this effect unless the user chose
//! more.

use patchbay_core::{Digest, Hasher, kv::Scope};

use crate::{Auth, RequestedPlacement};

/// One effect, or one read, that needs a capability.
#[derive(Clone, Copy, Debug)]
pub enum GuestEffect<'a> {
    /// Read a file of the workspace.
    Read {
        /// The path below the root of the workspace.
        path: &'a str,
    },
    /// List files of the workspace.
    List {
        /// The pattern that they match.
        glob: &'a str,
    },
    /// Search the text of the workspace's files.
    Search {
        /// The regular expression or plain text.
        pattern: &'a str,
        /// The patterns that the paths of the files match; all files if there are none.
        globs: &'a [String],
    },
    /// Search the paths of the workspace's files.
    Find {
        /// The patterns that the paths match; all paths if there are none.
        globs: &'a [String],
    },
    /// Create or replace a file of the workspace.
    Write {
        /// The path below the root of the workspace.
        path: &'a str,
        /// The complete new contents.
        contents: &'a [u8],
    },
    /// Delete a file of the workspace.
    Delete {
        /// The path below the root of the workspace.
        path: &'a str,
    },
    /// Declare several file changes, which the call makes afterwards.
    Change {
        /// The changes, of different files.
        edits: &'a [FileEdit<'a>],
    },
    /// Send an HTTP request to a server.
    Request {
        /// The HTTP method, such as `GET`.
        method: &'a str,
        /// The complete URL of the request.
        url: &'a str,
        /// Names and values, without the headers that the host adds.
        headers: &'a [(String, String)],
        /// Credentials that the host adds.
        auth: &'a [Auth],
        /// The body of the HTTP request.
        body: EffectBody<'a>,
    },
    /// Read a stored value of the skill.
    GetKey {
        /// Which sessions share the key.
        scope: Scope,
        /// The key in the key-value store.
        key: &'a str,
    },
    /// Store a value of the skill.
    PutKey {
        /// Which sessions share the key.
        scope: Scope,
        /// The key in the key-value store.
        key: &'a str,
        /// The value that should be stored.
        value: &'a [u8],
    },
    /// Delete a stored value of the skill.
    DeleteKey {
        /// Which sessions share the key.
        scope: Scope,
        /// The key in the key-value store.
        key: &'a str,
    },
    /// List stored keys of the skill.
    ListKeys {
        /// Which sessions share the keys.
        scope: Scope,
        /// The beginning of each key.
        prefix: &'a str,
    },
    /// Complete a prompt with the agent's model.
    Complete {
        /// The system prompt of the request.
        system: &'a str,
        /// The prompt that the model receives.
        prompt: &'a str,
    },
    /// Call other tools, nested in this call.
    Call {
        /// The full name and the JSON input of each tool.
        calls: &'a [(&'a str, &'a str)],
    },
    /// Look up tools that can be called.
    FindTools {
        /// The search query; `None` lists all tools.
        query: Option<&'a str>,
    },
}

/// A change of one file of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileEdit<'a> {
    /// The path below the root of the workspace.
    pub path: &'a str,
    /// The complete new contents; `None` if the file is deleted.
    pub contents: Option<&'a [u8]>,
}

/// The body of a request at the time its permit is checked.
#[derive(Clone, Copy, Debug)]
pub enum EffectBody<'a> {
    /// The request is sent without a body.
    None,
    /// The complete body of the request.
    Whole(&'a [u8]),
    /// The body is not read before the request is permitted.
    Streamed,
}

impl<'a> GuestEffect<'a> {
    /// Returns the changes of files that the effect makes or declares.
    pub fn edits(&self) -> Vec<FileEdit<'a>> {
        match *self {
            Self::Write { path, contents } => vec![FileEdit { path, contents: Some(contents) }],
            Self::Delete { path } => vec![FileEdit { path, contents: None }],
            Self::Change { edits } => edits.to_vec(),
            _ => Vec::new(),
        }
    }

    /// Returns the digest of all values of the effect. Effects with equal digests do the same.
    pub fn digest(&self) -> Digest {
        let mut hasher = Hasher::default();
        let mut add = |fields: &[&[u8]]| {
            for field in fields {
                hasher.field(field);
            }
        };
        match *self {
            Self::Read { path } => add(&[b"read", path.as_bytes()]),
            Self::List { glob } => add(&[b"list", glob.as_bytes()]),
            Self::Search { pattern, globs } => {
                add(&[b"search", pattern.as_bytes()]);
                globs.iter().for_each(|glob| add(&[glob.as_bytes()]));
            }
            Self::Find { globs } => {
                add(&[b"find"]);
                globs.iter().for_each(|glob| add(&[glob.as_bytes()]));
            }
            Self::Write { path, contents } => add(&[b"write", path.as_bytes(), contents]),
            Self::Delete { path } => add(&[b"delete", path.as_bytes()]),
            Self::Change { edits } => {
                add(&[b"change"]);
                for FileEdit { path, contents } in edits {
                    add(&[path.as_bytes(), &[u8::from(contents.is_some())], contents.unwrap_or_default()]);
                }
            }
            Self::Request { method, url, headers, auth, body } => {
                add(&[b"request", method.as_bytes(), url.as_bytes(), &count(headers.len()), &count(auth.len())]);
                headers.iter().for_each(|(name, value)| add(&[name.as_bytes(), value.as_bytes()]));
                for Auth { credential, placement } in auth {
                    add(&[credential.as_bytes()]);
                    match placement {
                        RequestedPlacement::Header { name, prefix } => {
                            add(&[b"header", name.as_bytes(), prefix.as_bytes()]);
                        }
                        RequestedPlacement::Query(name) => add(&[b"query", name.as_bytes()]),
                    }
                }
                match body {
                    EffectBody::None => add(&[b"no body"]),
                    EffectBody::Whole(bytes) => add(&[b"body", bytes]),
                    EffectBody::Streamed => add(&[b"streamed"]),
                }
            }
            Self::GetKey { scope, key } => add(&[b"get", scope.as_str().as_bytes(), key.as_bytes()]),
            Self::PutKey { scope, key, value } => add(&[b"put", scope.as_str().as_bytes(), key.as_bytes(), value]),
            Self::DeleteKey { scope, key } => add(&[b"delete key", scope.as_str().as_bytes(), key.as_bytes()]),
            Self::ListKeys { scope, prefix } => add(&[b"list keys", scope.as_str().as_bytes(), prefix.as_bytes()]),
            Self::Complete { system, prompt } => add(&[b"complete", system.as_bytes(), prompt.as_bytes()]),
            Self::Call { calls } => {
                add(&[b"call"]);
                calls.iter().for_each(|(tool, input)| add(&[tool.as_bytes(), input.as_bytes()]));
            }
            Self::FindTools { query: None } => add(&[b"list tools"]),
            Self::FindTools { query: Some(query) } => add(&[b"find tools", query.as_bytes()]),
        }
        hasher.finish()
    }
}

fn count(length: usize) -> [u8; 8] {
    (length as u64).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_part_of_an_effect_changes_its_digest() {
        let request = |url, headers, auth, body| GuestEffect::Request { method: "POST", url, headers, auth, body };
        let header = [("a".to_owned(), "b".to_owned())];
        let auth = |placement| [Auth { credential: "key".to_owned(), placement }];
        let placed = |name: &str| RequestedPlacement::Header { name: name.to_owned(), prefix: String::new() };
        let query = auth(RequestedPlacement::Query("a".to_owned()));
        let [one, other] = ["a", "b"].map(|name| auth(placed(name)));
        let (session, user) = (Scope::Session, Scope::User);
        let globs = ["a".to_owned()];
        let effects = [
            GuestEffect::Read { path: "a" },
            GuestEffect::List { glob: "a" },
            GuestEffect::Search { pattern: "a", globs: &[] },
            GuestEffect::Search { pattern: "b", globs: &[] },
            GuestEffect::Search { pattern: "a", globs: &globs },
            GuestEffect::Find { globs: &[] },
            GuestEffect::Find { globs: &globs },
            GuestEffect::Write { path: "a", contents: b"b" },
            GuestEffect::Write { path: "a", contents: b"c" },
            GuestEffect::Write { path: "ab", contents: b"" },
            GuestEffect::Delete { path: "a" },
            GuestEffect::Change { edits: &[FileEdit { path: "a", contents: Some(b"b") }] },
            GuestEffect::Change { edits: &[FileEdit { path: "a", contents: Some(b"") }] },
            GuestEffect::Change { edits: &[FileEdit { path: "a", contents: None }] },
            request("u", &[], &[], EffectBody::None),
            request("v", &[], &[], EffectBody::None),
            request("u", &header, &[], EffectBody::None),
            request("u", &[], &one, EffectBody::None),
            request("u", &[], &other, EffectBody::None),
            request("u", &[], &query, EffectBody::None),
            request("u", &[], &[], EffectBody::Whole(b"")),
            request("u", &[], &[], EffectBody::Whole(b"x")),
            request("u", &[], &[], EffectBody::Streamed),
            GuestEffect::GetKey { scope: session, key: "a" },
            GuestEffect::GetKey { scope: user, key: "a" },
            GuestEffect::PutKey { scope: session, key: "a", value: b"1" },
            GuestEffect::PutKey { scope: session, key: "a", value: b"2" },
            GuestEffect::DeleteKey { scope: session, key: "a" },
            GuestEffect::ListKeys { scope: session, prefix: "a" },
            GuestEffect::Complete { system: "a", prompt: "b" },
            GuestEffect::Complete { system: "ab", prompt: "" },
            GuestEffect::Call { calls: &[("a", "{}")] },
            GuestEffect::Call { calls: &[("a", "{}"), ("a", "{}")] },
            GuestEffect::FindTools { query: None },
            GuestEffect::FindTools { query: Some("") },
        ];
        let digests: BTreeSet<_> = effects.iter().map(GuestEffect::digest).collect();
        assert_eq!(digests.len(), effects.len());
        assert_eq!(effects[7].digest(), GuestEffect::Write { path: "a", contents: b"b" }.digest());
    }
}
