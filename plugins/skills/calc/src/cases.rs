//! Test helper: runs a table of expressions with their expected answers.

use crate::calculate;

/// Checks that each expression has the expected answer or error.
pub(crate) fn all(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let found = calculate(text).unwrap_or_else(|error| error.to_string());
        assert_eq!(found, *expected, "{text}");
    }
}
