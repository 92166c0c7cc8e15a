//! What is wrong with an expression, and where.

use std::fmt;

use patchbay_sdk::Failure;

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Which of the four ways an expression can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The text is no expression.
    Syntax,
    /// Two quantities do not go together, or a number was needed and a quantity given.
    Units,
    /// The mathematics has no answer, or none that is rational.
    Undefined,
    /// A limit of this calculator.
    TooLarge,
}

impl Kind {
    /// The stable word that the skill answers with.
    fn word(self) -> &'static str {
        match self {
            Self::Syntax => "invalid-input",
            Self::Units => "unit-mismatch",
            Self::Undefined => "undefined",
            Self::TooLarge => "too-large",
        }
    }
}

/// An error that knows its column as soon as somebody who knows it has called [`Error::at`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Error {
    pub(crate) kind: Kind,
    /// Counted in characters, from 1.
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

    /// Sets the column, unless something nearer to the fault has done so.
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
    fn the_nearest_column_wins() {
        let error = Error::syntax("no").at(3).at(9);
        assert_eq!(error.to_string(), "column 3: no");
        assert_eq!(Error::syntax("no").to_string(), "no");
    }

    #[test]
    fn each_kind_has_its_word() {
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
