//! Whether a provider may be asked, as a type. `providers/consent.rs` decides it; lists, notices and errors derive from it.

use patchbay_core::{Digest, Name};

use crate::ModelError;

/// Whether a provider may be asked. Its key is not part of it: only a list for people looks for keys in advance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// The operator must name its origin. The reason, as a sentence.
    NeedsOrigin(String),
    /// The operator must allow it. The reason, as a sentence.
    Pending(String),
    /// It cannot be used. The reason.
    Refused(String),
    /// The operator has blocked its component.
    Blocked(Digest),
}

impl Readiness {
    /// Returns why `provider` may not be asked, in words for the user; `None` if it may.
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
