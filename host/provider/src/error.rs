use std::time::Duration;

use patchbay_core::{Code, completion::FailureKind};
use patchbay_sandbox::Failure;

/// Why a completion failed. No text holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The provider's key is not set. The words stand alone, without `Error: `.
    #[error("{message}")]
    MissingCredentials {
        /// What to set, and where to get a key.
        message: String,
    },
    /// The provider's key, or the file that should hold it, cannot be read.
    #[error("{message}")]
    UnusableCredentials {
        /// What is wrong with it, and what to do.
        message: String,
    },
    /// The provider, or the way to it, failed.
    #[error("{provider}: {message}")]
    Failed {
        /// The provider.
        provider: String,
        /// What kind of failure it is.
        kind: FailureKind,
        /// What was said, cleaned and scrubbed, and what to do next.
        message: String,
        /// The status, where there was an answer.
        status: Option<u16>,
        /// The provider's own code.
        code: Option<String>,
        /// When it may work again, where the provider says so.
        again_in: Option<Duration>,
    },
    /// The adapter broke the contract's law or a limit of the exchange; what and how.
    #[error("provider '{provider}': its adapter {what}")]
    Adapter {
        /// The provider.
        provider: String,
        /// A stable code: `adapter_violation`, `limit_exchange`.
        code: Code,
        /// What it did.
        what: String,
    },
    /// The adapter's component failed in the sandbox.
    #[error("provider '{provider}': {failure}")]
    Sandbox {
        /// The provider.
        provider: String,
        /// How.
        failure: Failure,
    },
}

impl ExchangeError {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Self::MissingCredentials { .. } | Self::UnusableCredentials { .. } => Code::MissingCredentials,
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

    /// What kind of failure it is to whoever asked for the completion. A fault of the adapter's is
    /// [`FailureKind::Unknown`].
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::MissingCredentials { .. } | Self::UnusableCredentials { .. } => FailureKind::Authentication,
            Self::Failed { kind, .. } => *kind,
            Self::Adapter { .. } | Self::Sandbox { .. } => FailureKind::Unknown,
        }
    }

    /// When it may work again, where the provider says so.
    pub fn again_in(&self) -> Option<Duration> {
        match self {
            Self::Failed { again_in, .. } => *again_in,
            _ => None,
        }
    }
}
