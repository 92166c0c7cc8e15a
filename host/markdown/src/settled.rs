//! Finds the part of a growing paragraph that no later text can change: it ends before the first mark that may still
//! open emphasis, code or a link.

use pulldown_cmark::{Event, Tag, TagEnd};

use crate::inline;

/// A mark that is not closed within this many bytes counts as text. This bounds the text that is parsed again.
pub(crate) const MAX_OPEN: usize = 4 * 1024;

/// Brackets inside brackets up to this depth are matched.
const MAX_BRACKETS: usize = 16;

/// Returns the length of the beginning of `source` that is settled. It ends before a word or a wide character, outside
/// of all marks. If there is no such position in a long text, it ends after the last blank, or at the end.
pub(crate) fn settled_end(source: &str) -> usize {
    let guarded = inline::guarded(source);
    let guard = guarded.len() - source.len();
    let mut depth = 0_usize;
    let mut end = 0;
    if source.len() <= inline::MAX_INLINE {
        for (event, range) in inline::parser(&guarded).into_offset_iter() {
            if depth == 0 && guarded[..range.start].ends_with(' ') {
                end = end.max(range.start);
            }
            match event {
                Event::Start(Tag::Paragraph) | Event::End(TagEnd::Paragraph) => {}
                Event::Start(_) => depth += 1,
                Event::End(_) => depth = depth.saturating_sub(1),
                Event::Text(_) => {
                    let open = open_mark(&guarded, range.clone());
                    if depth == 0 {
                        end = end.max(last_boundary(&guarded[..open.unwrap_or(range.end)], range.start));
                    }
                    if open.is_some() {
                        break;
                    }
                }
                _ => {}
            }
        }
    }
    let end = end.saturating_sub(guard);
    if end == 0 && source.len() > 2 * MAX_OPEN {
        let blank = source.rfind(' ').map_or(0, |blank| blank + 1);
        return if blank > 0 { blank } else { source.len() };
    }
    end
}

/// Returns the last position after `from` at which a row can end: after a blank, or between two wide characters.
/// Returns 0 if there is none.
fn last_boundary(text: &str, from: usize) -> usize {
    let mut next: Option<char> = None;
    for (at, c) in text[from..].char_indices().rev() {
        if next.is_some_and(|next| (c == ' ' && next != ' ') || (is_ideograph(c) && is_ideograph(next))) {
            return from + at + c.len_utf8();
        }
        next = Some(c);
    }
    0
}

fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}')
}

/// Returns the first mark in `range` that may still open something.
fn open_mark(text: &str, range: std::ops::Range<usize>) -> Option<usize> {
    let bytes = text.as_bytes();
    // Text after an escape begins an event of its own.
    let is_escaped = range.start > 0 && bytes[range.start - 1] == b'\\';
    let oldest = text.len().saturating_sub(MAX_OPEN);
    range.skip(usize::from(is_escaped)).find(|&at| at >= oldest && may_open(text, at))
}

fn may_open(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    match bytes[at] {
        b'`' => true,
        mark @ (b'*' | b'_' | b'~') => {
            let next = bytes[at..].iter().find(|byte| **byte != mark);
            let is_inside_word = mark == b'_' && bytes[at - 1].is_ascii_alphanumeric();
            next.is_none_or(|next| *next != b' ') && !is_inside_word
        }
        b'[' => !is_closed_bracket(&bytes[at..]),
        _ => false,
    }
}

/// Whether the bracket at the beginning of `text` is closed, and no link can follow.
fn is_closed_bracket(text: &[u8]) -> bool {
    let mut depth = 0;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'[' if depth == MAX_BRACKETS => return true,
            b'[' => depth += 1,
            b']' if depth > 1 => depth -= 1,
            b']' => {
                return match text.get(at + 1) {
                    None => false,
                    Some(b'(') => text[at..].contains(&b')'),
                    Some(_) => true,
                };
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(source: &str) -> &str {
        &source[..settled_end(source)]
    }

    #[test]
    fn text_before_an_open_mark_is_settled() {
        assert_eq!(settled("one two three"), "one two ");
        assert_eq!(settled("one **two three four"), "one ");
        assert_eq!(settled("one **two** three four"), "one **two** three ");
        assert_eq!(settled("one `two three"), "one ");
        assert_eq!(settled("one [two three](https:"), "one ");
        assert_eq!(settled("one [two](x) three"), "one [two](x) ");
        assert_eq!(settled("one [1] three four"), "one [1] three ");
        assert_eq!(settled("one **two [a** three"), "one ");
    }

    #[test]
    fn marks_that_open_nothing_are_text() {
        assert_eq!(settled("2 * 3 snake_case \\*x end"), "2 * 3 snake_case \\*x ");
    }

    #[test]
    fn wide_characters_are_boundaries() {
        assert_eq!(settled("日本語"), "日本");
    }

    #[test]
    fn old_marks_and_long_words_do_not_hold_text_back() {
        let old = format!("*{}", "a ".repeat(MAX_OPEN));
        assert!(settled_end(&old) > MAX_OPEN);
        assert_eq!(settled_end(&"x".repeat(3 * MAX_OPEN)), 3 * MAX_OPEN);
    }
}
