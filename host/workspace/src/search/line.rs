//! A line in the result of a search. Long lines are cut to the part around the first match.

use std::ops::Range;

/// A line in the result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedLine {
    /// The number of the line, from 1.
    pub number: u64,
    /// The line without its newline, or a part of the line. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub text: String,
    /// The byte offset in the line at which `text` begins.
    pub start: u64,
    /// Size of the whole line, in bytes.
    pub size: u64,
    /// The first match, in bytes of `text`; `None` for a context line.
    pub matched: Option<Range<usize>>,
}

impl MatchedLine {
    /// Bytes that are counted for a line in addition to its text: roughly the guest's memory for its record.
    const OVERHEAD: usize = 48;

    /// Returns at most `most` bytes of `line`, beginning a little before the match.
    pub(super) fn new(number: u64, line: &[u8], matched: Option<Range<usize>>, most: usize) -> Self {
        let part = part(line, matched.as_ref().map_or(0, |matched| matched.start), most);
        let mut text = String::new();
        let mut add = |range: Range<usize>| {
            text.push_str(&String::from_utf8_lossy(&line[range]));
            text.len()
        };
        let matched = matched.map(|matched| {
            let start = matched.start.clamp(part.start, part.end);
            let end = matched.end.clamp(start, part.end);
            let shown = add(part.start..start)..add(start..end);
            add(end..part.end);
            shown
        });
        if matched.is_none() {
            add(part.clone());
        }
        Self { number, text, start: part.start as u64, size: line.len() as u64, matched }
    }

    /// Returns the bytes that are counted for the line in a result.
    pub(super) fn cost(&self) -> usize {
        self.text.len() + Self::OVERHEAD
    }
}

/// Returns the range of `line` that is shown: at most `most` bytes, a third of them before `around`.
fn part(line: &[u8], around: usize, most: usize) -> Range<usize> {
    if line.len() <= most {
        return 0..line.len();
    }
    let start = around.saturating_sub(most / 3).min(line.len() - most);
    boundary(line, start)..boundary(line, start + most)
}

/// Returns the first character boundary at or after `at`.
fn boundary(line: &[u8], at: usize) -> usize {
    let inside = line[at..].iter().take(3).take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count();
    at + inside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_lines_are_whole() {
        let line = MatchedLine::new(3, "a é b".as_bytes(), Some(2..4), 6);
        assert_eq!((line.text.as_str(), line.start, line.size, line.matched), ("a é b", 0, 6, Some(2..4)));
        let line = MatchedLine::new(3, b"", None, 1);
        assert_eq!((line.text.as_str(), line.matched), ("", None));
    }

    #[test]
    fn long_lines_are_cut_around_the_match() {
        let text = format!("{}needle{}", "é".repeat(500), "é".repeat(500));
        let line = MatchedLine::new(1, text.as_bytes(), Some(1_000..1_006), 300);
        assert_eq!(line.text, format!("{}needle{}", "é".repeat(50), "é".repeat(97)));
        assert_eq!((line.start, line.size, line.matched), (900, 2_006, Some(100..106)));
        let line = MatchedLine::new(1, text.as_bytes(), None, 301);
        assert_eq!((line.start, line.text.chars().count()), (0, 151));
    }

    #[test]
    fn match_is_a_range_of_the_text_also_beside_other_bytes() {
        let line = MatchedLine::new(1, b"\xff\xffneedle\xff", Some(2..8), 100);
        assert_eq!(&line.text[line.matched.unwrap()], "needle");
        // A match that begins within a character, or is longer than the part.
        let line = MatchedLine::new(1, "éa".as_bytes(), Some(1..3), 100);
        assert_eq!(&line.text[line.matched.unwrap()], "\u{fffd}a");
        let line = MatchedLine::new(1, "x".repeat(1_000).as_bytes(), Some(0..1_000), 10);
        assert_eq!((line.matched, line.text.len()), (Some(0..10), 10));
    }
}
