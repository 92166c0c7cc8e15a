//! Matches the lines of one file.

use std::{
    io::{self, Read, Take},
    ops::Range,
    sync::Arc,
};

use cap_std::fs::{Dir, File, Metadata};
use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use crate::{
    SearchHalt, Workspace,
    error::FileError,
    handle, limits,
    path::RelPath,
    read, resolve,
    search::{EditorTexts, MatchedLine, TextQuery},
    work::WorkBudget,
};

/// A file to search, in a directory that is open.
pub(super) struct SearchFile {
    pub(super) path: String,
    pub(super) name: String,
    pub(super) is_link: bool,
}

#[derive(Debug)]
pub(super) enum SearchedFile {
    Searched {
        /// All matching lines with their context, or at least enough to exceed a limit of the result.
        lines: Vec<MatchedLine>,
        /// Number of bytes that were read: the size of the file, unless a limit ended its search.
        size: u64,
    },
    /// The file was not searched. The string is a reason that the WIT contract lists, such as `binary`.
    Skipped(&'static str),
    /// The file was removed, or became something that a walk does not list.
    Gone,
}

/// Searches files one after another, and reuses its buffers. Each thread has its own searcher.
pub(super) struct FileSearcher<'a> {
    workspace: &'a Workspace,
    query: &'a TextQuery,
    texts: &'a EditorTexts,
    halt: &'a SearchHalt,
    /// Each thread has a clone, with its own caches: a shared matcher would make threads wait.
    matcher: RegexMatcher,
    searcher: Searcher,
    probe: Vec<u8>,
}

impl<'a> FileSearcher<'a> {
    pub(super) fn new(
        workspace: &'a Workspace,
        query: &'a TextQuery,
        texts: &'a EditorTexts,
        halt: &'a SearchHalt,
        matcher: &RegexMatcher,
    ) -> Self {
        let context = usize::try_from(query.context).unwrap_or_default();
        let searcher = SearcherBuilder::new()
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::none())
            .bom_sniffing(false)
            .build();
        let probe = vec![0; limits::BINARY_PROBE];
        Self { workspace, query, texts, halt, matcher: matcher.clone(), searcher, probe }
    }

    /// Searches one file of `dir`.
    pub(super) fn search(&mut self, dir: &Arc<Dir>, file: &SearchFile) -> SearchedFile {
        match self.texts.get(&file.path) {
            Some(Some(text)) => {
                return self.search_bytes(file, text, None).unwrap_or(SearchedFile::Skipped("unreadable"));
            }
            Some(None) => return SearchedFile::Skipped("unreadable"),
            None => {}
        }
        let (opened, metadata) = match self.open(dir, file) {
            Ok(Some(opened)) => opened,
            Ok(None) => return SearchedFile::Gone,
            Err(FileError::NotFound { .. }) => return SearchedFile::Gone,
            Err(_) => return SearchedFile::Skipped("unreadable"),
        };
        if metadata.len() > limits::SEARCHED_FILE_BYTES {
            return SearchedFile::Skipped("too-large");
        }
        let mut opened = opened.take(limits::SEARCHED_FILE_BYTES);
        let mut probe = std::mem::take(&mut self.probe);
        let searched = fill(&mut opened, &mut probe).and_then(|length| {
            // A probe that is not full contains the whole file.
            let rest = (length == probe.len()).then_some(opened);
            self.search_bytes(file, &probe[..length], rest)
        });
        self.probe = probe;
        searched.unwrap_or(SearchedFile::Skipped("unreadable"))
    }

    /// Opens a file. `None` if a walk would not list it.
    fn open(&self, dir: &Arc<Dir>, file: &SearchFile) -> Result<Option<(File, Metadata)>, FileError> {
        if file.is_link {
            let path = RelPath::parse(&file.path)?;
            let found = resolve::follow(self.workspace, path, &mut WorkBudget::default())?;
            return read::open_resolved(self.workspace, &found, path).map(Some);
        }
        let opened = handle::open(dir, &file.name, handle::OpenFor::Reading).map_err(FileError::io(&file.path))?;
        let is_listed = opened.1.is_file() && !self.workspace.rules.identities.include(&opened.1);
        Ok(is_listed.then_some(opened))
    }

    /// Searches `head` and, if the file is longer, `rest`.
    fn search_bytes(&mut self, file: &SearchFile, head: &[u8], rest: Option<Take<File>>) -> io::Result<SearchedFile> {
        if head[..head.len().min(limits::BINARY_PROBE)].contains(&0) {
            return Ok(SearchedFile::Skipped("binary"));
        }
        let mut size = 0;
        let bytes = FileBytes { head, rest, size: &mut size, halt: self.halt };
        let mut sink = LineSink::new(self.query, &self.matcher, &file.path);
        self.searcher.search_reader(&self.matcher, bytes, &mut sink)?;
        let lines = sink.lines;
        Ok(SearchedFile::Searched { lines, size })
    }
}

/// Reads until `buffer` is full or the file ends. Returns the number of bytes.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// The bytes of a file, which end with an error when the search is halted.
struct FileBytes<'a> {
    head: &'a [u8],
    rest: Option<Take<File>>,
    /// Number of bytes read from the file so far.
    size: &'a mut u64,
    halt: &'a SearchHalt,
}

impl Read for FileBytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.halt.is_halted() {
            return Err(io::Error::other("the search was halted"));
        }
        let read = match &mut self.rest {
            _ if !self.head.is_empty() => self.head.read(buffer)?,
            Some(rest) => rest.read(buffer)?,
            None => 0,
        };
        *self.size += read as u64;
        Ok(read)
    }
}

/// Collects the lines of one file.
struct LineSink<'a> {
    matcher: &'a RegexMatcher,
    /// Lines up to this number are not collected: an earlier search returned them.
    from: u64,
    max_line_bytes: usize,
    /// How many more matching lines to collect. Starts one above the limit of the result, to detect a cut.
    left: u32,
    /// Remaining bytes of lines. Starts at twice the limit of a result, because the result may leave out context lines.
    left_bytes: usize,
    lines: Vec<MatchedLine>,
}

impl<'a> LineSink<'a> {
    fn new(query: &TextQuery, matcher: &'a RegexMatcher, path: &str) -> Self {
        let after = query.after.as_ref().filter(|after| after.path == path);
        Self {
            matcher,
            from: after.and_then(|after| after.line).unwrap_or_default(),
            max_line_bytes: usize::try_from(query.max_line_bytes).unwrap_or_default(),
            left: query.max_lines.saturating_add(1),
            left_bytes: 2 * limits::SEARCH_RESULT_BYTES,
            lines: Vec::new(),
        }
    }

    /// Adds a line unless an earlier search returned it. Returns whether it was added.
    fn add(&mut self, number: Option<u64>, line: &[u8], matched: Option<Range<usize>>) -> bool {
        let number = number.unwrap_or_default();
        if number <= self.from {
            return false;
        }
        let line = MatchedLine::new(number, line, matched, self.max_line_bytes);
        self.left_bytes = self.left_bytes.saturating_sub(line.cost());
        self.lines.push(line);
        true
    }
}

impl Sink for LineSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let line = without_end(found.bytes());
        let matched = self.matcher.find(line).ok().flatten();
        // Nothing is found if the pattern matches only with the `\r` that `without_end` removed.
        let matched = matched.map_or(line.len()..line.len(), |matched| matched.start()..matched.end());
        if self.add(found.line_number(), line, Some(matched)) {
            self.left -= 1;
        }
        // The search must end at a matching line: `MergedResults` checks its limits only when it receives one.
        Ok(self.left > 0 && self.left_bytes > 0)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        self.add(context.line_number(), without_end(context.bytes()), None);
        Ok(true)
    }
}

/// Returns a line without its newline, and without a `\r` before it.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
