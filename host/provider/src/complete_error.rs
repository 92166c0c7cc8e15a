use patchbay_core::{Code, Outcome};

use crate::{ExchangeError, ModelError};

/// Why a completion gave nothing, or not all.
#[derive(Debug, thiserror::Error)]
pub enum CompleteError {
    /// There is no such provider that may be asked.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// It was asked, and failed.
    #[error("{0}")]
    Exchange(#[from] ExchangeError),
}

impl CompleteError {
    /// The stable code.
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
            CompleteError::Exchange(error) => Self::error(error.code(), error),
        }
    }
}
