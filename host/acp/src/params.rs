//! The parameters of the methods that a client calls. Unknown members are ignored, and lists are bounded, because a parsed line may
//! use only a small multiple of its length in memory.

use std::{fmt, marker::PhantomData};

use patchbay_jsonrpc::RpcError;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error as _, SeqAccess, Visitor},
};

use crate::session::Position;

/// Parameters of `initialize`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Initialize {
    #[serde(rename = "protocolVersion")]
    pub(crate) _protocol_version: u16,
    #[serde(default)]
    pub(crate) client_capabilities: Option<ClientCapabilities>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct ClientCapabilities {
    #[serde(default)]
    fs: Option<FileCapabilities>,
    #[serde(default)]
    session: Option<ClientSessionCapabilities>,
    #[serde(default)]
    terminal: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FileCapabilities {
    read_text_file: bool,
    write_text_file: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct ClientSessionCapabilities {
    #[serde(default)]
    notices: Option<Marker>,
}

/// A capability without members: the client has it if the object is present.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Marker {}

impl ClientCapabilities {
    /// Returns whether the client can read files, including unsaved changes in its editor.
    pub(crate) fn reads_files(&self) -> bool {
        self.fs.as_ref().is_some_and(|fs| fs.read_text_file)
    }

    /// Returns whether the client writes files.
    pub(crate) fn writes_files(&self) -> bool {
        self.fs.as_ref().is_some_and(|fs| fs.write_text_file)
    }

    /// Returns whether the client runs commands in terminals.
    pub(crate) fn has_terminals(&self) -> bool {
        self.terminal
    }

    /// Returns whether the client shows the update `notice`.
    pub(crate) fn shows_notices(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.notices.is_some())
    }
}

/// Parameters of `session/new`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NewSession {
    pub(crate) cwd: String,
    #[serde(default)]
    pub(crate) mcp_servers: Option<Bounded<NamedServer, 64>>,
}

/// Parameters of `session/load` and `session/resume`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoadSession {
    pub(crate) session_id: String,
    pub(crate) cwd: String,
    #[serde(default)]
    pub(crate) mcp_servers: Option<Bounded<NamedServer, 64>>,
    #[serde(default, rename = "_meta")]
    meta: Option<Meta<LoadExtension>>,
}

/// The `_meta` member of a message, with Patchbay's extensions.
#[derive(Debug, Deserialize)]
struct Meta<T> {
    #[serde(default = "Option::default")]
    patchbay: Option<T>,
}

#[derive(Debug, Deserialize)]
struct LoadExtension {
    #[serde(default)]
    after: Option<Position>,
}

impl LoadSession {
    /// Returns the position from which a client continues.
    pub(crate) fn take_after(&mut self) -> Option<Position> {
        self.meta.take()?.patchbay?.after
    }
}

/// An MCP server that the client names, with the members of every kind of server. `Debug` shows only the name: values can be
/// secrets.
#[derive(Deserialize)]
pub(crate) struct NamedServer {
    pub(crate) name: String,
    /// `http`, or `sse`, which is refused; `stdio` or `None` for a program.
    #[serde(rename = "type", default)]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) command: Option<String>,
    #[serde(default)]
    pub(crate) args: Option<Bounded<String, 256>>,
    #[serde(default)]
    pub(crate) env: Option<Bounded<NamedValue, 256>>,
    #[serde(default)]
    pub(crate) url: Option<String>,
    #[serde(default)]
    pub(crate) headers: Option<Bounded<NamedValue, 64>>,
}

impl fmt::Debug for NamedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedServer").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
pub(crate) struct NamedValue {
    pub(crate) name: String,
    pub(crate) value: String,
}

/// Parameters of `session/list`.
#[derive(Debug, Deserialize)]
pub(crate) struct ListSessions {
    #[serde(default)]
    pub(crate) cwd: Option<String>,
    #[serde(default)]
    pub(crate) cursor: Option<String>,
}

/// Parameters of methods that name a session and nothing else.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OfSession {
    pub(crate) session_id: String,
}

/// Parameters of `session/prompt`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Prompt {
    pub(crate) session_id: String,
    pub(crate) prompt: Bounded<ContentBlock, 1000>,
    #[serde(default, rename = "_meta")]
    meta: Option<Meta<PromptExtension>>,
}

#[derive(Debug, Deserialize)]
struct PromptExtension {
    #[serde(default)]
    key: Option<String>,
}

impl Prompt {
    /// Returns the key that identifies a prompt when the client sends it again.
    ///
    /// # Errors
    /// The key is empty or too long.
    pub(crate) fn take_key(&mut self) -> Result<Option<String>, RpcError> {
        let key = self.meta.take().and_then(|meta| meta.patchbay?.key);
        match key.as_ref().map(String::len) {
            None | Some(1..=PROMPT_KEY) => Ok(key),
            Some(length) => {
                let message = format!("the key of a prompt needs 1 to {PROMPT_KEY} bytes; this one has {length}.");
                Err(RpcError::invalid_params(message))
            }
        }
    }
}

/// Length limit of a prompt's key, in bytes.
const PROMPT_KEY: usize = 128;

/// Parameters of `session/set_config_option`. Each option is a choice from a list, so its value is a string.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetConfigOption {
    pub(crate) session_id: String,
    pub(crate) config_id: String,
    pub(crate) value: String,
}

/// A block of a prompt, with the members of every kind of block.
#[derive(Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContentBlock {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) text: Option<String>,
    /// The bytes of an image or audio, encoded as base64.
    pub(crate) data: Option<String>,
    pub(crate) mime_type: Option<String>,
    pub(crate) uri: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) resource: Option<Resource>,
}

/// The contents of an embedded resource.
#[derive(Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resource {
    pub(crate) uri: String,
    pub(crate) mime_type: Option<String>,
    pub(crate) text: Option<String>,
    /// The content of the resource, encoded as base64.
    pub(crate) blob: Option<String>,
}

/// Parameters of `$/cancel_request`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CancelRequest {
    pub(crate) request_id: patchbay_jsonrpc::RequestId,
}

/// A list of at most `MOST` entries.
#[derive(Debug)]
pub(crate) struct Bounded<T, const MOST: usize>(pub(crate) Vec<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Bounded<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T, const MOST: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for Entries<T, MOST> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MOST} entries")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    if entries.len() == MOST {
                        return Err(A::Error::custom(format_args!("a list has more than {MOST} entries")));
                    }
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_seq(Entries::<T, MOST>(PhantomData)).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_bounded() {
        let read = |json: &str| serde_json::from_str::<Bounded<u8, 3>>(json).map(|Bounded(list)| list);
        assert_eq!(read("[1,2,3]").unwrap(), [1, 2, 3]);
        assert!(read("[1,2,3,4]").unwrap_err().to_string().starts_with("a list has more than 3 entries"));
        assert!(read("{}").is_err());
    }

    #[test]
    fn keys_of_prompts_are_bounded() {
        let key = |key: &str| {
            let meta = serde_json::json!({"patchbay": {"key": key}});
            let prompt = serde_json::json!({"sessionId": "s", "prompt": [], "_meta": meta});
            serde_json::from_value::<Prompt>(prompt).unwrap().take_key()
        };
        assert_eq!(key("k").unwrap().as_deref(), Some("k"));
        assert!(key(&"k".repeat(PROMPT_KEY)).unwrap().is_some());
        for (bad, length) in [(String::new(), "has 0."), ("k".repeat(PROMPT_KEY + 1), "has 129.")] {
            let error = serde_json::to_value(key(&bad).unwrap_err()).unwrap();
            assert_eq!(error["code"], -32602, "{error}");
            assert!(error["message"].as_str().unwrap().ends_with(length), "{error}");
        }
        let unkeyed = r#"{"sessionId": "s", "prompt": []}"#;
        assert_eq!(serde_json::from_str::<Prompt>(unkeyed).unwrap().take_key().unwrap(), None);
    }

    #[test]
    fn capabilities_of_newer_clients_are_read() {
        let json = r#"{"protocolVersion":2,"clientCapabilities":{"fs":{"readTextFile":true},"session":{"notices":{},"new":1},"x":[]}}"#;
        let read: Initialize = serde_json::from_str(json).unwrap();
        assert!(read.client_capabilities.unwrap().shows_notices());
        let read: Initialize = serde_json::from_str(r#"{"protocolVersion":1,"clientCapabilities":null}"#).unwrap();
        assert_eq!(read.client_capabilities, None);
    }
}
