use std::io;

use patchbay_core::text::excerpt;

use crate::limits;

/// Why a file of the workspace could not be read, listed, written or deleted. Paths are those the guest gave, or
/// relative to the workspace's root.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// A path that names nothing in any workspace.
    #[error("'{path}' is no path of the workspace: {why}; give one relative to its root, such as src/main.rs")]
    Path {
        /// What was given.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A glob that cannot be read.
    #[error("'{glob}' is no glob: {why}; give one such as src/**/*.rs")]
    Glob {
        /// What was given.
        glob: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nothing is there.
    #[error("there is no '{path}' in the workspace; walk lists what there is")]
    NotFound {
        /// Which.
        path: String,
    },
    /// A directory where a file is asked for.
    #[error("'{path}' is a directory; name a file in it, walk lists them")]
    Directory {
        /// Which.
        path: String,
    },
    /// A file where a directory is asked for.
    #[error("nothing can be written to '{path}': '{part}' in it is no directory; choose another path")]
    NotDirectory {
        /// What was to be written.
        path: String,
        /// The part that is in the way.
        part: String,
    },
    /// Neither file, nor directory, nor link.
    #[error("'{path}' is a pipe, a socket or a device; only regular files are read, written and deleted")]
    Special {
        /// Which.
        path: String,
    },
    /// A link where none is followed.
    #[error("'{path}' is a link or leads through one; files are written and deleted by their own path alone")]
    Link {
        /// Which.
        path: String,
    },
    /// A link that is absolute, or climbs above the root.
    #[error(
        "'{path}' is a link, or leads through one, that is absolute or leads out of the workspace; only what is inside can be read"
    )]
    LeadsOut {
        /// Which.
        path: String,
    },
    /// Links upon links.
    #[error(
        "'{path}' leads through too many links (over {}), maybe in a circle; give the path of the file itself",
        limits::LINKS
    )]
    Circle {
        /// Which.
        path: String,
    },
    /// A place that no plugin may touch.
    #[error("'{path}' is out of bounds: {why}; choose another path")]
    Protected {
        /// Which.
        path: String,
        /// What is there.
        why: &'static str,
    },
    /// A file with instructions for agents, in a workspace where plugins may not write these.
    #[error("'{path}' holds instructions for agents; plugins may not change it in this workspace")]
    Instructions {
        /// The path of the file.
        path: String,
    },
    /// A link in the place of a file that the host itself reads, to a file that must not take its place.
    #[error(
        "'{path}' is a link to '{target}', which plugins may write or which is hidden; a link may lead to AGENTS.md, CLAUDE.md or a file below .patchbay"
    )]
    LinkTarget {
        /// The path of the link.
        path: String,
        /// The file that the link leads to.
        target: String,
    },
    /// A file that nobody may write.
    #[error("'{path}' is read-only; give it write permission if a plugin may change it")]
    ReadOnly {
        /// Which.
        path: String,
    },
    /// The operating system says no.
    #[error("the system does not let this process use '{path}'; its owner and permissions decide")]
    Refused {
        /// Which.
        path: String,
    },
    /// A read of more than one call gives.
    #[error("a read gives at most {} bytes, not {max}; read the rest from further offsets", limits::READ_BYTES)]
    ReadTooLarge {
        /// How many bytes were asked for.
        max: u32,
    },
    /// A file that is longer than the host reads.
    #[error("'{path}' is over {max} bytes; shorten it")]
    TooLong {
        /// The path of the file.
        path: String,
        /// The most bytes that are read.
        max: u64,
    },
    /// Contents of more than one call takes.
    #[error("'{path}' would have {size} bytes, and at most {} are written; write several files", limits::WRITE_BYTES)]
    WriteTooLarge {
        /// Which file.
        path: String,
        /// How many bytes were given.
        size: usize,
    },
    /// A walk of more entries than one call looks at.
    #[error(
        "the walk looked at {} entries and was not done; give a narrower glob, such as src/**/*.rs, or ask for fewer at a time",
        limits::ENTRIES
    )]
    TooManyEntries,
    /// A walk that matches too hard.
    #[error(
        "matching names with the glob and the .gitignore files took more than {} steps; give a simpler glob, or one that begins deeper",
        limits::MATCH_STEPS
    )]
    TooMuchMatching,
    /// A directory so deep that what is in it cannot be named.
    #[error(
        "'{path}' is too deep: a path has at most {} parts and {} bytes; give a glob that stays above it",
        limits::DEPTH,
        limits::PATH_BYTES
    )]
    TooDeep {
        /// The directory, relative to the root.
        path: String,
    },
    /// More ignore rules than are read.
    #[error(
        "with '{path}' more than {} bytes of .gitignore files are in force; shorten them, or give a glob that stays outside",
        limits::RULE_BYTES
    )]
    TooManyRules {
        /// The file that is too much.
        path: String,
    },
    /// The operating system failed.
    #[error("'{path}' could not be used: {}; try again", source.kind())]
    Failed {
        /// Which.
        path: String,
        /// Why.
        source: io::Error,
    },
}

impl FileError {
    /// The word of the WIT contract: `invalid`, `not-found`, `denied`, `too-large` or `failed`. It never changes.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Path { .. } | Self::Glob { .. } | Self::Directory { .. } | Self::NotDirectory { .. } => "invalid",
            Self::NotFound { .. } => "not-found",
            Self::Special { .. }
            | Self::Link { .. }
            | Self::LeadsOut { .. }
            | Self::Circle { .. }
            | Self::Protected { .. }
            | Self::Instructions { .. }
            | Self::LinkTarget { .. }
            | Self::ReadOnly { .. }
            | Self::Refused { .. } => "denied",
            Self::ReadTooLarge { .. }
            | Self::TooLong { .. }
            | Self::WriteTooLarge { .. }
            | Self::TooManyEntries
            | Self::TooMuchMatching
            | Self::TooDeep { .. }
            | Self::TooManyRules { .. } => "too-large",
            Self::Failed { .. } => "failed",
        }
    }

    /// What a failed call of the system comes to, when it was about `path`.
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

/// A path or glob as a message shows it.
pub(crate) fn shown(text: &str) -> String {
    excerpt(text, 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_nothing_of_the_system() {
        let error = FileError::io("a\u{1b}[31m/b")(io::Error::from_raw_os_error(5));
        assert_eq!(error.kind(), "failed");
        assert!(!error.to_string().contains("os error"), "{error}");
        assert!(error.to_string().starts_with("'a[31m/b' could not be used"), "{error}");
        assert_eq!(FileError::io("a")(io::ErrorKind::NotFound.into()).kind(), "not-found");
        assert_eq!(FileError::io("a")(io::ErrorKind::PermissionDenied.into()).kind(), "denied");
    }
}
