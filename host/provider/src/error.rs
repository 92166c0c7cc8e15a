use std::time::Duration;

use patchbay_core::{Code, completion::FailureKind};
use patchbay_sandbox::Failure;

/// Why a completion failed. No text holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// Nobody has told the host the provider's key.
    #[error("{message}")]
    MissingCredentials {
        /// The whole text of `reference`: what to set, and where to get a key.
        message: String,
    },
    /// The provider, or the way to it, failed.
    #[error("{provider}: {message}")]
    Failed {
        /// The provider.
        provider: String,
        /// What kind of failure it is.
        kind: FailureKind,
        /// What was said, cleaned and scrubbed.
        message: String,
        /// The status, where there was an answer.
        status: Option<u16>,
        /// The provider's own code.
        code: Option<String>,
        /// When it may work again, where that is too long to wait.
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
