//! Parses quoted text in command arguments. The quoted text runs from the first `"` to the last `"` of the line; escapes are not
//! supported.

use patchbay_core::{Code, Outcome, text};

/// Length limit, in characters, of text repeated in an error.
const SHOWN: usize = 80;

/// Returns the text between the quotes of `argument`, which begins with `"`. `what` names the text in an error.
///
/// # Errors
/// `unclosed_quote` without a second quote; `invalid_args` for text after the last quote.
///
/// ```
/// assert_eq!(patchbay_command::quoted(r#""say "hi" twice""#, "the prompt"), Ok(r#"say "hi" twice"#));
/// assert!(patchbay_command::quoted(r#""open"#, "the prompt").is_err());
/// ```
pub fn quoted<'a>(argument: &'a str, what: &str) -> Result<&'a str, Outcome> {
    let inner = argument.strip_prefix('"').unwrap_or(argument);
    let Some((quoted, after)) = inner.rsplit_once('"') else {
        let message = format!("unclosed quote in '{}'.", text::excerpt(argument, SHOWN));
        return Err(Outcome::error(Code::UnclosedQuote, message));
    };
    match after.trim() {
        "" => Ok(quoted),
        after => {
            let message = format!("unexpected text after {what}: '{}'.", text::excerpt(after, SHOWN));
            Err(Outcome::error(Code::InvalidArgs, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_ends_at_the_last_quote() {
        for (argument, expected) in [
            (r#""a""#, Ok("a")),
            (r#""""#, Ok("")),
            (r#""a "b" c"  "#, Ok(r#"a "b" c"#)),
            (r#""Investigate"#, Err("Error: unclosed quote in '\"Investigate'.")),
            (r#"""#, Err("Error: unclosed quote in '\"'.")),
            (r#""a" b"#, Err("Error: unexpected text after the prompt: 'b'.")),
        ] {
            let parsed = quoted(argument, "the prompt").map_err(|error| error.line().into_owned());
            assert_eq!(parsed, expected.map_err(str::to_owned), "{argument}");
        }
    }
}
