//! The skill `notes`: tools that add, list, search and delete durable notes.
//!
//! All sessions of a workspace share its notes and may write at the same time, and a call may end at any point.
//! Modules:
//!
//! * `store`: the host's key-value store,
//! * `notes`: the keys of notes, and why no note is lost,
//! * `page`: formats lists of notes,
//! * `line`: parses the line of the user.
//!
//! Not supported: changing a note (delete it and add another), notes of one session or of all workspaces.
#![deny(missing_docs)]

mod line;
mod notes;
mod page;
mod store;

use patchbay_sdk::{Result, skill};
use schemars::JsonSchema;
use serde::Deserialize;

use page::Caller;

/// The input of [`add`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Add {
    /// At most 16384 bytes, not empty. Lists show its first line.
    text: String,
}

/// The input of [`list`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Continue after this number, where the last page ended.
    #[serde(default)]
    after: Option<u64>,
}

/// The input of [`search`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Words that must all occur in a note, in any order and case, also inside longer words; at most 1024 bytes.
    query: String,
    /// Continue after this number, where the last page ended.
    #[serde(default)]
    after: Option<u64>,
}

/// The input of [`delete`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delete {
    /// The note's number, as listed.
    number: u64,
}

/// The input of [`run`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// `add TEXT`, `list`, `search WORDS` or `delete NUMBER`.
    line: String,
}

skill! {
    /// Remembers a text for later as a note, and returns its number. All sessions of this workspace see it.
    #[extra("deferred" = "true")]
    fn add(input: Add) -> Result<String> {
        notes::add(&input.text)
    }

    /// Lists the notes of this workspace with number and first line, oldest first, 50 at a time.
    #[extra("deferred" = "true")]
    fn list(input: List) -> Result<String> {
        notes::list(input.after, Caller::Tool)
    }

    /// Finds the notes that contain all words of the query, and shows number and first line of each. A single match is
    /// shown whole.
    #[extra("deferred" = "true")]
    fn search(input: Search) -> Result<String> {
        notes::search(&input.query, input.after, Caller::Tool)
    }

    /// Deletes a note permanently. Its number is not used again.
    #[extra("deferred" = "true")]
    fn delete(input: Delete) -> Result<String> {
        notes::delete(input.number)
    }

    /// The same for a line that a user typed. Models use `add`, `list`, `search` and `delete`.
    #[extra("deferred" = "true")]
    fn run(input: Line) -> Result<String> {
        line::run(&input.line)
    }
}

#[cfg(test)]
mod tests;
