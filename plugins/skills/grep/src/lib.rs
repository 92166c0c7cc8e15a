//! The skill `grep`: searches the files of the workspace with regular expressions.
//!
//! The host walks and matches, in one call and in parallel, within its own limits. The steps of a search:
//!
//! 1. `line` parses the line of the user.
//! 2. `search` passes the query to the host.
//! 3. `page` prints the lines with notes about files and lines that were left out.
//!
//! Not supported: replacing (see `edit` of the skill `files`), matches over several lines, files that .gitignore hides.
#![deny(missing_docs)]

mod line;
mod page;
mod search;

use patchbay_sdk::{Result, skill};
use schemars::JsonSchema;
use serde::Deserialize;

use search::Query;

/// The input of [`search`].
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Regular expression of at most 4096 bytes, such as `fn \w+\(`, without look-around or back-references. Matches
    /// within one line.
    pattern: String,
    /// Such as `*.rs` (in any folder), `src/**/*.rs`, `src` (everything below it), or `!target` (all but these). Default: all.
    #[serde(default)]
    glob: Option<String>,
    /// Ignore case.
    #[serde(default)]
    ignore_case: bool,
    /// Lines to show around each match.
    #[serde(default)]
    #[schemars(range(max = 20))]
    context: usize,
    /// Treat the pattern as plain text.
    #[serde(default)]
    fixed: bool,
    /// Matching lines to show. Default 100.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    max: Option<usize>,
    /// Continue after this path, where the last search stopped.
    #[serde(default)]
    after: Option<String>,
}

/// The input of [`run`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// `[-i] [-F] [-C N] PATTERN [GLOB]`; arguments with spaces must be in quotes.
    line: String,
}

skill! {
    /// Searches the workspace's files for a regular expression. Returns matches as `path:line:text`, sorted by path, context
    /// as `path-line-text`. Skips binary files, files over 8 MiB and what .gitignore hides. Notes in brackets say what was not
    /// searched or not shown.
    #[extra("read-only" = "true", "kind" = "search")]
    fn search(input: Search) -> Result<String> {
        search::run(&Query::of_tool(&input)?)
    }

    /// The same for a line that a user typed. Models use `search`.
    #[extra("read-only" = "true", "kind" = "search", "deferred" = "true")]
    fn run(input: Line) -> Result<String> {
        search::run(&Query::of_person(&line::read(&input.line)?)?)
    }
}

#[cfg(test)]
mod tests;
