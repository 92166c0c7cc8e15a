//! The tools of a server that models can call. They have been checked.

use std::sync::{Arc, Weak};

use futures_util::future::BoxFuture;
use patchbay_policy::ToolDecision;
use patchbay_sandbox::Content;
use patchbay_tools::{OutsideCall, OutsideError, OutsideSpec, OutsideTool};
use serde_json::Value;

use super::server::ServerTools;
use crate::client::ServerError;

/// The tools of a server that models can call.
#[derive(Default)]
pub(super) struct CheckedTools {
    pub(super) tools: Vec<Arc<McpTool>>,
    pub(super) problems: Vec<String>,
}

pub(super) struct McpTool {
    pub(super) spec: OutsideSpec,
    /// The tool's name at the server.
    pub(super) tool: String,
    pub(super) only_reads: bool,
    pub(super) server: Weak<ServerTools>,
    pub(super) decision: ToolDecision,
}

impl OutsideTool for McpTool {
    fn spec(&self) -> &OutsideSpec {
        &self.spec
    }

    fn decision(&self) -> ToolDecision {
        self.decision
    }

    fn call<'a>(&'a self, call: OutsideCall<'a>) -> BoxFuture<'a, Result<Vec<Content>, OutsideError>> {
        Box::pin(async move {
            let server = self.server.upgrade();
            let server = server.ok_or_else(|| OutsideError::Unavailable("its MCP server is closed".to_owned()))?;
            // The call may start the program again.
            server.check_decision().await.map_err(|(_, problem)| OutsideError::Unavailable(problem))?;
            let Value::Object(arguments) = call.input.clone() else {
                return Err(OutsideError::InvalidAnswer("the input is not an object".to_owned()));
            };
            server.server.call(&self.tool, arguments, call.progress).await.map_err(|error| match error {
                ServerError::Unavailable(problem) | ServerError::GivenUp(problem) => {
                    OutsideError::Unavailable(server.with_hint(&problem))
                }
                ServerError::Protocol(problem) => OutsideError::InvalidAnswer(problem),
                ServerError::Failed(words) => OutsideError::Failed(words),
            })
        })
    }
}
