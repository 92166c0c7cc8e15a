//! The skill `notes`: tools that add, list, search and delete durable notes.
//!
//! All sessions of a workspace share its notes and may write at the same time, and a call may end at any point.
//! Modules:
//!
//! * `store`: the host's key-value store,
//! * `notes`: the keys of notes, and why no note is lost,
//! * `page`: formats lists of notes,
//! * `line`: parses the line of a person.
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
    /// The note: at most 16384 bytes, not empty. Its first line is what lists show.
    text: String,
}

/// The input of [`list`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Only notes with a greater number: to go on where the last page ended.
    #[serde(default)]
    after: Option<u64>,
}

/// The input of [`search`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Words that must all occur in a note, in any order, in any case, also within longer words; at most 1024 bytes.
    query: String,
    /// Only notes with a greater number: to go on where the last page ended.
    #[serde(default)]
    after: Option<u64>,
}

/// The input of [`delete`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delete {
    /// The number of the note, as `list` and `search` show it.
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
    /// Keeps a note for good and answers with its number. All sessions of this workspace see it.
    fn add(input: Add) -> Result<String> {
        notes::add(&input.text)
    }

    /// Lists the notes of this workspace, oldest first, 50 at a time: each with its number and its first line.
    fn list(input: List) -> Result<String> {
        notes::list(input.after, Caller::Tool)
    }

    /// Finds the notes in which all words of the query occur, and shows number and first line of each. A note that is
    /// the only one found is shown whole, so that searching its words also reads it.
    fn search(input: Search) -> Result<String> {
        notes::search(&input.query, input.after, Caller::Tool)
    }

    /// Deletes a note for good. Its number is never given again.
    fn delete(input: Delete) -> Result<String> {
        notes::delete(input.number)
    }

    /// The same for a line that a person typed. Other programs use `add`, `list`, `search` and `delete`.
    fn run(input: Line) -> Result<String> {
        line::run(&input.line)
    }
}

#[cfg(test)]
mod tests;
