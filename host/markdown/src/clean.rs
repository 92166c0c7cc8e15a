//! Removes characters that are invisible but have an effect. The renderer calls it for its input, and again for the
//! decoded text of entities such as `&#27;`.

/// Marks a hard line break within a paragraph's source. A noncharacter: [`is_hidden`] removes it from the input.
pub(crate) const BREAK: char = '\u{FFFF}';

/// Cleans a stream of characters: line ends become `\n`, hidden characters are dropped.
#[derive(Clone, Default)]
pub(crate) struct InputCleaner {
    after_return: bool,
}

impl InputCleaner {
    /// Returns the replacement of `c`. `\r\n` becomes one `\n`, even if the two arrive in different chunks.
    pub(crate) fn next(&mut self, c: char) -> Option<char> {
        let after_return = std::mem::replace(&mut self.after_return, c == '\r');
        match c {
            '\n' if after_return => None,
            '\r' | '\n' => Some('\n'),
            '\t' => Some('\t'),
            c if is_hidden(c) => None,
            c => Some(c),
        }
    }
}

/// Returns `text` on one line and without hidden characters; tabs and line ends become spaces.
pub(crate) fn visible(text: &str) -> String {
    text.chars()
        .filter_map(|c| match c {
            '\t' | '\n' | '\r' => Some(' '),
            BREAK => Some(BREAK),
            c if is_hidden(c) => None,
            c => Some(c),
        })
        .collect()
}

/// The characters that `patchbay_core::text::clean` removes (a test compares them), and two noncharacters: controls,
/// bidi controls, zero-width and other default-ignorable characters, variation selectors, tags.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
            | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF9}'..='\u{FFFB}'
            | '\u{FFFE}' | '\u{FFFF}'
            | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hides_what_the_host_hides() {
        for c in '\0'..=char::MAX {
            if !matches!(c, '\r' | '\n' | '\t' | '\u{FFFE}' | '\u{FFFF}') {
                let removed = patchbay_core::text::clean(&c.to_string()).is_empty();
                assert_eq!(is_hidden(c), removed, "{:?}", c);
            }
        }
    }

    #[test]
    fn line_ends_become_one_line_feed() {
        let mut cleaner = InputCleaner::default();
        let cleaned: String = "a\r\nb\rc\n\nd\r\r\n".chars().filter_map(|c| cleaner.next(c)).collect();
        assert_eq!(cleaned, "a\nb\nc\n\nd\n\n");
    }
}
