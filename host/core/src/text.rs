//! Removes characters that could move a cursor, hide a word or reverse a line. All crates call it for text from
//! skills, tools, files, servers and models, before a terminal or a model receives the text.

/// Returns `text` without control characters (except line feed and tab), bidi controls, zero-width and tag
/// characters. A carriage return before a line feed is removed; any other becomes a line feed.
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

/// Returns the result of [`clean`] on one line: each run of white space becomes one space, and the ends are trimmed.
pub fn clean_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns at most `max` characters of [`clean_line`], followed by `…` if the text was cut.
pub fn excerpt(text: &str, max: usize) -> String {
    let line = clean_line(text);
    match line.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Whether a character is invisible but has an effect: C0 and C1 controls, soft hyphen, bidi controls (UAX 9),
/// zero-width and other default-ignorable format characters, variation selectors of the supplement, and the tag
/// block. Also the zero-width joiner and variation selectors 1–16: an emoji may be split into its parts, but no
/// hidden word passes.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
            | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF9}'..='\u{FFFB}'
            | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Returns a number with a comma between thousands, such as `1,234`.
pub fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a size in bytes for people: `345 bytes`, `120 KB`, `2.4 MB`. A KB is 1,000 bytes.
pub fn size(bytes: u64) -> String {
    match bytes {
        1 => "1 byte".to_owned(),
        0..1_000 => format!("{bytes} bytes"),
        1_000..999_500 => format!("{} KB", (bytes + 500) / 1_000),
        _ => {
            let tenths = bytes.saturating_add(50_000) / 100_000;
            format!("{}.{} MB", with_commas(tenths / 10), tenths % 10)
        }
    }
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

    #[test]
    fn sizes_are_rounded() {
        let sizes = [0, 1, 999, 1_000, 120_499, 120_500, 999_499, 999_500, 10_485_760].map(size);
        let expected = ["0 bytes", "1 byte", "999 bytes", "1 KB", "120 KB", "121 KB", "999 KB", "1.0 MB", "10.5 MB"];
        assert_eq!(sizes, expected);
    }

    #[test]
    fn thousands_are_separated() {
        assert_eq!([2, 999, 2_000, 1_234_567].map(with_commas), ["2", "999", "2,000", "1,234,567"]);
    }
}
