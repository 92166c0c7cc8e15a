//! Text from skills, tools, files and models is data. Before a terminal or a model sees it, whatever could
//! move a cursor, hide a word or reverse a line is taken out.

/// `text` without control characters (line feed and tab stay), bidi controls, zero-width and tag characters.
/// A carriage return before a line feed goes; alone it becomes a line feed.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => out.push('\n'),
            '\n' | '\t' => out.push(c),
            c if is_hidden(c) => {}
            c => out.push(c),
        }
    }
    out
}

/// [`clean`] on one line: every run of white space is one space, and nothing stands at the ends.
pub fn clean_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// At most `max` characters of [`clean_line`], with `…` where something was cut.
pub fn excerpt(text: &str, max: usize) -> String {
    let line = clean_line(text);
    match line.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Characters that are not seen, but act: C0 and C1 controls, soft hyphen, bidi controls (UAX 9), zero-width and
/// other default-ignorable format characters, variation selectors of the supplement, and the tag block.
/// The zero-width joiner and variation selectors 1–16 go too: an emoji falls into its parts, a hidden word does not pass.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
            | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF9}'..='\u{FFFB}'
            | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_what_deceives() {
        assert_eq!(clean("a\u{1b}[31mb\u{7}"), "a[31mb");
        assert_eq!(clean("a\u{202e}b\u{200b}c\u{e0041}\u{feff}"), "abc");
        assert_eq!(clean("a\r\nb\rc\td"), "a\nb\nc\td");
        assert_eq!(clean("naïve 日本 🙂"), "naïve 日本 🙂");
    }

    #[test]
    fn one_line() {
        assert_eq!(clean_line("  a\n\n b\u{1b} "), "a b");
        assert_eq!(excerpt("abcdef", 3), "abc…");
        assert_eq!(excerpt("äöü", 3), "äöü");
    }
}
