//! Sessions that are open, and requests without a response.

use patchbay_jsonrpc::RequestId;
use serde_json::Value;

/// Member of `_meta` with the server's extensions: the `key` of a prompt, the `position` of an update.
pub(crate) const META: &str = "patchbay";

/// A session that the editor has open.
pub(crate) struct BridgedSession {
    /// The folder as the editor wrote it, then as the system resolves it, if that differs. Empty if the editor named none.
    pub(crate) folders: Vec<String>,
    pub(crate) mcp_servers: Value,
    /// The last position that the server sent, in an update or a result; null before the first.
    pub(crate) position: Value,
    /// Updates of a group whose last one has not arrived. They are passed on together, because the group has one position.
    pub(crate) unfinished: Vec<String>,
}

impl BridgedSession {
    pub(crate) fn new(folders: Vec<String>, mcp_servers: Value) -> Self {
        Self { folders, mcp_servers, position: Value::Null, unfinished: Vec::new() }
    }

    /// Stores the position that a message from the server contains, if any. `body` is the message's `params` or `result`.
    pub(crate) fn advance(&mut self, body: &Value) {
        let position = &body["_meta"][META]["position"];
        if !position.is_null() {
            self.position = position.clone();
        }
    }
}

/// A request from the editor that has no response yet.
pub(crate) struct Unanswered {
    pub(crate) id: RequestId,
    pub(crate) method: String,
    /// The message as sent to the server; `None` if it was too long to be kept.
    pub(crate) line: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) folders: Vec<String>,
    pub(crate) mcp_servers: Value,
    /// The key of a prompt; null for other methods.
    pub(crate) key: Value,
}

impl Unanswered {
    /// Returns whether the request opens the session `id`.
    pub(crate) fn is_opening(&self, id: &str) -> bool {
        let opens = matches!(self.method.as_str(), "session/load" | "session/resume");
        opens && self.session.as_deref() == Some(id)
    }
}
