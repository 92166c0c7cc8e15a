//! The error of every operation of the crate. Its messages are for the plugin that called it and for the model.

use std::io;

use patchbay_core::text::excerpt;

use crate::limits;

/// Why a file could not be read, listed, written or deleted. Paths are relative to the root of the
/// workspace, cleaned and cut for display.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The path is not well-formed.
    #[error("'{path}' is not a path in the workspace: {why}; use one relative to its root, such as src/main.rs")]
    Path {
        /// The path, relative to the root of the workspace.
        path: String,
        /// Why it is malformed, as part of a sentence.
        why: &'static str,
    },
    /// The glob is not well-formed.
    #[error("'{glob}' is not a valid glob: {why}; use one such as src/**/*.rs")]
    Glob {
        /// The glob, as the caller wrote it.
        glob: String,
        /// Why it is malformed, as part of a sentence.
        why: &'static str,
    },
    /// A pattern that cannot be searched for.
    #[error("the pattern '{pattern}' {why}")]
    Pattern {
        /// The pattern, as the caller wrote it.
        pattern: String,
        /// The problem with the pattern, and the fix.
        why: String,
    },
    /// A number in a search that is out of range.
    #[error("'{name}' must be from {least} to {most}, not {value}")]
    OutOfRange {
        /// The name of the number in the WIT contract.
        name: &'static str,
        /// The lowest allowed value.
        least: u32,
        /// The highest allowed value.
        most: u32,
        /// The value that is out of range.
        value: u32,
    },
    /// A search with more globs than allowed.
    #[error(
        "a search has at most {} globs, not {count}; braces such as *.{{rs,toml}} make one of several",
        limits::SEARCH_GLOBS
    )]
    TooManyGlobs {
        /// Number of globs in the search.
        count: usize,
    },
    /// No file at this path, or a directory of the path is missing.
    #[error("'{path}' not found in the workspace; list the files to see what exists")]
    NotFound {
        /// The path, relative to the root of the workspace.
        path: String,
    },
    /// A directory where a file is required.
    #[error("'{path}' is a directory; use the path of a file in it")]
    Directory {
        /// The path, relative to the root of the workspace.
        path: String,
    },
    /// A file where a directory is required.
    #[error("cannot write '{path}': '{part}' in it is not a directory; choose another path")]
    NotDirectory {
        /// The path that should be written.
        path: String,
        /// The part of the path that is a file.
        part: String,
    },
    /// Not a file, a directory or a link.
    #[error("'{path}' is a pipe, a socket or a device; only regular files are read, written and deleted")]
    Special {
        /// The path, relative to the root of the workspace.
        path: String,
    },
    /// A link where links are not followed.
    #[error("'{path}' is a link or leads through one; files are only written and deleted by their own path")]
    Link {
        /// The path, relative to the root of the workspace.
        path: String,
    },
    /// A link that is absolute or leads above the root.
    #[error(
        "'{path}' is a link, or leads through one, that is absolute or leads out of the workspace; only files \
         inside can be read"
    )]
    LeadsOut {
        /// The path, relative to the root of the workspace.
        path: String,
    },
    /// Too many links in one path.
    #[error(
        "'{path}' leads through too many links (over {}), maybe in a circle; use the path of the file itself",
        limits::LINKS
    )]
    Circle {
        /// The path, relative to the root of the workspace.
        path: String,
    },
    /// A name or folder that plugins may not use.
    #[error("'{path}' is out of bounds: {why}; choose another path")]
    Protected {
        /// The path, relative to the root of the workspace.
        path: String,
        /// The reason why the path is protected.
        why: &'static str,
    },
    /// A file with instructions for agents, in a workspace where plugins may not write them.
    #[error("'{path}' contains instructions for agents; plugins may not change it in this workspace")]
    Instructions {
        /// The path of the file in the workspace.
        path: String,
    },
    /// A file that the host reads is a link to a target that is not allowed.
    #[error(
        "'{path}' is a link to '{target}', which plugins may write or which is hidden; a link may lead to AGENTS.md, CLAUDE.md or a file below .patchbay"
    )]
    LinkTarget {
        /// The path of the link itself.
        path: String,
        /// The target that the link points to.
        target: String,
    },
    /// A file that a `.gitignore` hides.
    #[error("'{path}' is ignored by git")]
    Ignored {
        /// The path, relative to the root of the workspace.
        path: String,
    },
    /// A file without write permission.
    #[error("'{path}' is read-only; give it write permission if a plugin may change it")]
    ReadOnly {
        /// The path, relative to the root of the workspace.
        path: String,
    },
    /// The system denied access.
    #[error("permission denied: '{path}' (check its owner and mode)")]
    Refused {
        /// The path, relative to the root of the workspace.
        path: String,
    },
    /// A read of more bytes than one call may return.
    #[error("a read returns at most {} bytes, not {max}; read the rest from further offsets", limits::READ_BYTES)]
    ReadTooLarge {
        /// The requested number of bytes.
        max: u32,
    },
    /// A file that the host reads is too long.
    #[error("'{path}' is over {max} bytes; shorten it")]
    TooLong {
        /// The path of the file in the workspace.
        path: String,
        /// The exceeded limit, in bytes.
        max: u64,
    },
    /// Contents over the limit of one write.
    #[error("'{path}' would have {size} bytes; the limit is {}; write several files", limits::WRITE_BYTES)]
    WriteTooLarge {
        /// The path that should be written.
        path: String,
        /// Size of the contents, in bytes.
        size: usize,
    },
    /// A walk that would read more entries than one call may.
    #[error(
        "the walk read {} entries without reaching the end; use a narrower glob, such as src/**/*.rs, or ask for \
         fewer at a time",
        limits::ENTRIES
    )]
    TooManyEntries,
    /// A walk that needs too many matching steps.
    #[error(
        "matching names with the glob and the .gitignore files took more than {} steps; use a simpler glob, or one \
         that begins deeper",
        limits::MATCH_STEPS
    )]
    TooMuchMatching,
    /// A directory so deep that its entries have no valid path.
    #[error(
        "'{path}' is too deep: a path has at most {} segments and {} bytes; use a glob that stays above it",
        limits::DEPTH,
        limits::PATH_BYTES
    )]
    TooDeep {
        /// The directory, relative to the root.
        path: String,
    },
    /// A search that ran out of time before its first result.
    #[error("the search ran out of time before anything was searched; use a narrower glob")]
    OutOfTime,
    /// Too many bytes of `.gitignore` rules.
    #[error(
        "with '{path}' more than {} bytes of .gitignore files apply; shorten them, or use a glob that stays outside",
        limits::RULE_BYTES
    )]
    TooManyRules {
        /// The file that exceeds the limit.
        path: String,
    },
    /// Another error of the system.
    #[error("'{path}' could not be used: {}; try again", source.kind())]
    Failed {
        /// The path, relative to the root of the workspace.
        path: String,
        /// The error; only its kind is shown.
        source: io::Error,
    },
}

impl FileError {
    /// Returns the error kind of the WIT contract: `invalid`, `not-found`, `denied`, `too-large`,
    /// `timeout` or `failed`. Stable.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Path { .. }
            | Self::Glob { .. }
            | Self::Pattern { .. }
            | Self::OutOfRange { .. }
            | Self::TooManyGlobs { .. }
            | Self::Directory { .. }
            | Self::NotDirectory { .. } => "invalid",
            Self::NotFound { .. } => "not-found",
            Self::Special { .. }
            | Self::Link { .. }
            | Self::LeadsOut { .. }
            | Self::Circle { .. }
            | Self::Protected { .. }
            | Self::Instructions { .. }
            | Self::LinkTarget { .. }
            | Self::Ignored { .. }
            | Self::ReadOnly { .. }
            | Self::Refused { .. } => "denied",
            Self::ReadTooLarge { .. }
            | Self::TooLong { .. }
            | Self::WriteTooLarge { .. }
            | Self::TooManyEntries
            | Self::TooMuchMatching
            | Self::TooDeep { .. }
            | Self::TooManyRules { .. } => "too-large",
            Self::OutOfTime => "timeout",
            Self::Failed { .. } => "failed",
        }
    }

    /// Converts an error of the system about `path`.
    pub(crate) fn io(path: &str) -> impl FnOnce(io::Error) -> Self {
        let path = shown(path);
        move |source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::NotFound { path },
            io::ErrorKind::IsADirectory => Self::Directory { path },
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Refused { path },
            _ => Self::Failed { path, source },
        }
    }
}

/// Returns a path or glob as messages show it: cleaned and cut.
pub(crate) fn shown(text: &str) -> String {
    excerpt(text, 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_errors_are_shown_by_kind_only() {
        let error = FileError::io("a\u{1b}[31m/b")(io::Error::from_raw_os_error(5));
        assert_eq!(error.kind(), "failed");
        assert!(!error.to_string().contains("os error"), "{error}");
        assert!(error.to_string().starts_with("'a[31m/b' could not be used"), "{error}");
        assert_eq!(FileError::io("a")(io::ErrorKind::NotFound.into()).kind(), "not-found");
        assert_eq!(FileError::io("a")(io::ErrorKind::PermissionDenied.into()).kind(), "denied");
    }
}
