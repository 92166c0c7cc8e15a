//! Bounds the memory for parsing JSON. A value of two bytes can take a hundred in memory, and `rmcp` keeps a text
//! in several forms at once while it looks for the kind of message.

/// Limit of the values in a message. A message at the limit takes some tens of megabytes while it is parsed.
pub const VALUES: usize = 100_000;

/// Returns whether `json` has few enough values to be parsed: separators outside of strings are counted. The text need not be
/// valid JSON. The depth is bounded by the parser.
pub fn is_parsable(json: &[u8]) -> bool {
    let (mut values, mut in_string, mut escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b',' | b'[' | b'{' if !in_string => {
                values += 1;
                if values > VALUES {
                    return false;
                }
            }
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_outside_of_strings_are_counted() {
        let list = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
        assert!(is_parsable(list(VALUES + 1).as_bytes()));
        assert!(!is_parsable(list(VALUES + 2).as_bytes()));
        let text = format!(r#"["{}", "\"{}"]"#, ",".repeat(VALUES), "[".repeat(VALUES));
        assert!(is_parsable(text.as_bytes()));
        assert!(!is_parsable("[".repeat(VALUES + 1).as_bytes()));
        assert!(is_parsable(b"") && is_parsable(b"\"") && is_parsable(b"\\"));
    }
}
