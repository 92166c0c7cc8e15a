//! Sessions that are open, and requests without a response.

use patchbay_jsonrpc::RequestId;
use serde_json::Value;

/// Member of `_meta` with the server's extensions: the `key` of a prompt, the `position` of an update.
pub(crate) const META: &str = "patchbay";

/// A session that the editor has open.
pub(crate) struct BridgedSession {
    /// The editor's spellings of the folder; the first is the editor's own.
    pub(crate) folders: Vec<String>,
    pub(crate) mcp_servers: Value,
    /// The server's word for what was passed on; null before the first update.
    pub(crate) position: Value,
    /// Updates whose last one has not come. They are passed on together: the position is behind all of them.
    pub(crate) unfinished: Vec<String>,
}

impl BridgedSession {
    pub(crate) fn new(folders: Vec<String>, mcp_servers: Value) -> Self {
        Self { folders, mcp_servers, position: Value::Null, unfinished: Vec::new() }
    }

    /// Notes the position in a message of the server.
    pub(crate) fn advance(&mut self, message: &Value) {
        let position = &message["_meta"][META]["position"];
        if !position.is_null() {
            self.position = position.clone();
        }
    }
}

/// A request of the editor without a response.
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
    /// Returns whether it opens the session `id`.
    pub(crate) fn is_opening(&self, id: &str) -> bool {
        let opens = matches!(self.method.as_str(), "session/load" | "session/resume");
        opens && self.session.as_deref() == Some(id)
    }
}
