//! The skill `grep`: searches the files of the workspace with regular expressions.
//!
//! Neither pattern nor files are trusted: the pattern is limited before it is compiled, a search takes time linear in
//! the text, and one call reads a limited number of files and bytes. The steps of a search:
//!
//! 1. `line` parses the line of a person.
//! 2. `pattern` compiles the pattern so that a match lies within one line.
//! 3. `search` walks over the files and selects those to search.
//! 4. `matching` finds the matching lines of a file.
//! 5. `page` prints them with notes about files and lines that were left out.
//!
//! `grep-regex` and `grep-searcher` were measured on 2026-11-22 in place of `pattern` and `matching`. The component has
//! 1.46 MB instead of 0.74 MB, because they need all engines of `regex-automata`. They have no limit for Unicode word
//! boundaries next to letters outside ASCII, which `pattern` bounds. So both stay our own, over `regex-automata`.
//!
//! Not supported: replacing (see `edit` of the skill `files`), matches over several lines, files that .gitignore hides.
#![deny(missing_docs)]

mod line;
mod matching;
mod page;
mod pattern;
mod search;

use patchbay_sdk::{Result, skill};
use schemars::JsonSchema;
use serde::Deserialize;

use search::Query;

/// The input of [`search`].
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// A regular expression of at most 4096 bytes, such as `fn \w+\(`. `(?i)` at its beginning ignores case. There are
    /// no look-around and no back-references, and a match lies within one line.
    pattern: String,
    /// Which files, such as `*.rs` (in any folder), `src/**/*.rs` or `src` (all below it). Unless given, all.
    #[serde(default)]
    glob: Option<String>,
    /// Whether upper and lower case count as the same.
    #[serde(default)]
    ignore_case: bool,
    /// How many lines to show before and after each match, at most 20.
    #[serde(default)]
    #[schemars(range(max = 20))]
    context: usize,
    /// Whether the pattern is plain text and no regular expression.
    #[serde(default)]
    fixed: bool,
    /// How many matching lines to show, at most 1000. Unless given, 100.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    max: Option<usize>,
    /// Only files whose paths come after this one: to go on where a search stopped.
    #[serde(default)]
    after: Option<String>,
}

/// The input of [`run`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// `[-i] [-F] [-C N] PATTERN [GLOB]`; what has spaces must be in quotes.
    line: String,
}

skill! {
    /// Searches the files of the workspace for a regular expression and shows the matching lines as `path:line:text`,
    /// sorted by path, context lines as `path-line-text`. Files that .gitignore hides, binary files and files over 8 MiB
    /// are passed over. What was not searched or not shown is said at the end, in brackets.
    #[extra("read-only" = "true", "kind" = "search")]
    fn search(input: Search) -> Result<String> {
        search::run(&Query::of_tool(&input)?)
    }

    /// The same for a line that a person typed. Other programs use `search`.
    #[extra("read-only" = "true", "kind" = "search")]
    fn run(input: Line) -> Result<String> {
        search::run(&Query::of_person(&line::read(&input.line)?)?)
    }
}

#[cfg(test)]
mod tests;
