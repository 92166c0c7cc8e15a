//! Decisions about tools that do not run in the sandbox: MCP server tools, and tools that a front offers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether a tool outside of the sandbox may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "snake_case")]
pub enum ToolDecision {
    /// Its calls run.
    Allow,
    /// The user is asked. Without a user, its calls are denied.
    Ask,
    /// Its calls are denied.
    Deny,
}

impl ToolDecision {
    /// Returns the name of the decision in `config.toml`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
