use patchbay_core::{Code, Digest, Name, Outcome, text};
use patchbay_sandbox::Failure;
use patchbay_store::StoreError;

use crate::choice;

/// Why a text names no model that can be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// No model is named.
    #[error("/model requires a model name.")]
    NoModel(String),
    /// The text breaks the rule for model names.
    #[error("'{}' is not a model name: {why}; {}.", text::excerpt(.text, 80), choice::NAME_RULE)]
    NotAName {
        /// The text as it was given.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
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
        "provider '{provider}' may not be asked: {why} 'patchbay provider list' shows what it asks for. To allow it: patchbay \
         provider allow {provider}"
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
    /// `[routes]` sends the model to nobody.
    #[error(
        "[routes] of config.toml sends the model '{}' to provider '{provider}', which is not there. /providers lists \
         what there is; mend the route, or name the provider (PROVIDER:MODEL).",
        text::excerpt(.model, 80)
    )]
    Route {
        /// The model.
        model: String,
        /// Who is not there.
        provider: Name,
    },
    /// The operator has blocked the adapter.
    #[error(
        "component {component} of provider '{provider}' is blocked. To lift it: patchbay plugin unblock {component}"
    )]
    Blocked {
        /// The provider.
        provider: Name,
        /// Its adapter's component.
        component: Digest,
    },
    /// What was looked at is not what the provider asks for.
    #[error(
        "provider '{0}' asks for something else by now, so that it was allowed nothing. Look at it again: patchbay \
         provider allow {0}"
    )]
    Changed(Name),
    /// The configured default model cannot be used.
    #[error("default_model of config.toml, '{}', cannot be used: {error}", text::excerpt(.model, 80))]
    Default {
        /// What stands there.
        model: String,
        /// Why.
        error: Box<Self>,
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
            Self::NoModel(_) | Self::NoLevel(_) | Self::NotAName { .. } => Code::InvalidArgs,
            Self::Level(_) => Code::InvalidThinkingLevel,
            Self::Unknown { .. } => Code::UnknownModel,
            Self::Pending { .. } | Self::Changed(_) => Code::ProviderPending,
            Self::Refused { .. } | Self::Gone(_) | Self::Route { .. } => Code::ProviderUnusable,
            Self::Blocked { .. } => Code::Blocked,
            Self::Default { error, .. } => error.code(),
            Self::Adapter { failure, .. } => failure.code(),
            Self::Store(_) => Code::StoreFailed,
        }
    }

    /// Whether the message stands without `Error: ` before it: the seeds fix the words of these two.
    fn is_refusal(&self) -> bool {
        matches!(self, Self::Level(_) | Self::Unknown { .. })
    }
}

impl From<ModelError> for Outcome {
    fn from(error: ModelError) -> Self {
        if error.is_refusal() {
            return Self::refused(error.code(), error.to_string());
        }
        Self::error(error.code(), error)
    }
}
