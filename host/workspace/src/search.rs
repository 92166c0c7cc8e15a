//! Searches the whole workspace in one call, by text and by name.
//!
//! One thread walks the directories, with the rules of [`Workspace::walk`](crate::Workspace::walk), and passes on batches
//! of files in the order of their paths. Several threads open and match the files. Each file is opened by its name in the
//! directory that the walk has open, never by its path, so a directory that becomes a link in between changes nothing. The
//! calling thread puts the results together in the order of the batches. It stops at the first limit, so the result is
//! complete up to that point and does not depend on the number of threads.
//!
//! - `pattern` compiles the regular expression.
//! - `file` matches one file, `line` cuts a line for the result.
//! - `parallel` runs the threads.
//! - `merged` collects the result of a text search, within its limits.
//! - `named` searches by name, on one thread, because it opens no files.

mod file;
mod line;
mod merged;
mod named;
mod parallel;
mod pattern;

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use crate::{FileEntry, SearchHalt, Workspace, error::FileError, limits, selection::Selection};

pub use line::MatchedLine;

/// A search by text. Numbers out of range are errors.
#[derive(Clone, Debug)]
pub struct TextQuery {
    /// A regular expression, or plain text if `is_fixed`; at most [`limits::PATTERN_BYTES`].
    pub pattern: String,
    /// True if the pattern is plain text.
    pub is_fixed: bool,
    /// True if the case of letters is ignored.
    pub ignores_case: bool,
    /// Globs as in [`Workspace::walk`], at most [`limits::SEARCH_GLOBS`]. A glob that begins with `!` excludes files. Empty
    /// for all files.
    pub globs: Vec<String>,
    /// The search begins after this position; `None` for the beginning.
    pub after: Option<SearchPosition>,
    /// Number of lines before and after each matching line, at most [`limits::SEARCH_CONTEXT`].
    pub context: u32,
    /// The most matching lines, from 1 to [`limits::SEARCH_LINES`].
    pub max_lines: u32,
    /// Maximum number of bytes of each line, from 1 to [`limits::SEARCH_LINE_BYTES`].
    pub max_line_bytes: u32,
}

#[cfg(test)]
impl TextQuery {
    /// A query for a regular expression in all files, with the largest limits.
    pub(crate) fn for_test(pattern: &str) -> Self {
        Self {
            pattern: pattern.to_owned(),
            is_fixed: false,
            ignores_case: false,
            globs: Vec::new(),
            after: None,
            context: 0,
            max_lines: limits::SEARCH_LINES,
            max_line_bytes: limits::SEARCH_LINE_BYTES,
        }
    }
}

/// A position between the results of a text search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPosition {
    /// The path of the file that contains the position.
    pub path: String,
    /// The number of the line before the position; `None` for the end of the file.
    pub line: Option<u64>,
}

/// A search by name. Numbers out of range are errors.
#[derive(Clone, Debug)]
pub struct NameQuery {
    /// Globs that limit the search, as in [`TextQuery`].
    pub globs: Vec<String>,
    /// True if the globs ignore the case of letters.
    pub ignores_case: bool,
    /// True if directories are returned as well.
    pub directories: bool,
    /// The search begins after this path; `None` for the beginning.
    pub after: Option<String>,
    /// The most entries, from 1 to [`limits::SEARCH_ENTRIES`].
    pub max_entries: u32,
}

/// Conditions that end a search, other than the limits of its query.
#[derive(Clone, Debug)]
pub struct SearchBounds {
    /// When the search stops and returns the matches found so far.
    pub until: Instant,
    /// Maximum number of bytes of the result, also limited by [`limits::SEARCH_RESULT_BYTES`]. One matching line with
    /// its context is always returned.
    pub bytes: usize,
    /// Ends the search without a result.
    pub halt: SearchHalt,
}

/// The texts of files in the user's editor, by path. They are searched in place of the files. `None` for a file that the
/// editor could not read.
pub type EditorTexts = BTreeMap<String, Option<Arc<[u8]>>>;

/// Why a search returned before it had seen everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum SearchStop {
    /// There are more matching lines than [`TextQuery::max_lines`].
    Lines,
    /// There are more entries than [`NameQuery::max_entries`].
    Entries,
    /// The result reached its limit of bytes.
    Bytes,
    /// The files that were searched reached [`limits::SCANNED_BYTES`].
    Scanned,
    /// The walk reached one of its limits, or a directory that it cannot list.
    Files,
    /// The time ended. This is the only reason that depends on the machine.
    Time,
}

impl SearchStop {
    /// Returns the name in the WIT contract. Stable.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The result of a text search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextResults {
    /// The files with matching lines, sorted by the bytes of their paths.
    pub files: Vec<FileMatches>,
    /// Number of files that were searched.
    pub searched: u32,
    /// Total size of the files that were searched, in bytes.
    pub bytes: u64,
    /// Files that were not searched, by reason. Only reasons that occurred are listed.
    pub skipped: Vec<SkippedFiles>,
    /// Why the search returned early; `None` if it has seen everything.
    pub stopped: Option<SearchStop>,
    /// Where to continue; `None` if the search has seen everything.
    pub next: Option<SearchPosition>,
}

/// The lines of one file in the result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMatches {
    /// Path of the file relative to the root.
    pub path: String,
    /// Matching lines and their context, sorted by number.
    pub lines: Vec<MatchedLine>,
}

/// Files that a search did not search, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedFiles {
    /// The reason, as in the WIT contract: `binary`, `too-large` or `unreadable`. Stable.
    pub reason: &'static str,
    /// Number of files that were skipped.
    pub count: u32,
    /// Paths of the first skipped files, at most [`limits::SKIPPED_PATHS`].
    pub paths: Vec<String>,
}

/// The result of a search by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameResults {
    /// The entries, sorted by the bytes of their paths.
    pub entries: Vec<FileEntry>,
    /// Why the search returned early; `None` if it has seen everything.
    pub stopped: Option<SearchStop>,
    /// The path after which to continue; `None` if the search has seen everything.
    pub next: Option<String>,
}

/// Implements [`Workspace::search`].
pub(crate) fn search(
    workspace: &Workspace,
    query: &TextQuery,
    texts: &EditorTexts,
    bounds: &SearchBounds,
) -> Result<TextResults, FileError> {
    in_range("context", query.context, 0, limits::SEARCH_CONTEXT)?;
    in_range("max-lines", query.max_lines, 1, limits::SEARCH_LINES)?;
    in_range("max-line-bytes", query.max_line_bytes, 1, limits::SEARCH_LINE_BYTES)?;
    let matcher = pattern::compile(query)?;
    let selection = Selection::parse(&query.globs, false)?;
    parallel::run(workspace, query, &matcher, &selection, texts, bounds)
}

/// Implements [`Workspace::find`].
pub(crate) fn find(workspace: &Workspace, query: &NameQuery, bounds: &SearchBounds) -> Result<NameResults, FileError> {
    in_range("max-entries", query.max_entries, 1, limits::SEARCH_ENTRIES)?;
    named::run(workspace, query, &Selection::parse(&query.globs, query.ignores_case)?, bounds)
}

fn in_range(name: &'static str, value: u32, least: u32, most: u32) -> Result<(), FileError> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(FileError::OutOfRange { name, least, most, value }),
    }
}
