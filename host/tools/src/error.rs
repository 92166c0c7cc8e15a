use patchbay_core::{Code, text};
use patchbay_policy::Blocked;
use patchbay_sandbox::Failure;
use patchbay_store::StoreError;

/// Why a tool gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The snapshot has no such tool.
    #[error("tool '{}' not found in snapshot.", text::excerpt(.0, 80))]
    NotFound(String),
    /// The input does not satisfy the tool's schema.
    #[error("input for '{tool}' is invalid: {problem}.")]
    InvalidInput {
        /// The tool's full name.
        tool: String,
        /// The first thing that is wrong, and where.
        problem: String,
    },
    /// The tool's schema cannot be used: a snapshot of an older build has it.
    #[error("{0}")]
    Schema(String),
    /// The operator has blocked the component.
    #[error("{0}")]
    Blocked(#[from] Blocked),
    /// The skill failed, or was stopped.
    #[error("{}", shown(.tool, .failure))]
    Failure {
        /// The tool's full name.
        tool: String,
        /// What happened.
        failure: Failure,
    },
    /// A tool of the host's own failed.
    #[error("{message}")]
    Internal {
        /// Its code.
        code: Code,
        /// What is wrong, and what to do next.
        message: String,
    },
    /// The store cannot give the component or the grants.
    #[error("{0}.")]
    Store(#[from] StoreError),
}

/// What the skill itself says stands alone; what the host says of a skill names it.
fn shown(tool: &str, failure: &Failure) -> String {
    match failure {
        Failure::Failed { message, .. } => message.clone(),
        Failure::Denied(denial) => denial.to_string(),
        other => format!("tool '{tool}' was stopped: {other}."),
    }
}

impl ToolError {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound(_) => Code::ToolNotFound,
            Self::InvalidInput { .. } => Code::InvalidInput,
            Self::Schema(_) => Code::InvalidComponent,
            Self::Blocked(_) => Code::Blocked,
            Self::Failure { failure, .. } => failure.code(),
            Self::Internal { code, .. } => *code,
            Self::Store(StoreError::ComponentMissing(_) | StoreError::ComponentDamaged(_)) => Code::ComponentMissing,
            Self::Store(_) => Code::StoreFailed,
        }
    }

    /// The last lines that the skill printed before it trapped, for a person; never for a model.
    pub fn printed(&self) -> &[String] {
        match self {
            Self::Failure { failure, .. } => failure.printed(),
            _ => &[],
        }
    }

    /// The skill's own word for its failure.
    pub fn kind(&self) -> Option<&str> {
        match self {
            Self::Failure { failure: Failure::Failed { kind, .. }, .. } => Some(kind),
            _ => None,
        }
    }
}
