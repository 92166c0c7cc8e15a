//! The error of an expression: kind, message and column.

use std::fmt;

use patchbay_sdk::Failure;

pub(crate) type Result<T> = std::result::Result<T, Error>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The text is not a valid expression.
    Syntax,
    /// Two quantities have different dimensions, or a quantity was given where a plain number is required.
    Units,
    /// The result does not exist, or is not rational.
    Undefined,
    /// A limit of this calculator was exceeded.
    TooLarge,
}

impl Kind {
    /// Returns the stable kind of the skill's failure.
    fn word(self) -> &'static str {
        match self {
            Self::Syntax => "invalid-input",
            Self::Units => "unit-mismatch",
            Self::Undefined => "undefined",
            Self::TooLarge => "too-large",
        }
    }
}

/// An error. Its column is set by the innermost caller that knows it ([`Error::at`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Error {
    pub(crate) kind: Kind,
    /// The column in characters, from 1; `None` until it is known.
    pub(crate) column: Option<usize>,
    message: String,
}

impl Error {
    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, column: None, message: message.into() }
    }

    pub(crate) fn syntax(message: impl Into<String>) -> Self {
        Self::new(Kind::Syntax, message)
    }

    pub(crate) fn units(message: impl Into<String>) -> Self {
        Self::new(Kind::Units, message)
    }

    pub(crate) fn undefined(message: impl Into<String>) -> Self {
        Self::new(Kind::Undefined, message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(Kind::TooLarge, message)
    }

    /// Sets the column if it is not set yet, because the caller closest to the cause sets it first.
    #[must_use]
    pub(crate) fn at(mut self, column: usize) -> Self {
        self.column.get_or_insert(column);
        self
    }

    pub(crate) fn into_failure(self) -> Failure {
        Failure::new(self.kind.word(), self.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.column {
            Some(column) => write!(f, "column {column}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_column_is_kept() {
        let error = Error::syntax("no").at(3).at(9);
        assert_eq!(error.to_string(), "column 3: no");
        assert_eq!(Error::syntax("no").to_string(), "no");
    }

    #[test]
    fn each_kind_has_a_stable_name() {
        for (error, word) in [
            (Error::syntax("x"), "invalid-input"),
            (Error::units("x"), "unit-mismatch"),
            (Error::undefined("x"), "undefined"),
            (Error::too_large("x"), "too-large"),
        ] {
            assert_eq!(error.into_failure().kind(), word);
        }
    }
}
