//! Formats matching lines like ripgrep, with notes about what was left out.

use std::ops::Range;

use crate::matching::{Hit, end_of_line, start_of_line};

/// The most bytes of one answer: about 16,000 tokens.
pub(crate) const MAX_BYTES: usize = 64 << 10;
/// The most bytes of a line that are shown. Longer lines are usually data.
pub(crate) const MAX_LINE: usize = 300;
/// The bytes of a cut line that are shown before the match.
const BEFORE: usize = 100;

/// The answer under construction.
#[derive(Debug, Default)]
pub(crate) struct Page {
    text: String,
    /// Number of context lines before and after each match.
    context: usize,
    /// Number of matching lines so far.
    pub(crate) hits: usize,
}

impl Page {
    pub(crate) fn new(context: usize) -> Self {
        Self { context, ..Self::default() }
    }

    /// Returns true if there is no room for more.
    pub(crate) fn is_full(&self) -> bool {
        self.text.len() >= MAX_BYTES
    }

    /// Adds the matches of one file, as far as there is room and until the answer has `most`. Returns false if there are more.
    pub(crate) fn add(&mut self, path: &str, text: &[u8], hits: impl Iterator<Item = Hit>, most: usize) -> bool {
        // The offset up to which lines of this file were printed.
        let mut done = None;
        let mut hits = hits.peekable();
        while let Some(hit) = hits.next() {
            if self.is_full() || self.hits == most {
                return false;
            }
            let before = self.before(text, &hit, done.unwrap_or(0));
            let is_gap = before.first().map_or(hit.line.start, |line| line.start) > done.unwrap_or(0);
            if self.context > 0 && !self.text.is_empty() && (is_gap || done.is_none()) {
                self.text.push_str("--\n");
            }
            let first = hit.number - before.len();
            for (number, line) in (first..).zip(before) {
                self.line(path, '-', number, &text[line], 0);
            }
            self.line(path, ':', hit.number, &text[hit.line.clone()], hit.matched.start - hit.line.start);
            self.hits += 1;
            let end = hits.peek().map_or(text.len(), |next| next.line.start);
            let mut next = hit.line.end + 1;
            for number in (hit.number + 1..).take(self.context) {
                if next >= end {
                    break;
                }
                let line = next..end_of_line(text, next);
                next = line.end + 1;
                self.line(path, '-', number, &text[line], 0);
            }
            done = Some(next);
        }
        true
    }

    /// Returns the context lines before a match that begin at or after `from`.
    fn before(&self, text: &[u8], hit: &Hit, from: usize) -> Vec<Range<usize>> {
        let mut lines = Vec::new();
        let mut start = hit.line.start;
        while lines.len() < self.context && start > from {
            let line = start_of_line(text, start - 1)..start - 1;
            start = line.start;
            lines.push(line);
        }
        lines.reverse();
        lines
    }

    fn line(&mut self, path: &str, mark: char, number: usize, line: &[u8], around: usize) {
        let line = cut(line.strip_suffix(b"\r").unwrap_or(line), around);
        self.text.push_str(&format!("{path}{mark}{number}{mark}{line}\n"));
    }

    /// Returns the answer, followed by `notes` in brackets.
    pub(crate) fn finish(self, notes: &[String]) -> String {
        let notes = notes.iter().map(|note| format!("[{note}]\n"));
        (self.text + &notes.collect::<String>()).trim_end_matches('\n').to_owned()
    }
}

/// Cuts a line to at most [`MAX_LINE`] bytes, beginning a little before `around`.
fn cut(line: &[u8], around: usize) -> String {
    if line.len() <= MAX_LINE {
        return String::from_utf8_lossy(line).into_owned();
    }
    let start = around.saturating_sub(BEFORE).min(line.len() - MAX_LINE);
    let (start, end) = (boundary(line, start), boundary(line, start + MAX_LINE));
    let ahead = if start > 0 { "…" } else { "" };
    let behind = if end < line.len() { "…" } else { "" };
    format!("{ahead}{}{behind}", String::from_utf8_lossy(&line[start..end]))
}

/// Returns the first character boundary at or after `at`.
fn boundary(line: &[u8], at: usize) -> usize {
    let inside = line[at..].iter().take(3).take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count();
    at + inside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{matching::find, pattern::Pattern};

    fn printed(files: &[(&str, &str)], pattern: &str, context: usize) -> String {
        let pattern = Pattern::new(pattern, false, false).expect("a pattern");
        let mut page = Page::new(context);
        for (path, text) in files {
            assert!(page.add(path, text.as_bytes(), find(text.as_bytes(), &pattern), usize::MAX));
        }
        page.finish(&[])
    }

    #[test]
    fn matches_without_context() {
        assert_eq!(printed(&[("a", "x\ny\nx"), ("b/c", "-x\n")], "x", 0), "a:1:x\na:3:x\nb/c:1:-x");
    }

    #[test]
    fn context_groups_are_separated() {
        let text = "1\n2\nx3\n4\n5\n6\n7\n8\nx9\n";
        assert_eq!(printed(&[("a", text)], "x", 1), "a-2-2\na:3:x3\na-4-4\n--\na-8-8\na:9:x9");
        // Adjacent groups are joined.
        assert_eq!(printed(&[("a", text)], "x", 3), "a-1-1\na-2-2\na:3:x3\na-4-4\na-5-5\na-6-6\na-7-7\na-8-8\na:9:x9");
        assert_eq!(printed(&[("a", "x\nx\n\nx")], "x", 1), "a:1:x\na:2:x\na-3-\na:4:x");
        assert_eq!(printed(&[("a", "x\n"), ("b", "x\n"), ("c", "\nx\n")], "x", 1), "a:1:x\n--\nb:1:x\n--\nc-1-\nc:2:x");
        assert_eq!(printed(&[("a", "x")], "x", 20), "a:1:x");
    }

    #[test]
    fn carriage_returns_are_not_shown() {
        assert_eq!(printed(&[("a", "1\r\nx\r\n")], "x$", 1), "a-1-1\na:2:x");
    }

    #[test]
    fn long_lines_are_cut_around_the_match() {
        let far = |count| "é".repeat(count);
        let line = format!("{}needle{}", far(500), far(500));
        let shown = printed(&[("a", &line)], "needle", 0);
        let text = shown.strip_prefix("a:1:…").and_then(|text| text.strip_suffix('…')).expect("cut at both ends");
        assert_eq!(text, format!("{}needle{}", far(50), far(97)));
        let shown = printed(&[("a", &line)], "é", 0);
        assert_eq!(shown, format!("a:1:{}…", far(150)));
        let end = format!("{}needle", far(500));
        assert_eq!(printed(&[("a", &end)], "needle", 0), format!("a:1:…{}needle", far(147)));
        for length in MAX_LINE - 1..=MAX_LINE {
            assert_eq!(printed(&[("a", &"y".repeat(length))], "y", 0), format!("a:1:{}", "y".repeat(length)));
        }
        assert_eq!(cut(&[0x80; 900], 200).chars().filter(|char| *char == '…').count(), 2);
    }

    #[test]
    fn answer_is_limited_in_size() {
        let text = format!("{}\n", "x".repeat(99)).repeat(2_000);
        let pattern = Pattern::new("x", false, false).expect("a pattern");
        let mut page = Page::new(0);
        // No more matches are looked for than are shown, and the next one.
        let mut found = 0;
        let hits = find(text.as_bytes(), &pattern).inspect(|_| found += 1);
        assert!(!page.add("a", text.as_bytes(), hits, usize::MAX));
        assert!(page.is_full());
        assert_eq!(found, page.hits + 1);
        let hits = page.hits;
        let shown = page.finish(&["more".to_owned()]);
        assert!(shown.len() < MAX_BYTES + 500, "{}", shown.len());
        assert_eq!(shown.lines().count(), hits + 1);
        assert!(shown.ends_with("\n[more]"));
    }
}
