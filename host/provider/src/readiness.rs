//! [`Readiness`]: whether a provider may be used, and if not, why. `providers/consent.rs` decides it; lists, notices
//! and errors show it.

use patchbay_core::{Digest, Name};

use crate::ModelError;

/// Whether a provider may be used. This doesn't say whether its key exists: a provider without its key can be ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// The operator must configure the provider's origin. Contains the reason, as a sentence.
    NeedsOrigin(String),
    /// The operator must allow the provider. Contains the reason, as a sentence.
    Pending(String),
    /// The provider cannot be used. Contains the reason.
    Refused(String),
    /// The operator has blocked the adapter's component.
    Blocked(Digest),
}

impl Readiness {
    /// Returns why `provider` may not be used, as text for the user; `None` if it may.
    pub(crate) fn why(&self, provider: &Name) -> Option<String> {
        match self {
            Self::Ready => None,
            Self::NeedsOrigin(why) | Self::Pending(why) | Self::Refused(why) => Some(why.clone()),
            Self::Blocked(component) => {
                Some(ModelError::Blocked { provider: provider.clone(), component: *component }.to_string())
            }
        }
    }

    /// Checks that `provider` may be asked.
    ///
    /// # Errors
    /// [`ModelError::Pending`], [`ModelError::Refused`], [`ModelError::Blocked`].
    pub(crate) fn require(self, provider: &Name) -> Result<(), ModelError> {
        let provider = provider.clone();
        match self {
            Self::Ready => Ok(()),
            Self::Pending(why) => Err(ModelError::Pending { provider, why }),
            Self::NeedsOrigin(why) | Self::Refused(why) => Err(ModelError::Refused { provider, why }),
            Self::Blocked(component) => Err(ModelError::Blocked { provider, component }),
        }
    }
}
