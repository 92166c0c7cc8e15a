//! Formats matching lines like ripgrep, with notes about omitted lines.

use patchbay_sdk::workspace_search::{File, Line};

/// Maximum number of bytes of one answer: about 16,000 tokens.
pub(crate) const MAX_BYTES: usize = 64 << 10;
/// Maximum number of bytes of a line that are shown. Longer lines are usually data.
pub(crate) const MAX_LINE: u32 = 300;

/// The answer under construction.
#[derive(Debug, Default)]
pub(crate) struct Page {
    text: String,
    /// Number of context lines before and after each match.
    context: u64,
    /// Number of matching lines so far.
    pub(crate) hits: usize,
}

impl Page {
    pub(crate) fn new(context: u32) -> Self {
        Self { context: context.into(), ..Self::default() }
    }

    /// Returns true if the page is full.
    pub(crate) fn is_full(&self) -> bool {
        self.text.len() >= MAX_BYTES
    }

    /// Adds the lines of one file, as far as there is room. Returns false if there are more.
    pub(crate) fn add(&mut self, file: &File) -> bool {
        // The numbers of the last line and of the last match that were printed.
        let (mut last, mut last_hit) = (None, None);
        // True within the context lines before a match, which are printed together with it.
        let mut is_begun = false;
        for line in &file.lines {
            let is_hit = line.matched.is_some();
            let is_after = !is_hit && last_hit.is_some_and(|hit| line.number <= hit + self.context);
            if !is_after && !is_begun {
                if self.is_full() {
                    return false;
                }
                is_begun = true;
            }
            let is_gap = last.is_none_or(|last| line.number > last + 1);
            if self.context > 0 && !self.text.is_empty() && is_gap {
                self.text.push_str("--\n");
            }
            self.line(&file.path, line);
            last = Some(line.number);
            if is_hit {
                self.hits += 1;
                last_hit = last;
                is_begun = false;
            }
        }
        true
    }

    fn line(&mut self, path: &str, line: &Line) {
        let mark = if line.matched.is_some() { ':' } else { '-' };
        let ahead = if line.start > 0 { "…" } else { "" };
        let behind = if line.start + u64::from(MAX_LINE) < line.size { "…" } else { "" };
        self.text.push_str(&format!("{path}{mark}{}{mark}{ahead}{}{behind}\n", line.number, line.text));
    }

    /// Returns the answer, followed by `notes` in brackets.
    pub(crate) fn finish(self, notes: &[String]) -> String {
        let notes = notes.iter().map(|note| format!("[{note}]\n"));
        (self.text + &notes.collect::<String>()).trim_end_matches('\n').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use patchbay_sdk::workspace_search::Span;

    use super::*;

    /// Returns a file in which every line with an `x` matches. Empty lines are omitted.
    fn file(path: &str, lines: &[&str]) -> File {
        let line = |(index, text): (usize, &&str)| Line {
            number: index as u64 + 1,
            text: (*text).to_owned(),
            start: 0,
            size: text.len() as u64,
            matched: text.find('x').map(|at| Span { start: at as u32, end: at as u32 + 1 }),
        };
        let lines = lines.iter().enumerate().filter(|(_, text)| !text.is_empty()).map(line).collect();
        File { path: path.to_owned(), lines }
    }

    fn printed(files: &[File], context: u32) -> String {
        let mut page = Page::new(context);
        assert!(files.iter().all(|file| page.add(file)));
        page.finish(&[])
    }

    #[test]
    fn matches_without_context() {
        assert_eq!(printed(&[file("a", &["x", "", "x"]), file("b/c", &["-x"])], 0), "a:1:x\na:3:x\nb/c:1:-x");
    }

    #[test]
    fn context_groups_are_separated() {
        let apart = file("a", &["", "2", "x3", "4", "", "", "", "8", "x9"]);
        assert_eq!(printed(&[apart], 1), "a-2-2\na:3:x3\na-4-4\n--\na-8-8\na:9:x9");
        let joined = file("a", &["x", "x", "3", "x"]);
        assert_eq!(printed(&[joined], 1), "a:1:x\na:2:x\na-3-3\na:4:x");
        let files = [file("a", &["x"]), file("b", &["x"]), file("c", &["1", "x"])];
        assert_eq!(printed(&files, 1), "a:1:x\n--\nb:1:x\n--\nc-1-1\nc:2:x");
    }

    #[test]
    fn cut_lines_have_a_mark_at_each_end() {
        let cut = |start, size| {
            let line = Line { number: 1, text: "x".to_owned(), start, size, matched: Some(Span { start: 0, end: 1 }) };
            printed(&[File { path: "a".to_owned(), lines: vec![line] }], 0)
        };
        assert_eq!([cut(0, 300), cut(0, 301), cut(9, 309), cut(9, 310)], ["a:1:x", "a:1:x…", "a:1:…x", "a:1:…x…"]);
    }

    #[test]
    fn answer_is_limited_in_size() {
        let text = "x".repeat(99);
        let many = file("a", &vec![text.as_str(); 2_000]);
        let mut page = Page::new(0);
        assert!(!page.add(&many));
        assert!(page.is_full());
        let hits = page.hits;
        let shown = page.finish(&["more".to_owned()]);
        assert!(shown.len() < MAX_BYTES + 500, "{}", shown.len());
        assert_eq!(shown.lines().count(), hits + 1);
        assert!(shown.ends_with("\n[more]"));
    }
}
