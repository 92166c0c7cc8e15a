//! The errors of the crate: [`ModelError`] before a provider is asked, [`ExchangeError`] after that,
//! and [`CompleteError`], which is either. Each has a stable [`Code`] and becomes an [`Outcome`] for
//! the user. No message contains a secret.

use std::time::Duration;

use patchbay_core::{
    Code, Digest, Name, Outcome,
    completion::{FailureKind, ThinkingLevel},
    text,
};
use patchbay_sandbox::Failure;
use patchbay_store::StoreError;

use crate::model_name::NAME_RULE;

/// Why no provider can be asked: the text names no usable model, or its provider may not be asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The text does not contain a model name.
    #[error("/model requires a model name.")]
    NoModel(String),
    /// The text is not a model name.
    #[error("'{}' is not a model name: {why}; {}.", text::excerpt(.text, 80), NAME_RULE)]
    NotAName {
        /// The text as it was typed.
        text: String,
        /// Why it is not a model name.
        why: &'static str,
    },
    /// No thinking level follows the `/`.
    #[error("a thinking level must follow '/' in '{}'.", text::excerpt(.0, 80))]
    NoLevel(String),
    /// The text after the `/` is not a thinking level.
    #[error("Invalid thinking level: {}\nValid levels: {}", text::excerpt(.level, 80), valid_levels(.more))]
    Level {
        /// The level as it was written.
        level: String,
        /// The levels that the model has besides the common ones.
        more: Vec<ThinkingLevel>,
    },
    /// No provider has the model.
    #[error("Unknown model: {}{supported}", text::excerpt(.model, 80))]
    Unknown {
        /// The model as it was named.
        model: String,
        /// Appended to the message, each after a blank line: how to name one of several providers that list the model,
        /// and the models of the ready providers, one line for each provider with a catalogue. Empty if there are no
        /// such hints.
        supported: String,
    },
    /// The provider did not find a model whose shutdown it has announced or completed, or that it does not list.
    #[error("{} {end}.", full_stop(.failure))]
    Ended {
        /// The error that the provider returned.
        failure: String,
        /// The known facts about the model's end: whether it is listed, the day, and the model that replaces it.
        end: String,
    },
    /// The operator has not allowed the provider.
    #[error(
        "provider '{provider}' cannot be used: {why} To see its request: patchbay provider list. To allow it: \
         patchbay provider allow {provider}"
    )]
    Pending {
        /// The name of the provider.
        provider: Name,
        /// The missing permission, as a sentence.
        why: String,
    },
    /// The provider cannot be used.
    #[error("provider '{provider}' cannot be used: {why}")]
    Refused {
        /// The name of the provider.
        provider: Name,
        /// The reason why it was refused.
        why: String,
    },
    /// `[routes]` names a provider that does not exist.
    #[error(
        "[routes] of config.toml sends the model '{}' to provider '{provider}', which does not exist. To list \
         providers: /providers. Fix the route, or name the provider (PROVIDER:MODEL).",
        text::excerpt(.model, 80)
    )]
    Route {
        /// The model as it was named.
        model: String,
        /// The provider that the route names.
        provider: Name,
    },
    /// The operator has blocked the adapter.
    #[error(
        "component {component} of provider '{provider}' is blocked. To unblock it: patchbay plugin unblock {component}"
    )]
    Blocked {
        /// The name of the provider.
        provider: Name,
        /// The digest of the adapter's component.
        component: Digest,
    },
    /// The provider's request differs from the one that the operator was shown.
    #[error(
        "provider '{0}' now requests something else, which was not allowed. To review it again: patchbay provider \
         allow {0}"
    )]
    Changed(Name),
    /// The configured default model cannot be used.
    #[error("default_model of config.toml, '{}', cannot be used: {error}", text::excerpt(.model, 80))]
    Default {
        /// The value of `default_model`.
        model: String,
        /// Why the default cannot be used.
        error: Box<Self>,
    },
    /// The provider does not exist, or has been removed.
    #[error("provider '{0}' not found. To list providers: patchbay provider list. To choose another model: /model")]
    Gone(Name),
    /// The adapter's component failed.
    #[error("provider '{provider}': its adapter failed: {failure}.")]
    Adapter {
        /// The name of the provider.
        provider: Name,
        /// The failure of the adapter in the sandbox.
        failure: Failure,
    },
    /// The database could not be read or written.
    #[error("{0}.")]
    Store(#[from] StoreError),
}

/// Returns the levels that a model accepts, for the user.
fn valid_levels(more: &[ThinkingLevel]) -> String {
    let common = ThinkingLevel::ALL.into_iter().filter(|level| level.is_common());
    common.chain(more.iter().copied()).map(ThinkingLevel::as_str).collect::<Vec<_>>().join(", ")
}

fn full_stop(sentence: &str) -> String {
    format!("{}.", sentence.trim_end_matches('.'))
}

impl ModelError {
    /// Returns the stable code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::NoModel(_) | Self::NoLevel(_) | Self::NotAName { .. } => Code::InvalidArgs,
            Self::Level { .. } => Code::InvalidThinkingLevel,
            Self::Ended { .. } => Code::ModelRetired,
            Self::Unknown { .. } => Code::UnknownModel,
            Self::Pending { .. } | Self::Changed(_) => Code::ProviderPending,
            Self::Refused { .. } | Self::Gone(_) | Self::Route { .. } => Code::ProviderUnusable,
            Self::Blocked { .. } => Code::Blocked,
            Self::Default { error, .. } => error.code(),
            Self::Adapter { failure, .. } => failure.code(),
            Self::Store(_) => Code::StoreFailed,
        }
    }

    /// Whether fronts print the message without `Error: `. The command reference fixes the messages of these two
    /// variants.
    fn is_refusal(&self) -> bool {
        matches!(self, Self::Level { .. } | Self::Unknown { .. })
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

/// Why a completion failed after its provider was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The provider's key is not set. Fronts print the message without `Error: `.
    #[error("{message}")]
    MissingCredentials {
        /// The setting to add, and where to get a key.
        message: String,
    },
    /// The provider's key, or the file that should hold it, cannot be read.
    #[error("{message}")]
    UnusableCredentials {
        /// The problem with the key, and how to fix it.
        message: String,
        /// The same message for models and plugins, without paths of the operator's files.
        for_models: String,
    },
    /// The provider's key command produced no key.
    #[error("{message}")]
    KeyCommand {
        /// The failure and the command, without any of its output.
        message: String,
        /// The same message for models and plugins, without the command, whose words can be secret.
        for_models: String,
    },
    /// The provider, or the connection to it, failed.
    #[error("{provider}: {message}")]
    Failed {
        /// The name of the provider.
        provider: String,
        /// The kind of failure that occurred.
        kind: FailureKind,
        /// The error reported by the provider or the network, cleaned and scrubbed, and the next step.
        message: String,
        /// The same message for models and plugins, if `message` contains a key command.
        for_models: Option<String>,
        /// The HTTP status; `None` without a response.
        status: Option<u16>,
        /// The provider's own error code, if it sent one.
        code: Option<String>,
        /// When a retry may work, if the provider reported it.
        again_in: Option<Duration>,
    },
    /// The adapter broke the contract or a limit of the exchange.
    #[error("provider '{provider}': its adapter {what}")]
    Adapter {
        /// The name of the provider.
        provider: String,
        /// `adapter_violation` or `limit_exchange`.
        code: Code,
        /// The adapter's fault, as a phrase that follows "its adapter".
        what: String,
    },
    /// The adapter's component failed in the sandbox.
    #[error("provider '{provider}': {failure}")]
    Sandbox {
        /// The name of the provider.
        provider: String,
        /// The failure of the adapter in the sandbox.
        failure: Failure,
    },
}

impl ExchangeError {
    /// Returns the stable code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::MissingCredentials { .. } | Self::UnusableCredentials { .. } => Code::MissingCredentials,
            Self::KeyCommand { .. } => Code::KeyCommandFailed,
            Self::Failed { kind: FailureKind::InvalidRequest, code: Some(code), .. } if is_context_window(code) => {
                Code::ProviderContextWindow
            }
            Self::Failed { kind, .. } => match kind {
                FailureKind::Authentication => Code::ProviderAuthentication,
                FailureKind::RateLimit => Code::ProviderRateLimit,
                FailureKind::InvalidRequest => Code::ProviderInvalidRequest,
                FailureKind::NotFound => Code::ProviderNotFound,
                FailureKind::Server => Code::ProviderServer,
                FailureKind::Timeout => Code::ProviderTimeout,
                FailureKind::ContentFilter => Code::ProviderContentFilter,
                FailureKind::Network => Code::ProviderNetwork,
                FailureKind::Unknown => Code::ProviderUnknown,
            },
            Self::Adapter { code, .. } => *code,
            Self::Sandbox { failure, .. } => failure.code(),
        }
    }

    /// Returns the kind of failure; [`FailureKind::Unknown`] for a fault of the adapter.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::MissingCredentials { .. } | Self::UnusableCredentials { .. } | Self::KeyCommand { .. } => {
                FailureKind::Authentication
            }
            Self::Failed { kind, .. } => *kind,
            Self::Adapter { .. } | Self::Sandbox { .. } => FailureKind::Unknown,
        }
    }

    /// Returns the message for models and plugins, if they must not see the full message.
    fn for_models(&self) -> Option<String> {
        match self {
            Self::UnusableCredentials { for_models, .. } | Self::KeyCommand { for_models, .. } => {
                Some(for_models.clone())
            }
            Self::Failed { provider, for_models: Some(message), .. } => Some(format!("{provider}: {message}")),
            _ => None,
        }
    }

    /// Returns after how long another try may work; `None` if the provider did not report it.
    pub fn again_in(&self) -> Option<Duration> {
        match self {
            Self::Failed { again_in, .. } => *again_in,
            _ => None,
        }
    }
}

/// Returns whether an adapter's error code means that the conversation is longer than the model can read: the code in the contract,
/// or OpenAI's, which many servers use.
fn is_context_window(code: &str) -> bool {
    matches!(code, "context_window" | "context_length_exceeded")
}

/// The reason why a completion failed.
#[derive(Debug, thiserror::Error)]
pub enum CompleteError {
    /// The request was not sent to any provider.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// The provider was asked, and the exchange failed.
    #[error("{0}")]
    Exchange(#[from] ExchangeError),
}

impl CompleteError {
    /// Returns the stable code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::Model(error) => error.code(),
            Self::Exchange(error) => error.code(),
        }
    }
}

impl From<CompleteError> for Outcome {
    fn from(error: CompleteError) -> Self {
        match error {
            CompleteError::Model(error) => error.into(),
            CompleteError::Exchange(error @ ExchangeError::MissingCredentials { .. }) => {
                Self::refused(error.code(), error.to_string())
            }
            CompleteError::Exchange(error) => {
                let for_models = error.for_models();
                Self { for_models, ..Self::error(error.code(), error) }
            }
        }
    }
}
