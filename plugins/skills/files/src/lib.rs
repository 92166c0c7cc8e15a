//! The skill `files`: tools that read, list, write and edit files of the workspace.
//!
//! Made for models: text is returned unchanged and can be passed to `edit` exactly (the host removes invisible
//! characters, and `edit` ignores them), and every partial answer explains how to continue. Modules:
//!
//! * `contents`: reads files and refuses binary ones,
//! * `read`, `list`, `find`, `write`, `edit`, `patch`, `moving`: the tools,
//! * `words`: strings that the answers share.
//!
//! Not supported: searching in files (see the skill `grep`), files outside the workspace.
#![deny(missing_docs)]

mod contents;
mod edit;
mod find;
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
    /// Relative to the workspace, such as `src/main.rs`.
    path: String,
    /// First line to show. Default 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    first: Option<u64>,
    /// Byte of that line to start at, to continue in a line that was cut. Default 0.
    #[serde(default)]
    offset: Option<u64>,
    /// Lines to show. Default 2000.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2000))]
    lines: Option<u64>,
    /// Put a number and a tab before each line.
    #[serde(default)]
    numbers: bool,
}

/// The input of [`read_many`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadMany {
    /// Relative to the workspace.
    #[schemars(length(min = 1, max = 20))]
    paths: Vec<String>,
    /// Put a number and a tab before each line.
    #[serde(default)]
    numbers: bool,
}

/// The input of [`list`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Such as `src/**/*.rs`. Default: all files.
    #[serde(default)]
    glob: Option<String>,
    /// Continue after this path, the last one of the page before.
    #[serde(default)]
    after: Option<String>,
}

/// The input of [`find`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Find {
    /// Such as `config.*`, `*test*`, or a path: `src/**/mod.rs`.
    name: String,
    /// Ignore case.
    #[serde(default)]
    ignore_case: bool,
    /// Continue after this path.
    #[serde(default)]
    after: Option<String>,
}

/// The input of [`write`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Write {
    /// Relative to the workspace, such as `src/main.rs`.
    path: String,
    /// The file's whole new text, at most 2 MiB.
    text: String,
}

/// The input of [`edit`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// Relative to the workspace, such as `src/main.rs`.
    path: String,
    /// Text to replace, exact to the last space, with enough lines around it to occur only once.
    old: String,
    /// Its replacement. Empty deletes it.
    new: String,
    /// Replace every occurrence.
    #[serde(default)]
    all: bool,
}

/// The input of [`patch`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// At most 50 files, with unchanged lines around each change. `--- /dev/null` creates a file, `+++ /dev/null`
    /// deletes one.
    patch: String,
}

/// The input of [`rename`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// Relative to the workspace.
    from: String,
    /// New path. No file may exist there.
    to: String,
}

/// The input of [`delete`].
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delete {
    /// Relative to the workspace.
    path: String,
}

skill! {
    /// Reads a text file unchanged. A long file comes in pages of 2000 lines or 64 KiB; the note in brackets at the end
    /// says which lines these are and how to continue.
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

    /// Reads up to 20 text files at once, each from its first line, 64 KiB in all. Notes in brackets say what was left out.
    #[extra("read-only" = "true", "kind" = "read", "deferred" = "true")]
    fn read_many(input: ReadMany) -> Result<Reply> {
        read::read_many(&input.paths, input.numbers)
    }

    /// Lists files with their sizes, and folders (ending in `/`), sorted by path, 500 at a time. Skips what .gitignore hides.
    #[extra("read-only" = "true", "kind" = "search")]
    fn list(input: List) -> Result<Reply> {
        list::list(input.glob.as_deref(), input.after.as_deref())
    }

    /// Finds files and folders by name in all folders, sorted by path, 500 at a time. Skips what .gitignore hides.
    #[extra("read-only" = "true", "kind" = "search", "deferred" = "true")]
    fn find(input: Find) -> Result<Reply> {
        find::find(&input.name, input.ignore_case, input.after.as_deref())
    }

    /// Creates a file or replaces its whole text. To change part of a file, use edit.
    #[extra("kind" = "edit")]
    fn write(input: Write) -> Result<String> {
        write::write(&input.path, &input.text)
    }

    /// Replaces one exact text in a file with another. Read the file first. If `old` is not found, or found more than once
    /// without `all`, nothing is written and the error names the lines.
    #[extra("kind" = "edit")]
    fn edit(input: Edit) -> Result<String> {
        edit::edit(&input.path, &input.old, &input.new, input.all)
    }

    /// Applies a unified diff to one or more text files. Line numbers may be wrong, but each hunk must fit in exactly one
    /// place; otherwise nothing is written and the error names the line that differs. If a file cannot be written, the others
    /// are changed back. If the call is stopped, finished changes stay.
    #[extra("kind" = "edit")]
    fn patch(input: Patch) -> Result<String> {
        patch::patch(&input.patch)
    }

    /// Moves or renames a file of at most 8 MiB. Never overwrites. The executable bit is lost.
    #[extra("kind" = "move", "deferred" = "true")]
    fn rename(input: Rename) -> Result<String> {
        moving::rename(&input.from, &input.to)
    }

    /// Deletes a file permanently.
    #[extra("kind" = "delete", "deferred" = "true")]
    fn delete(input: Delete) -> Result<String> {
        moving::delete(&input.path)
    }
}

#[cfg(test)]
mod tests;
