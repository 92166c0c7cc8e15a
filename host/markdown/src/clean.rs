//! Removes characters that are invisible but have an effect. The renderer calls it for its input, and again for the
//! decoded text of entities such as `&#27;`.

use patchbay_core::text::TextCleaner;

/// Marks a hard line break within a paragraph's source. It is a noncharacter, which [`InputCleaner`] removes from the
/// input.
pub(crate) const BREAK: char = '\u{FFFF}';

/// Cleans a stream of characters: converts line ends to `\n`, and drops hidden characters and two noncharacters.
#[derive(Clone, Default)]
pub(crate) struct InputCleaner(TextCleaner);

impl InputCleaner {
    /// Returns the replacement of `c`. `\r\n` becomes one `\n`, even if the two arrive in different chunks.
    pub(crate) fn next(&mut self, c: char) -> Option<char> {
        self.0.next(c).filter(|c| !matches!(c, '\u{FFFE}' | '\u{FFFF}'))
    }
}

/// Returns `text` on one line and without hidden characters; tabs and line ends become spaces.
pub(crate) fn visible(text: &str) -> String {
    let mut cleaner = TextCleaner::default();
    text.chars()
        .filter_map(|c| match cleaner.next(c)? {
            '\t' | '\n' => Some(' '),
            '\u{FFFE}' => None,
            c => Some(c),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &str) -> String {
        let mut cleaner = InputCleaner::default();
        text.chars().filter_map(|c| cleaner.next(c)).collect()
    }

    #[test]
    fn line_ends_become_one_line_feed() {
        assert_eq!(cleaned("a\r\nb\rc\n\nd\r\r\n"), "a\nb\nc\n\nd\n\n");
    }

    #[test]
    fn characters_needed_to_write_stay() {
        assert_eq!(cleaned("❤\u{fe0f}\u{200d}🔥 می\u{200c}خ a\u{200d}b"), "❤\u{fe0f}\u{200d}🔥 می\u{200c}خ ab");
        assert_eq!((visible("☕\u{fe0f}"), visible("\u{fe0f}x")), ("☕\u{fe0f}".into(), "x".into()));
    }

    #[test]
    fn noncharacters_are_dropped() {
        assert_eq!(cleaned("a\u{FFFE}b\u{FFFF}c"), "abc");
        assert_eq!(visible("a\u{FFFE}b\u{FFFF}\t\u{1b}c"), "ab\u{FFFF} c");
    }
}
