//! Formatting that the tools share in their results and errors.

/// Maximum length of a quotation in a message, in characters.
const MOST: usize = 200;
/// Maximum number of line numbers in a message.
const MOST_LINES: usize = 10;

/// Shortens a string for quoting.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(MOST) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

/// Returns the characters of `text` without controls and invisible characters. The host removes most of these before a
/// model reads the text, and leaves joiners and emoji selectors where they are needed; see `host/core/src/text.rs`.
pub(crate) fn visible(text: &str) -> impl Iterator<Item = (usize, char)> {
    text.char_indices().filter(|(_, c)| !is_invisible(*c))
}

/// Newlines and tabs are visible.
fn is_invisible(c: char) -> bool {
    (c.is_control() && !matches!(c, '\t' | '\n' | '\r'))
        || matches!(c,
            '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
            | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}'
            | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Formats a count: `1 line`, `2 lines`.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Formats line numbers: `line 3`, `lines 3 and 7`, `lines 3, 7, 9 and more`.
pub(crate) fn at_lines(lines: &[usize]) -> String {
    let mut words: Vec<String> = lines.iter().take(MOST_LINES).map(ToString::to_string).collect();
    if lines.len() > MOST_LINES {
        words.push("more".to_owned());
    }
    match words.split_last() {
        None => "no line".to_owned(),
        Some((only, [])) => format!("line {only}"),
        Some((last, first)) => format!("lines {} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The host's table is private, and in another workspace.
    #[test]
    fn invisible_characters_are_those_that_the_host_removes() {
        let table = |source: &str, function: &str| {
            let (_, body) = source.split_once(function).expect("the function");
            let (_, table) = body.split_once("'\\u{00AD}'").expect("the first character");
            table.split(')').next().expect("a table").split_whitespace().collect::<String>()
        };
        let host = table(include_str!("../../../../host/core/src/text.rs"), "fn is_hidden(c: char)");
        assert!(host.contains("'\\u{200B}'..='\\u{200F}'"), "{host}");
        assert_eq!(table(include_str!("words.rs"), "fn is_invisible(c: char)"), host);
    }

    #[test]
    fn line_numbers_are_limited() {
        assert_eq!(at_lines(&[3]), "line 3");
        assert_eq!(at_lines(&[3, 7]), "lines 3 and 7");
        assert_eq!(at_lines(&[3, 7, 9]), "lines 3, 7 and 9");
        let many: Vec<usize> = (1..=100).collect();
        assert_eq!(at_lines(&many[..10]), "lines 1, 2, 3, 4, 5, 6, 7, 8, 9 and 10");
        assert_eq!(at_lines(&many), "lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and more");
    }

    #[test]
    fn quotations_are_cut() {
        assert_eq!(shown("é"), "é");
        assert_eq!(shown(&"é".repeat(MOST)), "é".repeat(MOST));
        assert_eq!(shown(&"é".repeat(9_999)), format!("{}…", "é".repeat(MOST)));
    }

    #[test]
    fn count_of_one_is_singular() {
        assert_eq!(
            (count(1, "line"), count(0, "line"), count(2, "line")),
            ("1 line".into(), "0 lines".into(), "2 lines".into())
        );
    }
}
