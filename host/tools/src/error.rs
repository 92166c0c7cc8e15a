//! Why a tool call failed, with its stable code and its messages. `agent` and `session` show them.

use patchbay_core::{Code, Name, text};
use patchbay_policy::Blocked;
use patchbay_sandbox::Failure;
use patchbay_store::StoreError;

use crate::OutsideError;

/// The reason why a tool call failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The call names a tool that does not exist.
    #[error("tool '{}' not found{}.", text::excerpt(.0, 80), not_found_in(.0))]
    NotFound(String),
    /// A model called a tool whose skill can only be invoked by a user.
    #[error("skill '{0}' can only be invoked by a user.")]
    NotForModels(Name),
    /// The input does not satisfy the tool's schema.
    #[error("input for '{tool}' is invalid: {problem}.")]
    InvalidInput {
        /// The tool's full name, including its skill or server.
        tool: String,
        /// The first violation and its position.
        problem: String,
    },
    /// The tool's schema is not supported; possible in a snapshot of an older build.
    #[error("{0}")]
    Schema(String),
    /// The operator has blocked the component.
    #[error("{0}")]
    Blocked(#[from] Blocked),
    /// The skill failed or was stopped.
    #[error("{}", shown(.tool, .failure))]
    Failure {
        /// The tool's full name, including its skill or server.
        tool: String,
        /// The failure of the sandbox.
        failure: Failure,
    },
    /// A tool outside of the sandbox failed or was stopped.
    #[error("{}", shown_outside(.tool, .error))]
    Outside {
        /// The tool's full name, including its skill or server.
        tool: String,
        /// Why the call failed at the source.
        error: OutsideError,
    },
    /// A tool of the host failed.
    #[error("{message}")]
    Internal {
        /// The stable code of the error.
        code: Code,
        /// The problem, and the next step.
        message: String,
    },
    /// The component or the grants cannot be read.
    #[error("{0}.")]
    Store(#[from] StoreError),
}

/// Returns where the tool `name` was not found. Tools of MCP servers do not belong to a snapshot.
fn not_found_in(name: &str) -> &'static str {
    if name.starts_with("mcp__") { ": no available MCP server has it" } else { " in snapshot" }
}

/// Returns the message of a failure. The skill's own message is shown unchanged; a message of the host names the tool.
fn shown(tool: &str, failure: &Failure) -> String {
    match failure {
        Failure::Failed { message, .. } => message.clone(),
        Failure::Denied(denial) => denial.to_string(),
        Failure::AfterReport { .. } => format!("tool '{tool}' was stopped: {failure}"),
        other => format!("tool '{tool}' was stopped: {other}."),
    }
}

/// Returns the message of a failure outside of the sandbox, like [`shown`].
fn shown_outside(tool: &str, error: &OutsideError) -> String {
    match error {
        OutsideError::Failed(message) => text::clean(message),
        other => format!("tool '{tool}' was stopped: {}.", text::clean_line(&other.to_string())),
    }
}

impl ToolError {
    /// Returns the stable code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound(_) => Code::ToolNotFound,
            Self::NotForModels(_) => Code::SkillNotForModels,
            Self::InvalidInput { .. } => Code::InvalidInput,
            Self::Schema(_) => Code::InvalidComponent,
            Self::Blocked(_) => Code::Blocked,
            Self::Failure { failure, .. } => failure.code(),
            Self::Outside { error, .. } => error.code(),
            Self::Internal { code, .. } => *code,
            Self::Store(StoreError::ComponentMissing(_) | StoreError::ComponentDamaged(_)) => Code::ComponentMissing,
            Self::Store(_) => Code::StoreFailed,
        }
    }

    /// Returns the message for the user. It includes the place in the author's source where the skill trapped, if that is known,
    /// the usual cause, and the last lines that the skill printed. A model does not need these.
    pub fn for_person(&self) -> String {
        let mut message = self.to_string();
        if let Self::Failure { failure, .. } = self {
            message.extend(failure.places().iter().map(|place| format!("\n  at {place}")));
            message.extend(failure.hint().map(|hint| format!("\n  note: {hint}")));
            message.extend(failure.printed().iter().map(|line| format!("\n  printed: {line}")));
        }
        message
    }

    /// Returns the skill's own name for its failure.
    pub fn kind(&self) -> Option<&str> {
        match self {
            Self::Failure { failure: Failure::Failed { kind, .. }, .. } => Some(kind),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tool_of_a_server_is_not_looked_for_in_the_snapshot() {
        let message = |name: &str| ToolError::NotFound(name.to_owned()).to_string();
        assert_eq!(message("calc__x"), "tool 'calc__x' not found in snapshot.");
        assert_eq!(message("mcp__x__y"), "tool 'mcp__x__y' not found: no available MCP server has it.");
    }
}
