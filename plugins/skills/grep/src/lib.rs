//! Searches the workspace's files with regular expressions.
//!
//! Pattern and files both come from somebody who may mean harm: the pattern is bounded before it is compiled, searching
//! takes time linear in the text, and one call reads a bounded number of files and bytes. The way of a search:
//!
//! * `line` reads what a person types,
//! * `pattern` compiles the pattern, so that a match lies within one line,
//! * `search` walks over the files and decides which are searched; `host` is what it needs of the workspace,
//! * `matching` finds the lines of a file,
//! * `page` prints them, and what was left out.
//!
//! Not here: replacing (that is `edit` of the skill `files`), matches over several lines, files that .gitignore hides.
#![deny(missing_docs)]

mod host;
mod line;
mod matching;
mod page;
mod pattern;
mod search;

#[cfg(test)]
mod fake;

use patchbay_sdk::{Result, skill};
use schemars::JsonSchema;
use serde::Deserialize;

use host::Workspace;
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
    /// `[-i] [-F] [-C N] PATTERN [GLOB]`; what has spaces stands in quotes.
    line: String,
}

skill! {
    /// Searches the files of the workspace for a regular expression and shows the matching lines as `path:line:text`,
    /// sorted by path, context lines as `path-line-text`. Files that .gitignore hides, binary files and files over 8 MiB
    /// are passed over. What was not searched or not shown is said at the end, in brackets.
    fn search(input: Search) -> Result<String> {
        search::run(&mut Workspace, &Query::of_tool(&input)?)
    }

    /// The same for a line that a person typed. Other programs use `search`.
    fn run(input: Line) -> Result<String> {
        search::run(&mut Workspace, &Query::of_person(&line::read(&input.line)?)?)
    }
}

#[cfg(test)]
mod tests;
