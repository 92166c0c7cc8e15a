//! The skill `files`: tools that read, list, write and edit files of the workspace.
//!
//! Made for models: text is returned unchanged, so that it can be passed to `edit` exactly (the host removes invisible
//! characters, and `edit` passes over them), and every partial answer says how to continue. Modules:
//!
//! * `contents`: reads files and refuses binary ones,
//! * `read`, `list`, `write`, `edit`, `patch`, `moving`: the tools,
//! * `words`: texts that the answers share.
//!
//! Not supported: searching (see the skill `grep`), files outside the workspace.
#![deny(missing_docs)]

mod contents;
mod edit;
mod list;
mod moving;
mod patch;
mod read;
mod words;
mod write;

use patchbay_sdk::{Reply, Result, skill};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::read::LineRange;

/// The input of [`read`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Read {
    /// The file, relative to the workspace, such as `src/main.rs`.
    path: String,
    /// The first line to show, from 1. Unless given, the file's first.
    #[serde(default)]
    #[schemars(range(min = 1))]
    first: Option<u64>,
    /// The byte of the first line to begin with, from 0: to go on in a long line that was cut. Unless given, 0.
    #[serde(default)]
    offset: Option<u64>,
    /// How many lines to show, at most 2000. Unless given, 2000.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2000))]
    lines: Option<u64>,
    /// Whether to put each line's number and a tab before it.
    #[serde(default)]
    numbers: bool,
}

/// The input of [`read_many`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadMany {
    /// The files, relative to the workspace.
    #[schemars(length(min = 1, max = 20))]
    paths: Vec<String>,
    /// Whether to put each line's number and a tab before it.
    #[serde(default)]
    numbers: bool,
}

/// The input of [`list`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Which files, such as `src/**/*.rs`; `**` stands for any folders. Unless given, `**/*`: all.
    #[serde(default)]
    glob: Option<String>,
    /// Only paths that come after this one: to go on where the last page ended.
    #[serde(default)]
    after: Option<String>,
}

/// The input of [`write`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// The file, relative to the workspace, such as `src/main.rs`.
    path: String,
    /// All that the file is to hold, at most 2097152 bytes.
    text: String,
}

/// The input of [`edit`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The file, relative to the workspace, such as `src/main.rs`.
    path: String,
    /// The text to replace, to the letter, white space included. It must occur exactly once, unless `all` is true: take
    /// in as many lines around it as make it the only one.
    old: String,
    /// What takes its place. Empty: the old text is taken out.
    new: String,
    /// Whether to replace every occurrence.
    #[serde(default)]
    all: bool,
}

/// The input of [`patch`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// A unified diff of at most 50 files, with some unchanged lines around each change. `--- /dev/null` creates a file,
    /// `+++ /dev/null` deletes one.
    patch: String,
}

/// The input of [`rename`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// The file, relative to the workspace.
    from: String,
    /// Its new path, where no file may be.
    to: String,
}

/// The input of [`delete`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delete {
    /// The file, relative to the workspace.
    path: String,
}

skill! {
    /// Reads a text file of the workspace: the text as it is, without line numbers. Of a long file it shows 2000 lines
    /// or 64 KiB at a time, and says which lines these are, how many there are in all (of a file over 8 MiB, at least) and
    /// how to go on, also within a line that was cut.
    #[extra("read-only" = "true", "kind" = "read")]
    fn read(input: Read) -> Result<Reply> {
        let whole = LineRange::default();
        let range = LineRange {
            first: input.first.unwrap_or(whole.first),
            offset: input.offset.unwrap_or(whole.offset),
            lines: input.lines.unwrap_or(whole.lines),
        };
        read::read(&input.path, range, input.numbers)
    }

    /// Reads up to 20 text files of the workspace at once, each from its first line. Together they are shown up to 64 KiB;
    /// the answer says what was left out.
    #[extra("read-only" = "true", "kind" = "read")]
    fn read_many(input: ReadMany) -> Result<Reply> {
        read::read_many(&input.paths, input.numbers)
    }

    /// Lists files of the workspace with their sizes, and folders (these end with `/`), sorted by path, 500 at a time.
    /// What .gitignore hides is left out.
    #[extra("read-only" = "true", "kind" = "search")]
    fn list(input: List) -> Result<Reply> {
        list::list(input.glob.as_deref(), input.after.as_deref())
    }

    /// Writes a whole file of the workspace: makes it, or replaces all that it held. To change a part of a file, use
    /// edit.
    #[extra("kind" = "edit")]
    fn write(input: Write) -> Result<String> {
        write::write(&input.path, &input.text)
    }

    /// Changes a text file of the workspace by replacing one exact text by another. Read the file first. If the old text
    /// does not occur, or occurs more than once without `all`, nothing is written and the answer says where it stands.
    #[extra("kind" = "edit")]
    fn edit(input: Edit) -> Result<String> {
        edit::edit(&input.path, &input.old, &input.new, input.all)
    }

    /// Applies a unified diff to one or several text files of the workspace. Line numbers may be wrong: each hunk must fit
    /// at one place only; if one does not, nothing is written, and the answer names the line that differs. If a file cannot
    /// be written, the others are changed back. If the call is stopped in between, what it has changed stays.
    #[extra("kind" = "edit")]
    fn patch(input: Patch) -> Result<String> {
        patch::patch(&input.patch)
    }

    /// Moves or renames one file of the workspace, of at most 8 MiB. Replaces nothing. The executable bit is not kept.
    #[extra("kind" = "move")]
    fn rename(input: Rename) -> Result<String> {
        moving::rename(&input.from, &input.to)
    }

    /// Deletes one file of the workspace, for good.
    #[extra("kind" = "delete")]
    fn delete(input: Delete) -> Result<String> {
        moving::delete(&input.path)
    }
}

#[cfg(test)]
mod tests;
