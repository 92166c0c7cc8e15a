//! The context that a client adds to the lines that it submits. A turn that was not begun by a client's line has none.

use std::{fmt, sync::Arc};

use patchbay_core::LineId;
use patchbay_store::TokenRights;
use patchbay_tools::{Editor, OutsideTools};
use serde_json::{Value, json};

/// The client that submits a line. The front of a process with one user is a client, too, without an identity.
#[derive(Clone, Default)]
pub struct LineClient {
    /// The client's identity; `None` for the front of the process.
    pub identity: Option<ClientIdentity>,
    /// The editor through which skills that change files read and write; without one, they use the disk.
    pub editor: Option<Arc<dyn Editor>>,
    /// The tools that the client itself offers to models and skills.
    pub tools: OutsideTools,
    /// The key that the client sent with the line; see [`SharedSession::begin_once`](crate::SharedSession::begin_once).
    pub key: Option<Arc<str>>,
}

/// The token of a client, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The name that the user gave the token. Other clients see it.
    pub name: Arc<str>,
    /// The client's rights besides reading.
    pub may: TokenRights,
}

impl LineClient {
    /// Returns whether the client may answer questions, and therefore also set a mode that answers them.
    pub(crate) fn may_answer(&self) -> bool {
        self.identity.as_ref().is_none_or(|identity| identity.may.answers)
    }

    /// Adds the key and the line's id to the data of a row of `line`. The id is needed because after a day, the same key may name
    /// another line.
    pub(crate) fn add_key(&self, line: LineId, data: Option<Value>) -> Option<Value> {
        let Some(key) = &self.key else { return data };
        let mut data = data.filter(Value::is_object).unwrap_or_else(|| json!({}));
        data["key"] = json!(&**key);
        data["line"] = json!(line.to_string());
        Some(data)
    }
}

impl fmt::Debug for LineClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineClient").field("identity", &self.identity).finish_non_exhaustive()
    }
}
