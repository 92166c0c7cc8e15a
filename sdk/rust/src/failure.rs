use std::{fmt, result};

/// What a tool gives: an answer, or a [`Failure`].
pub type Result<T, E = Failure> = result::Result<T, E>;

/// Why a tool could not do what it was asked.
///
/// Any `std::error::Error` becomes one by `?`, and so does an error of the host, with its kind kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    kind: String,
    message: String,
}

impl Failure {
    /// A failure of the skill's own kind. `kind` is a stable word, `message` says what is wrong and what to do next.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: message.into() }
    }

    /// The input cannot be worked with (`invalid-input`).
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new("invalid-input", message)
    }

    /// The stable word.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// What is wrong, for a person or a model.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn into_parts(self) -> (String, String) {
        (self.kind, self.message)
    }
}

// Not an `Error` itself, so that the conversion below may cover every error.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        use crate::bindings::patchbay::host::types::Error as HostError;
        match (&error as &dyn std::any::Any).downcast_ref::<HostError>() {
            Some(host) => Self::new(host.kind.clone(), host.message.clone()),
            None => Self::new("failed", error.to_string()),
        }
    }
}
