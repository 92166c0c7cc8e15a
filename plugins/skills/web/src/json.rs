//! Formats JSON with one value per line, without parsing it into values, which leaves numbers and names unchanged.

use serde::de::IgnoredAny;

/// Maximum number of levels of indentation.
const MAX_INDENT: usize = 16;

/// Formats JSON up to a number of bytes. Returns other text unchanged.
pub(crate) fn pretty(text: &str, most: usize) -> String {
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len().min(most));
    let mut depth = 0usize;
    let mut rest = text.char_indices().peekable();
    while let Some((start, char)) = rest.next() {
        if out.len() > most {
            break;
        }
        match char {
            '"' => {
                let mut is_escaped = false;
                let end = rest.find(|(_, char)| {
                    let is_end = *char == '"' && !is_escaped;
                    is_escaped = *char == '\\' && !is_escaped;
                    is_end
                });
                out.push_str(&text[start..end.map_or(text.len(), |(end, _)| end + 1)]);
            }
            '{' | '[' => {
                out.push(char);
                while rest.next_if(|(_, char)| char.is_ascii_whitespace()).is_some() {}
                match rest.next_if(|(_, char)| matches!(char, '}' | ']')) {
                    Some((_, close)) => out.push(close),
                    None => {
                        depth += 1;
                        line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(char);
            }
            ',' => {
                out.push(char);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            char if char.is_ascii_whitespace() => {}
            char => out.push(char),
        }
    }
    out
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth.min(MAX_INDENT)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(text: &str) -> String {
        pretty(text, usize::MAX)
    }

    #[test]
    fn values_are_on_lines_and_unchanged() {
        assert_eq!(
            laid_out(r#" {"b":[1.50,{}, [ ] ],"a":"x: {\"y\"}, \\","n":12345678901234567890} "#),
            "{\n  \"b\": [\n    1.50,\n    {},\n    []\n  ],\n  \"a\": \"x: {\\\"y\\\"}, \\\\\",\n  \"n\": 12345678901234567890\n}"
        );
        assert_eq!(laid_out("\"é\""), "\"é\"");
        assert_eq!(laid_out("not {json"), "not {json");
    }

    #[test]
    fn depth_and_length_are_limited() {
        let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(laid_out(&deep).len() < 200_000 * (2 * MAX_INDENT + 2));
        assert!(pretty(&deep, 1_000).len() < 1_100);
    }

    proptest::proptest! {
        #[test]
        fn formatted_value_is_the_same(text in r#"\[("[a\\"{\[,: ]{0,4}"|[0-9]|\{"a":[0-9]\}|,| |\[\]){0,8}\]"#) {
            if let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) {
                proptest::prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&laid_out(&text)).expect("JSON"), value);
            }
        }
    }
}
