//! The tools `read` and `read_many`: a range of lines of one file, several files at once.

use std::{borrow::Cow, ops::ControlFlow};

use patchbay_sdk::{Content, Failure, Reply, Result};

use crate::{
    contents::ranges,
    words::{count, shown},
};

/// The most lines of one answer: more than most files have.
pub(crate) const MAX_LINES: u64 = 2_000;
/// The most bytes of one answer: about 16,000 tokens.
pub(crate) const MAX_BYTES: usize = 64 << 10;
/// The most bytes that are read to count lines. Each costs a few instructions.
pub(crate) const MAX_SCAN: u64 = 64 << 20;

/// The most files of one `read_many`.
pub(crate) const MAX_FILES: usize = 20;

pub(crate) fn read(path: &str, first: Option<u64>, lines: Option<u64>, numbers: bool) -> Result<Reply> {
    let first = first.unwrap_or(1);
    let lines = lines.unwrap_or(MAX_LINES);
    if first == 0 || lines == 0 || lines > MAX_LINES {
        return Err(Failure::invalid(format!(
            "'first' must be at least 1, and 'lines' must be from 1 to {MAX_LINES}; these are {first} and {lines}"
        )));
    }
    let mut window = Window::new(first, lines, MAX_BYTES, numbers);
    ranges(path, |range| window.take(range))?;
    let page = window.page(path)?;
    let reply = Reply::from(page.text);
    Ok(if page.notes.is_empty() { reply } else { reply.with(Content::Text(format!("[{}]", page.notes))) })
}

/// Returns the files one after another, each below a line with its path. A file that cannot be read has its error there.
pub(crate) fn read_many(paths: &[String], numbers: bool) -> Result<Reply> {
    if paths.is_empty() || paths.len() > MAX_FILES {
        let count = paths.len();
        return Err(Failure::invalid(format!("'paths' must have from 1 to {MAX_FILES} paths; it has {count}")));
    }
    let mut reply = Reply::new();
    let mut room = MAX_BYTES;
    for (index, path) in paths.iter().enumerate() {
        if room == 0 {
            let left: Vec<String> = paths[index..].iter().map(|path| format!("'{}'", shown(path))).collect();
            let note = format!(
                "[Left out, since {MAX_BYTES} bytes were shown: {}. Read them by another call.]",
                left.join(", ")
            );
            return Ok(reply.with(Content::Text(note)));
        }
        let mut window = Window::new(1, MAX_LINES, room, numbers);
        let page = ranges(path, |range| window.take(range)).and_then(|()| window.page(path));
        reply = reply.with(Content::Text(match page {
            Ok(Page { text, notes, is_full }) => {
                room = if is_full { 0 } else { room.saturating_sub(text.len()) };
                let notes = if notes.is_empty() { notes } else { format!(" {notes}") };
                format!("[{}]{notes}\n{text}", shown(path))
            }
            Err(error) => format!("[{}] Error: {}", shown(path), error.message()),
        }));
    }
    Ok(reply)
}

/// Lines of a file, and what is to be said about them.
struct Page {
    text: String,
    notes: String,
    /// Whether there was no room for more.
    is_full: bool,
}

/// Collects the requested lines from a file that is read in ranges.
struct Window {
    first: u64,
    lines: u64,
    /// The most bytes of the answer.
    most: usize,
    /// Whether each line begins with its number and a tab.
    numbers: bool,
    /// Number of complete lines so far.
    ended: u64,
    bytes: u64,
    /// True if the last byte so far was a line feed.
    at_start: bool,
    /// True if [`MAX_SCAN`] was reached before the end of the file.
    stopped: bool,
    /// The requested lines, at most one byte more than `most`.
    text: Vec<u8>,
}

impl Window {
    fn new(first: u64, lines: u64, most: usize, numbers: bool) -> Self {
        Self { first, lines, most, numbers, ended: 0, bytes: 0, at_start: true, stopped: false, text: Vec::new() }
    }

    /// Appends as much of `bytes` as there is room for.
    fn append(&mut self, bytes: &[u8]) {
        let room = self.most + 1 - self.text.len();
        self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn take(&mut self, range: &[u8]) -> ControlFlow<()> {
        for line in range.split_inclusive(|byte| *byte == b'\n') {
            // The index of this line, from 0.
            if (self.first - 1..(self.first - 1).saturating_add(self.lines)).contains(&self.ended) {
                if self.numbers && self.at_start {
                    self.append(format!("{}\t", self.ended + 1).as_bytes());
                }
                self.append(line);
            }
            self.at_start = line.ends_with(b"\n");
            self.ended += u64::from(self.at_start);
        }
        self.bytes += range.len() as u64;
        self.stopped = self.bytes >= MAX_SCAN;
        if self.stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn page(self, path: &str) -> Result<Page> {
        let total = self.ended + u64::from(!self.at_start);
        let at_least = if self.stopped { "at least " } else { "" };
        if total == 0 && self.first == 1 {
            let text = format!("[The file '{}' is empty.]", shown(path));
            return Ok(Page { text, notes: String::new(), is_full: false });
        }
        if self.first > total {
            let (path, first) = (shown(path), self.first);
            return Err(match self.stopped {
                true => Failure::new(
                    "too-large",
                    format!(
                        "only the first {MAX_SCAN} bytes of '{path}' can be read, which are {total} lines, not {first}"
                    ),
                ),
                false => Failure::invalid(format!(
                    "'{path}' has {}, so that there is no line {first}",
                    count(total as usize, "line")
                )),
            });
        }
        let (text, cut) = whole_lines(&self.text, self.most);
        let ended = text.iter().filter(|byte| **byte == b'\n').count() as u64;
        let last = self.first + ended - u64::from(text.ends_with(b"\n"));
        let mut notes = Vec::new();
        if cut {
            notes.push(format!("Line {last} is longer than {} bytes and was cut.", self.most));
        }
        if self.first > 1 || last < total || self.stopped {
            notes.push(match last == self.first {
                true => format!("Line {last} of {at_least}{total}."),
                false => format!("Lines {} to {last} of {at_least}{total}.", self.first),
            });
        }
        if last < total {
            notes.push(format!("To go on: read with first {}.", last + 1));
        }
        let text = String::from_utf8_lossy(text);
        if matches!(text, Cow::Owned(_)) {
            notes.push("Bytes that are not UTF-8 are shown as \u{fffd}.".to_owned());
        }
        Ok(Page { text: text.into_owned(), notes: notes.join(" "), is_full: self.text.len() > self.most })
    }
}

/// Cuts `text` to at most `most` bytes at the end of a line. Returns true if a single line had to be cut.
fn whole_lines(text: &[u8], most: usize) -> (&[u8], bool) {
    if text.len() <= most {
        return (text, false);
    }
    let text = &text[..most];
    match text.iter().rposition(|byte| *byte == b'\n') {
        Some(end) => (&text[..=end], false),
        None => {
            // Do not cut within a character.
            let broken = text.utf8_chunks().last().map_or(0, |chunk| chunk.invalid().len());
            (&text[..text.len() - broken], true)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::testing::Host;

    /// Returns a workspace with one file `f`.
    fn one(text: impl AsRef<[u8]>) -> Host {
        Host::new().with_file("f", text)
    }

    /// Returns the pieces of the answer, or kind and message of the failure.
    fn pages(host: &Host, first: Option<u64>, lines: Option<u64>) -> Result<Vec<String>, (String, String)> {
        let answer = host.run(|| patchbay_sdk::rt::run("{}", |_: serde_json::Value| read("f", first, lines, false)));
        let text = |content| match content {
            Content::Text(text) => text,
            other => panic!("text, not {other:?}"),
        };
        match answer {
            Ok(contents) => Ok(contents.into_iter().map(text).collect()),
            Err(failure) => Err((failure.kind, failure.message)),
        }
    }

    fn refused(host: &Host, first: Option<u64>, lines: Option<u64>) -> (String, String) {
        pages(host, first, lines).expect_err("a refusal")
    }

    #[test]
    fn short_file_is_returned_unchanged() {
        for text in ["a\nb\n", "a\nb", "\n", "\u{e9}\r\n\tx", "[Lines 1 to 2 of 3.]\n"] {
            assert_eq!(pages(&one(text), None, None), Ok(vec![text.to_owned()]));
        }
        assert_eq!(pages(&one(""), None, None), Ok(vec!["[The file 'f' is empty.]".to_owned()]));
    }

    #[test]
    fn range_says_which_lines_it_has_and_how_to_continue() {
        let file = one("a\nb\nc\nd");
        let page = |first, lines| pages(&file, Some(first), Some(lines)).expect("a page");
        assert_eq!(page(2, 2), ["b\nc\n", "[Lines 2 to 3 of 4. To go on: read with first 4.]"]);
        assert_eq!(page(1, 1), ["a\n", "[Line 1 of 4. To go on: read with first 2.]"]);
        assert_eq!(page(4, 9), ["d", "[Line 4 of 4.]"]);
        assert_eq!(page(3, 2), ["c\nd", "[Lines 3 to 4 of 4.]"]);
        assert_eq!(page(1, 4), ["a\nb\nc\nd"]);
        // A line feed at the end does not begin another line.
        assert_eq!(pages(&one("a\nb\n"), Some(2), None), Ok(vec!["b\n".into(), "[Line 2 of 2.]".into()]));
    }

    /// Returns the texts of an answer.
    fn texts(host: &Host, run: impl FnOnce() -> Result<Reply>) -> Vec<String> {
        let mut run = Some(run);
        let answer = host.run(|| patchbay_sdk::rt::run("{}", |_: serde_json::Value| (run.take().expect("once"))()));
        let text = |content| match content {
            Content::Text(text) => text,
            other => panic!("text, not {other:?}"),
        };
        answer.expect("an answer").into_iter().map(text).collect()
    }

    #[test]
    fn numbers_stand_before_the_lines() {
        for most in 1..=6 {
            let file = one("a\n\nc").with_max_read(most);
            assert_eq!(texts(&file, || read("f", None, None, true)), ["1\ta\n2\t\n3\tc"]);
            let page = texts(&file, || read("f", Some(2), Some(1), true));
            assert_eq!(page, ["2\t\n", "[Line 2 of 3. To go on: read with first 3.]"]);
        }
    }

    #[test]
    fn many_files_are_read_at_once() {
        let host =
            Host::new().with_file("a", "1\n").with_file("b", b"\0").with_file("d/c", "2\n3\n").with_file("e", "");
        let paths = ["a", "b", "none", "d/c", "e"].map(str::to_owned);
        let shown = texts(&host, || read_many(&paths, false));
        let binary = "[b] Error: 'b' is a binary file (byte 0 is NUL), and only text can be read";
        let expected =
            ["[a]\n1\n", binary, "[none] Error: simulated not-found", "[d/c]\n2\n3\n", "[e]\n[The file 'e' is empty.]"];
        assert_eq!(shown, expected);
        assert_eq!(texts(&host, || read_many(&paths[3..4], true)), ["[d/c]\n1\t2\n2\t3\n"]);
        let refused = |count: usize| host.run(|| read_many(&vec!["a".to_owned(); count], false).map(drop)).unwrap_err();
        assert_eq!(refused(0).message(), "'paths' must have from 1 to 20 paths; it has 0");
        assert_eq!(refused(21).kind(), "invalid-input");
    }

    #[test]
    fn many_files_share_the_bytes_of_an_answer() {
        let wide = format!("{}\n", "y".repeat(99));
        let host =
            Host::new().with_file("a", "x\n".repeat(5_000)).with_file("b", wide.repeat(1_000)).with_file("c", "z");
        let paths = ["a", "b", "c"].map(str::to_owned);
        let shown = texts(&host, || read_many(&paths, true));
        let bytes: usize = shown.iter().map(String::len).sum();
        assert!(bytes < MAX_BYTES + 500, "{bytes}");
        assert!(shown[0].starts_with("[a] Lines 1 to 2000 of 5000. To go on: read with first 2001.\n1\tx\n2\tx\n"));
        assert!(
            shown[1].contains(" of 1000. To go on: read with first ") && shown[1].ends_with("y\n"),
            "{}",
            &shown[1][..99]
        );
        assert_eq!(shown[2], "[Left out, since 65536 bytes were shown: 'c'. Read them by another call.]");
    }

    #[test]
    fn lines_beyond_the_end_are_reported() {
        let (kind, message) = refused(&one("a\nb\n"), Some(3), None);
        assert_eq!((&*kind, &*message), ("invalid-input", "'f' has 2 lines, so that there is no line 3"));
        let (_, message) = refused(&one("a"), Some(u64::MAX), None);
        assert_eq!(message, "'f' has 1 line, so that there is no line 18446744073709551615");
        let (_, message) = refused(&one(""), Some(2), None);
        assert_eq!(message, "'f' has 0 lines, so that there is no line 2");
        for (first, lines) in [(0, 1), (1, 0), (1, MAX_LINES + 1)] {
            let (kind, message) = refused(&one("a"), Some(first), Some(lines));
            assert_eq!(kind, "invalid-input");
            assert!(message.ends_with(&format!("these are {first} and {lines}")), "{message}");
        }
    }

    #[test]
    fn result_does_not_depend_on_the_size_of_reads() {
        let text = "eins\nzwei \u{1f642}\n\ndrei";
        for most in 1..=text.len() {
            let file = one(text).with_max_read(most);
            assert_eq!(pages(&file, None, None), Ok(vec![text.to_owned()]), "{most}");
            let two = vec!["zwei \u{1f642}\n\n".into(), "[Lines 2 to 3 of 4. To go on: read with first 4.]".into()];
            assert_eq!(pages(&file, Some(2), Some(2)), Ok(two), "{most}");
        }
    }

    #[test]
    fn pages_are_limited_and_continue_to_the_end() {
        let text: String = (1..=5_000).map(|number| format!("{number} {}\n", "x".repeat(number % 100))).collect();
        let file = one(&text);
        let (mut read, mut first, mut count) = (String::new(), 1, 0);
        loop {
            let page = pages(&file, Some(first), None).expect("a page");
            assert!(page[0].len() <= MAX_BYTES && page[0].lines().count() as u64 <= MAX_LINES);
            read += &page[0];
            count += 1;
            let Some((_, next)) = page[1].split_once("read with first ") else { break };
            first = next.trim_end_matches(".]").parse().expect("a number");
        }
        assert_eq!(read, text);
        assert!(count > 2, "{count} pages");
    }

    #[test]
    fn long_line_is_cut_between_characters() {
        for ahead in ["", "a", "ab", "abc"] {
            let long = format!("{ahead}{}\nend", "\u{1f642}".repeat(MAX_BYTES));
            let page = pages(&one(&long), None, None).expect("a page");
            assert!(page[0].len() > MAX_BYTES - 4 && page[0].len() <= MAX_BYTES);
            assert!(long.starts_with(&page[0]));
            let note = "[Line 1 is longer than 65536 bytes and was cut. Line 1 of 2. To go on: read with first 2.]";
            assert_eq!(page[1], note);
        }
        let after = format!("short\n{}", "x".repeat(2 * MAX_BYTES));
        let page = pages(&one(after), None, None).expect("a page");
        assert_eq!(page, ["short\n", "[Line 1 of 2. To go on: read with first 2.]"]);
    }

    #[test]
    fn scan_of_a_file_is_limited() {
        let huge = one("x\n".repeat(MAX_SCAN as usize / 2 + 9));
        let page = pages(&huge, Some(1), Some(1)).expect("a page");
        assert_eq!(page, ["x\n", "[Line 1 of at least 33554432. To go on: read with first 2.]"]);
        let (kind, message) = refused(&huge, Some(MAX_SCAN), None);
        assert_eq!(kind, "too-large");
        assert_eq!(message, "only the first 67108864 bytes of 'f' can be read, which are 33554432 lines, not 67108864");
    }

    #[test]
    fn binary_files_are_reported() {
        let (kind, message) = refused(&one(b"\x89PNG\r\n\x1a\n\0\0"), None, None);
        assert_eq!(kind, "not-text");
        assert_eq!(message, "'f' is a binary file (byte 8 is NUL), and only text can be read");
        let page = pages(&one(b"caf\xe9\n"), None, None);
        let note = "[Bytes that are not UTF-8 are shown as \u{fffd}.]";
        assert_eq!(page, Ok(vec!["caf\u{fffd}\n".to_owned(), note.to_owned()]));
        assert_eq!(refused(&Host::new(), None, None), ("not-found".into(), "simulated not-found".into()));
    }
}
