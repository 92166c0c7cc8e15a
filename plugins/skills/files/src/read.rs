//! The tools `read` and `read_many`: a range of lines of one file, and several files in one call.

use std::{borrow::Cow, ops::ControlFlow};

use patchbay_sdk::{Content, Failure, Reply, Result};

use crate::{
    contents::ranges,
    words::{count, shown},
};

/// Maximum number of lines of one answer: more than most files have.
pub(crate) const MAX_LINES: u64 = 2_000;
/// Maximum number of bytes of one answer: about 16,000 tokens.
pub(crate) const MAX_BYTES: usize = 64 << 10;
/// Maximum number of bytes that are read to find a page. Each costs about four instructions, since earlier lines are only counted.
pub(crate) const MAX_SCAN: u64 = 64 << 20;
/// Maximum number of bytes that are read to count the lines after a page. One answer has this limit, even with several files.
pub(crate) const MAX_COUNT: u64 = 8 << 20;

/// Maximum number of files of one `read_many`.
pub(crate) const MAX_FILES: usize = 20;

/// The requested part of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineRange {
    pub(crate) first: u64,
    /// The byte of the first line to begin with, from 0. If it is within a character, the whole character is shown.
    pub(crate) offset: u64,
    pub(crate) lines: u64,
}

impl Default for LineRange {
    /// The first page of a file.
    fn default() -> Self {
        Self { first: 1, offset: 0, lines: MAX_LINES }
    }
}

pub(crate) fn read(path: &str, range: LineRange, numbers: bool) -> Result<Reply> {
    let LineRange { first, lines, .. } = range;
    if first == 0 || lines == 0 || lines > MAX_LINES {
        return Err(Failure::invalid(format!(
            "'first' must be at least 1, and 'lines' must be from 1 to {MAX_LINES}; these are {first} and {lines}"
        )));
    }
    let mut window = Window::new(range, MAX_BYTES, MAX_COUNT, numbers);
    ranges(path, |bytes| window.take(bytes))?;
    let page = window.page(path)?;
    let reply = Reply::from(page.text);
    Ok(if page.notes.is_empty() { reply } else { reply.with(Content::Text(format!("[{}]", page.notes))) })
}

/// Returns the files one after another, each below a line with its path. A file that cannot be read shows its error instead.
pub(crate) fn read_many(paths: &[String], numbers: bool) -> Result<Reply> {
    if paths.is_empty() || paths.len() > MAX_FILES {
        let count = paths.len();
        return Err(Failure::invalid(format!("'paths' must contain 1 to {MAX_FILES} paths, not {count}")));
    }
    let mut reply = Reply::new();
    let (mut room, mut count) = (MAX_BYTES, MAX_COUNT);
    for (index, path) in paths.iter().enumerate() {
        if room == 0 {
            let left: Vec<String> = paths[index..].iter().map(|path| format!("'{}'", shown(path))).collect();
            let note = format!(
                "[Left out, because {MAX_BYTES} bytes were shown: {}. Read them with another call.]",
                left.join(", ")
            );
            return Ok(reply.with(Content::Text(note)));
        }
        let mut window = Window::new(LineRange::default(), room, count, numbers);
        let read = ranges(path, |bytes| window.take(bytes));
        count = count.saturating_sub(window.bytes);
        let page = read.and_then(|()| window.page(path));
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

/// Lines of a file, and the notes about them.
struct Page {
    text: String,
    notes: String,
    /// Whether the page is full.
    is_full: bool,
}

/// Collects the requested lines from a file that is read in ranges.
struct Window {
    range: LineRange,
    /// Maximum number of bytes of the answer.
    most: usize,
    /// How far into the file lines are still counted once the page is complete, in bytes.
    count: u64,
    /// Whether each line begins with its number and a tab.
    numbers: bool,
    /// Number of complete lines so far.
    ended: u64,
    bytes: u64,
    /// Bytes of the first requested line so far, with its newline.
    first_bytes: u64,
    /// True if the last byte so far was a newline.
    at_start: bool,
    /// True if reading stopped at a limit, which may be before the end of the file.
    stopped: bool,
    /// At most [`BEFORE`] bytes of the first requested line that end at the offset.
    before: Vec<u8>,
    /// The requested lines, at most one byte more than `most`. The number of the first line is not included.
    text: Vec<u8>,
}

/// Bytes before the offset that show whether it is within a character.
const BEFORE: u64 = 3;
/// Bytes whose newlines are counted together.
const BLOCK: usize = 256;

impl Window {
    fn new(range: LineRange, most: usize, count: u64, numbers: bool) -> Self {
        Self {
            range,
            most,
            count,
            numbers,
            ended: 0,
            bytes: 0,
            first_bytes: 0,
            at_start: true,
            stopped: false,
            before: Vec::new(),
            text: Vec::new(),
        }
    }

    /// Appends as much of `bytes` as there is room for.
    fn append(&mut self, bytes: &[u8]) {
        let room = self.most + 1 - self.text.len();
        self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Appends a piece of the first requested line, from the offset on.
    fn append_of_first(&mut self, piece: &[u8]) {
        let offset = self.range.offset;
        let split = |at: u64| {
            let at = usize::try_from(at.saturating_sub(self.first_bytes)).unwrap_or(usize::MAX);
            piece.split_at(at.min(piece.len()))
        };
        let (ahead, text) = split(offset);
        let (skipped, _) = split(offset.saturating_sub(BEFORE));
        self.before.extend_from_slice(&ahead[skipped.len()..]);
        self.append(text);
        self.first_bytes += piece.len() as u64;
    }

    /// Returns true if nothing more of the file can be in the page: the page is full, or a line after it has begun.
    fn is_complete(&self) -> bool {
        let ended = self.ended.checked_sub(self.range.first - 1);
        let is_over = |line| line > self.range.lines || (line == self.range.lines && !self.at_start);
        self.text.len() > self.most || ended.is_some_and(is_over)
    }

    fn take(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            // The number of complete lines before this one, from the first requested line on.
            let line = self.ended.checked_sub(self.range.first - 1);
            let is_complete = self.is_complete();
            // Lines outside the page are counted together.
            let lines = match line {
                None => self.range.first - 1 - self.ended,
                Some(_) if is_complete => u64::MAX,
                Some(_) => 1,
            };
            let (piece, ended, after) = split_lines(rest, lines);
            match line {
                _ if is_complete => {}
                Some(0) => self.append_of_first(piece),
                Some(line) if line < self.range.lines => {
                    if self.numbers && self.at_start {
                        self.append(format!("{}\t", self.ended + 1).as_bytes());
                    }
                    self.append(piece);
                }
                _ => {}
            }
            self.at_start = piece.ends_with(b"\n");
            self.ended += ended;
            rest = after;
        }
        self.bytes += bytes.len() as u64;
        let most = if self.is_complete() { self.count } else { MAX_SCAN };
        self.stopped = self.bytes >= most.min(MAX_SCAN);
        if self.stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn page(self, path: &str) -> Result<Page> {
        let LineRange { first, offset, .. } = self.range;
        let total = self.ended + u64::from(!self.at_start);
        let at_least = if self.stopped { "at least " } else { "" };
        if total == 0 && first == 1 && offset == 0 {
            let text = format!("[The file '{}' is empty.]", shown(path));
            return Ok(Page { text, notes: String::new(), is_full: false });
        }
        if first > total {
            let path = shown(path);
            return Err(match self.stopped {
                true => Failure::new(
                    "too-large",
                    format!(
                        "only the first {MAX_SCAN} bytes of '{path}' can be read, which are {total} lines, not {first}"
                    ),
                ),
                false => Failure::invalid(format!(
                    "'{path}' has {}, so line {first} does not exist",
                    count(total as usize, "line")
                )),
            });
        }
        if offset > 0 && offset >= self.first_bytes {
            let (path, bytes) = (shown(path), self.first_bytes);
            // The line ends after the part that was read.
            let is_open = self.stopped && self.ended < first;
            return Err(match is_open {
                true => Failure::new(
                    "too-large",
                    format!(
                        "only the first {MAX_SCAN} bytes of '{path}' can be read, which are {bytes} bytes of line \
                         {first}, not {offset}"
                    ),
                ),
                false => Failure::invalid(format!(
                    "line {first} of '{path}' has {}, so 'offset' cannot be {offset}",
                    count(bytes as usize, "byte")
                )),
            });
        }
        let number = if self.numbers { format!("{first}\t").into_bytes() } else { Vec::new() };
        let moved = begun(&self.before, &self.text);
        let begin = offset - moved.len() as u64;
        let all = [&number[..], moved, &self.text[..]].concat();
        let (text, cut) = whole_lines(&all, self.most);
        let ended = text.iter().filter(|byte| **byte == b'\n').count() as u64;
        let last = first + ended - u64::from(text.ends_with(b"\n"));
        let mut notes = Vec::new();
        if cut {
            notes.push(format!("Line {last} is longer than {} bytes and was cut.", self.most));
        }
        if first > 1 || begin > 0 || last < total || self.stopped {
            let from = if begin > 0 { format!(", from offset {begin}") } else { String::new() };
            notes.push(match last == first {
                true => format!("Line {last} of {at_least}{total}{from}."),
                false => format!("Lines {first} to {last} of {at_least}{total}{from}."),
            });
        }
        if cut {
            let next = begin + text.len().saturating_sub(number.len()) as u64;
            notes.push(format!("To continue this line: read with first {last} and offset {next}."));
        }
        if last < total {
            notes.push(format!("To continue: read with first {}.", last + 1));
        }
        let text = String::from_utf8_lossy(text);
        if matches!(text, Cow::Owned(_)) {
            notes.push("Bytes that are not UTF-8 are shown as \u{fffd}.".to_owned());
        }
        Ok(Page { text: text.into_owned(), notes: notes.join(" "), is_full: all.len() > self.most })
    }
}

/// Splits `bytes` after `lines` newlines, at least one, or at their end if there are fewer. Returns the first part, its number of
/// newlines, and the rest.
fn split_lines(bytes: &[u8], lines: u64) -> (&[u8], u64, &[u8]) {
    let mut count = 0;
    for (index, block) in bytes.chunks(BLOCK).enumerate() {
        let ended = feeds(block);
        if ended >= lines - count {
            let mut left = lines - count;
            let last = block.iter().position(|byte| {
                left -= u64::from(*byte == b'\n');
                left == 0
            });
            let (piece, rest) = bytes.split_at(index * BLOCK + last.map_or(block.len(), |last| last + 1));
            return (piece, lines, rest);
        }
        count += ended;
    }
    (bytes, count, &[])
}

/// Counts the newlines, eight bytes at a time: without vector instructions, counting byte by byte takes several times as long.
fn feeds(bytes: &[u8]) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([0x7f; 8]);
    let (words, rest) = bytes.as_chunks::<8>();
    let in_word = |word: &[u8; 8]| {
        let other = u64::from_ne_bytes(*word) ^ u64::from_ne_bytes([b'\n'; 8]);
        // The highest bit of a byte is set unless the byte is a newline; the addition carries into no other byte.
        let marks = ((other & LOW) + LOW) | other;
        u64::from((marks | LOW).count_zeros())
    };
    words.iter().map(in_word).sum::<u64>() + rest.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Returns the end of `before` that belongs to a character which continues in `after`; empty if a character begins there.
fn begun<'a>(before: &'a [u8], after: &[u8]) -> &'a [u8] {
    for at in (0..before.len()).rev() {
        let start = &before[at..];
        // Only a complete character counts: other bytes are not UTF-8, and stay where they are.
        let whole: Vec<u8> = start.iter().chain(after).take(4).copied().collect();
        let character = whole.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
        if let Some(character) = character {
            return if character.len_utf8() > start.len() { start } else { &[] };
        }
    }
    &[]
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

    fn range(first: Option<u64>, lines: Option<u64>) -> LineRange {
        LineRange { first: first.unwrap_or(1), offset: 0, lines: lines.unwrap_or(MAX_LINES) }
    }

    /// Returns the pieces of the answer, or kind and message of the failure.
    fn pages(host: &Host, first: Option<u64>, lines: Option<u64>) -> Result<Vec<String>, (String, String)> {
        pages_from(host, range(first, lines))
    }

    fn pages_from(host: &Host, range: LineRange) -> Result<Vec<String>, (String, String)> {
        let answer = host.run(|| patchbay_sdk::rt::run("{}", |_: serde_json::Value| read("f", range, false)));
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
        assert_eq!(page(2, 2), ["b\nc\n", "[Lines 2 to 3 of 4. To continue: read with first 4.]"]);
        assert_eq!(page(1, 1), ["a\n", "[Line 1 of 4. To continue: read with first 2.]"]);
        assert_eq!(page(4, 9), ["d", "[Line 4 of 4.]"]);
        assert_eq!(page(3, 2), ["c\nd", "[Lines 3 to 4 of 4.]"]);
        assert_eq!(page(1, 4), ["a\nb\nc\nd"]);
        // A newline at the end does not begin another line.
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
            assert_eq!(texts(&file, || read("f", LineRange::default(), true)), ["1\ta\n2\t\n3\tc"]);
            let page = texts(&file, || read("f", range(Some(2), Some(1)), true));
            assert_eq!(page, ["2\t\n", "[Line 2 of 3. To continue: read with first 3.]"]);
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
        assert_eq!(refused(0).message(), "'paths' must contain 1 to 20 paths, not 0");
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
        assert!(shown[0].starts_with("[a] Lines 1 to 2000 of 5000. To continue: read with first 2001.\n1\tx\n2\tx\n"));
        assert!(
            shown[1].contains(" of 1000. To continue: read with first ") && shown[1].ends_with("y\n"),
            "{}",
            &shown[1][..99]
        );
        assert_eq!(shown[2], "[Left out, because 65536 bytes were shown: 'c'. Read them with another call.]");
    }

    #[test]
    fn lines_beyond_the_end_are_reported() {
        let (kind, message) = refused(&one("a\nb\n"), Some(3), None);
        assert_eq!((&*kind, &*message), ("invalid-input", "'f' has 2 lines, so line 3 does not exist"));
        let (_, message) = refused(&one("a"), Some(u64::MAX), None);
        assert_eq!(message, "'f' has 1 line, so line 18446744073709551615 does not exist");
        let (_, message) = refused(&one(""), Some(2), None);
        assert_eq!(message, "'f' has 0 lines, so line 2 does not exist");
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
            let two = vec!["zwei \u{1f642}\n\n".into(), "[Lines 2 to 3 of 4. To continue: read with first 4.]".into()];
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
            let note = format!(
                "[Line 1 is longer than 65536 bytes and was cut. Line 1 of 2. To continue this line: read with first 1 \
                 and offset {}. To continue: read with first 2.]",
                page[0].len()
            );
            assert_eq!(page[1], note);
        }
        let after = format!("short\n{}", "x".repeat(2 * MAX_BYTES));
        let page = pages(&one(after), None, None).expect("a page");
        assert_eq!(page, ["short\n", "[Line 1 of 2. To continue: read with first 2.]"]);
    }

    #[test]
    fn long_line_is_read_to_its_end() {
        for (ahead, behind) in [("", ""), ("a\n", ""), ("a\n", "\n"), ("", "\r\nend\n")] {
            let text = format!("{ahead}b{}{behind}", "\u{1f642}".repeat(MAX_BYTES / 2));
            let file = one(&text).with_max_read(10_007);
            let first = 1 + ahead.len() as u64 / 2;
            let (mut read, mut offset, mut count) = (String::new(), 0, 0);
            loop {
                let page = pages_from(&file, LineRange { offset, ..range(Some(first), Some(1)) }).expect("a page");
                assert!(page[0].len() <= MAX_BYTES && !page[0].contains('\u{fffd}'));
                read += &page[0];
                count += 1;
                let Some((_, next)) = page[1].split_once(&format!("read with first {first} and offset ")) else {
                    break;
                };
                let (next, _) = next.split_once('.').expect("a number");
                assert_eq!(next, read.len().to_string());
                offset = next.parse().expect("a number");
            }
            assert_eq!(format!("{ahead}{read}"), text.trim_end_matches("end\n"));
            assert_eq!(count, 3);
        }
    }

    #[test]
    fn offset_counts_in_the_first_line_only() {
        let file = one("a\u{1f642}bc\nde\n");
        let page = |first, offset, lines| {
            pages_from(&file, LineRange { first, offset, lines })
                .map_err(|(kind, message)| format!("{kind}: {message}"))
        };
        let found = |text: &str, note: &str| Ok(vec![text.to_owned(), note.to_owned()]);
        assert_eq!(page(1, 6, 9), found("c\nde\n", "[Lines 1 to 2 of 2, from offset 6.]"));
        assert_eq!(page(1, 7, 9), found("\nde\n", "[Lines 1 to 2 of 2, from offset 7.]"));
        assert_eq!(page(1, 5, 1), found("bc\n", "[Line 1 of 2, from offset 5. To continue: read with first 2.]"));
        assert_eq!(page(2, 1, 1), found("e\n", "[Line 2 of 2, from offset 1.]"));
        // The offset is within a character.
        for offset in 2..=4 {
            assert_eq!(page(1, offset, 9), found("\u{1f642}bc\nde\n", "[Lines 1 to 2 of 2, from offset 1.]"));
        }
        let error = |text: &str| Err(text.to_owned());
        assert_eq!(page(1, 8, 1), error("invalid-input: line 1 of 'f' has 8 bytes, so 'offset' cannot be 8"));
        assert_eq!(page(3, 1, 1), error("invalid-input: 'f' has 2 lines, so line 3 does not exist"));
        let numbered = texts(&file, || read("f", LineRange { first: 1, offset: 3, lines: 2 }, true));
        assert_eq!(numbered, ["1\t\u{1f642}bc\n2\tde\n", "[Lines 1 to 2 of 2, from offset 1.]"]);
        // Bytes that are not UTF-8 are not skipped.
        let bytes = pages_from(&one(b"a\x80\x80\x80\xf0"), LineRange { offset: 2, ..LineRange::default() });
        assert_eq!(bytes.expect("a page")[0], "\u{fffd}".repeat(3));
    }

    #[test]
    fn scan_of_a_file_is_limited() {
        let huge = one("x\n".repeat(MAX_SCAN as usize / 2 + 9));
        let last = pages(&huge, Some(30_000_000), Some(1)).expect("a page");
        assert_eq!(last, ["x\n", "[Line 30000000 of at least 30408704. To continue: read with first 30000001.]"]);
        let (kind, message) = refused(&huge, Some(MAX_SCAN), None);
        assert_eq!(kind, "too-large");
        assert_eq!(message, "only the first 67108864 bytes of 'f' can be read, which are 33554432 lines, not 67108864");
        let line = one(vec![b'x'; MAX_SCAN as usize + 9]);
        let (kind, message) =
            pages_from(&line, LineRange { offset: MAX_SCAN, ..LineRange::default() }).expect_err("a refusal");
        assert_eq!(kind, "too-large");
        assert_eq!(
            message,
            "only the first 67108864 bytes of 'f' can be read, which are 67108864 bytes of line 1, not 67108864"
        );
    }

    /// The total number of lines is not worth reading a large file.
    #[test]
    fn reading_stops_soon_after_a_complete_page() {
        let reads = |host: &Host| host.calls().len();
        let large = one("x\n".repeat(MAX_COUNT as usize));
        let page = pages(&large, Some(1), Some(1)).expect("a page");
        assert_eq!(page, ["x\n", "[Line 1 of at least 4194304. To continue: read with first 2.]"]);
        assert_eq!(reads(&large), 8);
        let line = one("y".repeat(2 * MAX_COUNT as usize));
        let page = pages(&line, None, None).expect("a page");
        assert!(
            page[1].contains("was cut. Line 1 of at least 1. To continue this line: read with first 1"),
            "{}",
            page[1]
        );
        assert_eq!(reads(&line), 8);
        // Lines are counted up to the limit in all files together.
        let host = ["a", "b", "c"].iter().fold(Host::new(), |host, path| host.with_file(path, "x\n".repeat(6 << 20)));
        let shown = texts(&host, || read_many(&["a", "b", "c"].map(str::to_owned), false));
        for (text, least) in shown.iter().zip([4_194_304, 524_288, 524_288]) {
            assert!(text.contains(&format!("Lines 1 to 2000 of at least {least}. To continue")), "{}", &text[..99]);
        }
        assert_eq!(reads(&host), 8 + 1 + 1);
    }

    #[test]
    fn lines_are_counted_as_one_by_one() {
        let bytes: Vec<u8> =
            (0..2_000_u32).map(|n| [b'\n', 0x8a, b'\n' + 1, 0, b'x'][(n * n / 7 % 5) as usize]).collect();
        for start in [0, 1, 7, 250] {
            let bytes = &bytes[start..];
            for lines in [1, 2, 60, 61, 400, 10_000] {
                let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
                let ends: Vec<usize> = ends.take(lines).collect();
                let end = if ends.len() == lines { ends[lines - 1] } else { bytes.len() };
                let (piece, count, rest) = split_lines(bytes, lines as u64);
                assert_eq!((piece, count, rest), (&bytes[..end], ends.len() as u64, &bytes[end..]), "{start} {lines}");
            }
        }
        assert_eq!(split_lines(b"", 1), (&b""[..], 0, &b""[..]));
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
