//! Removes characters that could move a cursor, hide a word or reverse a line. All crates call it for text from
//! skills, tools, files, servers and models, before a terminal or a model receives the text.

use std::borrow::Cow;

/// Returns `text` without control characters (except newline and tab), bidi controls, zero-width and tag characters. A
/// carriage return before a newline is removed; any other becomes a newline. Joiners and variation selectors stay where
/// writing needs them, such as in Persian words and in emoji.
pub fn clean(text: &str) -> String {
    TextCleaner::default().clean(text)
}

/// Cleans a text that arrives in pieces. The result does not depend on where the text is split.
///
/// Whether a character is kept depends only on the character before it. Nothing has to be withheld until the next piece arrives,
/// and every prefix of a clean text is clean, as is the concatenation of two clean texts.
#[derive(Clone, Debug, Default)]
pub struct TextCleaner {
    /// The last character that was not removed; NUL at the beginning.
    before: char,
}

impl TextCleaner {
    /// Returns the next piece, cleaned as a part of the whole text.
    pub fn clean(&mut self, piece: &str) -> String {
        let mut out = String::with_capacity(piece.len());
        out.extend(piece.chars().filter_map(|c| self.next(c)));
        out
    }

    /// Returns the replacement of the next character, or `None` if it is removed.
    pub fn next(&mut self, c: char) -> Option<char> {
        if is_hidden(c) && !matches!(c, '\r' | '\n' | '\t') && !is_needed(c, self.before) {
            return None;
        }
        match (std::mem::replace(&mut self.before, c), c) {
            ('\r', '\n') => None,
            (_, '\r') => Some('\n'),
            _ => Some(c),
        }
    }
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

/// Returns whether a character is visible: not white space, a control character or a blank, and assigned in the Unicode version
/// of this build. Joiners and combining marks count, because they change how the character before them looks; [`clean`] removes
/// joiners anywhere else.
pub fn is_visible(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_graphic();
    }
    matches!(c, '\u{200C}' | '\u{200D}') || is_printable(c) && !is_blank(c)
}

/// Returns `text` with `␣` in place of each invisible character that has a width, because such characters could fill a row
/// unnoticed.
pub fn with_visible_blanks(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_blank) {
        return text.into();
    }
    text.chars().map(|c| if is_blank(c) { '␣' } else { c }).collect()
}

/// Whether a character that [`clean`] keeps shows nothing in most fonts, although it is neither white space nor a
/// control: the Braille blank, the fillers and joiners of some scripts, format controls of hieroglyphs, the null
/// notehead, and the object replacement character.
fn is_blank(c: char) -> bool {
    matches!(
        c,
        '\u{2800}' | '\u{2D7F}' | '\u{303F}' | '\u{FFFC}' | '\u{1107F}' | '\u{13430}'
            ..='\u{13442}' | '\u{16FE4}' | '\u{1D159}' | '\u{1DA7F}' | '\u{1DA80}'
    )
}

/// Whether the standard library's debug format prints a non-ASCII character unescaped. It escapes unassigned and private-use
/// characters, separators, controls and format characters.
fn is_printable(c: char) -> bool {
    // Combining marks are escaped only at the beginning of a string.
    let mut bytes = [b'a', 0, 0, 0, 0];
    let length = 1 + c.encode_utf8(&mut bytes[1..]).len();
    str::from_utf8(&bytes[..length]).is_ok_and(|text| text.escape_debug().nth(1) == Some(c))
}

/// Whether a character is invisible but has an effect: C0 and C1 controls, soft hyphen, bidi controls (UAX 9), zero-width
/// characters and all others that Unicode calls default-ignorable (even unassigned ones, and therefore all variation selectors
/// and the tag block), line and paragraph separators, and the marks of interlinear annotations.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
            | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}'
            | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Whether a hidden character is needed to write, because it changes how the character directly before it looks. These are the
/// joiners in scripts that use them (RFC 5892, appendices A.1 and A.2), the joiner of emoji, and the variation selectors 15 and
/// 16 for text and emoji style (UTS 51). Joiners are checked by script instead of by letter, because people also type joiners
/// without effect. None of these characters may follow itself, because a run of them could encode a hidden text.
fn is_needed(c: char, before: char) -> bool {
    match c {
        '\u{200C}' => uses_joiners(before),
        '\u{200D}' => uses_joiners(before) || is_emoji(before) || matches!(before, '\u{FE0E}' | '\u{FE0F}'),
        '\u{FE0E}' | '\u{FE0F}' => is_emoji(before) || matches!(before, '#' | '*' | '0'..='9'),
        _ => false,
    }
}

/// Whether a character is in a block of the common scripts with joined letters or conjuncts: Arabic to NKo, Mandaic to
/// Sinhala, Tibetan and Myanmar, Khmer and Mongolian, the Arabic presentation forms, Adlam.
fn uses_joiners(c: char) -> bool {
    matches!(c,
        '\u{0600}'..='\u{07FF}' | '\u{0840}'..='\u{0DFF}' | '\u{0F00}'..='\u{109F}' | '\u{1780}'..='\u{18AF}'
        | '\u{FB50}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFC}' | '\u{1E900}'..='\u{1E95F}')
}

/// Whether a character is an emoji, or a symbol in the same ranges. The ranges contain all assigned characters that
/// `emoji-data.txt` of Unicode 17 lists as `Extended_Pictographic`, and the skin tones.
fn is_emoji(c: char) -> bool {
    matches!(c,
        '\u{00A9}' | '\u{00AE}' | '\u{203C}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{21FF}'
        | '\u{2300}'..='\u{23FF}' | '\u{24C2}' | '\u{25A0}'..='\u{27BF}' | '\u{2934}' | '\u{2935}'
        | '\u{2B00}'..='\u{2BFF}' | '\u{3030}' | '\u{303D}' | '\u{3297}' | '\u{3299}' | '\u{1F000}'..='\u{1FAFF}')
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

/// Formats a size in bytes for the user: `345 bytes`, `120 KB`, `2.4 MB`. A KB is 1,000 bytes.
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
    use std::ops::RangeInclusive;

    use super::*;

    #[test]
    fn strips_what_deceives() {
        assert_eq!(clean("a\u{1b}[31mb\u{7}"), "a[31mb");
        assert_eq!(clean("a\u{202e}b\u{200b}c\u{e0041}\u{feff}"), "abc");
        assert_eq!(clean("a\r\nb\rc\td"), "a\nb\nc\td");
        assert_eq!(clean("naïve 日本 🙂"), "naïve 日本 🙂");
    }

    /// Emoji with selectors, skin tones and joiners, a keycap; Persian, Hindi, and a Malayalam letter at the end of a word.
    const WRITTEN: [&str; 9] = [
        "☕\u{fe0f} x",
        "☎\u{fe0e}",
        "👩\u{200d}👩\u{200d}👧\u{200d}👦",
        "❤\u{fe0f}\u{200d}🔥",
        "👩🏽\u{200d}🚀",
        "1\u{fe0f}\u{20e3}",
        "می\u{200c}خواهم",
        "क्\u{200d}ष क्\u{200c}ष",
        "ന്\u{200d} x",
    ];

    #[test]
    fn characters_needed_to_write_stay() {
        for text in WRITTEN {
            assert_eq!(clean(text), text, "{}", text.escape_unicode());
        }
    }

    #[test]
    fn joiners_and_selectors_cannot_hide_text() {
        assert_eq!(clean("a\u{200d}b\u{200c}c\u{fe0f}d \u{200d}\u{fe0f}"), "abcd ");
        assert_eq!(clean("\u{fe0f}☕\u{fe0f}\u{fe0e}\u{fe0f}\u{fe01}"), "☕\u{fe0f}");
        assert_eq!(clean("ی\u{200c}\u{200d}\u{200c}\u{200b}\u{200c}خ"), "ی\u{200c}خ");
        assert_eq!(clean("👩\u{200d}\u{200d}\u{200c}\u{200d}x"), "👩\u{200d}x");
        // The flag loses its tags, because a model could read them as letters.
        assert_eq!(clean("🏴\u{e0067}\u{e0062}\u{e0073}\u{e007f}"), "🏴");
    }

    #[test]
    fn pieces_are_cleaned_as_the_whole() {
        let text = format!("a\r\n\r\nb\u{202e}\r{}\u{fe0f}\u{200b}\u{200d}", WRITTEN.concat());
        let mut cleaner = TextCleaner::default();
        let pieces: String = text.chars().map(|c| cleaner.clean(c.encode_utf8(&mut [0; 4]))).collect();
        assert_eq!(pieces, clean(&text));
        for (at, _) in pieces.char_indices() {
            assert_eq!(clean(&pieces[..at]), &pieces[..at], "{at}");
        }
        assert_eq!(clean(&pieces), pieces);
    }

    /// `Default_Ignorable_Code_Point` of Unicode 17.
    const IGNORABLE: [RangeInclusive<char>; 17] = [
        '\u{AD}'..='\u{AD}',
        '\u{34F}'..='\u{34F}',
        '\u{61C}'..='\u{61C}',
        '\u{115F}'..='\u{1160}',
        '\u{17B4}'..='\u{17B5}',
        '\u{180B}'..='\u{180F}',
        '\u{200B}'..='\u{200F}',
        '\u{202A}'..='\u{202E}',
        '\u{2060}'..='\u{206F}',
        '\u{3164}'..='\u{3164}',
        '\u{FE00}'..='\u{FE0F}',
        '\u{FEFF}'..='\u{FEFF}',
        '\u{FFA0}'..='\u{FFA0}',
        '\u{FFF0}'..='\u{FFF8}',
        '\u{1BCA0}'..='\u{1BCA3}',
        '\u{1D173}'..='\u{1D17A}',
        '\u{E0000}'..='\u{E0FFF}',
    ];

    #[test]
    fn ignorable_characters_are_removed() {
        for c in IGNORABLE.into_iter().flatten() {
            assert_eq!(clean(&format!("a{c}b")), "ab", "{c:?}");
        }
    }

    #[test]
    fn characters_that_show_nothing_are_not_visible() {
        for c in "\u{2800}\u{1d159}\u{fffc}\u{16fe4}\u{13441}\u{303f}".chars() {
            assert_eq!((clean(&c.to_string()), is_visible(c)), (c.to_string(), false), "{c:?}");
            assert_eq!(with_visible_blanks(&format!("a{c}{c}b")), "a␣␣b", "{c:?}");
        }
        // White space, controls, private use, unassigned.
        for c in " \t\n\u{7f}\u{a0}\u{1680}\u{3000}\u{2028}\u{e000}\u{f8ff}\u{10fffd}\u{fdd0}\u{378}\u{e1000}".chars() {
            assert!(!is_visible(c), "{c:?}");
        }
        for c in "aZ~'\"\\ßم日🙂☕\u{301}\u{fe0f}\u{200d}⣿␣".chars() {
            assert!(is_visible(c), "{c:?}");
        }
        assert!(matches!(with_visible_blanks("a b\t日"), Cow::Borrowed(_)));
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
