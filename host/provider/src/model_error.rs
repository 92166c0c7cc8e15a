use patchbay_core::{Code, Name, Outcome, text};
use patchbay_sandbox::Failure;
use patchbay_store::StoreError;

/// Why a text names no model that can be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// No model is named.
    #[error("/model requires a model name.")]
    NoModel(String),
    /// Nothing follows the `/`.
    #[error("a thinking level must follow '/' in '{}'.", text::excerpt(.0, 80))]
    NoLevel(String),
    /// What follows the `/` is no level.
    #[error("Invalid thinking level: {}\nValid levels: none, low, med, high", text::excerpt(.0, 80))]
    Level(String),
    /// Nobody has such a model.
    #[error("Unknown model: {}{supported}", text::excerpt(.model, 80))]
    Unknown {
        /// The model.
        model: String,
        /// A blank line, and the models that there are, a line for each provider with a catalogue; or nothing.
        supported: String,
    },
    /// The provider waits for the operator's yes.
    #[error(
        "provider '{provider}' may not be asked yet: {why} To look at what it would be allowed, and allow it: patchbay provider allow {provider}"
    )]
    Pending {
        /// The provider.
        provider: Name,
        /// What it waits for.
        why: String,
    },
    /// The provider cannot be used.
    #[error("provider '{provider}' cannot be used: {why}")]
    Refused {
        /// The provider.
        provider: Name,
        /// Why.
        why: String,
    },
    /// The provider is not there any more.
    #[error("there is no provider '{0}' any more. /providers lists what there is, /model chooses another model.")]
    Gone(Name),
    /// The adapter failed.
    #[error("provider '{provider}': its adapter failed: {failure}.")]
    Adapter {
        /// The provider.
        provider: Name,
        /// How.
        failure: Failure,
    },
    /// The store.
    #[error("{0}.")]
    Store(#[from] StoreError),
}

impl ModelError {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::NoModel(_) | Self::NoLevel(_) => Code::InvalidArgs,
            Self::Level(_) => Code::InvalidThinkingLevel,
            Self::Unknown { .. } => Code::UnknownModel,
            Self::Pending { .. } => Code::ProviderPending,
            Self::Refused { .. } | Self::Gone(_) => Code::ProviderUnusable,
            Self::Adapter { failure, .. } => failure.code(),
            Self::Store(_) => Code::StoreFailed,
        }
    }
}

impl From<ModelError> for Outcome {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Level(_) | ModelError::Unknown { .. } => Self::refused(error.code(), error.to_string()),
            other => Self::error(other.code(), other),
        }
    }
}
