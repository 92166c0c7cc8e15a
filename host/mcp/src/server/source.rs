//! The interface that a server requires of sessions: opens one for each connection, lists its tools, and calls them.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchbay_core::{Asker, Code};
use patchbay_sandbox::{Content, ProgressSink};
use serde_json::Value;

/// Opens a session for each connection.
pub trait SessionSource: Send + Sync {
    /// Opens a new session for a client.
    fn open(&self) -> BoxFuture<'_, Result<Arc<dyn ServedSession>, ServedError>>;
}

/// A session whose tools are served. Dropping the last reference closes it.
pub trait ServedSession: Send + Sync {
    /// Returns the offered tools, sorted by name. The list never changes while the session is open, so clients
    /// are never notified of a change.
    fn tools(&self) -> BoxFuture<'_, Vec<OfferedTool>>;

    /// Runs a tool. Dropping the future stops the call.
    fn call<'a>(&'a self, call: ClientCall<'a>) -> BoxFuture<'a, Result<Vec<Content>, ServedError>>;

    /// Returns the canonical path of the workspace.
    fn workspace(&self) -> &str;
}

/// A tool as it is offered to a client.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedTool {
    /// The full name, `SKILL__TOOL`.
    pub name: String,
    /// The tool's description; cleaned.
    pub description: String,
    /// The JSON Schema of the input.
    pub input_schema: Value,
    /// Whether a call has no effects, whatever the skill is granted.
    pub only_reads: bool,
    /// Whether a call can reach the network.
    pub reaches_network: bool,
    /// The skill's title for the tool, shown to users instead of its name; cleaned.
    pub title: Option<String>,
    /// Whether an effect can destroy something, as the skill declares it.
    pub is_destructive: Option<bool>,
    /// Whether a second call with the same input has no further effect, as the skill declares it.
    pub is_idempotent: Option<bool>,
}

/// A tool call that a client requests.
pub struct ClientCall<'a> {
    /// The client that makes the call.
    pub asker: Asker,
    /// The full name of the tool.
    pub tool: &'a str,
    /// The input, a JSON object that is not yet checked against the schema.
    pub input: Value,
    /// Receives partial output while the call runs.
    pub progress: Arc<dyn ProgressSink>,
}

/// Why a session cannot be opened, or a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedError {
    /// The stable code of the error.
    pub code: Code,
    /// The message, worded the same as for every other caller.
    pub message: String,
}
