//! Puts the results of single files together in the order of their paths, and cuts them at the first limit.

use crate::{
    error::FileError,
    limits,
    search::{
        FileMatches, MatchedLine, SearchBounds, SearchPosition, SearchStop, SkippedFiles, TextQuery, TextResults,
        file::SearchedFile,
    },
};

/// Bytes that are counted for a file in addition to its path and its lines.
const FILE_OVERHEAD: usize = 64;

/// The result of a text search under construction.
pub(super) struct MergedResults<'a> {
    query: &'a TextQuery,
    max_bytes: usize,
    /// Number of matching lines.
    matches: u32,
    /// Size of the result so far, in bytes.
    bytes: usize,
    /// The last file that is complete.
    last: Option<String>,
    results: TextResults,
}

impl<'a> MergedResults<'a> {
    pub(super) fn new(query: &'a TextQuery, bounds: &SearchBounds) -> Self {
        let max_bytes = bounds.bytes.min(limits::SEARCH_RESULT_BYTES);
        Self { query, max_bytes, matches: 0, bytes: 0, last: None, results: TextResults::default() }
    }

    /// Adds the next file. Returns a reason if the search ends here, with this file left out or cut.
    pub(super) fn add(&mut self, path: String, file: SearchedFile) -> Option<SearchStop> {
        match file {
            SearchedFile::Gone => {}
            SearchedFile::Skipped(reason) => self.skip(reason, &path),
            SearchedFile::Searched { lines, size } => {
                let bytes = self.results.bytes.saturating_add(size);
                if bytes > limits::SCANNED_BYTES && self.last.is_some() {
                    return Some(SearchStop::Scanned);
                }
                if let Some(stop) = self.add_lines(&path, lines) {
                    return Some(stop);
                }
                self.results.bytes = bytes;
                self.results.searched += 1;
            }
        }
        self.last = Some(path);
        None
    }

    /// Returns the result. `stop` is why the threads were stopped, and `walked` how the walk ended.
    pub(super) fn finish(
        self,
        stop: Option<SearchStop>,
        walked: Result<(), FileError>,
    ) -> Result<TextResults, FileError> {
        let Self { query, last, mut results, .. } = self;
        let stop = match (stop, walked) {
            (Some(stop), _) => stop,
            (None, Ok(())) => return Ok(results),
            (None, Err(error)) if last.is_none() => return Err(error),
            (None, Err(_)) => SearchStop::Files,
        };
        let cut = results.next.take();
        let next = cut.or(last.map(|path| SearchPosition { path, line: None }));
        if next.is_none() && stop == SearchStop::Time {
            return Err(FileError::OutOfTime);
        }
        results.next = next.or_else(|| query.after.clone());
        results.stopped = Some(stop);
        Ok(results)
    }

    fn skip(&mut self, reason: &'static str, path: &str) {
        let skipped = &mut self.results.skipped;
        let place = match skipped.binary_search_by(|skipped| skipped.reason.cmp(reason)) {
            Ok(place) => place,
            Err(place) => {
                skipped.insert(place, SkippedFiles { reason, count: 0, paths: Vec::new() });
                place
            }
        };
        let skipped = &mut skipped[place];
        skipped.count += 1;
        if skipped.paths.len() < limits::SKIPPED_PATHS {
            skipped.paths.push(path.to_owned());
        }
    }

    /// Adds the lines of a file until the result reaches a limit.
    fn add_lines(&mut self, path: &str, lines: Vec<MatchedLine>) -> Option<SearchStop> {
        let context = u64::from(self.query.context);
        let mut file = FileMatches { path: path.to_owned(), lines: Vec::new() };
        let mut last_match = None;
        // Context lines before the next match, which are only returned together with it.
        let mut before: Vec<MatchedLine> = Vec::new();
        let mut stop = None;
        for line in lines {
            if line.matched.is_none() {
                match last_match {
                    Some(number) if line.number <= number + context => {
                        self.bytes += line.cost();
                        file.lines.push(line);
                    }
                    _ => before.push(line),
                }
                continue;
            }
            before.retain(|earlier| earlier.number + context >= line.number);
            let of_file = if file.lines.is_empty() { path.len() + FILE_OVERHEAD } else { 0 };
            let cost = before.iter().map(MatchedLine::cost).sum::<usize>() + line.cost() + of_file;
            if self.matches == self.query.max_lines {
                stop = Some(SearchStop::Lines);
            } else if self.matches > 0 && self.bytes + cost > self.max_bytes {
                stop = Some(SearchStop::Bytes);
            }
            if stop.is_some() {
                break;
            }
            self.matches += 1;
            self.bytes += cost;
            last_match = Some(line.number);
            file.lines.append(&mut before);
            file.lines.push(line);
        }
        if let Some(last) = file.lines.last() {
            if stop.is_some() {
                self.results.next = Some(SearchPosition { path: path.to_owned(), line: Some(last.number) });
            }
            self.results.files.push(file);
        }
        stop
    }
}
