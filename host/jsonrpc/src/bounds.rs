//! Bounds the memory for parsing JSON. A value of two bytes can take a hundred bytes in memory, and `rmcp` holds
//! several forms of a message while it determines its kind.

/// Maximum number of values in a message. Parsing a message at this limit takes some tens of megabytes.
pub const VALUES: usize = 100_000;

/// Returns whether `json` has few enough values to be parsed, by counting the separators outside of strings. `json` need not be
/// valid. The depth is bounded by the parser.
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
