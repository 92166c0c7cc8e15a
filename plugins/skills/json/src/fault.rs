//! Converts errors of the library into messages: which expression, where, and why it failed.

use jmespath::{Context, ErrorReason, JmespathError, RuntimeError};
use patchbay_sdk::Failure;

/// The hint after a parse error.
const EXAMPLE: &str = "a working one is people[?age > `20`].name";

/// Creates an error for one of our own functions.
pub(crate) fn raise(context: &Context<'_>, reason: impl Into<String>) -> JmespathError {
    JmespathError::from_ctx(context, ErrorReason::Parse(reason.into()))
}

/// Converts the error of an expression that does not parse.
pub(crate) fn parsing(expression: &str, error: &JmespathError) -> Failure {
    let expression_shown = clip(expression, 100);
    if error.offset >= expression.len() {
        return Failure::invalid(format!("the expression '{expression_shown}' ends too early; {EXAMPLE}"));
    }
    let column = column(expression, error.offset);
    let reason = reason(&error.reason);
    Failure::invalid(format!(
        "the expression '{expression_shown}' does not parse at column {column}: {reason}; {EXAMPLE}"
    ))
}

/// Converts the error of an expression that fails on its document.
pub(crate) fn running(expression: &str, error: &JmespathError) -> Failure {
    let column = column(expression, error.offset);
    let reason = reason(&error.reason);
    Failure::invalid(format!("the expression '{}' fails at column {column}: {reason}", clip(expression, 100)))
}

/// Shortens a string for quoting.
pub(crate) fn clip(text: &str, most: usize) -> String {
    let mut chars = text.chars();
    let mut clipped: String = chars.by_ref().take(most).collect();
    if chars.next().is_some() {
        clipped.push('…');
    }
    clipped
}

fn column(expression: &str, offset: usize) -> usize {
    expression.char_indices().take_while(|(position, _)| *position < offset).count() + 1
}

fn reason(reason: &ErrorReason) -> String {
    match reason {
        ErrorReason::Parse(reason) => clip(reason, 300),
        ErrorReason::Runtime(error) => match error {
            RuntimeError::InvalidSlice => "a slice cannot have a step of 0".to_owned(),
            RuntimeError::TooManyArguments { expected, actual }
            | RuntimeError::NotEnoughArguments { expected, actual } => {
                format!("a function takes {expected} arguments, not {actual}")
            }
            RuntimeError::UnknownFunction(name) => format!("unknown function '{name}'"),
            RuntimeError::InvalidType { expected, actual, position } => {
                format!("argument {} must be {expected}, not {actual}", position + 1)
            }
            RuntimeError::InvalidReturnType { expected, actual, .. } => {
                format!("the reference must give {} for every item, not {actual}", expected.replace("expression->", ""))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::refusal;

    #[test]
    fn message_quotes_the_expression_and_the_position() {
        let refusal = refusal("a..b", "{}");
        assert!(refusal.starts_with("the expression 'a..b' does not parse at column 3: "), "{refusal}");
        assert!(refusal.ends_with("; a working one is people[?age > `20`].name"), "{refusal}");
    }

    #[test]
    fn unexpected_end_is_reported() {
        for expression in ["a[", "a.", "a ==", "{a: b", "f(a,"] {
            assert!(refusal(expression, "{}").contains("ends too early"), "{expression}");
        }
    }

    #[test]
    fn columns_count_characters() {
        assert_eq!(column("é.é", 0), 1);
        assert_eq!(column("é.é", 2), 2);
        assert_eq!(column("é.é", 3), 3);
        assert_eq!(column("é", 99), 2);
    }

    #[test]
    fn long_text_is_cut() {
        assert_eq!(clip("ééé", 3), "ééé");
        assert_eq!(clip("éééé", 3), "ééé…");
        let refusal = refusal(&format!("{} ~", "x".repeat(1_000)), "{}");
        assert!(refusal.len() < 400, "{refusal}");
    }
}
