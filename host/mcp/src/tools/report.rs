//! The report of `patchbay mcp check`.

use patchbay_policy::ToolDecision;

use crate::client::ServerAbout;

/// A server as `patchbay mcp check` shows it.
#[derive(Clone, Debug)]
pub struct McpReport {
    /// The server's description of itself.
    pub about: ServerAbout,
    /// The tools of the server, in its own order.
    pub tools: Vec<McpToolReport>,
    /// Sentences about tools that were left out, and about settings that have no effect.
    pub problems: Vec<String>,
}

/// Why a server cannot be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpFailure {
    /// The problem, with the server's name: a sentence, without its full stop if it ends in a command.
    pub problem: String,
    /// The last lines that it printed on standard error. They can contain secrets of the operator, so models must not see them.
    pub printed: Vec<String>,
}

/// A tool as `patchbay mcp check` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpToolReport {
    /// The full name, for models.
    pub name: String,
    /// Whether it may be called.
    pub decision: ToolDecision,
    /// Whether a setting in `config.toml` decides. Otherwise, the server's own read-only mark does.
    pub is_decided: bool,
    /// Whether the server marks it as read-only.
    pub only_reads: bool,
}
