//! Finds the matching lines of a text.

use std::ops::Range;

use crate::pattern::Pattern;

/// A line with a match. Offsets refer to the whole text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    /// The line number, from 1.
    pub(crate) number: usize,
    /// The range of the line, without its line feed.
    pub(crate) line: Range<usize>,
    /// The range of the first match in the line.
    pub(crate) matched: Range<usize>,
}

/// Returns the matching lines. The text is only searched as far as they are taken.
pub(crate) fn find(text: &[u8], pattern: &Pattern) -> impl Iterator<Item = Hit> {
    // The offset and the number of the next line.
    let (mut start, mut number) = (0, 1);
    std::iter::from_fn(move || {
        while start < text.len() {
            let candidate = pattern.candidate(text, start)?;
            // There is no line after the last line feed.
            if candidate.start == text.len() && text.ends_with(b"\n") {
                return None;
            }
            let begin = start_of_line(text, candidate.start);
            let here = number + feeds(&text[start..begin]);
            let line = begin..end_of_line(text, candidate.start);
            (start, number) = (line.end + 1, here + 1);
            if let Some(matched) = pattern.confirm(text, line.clone(), candidate) {
                return Some(Hit { number: here, line, matched: matched.range() });
            }
        }
        None
    })
}

/// Returns the offset at which the line around `offset` begins.
pub(crate) fn start_of_line(text: &[u8], offset: usize) -> usize {
    text[..offset].iter().rposition(|byte| *byte == b'\n').map_or(0, |feed| feed + 1)
}

/// Returns the offset at which the line around `offset` ends: its line feed, or the end of the text.
pub(crate) fn end_of_line(text: &[u8], offset: usize) -> usize {
    text[offset..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |feed| offset + feed)
}

fn feeds(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, text: &str, most: usize) -> Vec<(usize, String, String)> {
        let pattern = Pattern::new(pattern, false, false).expect("a pattern");
        let hits = find(text.as_bytes(), &pattern).take(most);
        hits.map(|hit| (hit.number, text[hit.line].to_owned(), text[hit.matched].to_owned())).collect()
    }

    fn hit(number: usize, line: &str, matched: &str) -> (usize, String, String) {
        (number, line.to_owned(), matched.to_owned())
    }

    #[test]
    fn each_matching_line_is_returned_once() {
        let text = "xa\n\nbaab\nc\na";
        assert_eq!(found("a+", text, 9), [hit(1, "xa", "a"), hit(3, "baab", "aa"), hit(5, "a", "a")]);
        assert_eq!(found("a+", text, 2).len(), 2);
        assert_eq!(found("z", text, 9), []);
        assert_eq!(found("a", "", 9), []);
    }

    #[test]
    fn empty_pattern_matches_every_line() {
        assert_eq!(found("z*", "a\n\nb\n", 9), [hit(1, "a", ""), hit(2, "", ""), hit(3, "b", "")]);
        assert_eq!(found("^$", "a\n\nb\n", 9), [hit(2, "", "")]);
        assert_eq!(found("$", "\n", 9), [hit(1, "", "")]);
        assert_eq!(found("z*", "", 9), []);
    }
}
