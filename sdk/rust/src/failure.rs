//! The error of a tool, with a conversion from every `std::error::Error`.

use std::{fmt, panic::Location, result};

use crate::unsupported;

/// The result of a tool function.
pub type Result<T, E = Failure> = result::Result<T, E>;

/// The reason why a tool call failed.
///
/// `?` converts any `std::error::Error` into a failure, and keeps the kind of a host's error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    kind: String,
    message: String,
}

impl Failure {
    /// Creates a failure. `kind` is a stable word chosen by the skill; `message` explains the problem and the next step.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind: kind.into(), message: message.into() }
    }

    /// Creates a failure of the kind `invalid-input`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new("invalid-input", message)
    }

    /// Returns the kind of the failure.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the message, for the user or a model.
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn into_parts(self) -> (String, String) {
        (self.kind, self.message)
    }
}

// Does not implement `Error`, because the conversion below must accept every error.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    // The caller is the line that contains the `?`.
    #[track_caller]
    fn from(error: E) -> Self {
        use crate::bindings::patchbay::host::types::Error as HostError;
        match (&error as &dyn std::any::Any).downcast_ref::<HostError>() {
            Some(host) => Self::new(host.kind.clone(), host.message.clone()),
            None => Self::new("failed", unsupported::explained(&error, Location::caller())),
        }
    }
}
