//! What every table of cases in the tests does.

use crate::calculate;

/// Checks that each expression comes to what stands beside it: an answer or an error.
pub(crate) fn all(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let found = calculate(text).unwrap_or_else(|error| error.to_string());
        assert_eq!(found, *expected, "{text}");
    }
}
