//! Validation of paths from plugins. Every call of a plugin begins here.

use crate::{
    error::{FileError, shown},
    limits,
};

/// A well-formed path from a plugin: relative, `/` between the segments, no empty segment, no `.` or `..`, no backslash,
/// no control character, within the limits. That does not mean that the file exists or may be used.
#[derive(Clone, Copy)]
pub(crate) struct RelPath<'a>(&'a str);

impl RelPath<'static> {
    /// The root itself, for messages. A plugin cannot pass it.
    pub(crate) const ROOT: Self = Self(".");
}

impl<'a> RelPath<'a> {
    /// Checks a path. Returns an `invalid` error if it is malformed.
    pub(crate) fn parse(text: &'a str) -> Result<Self, FileError> {
        match path_error(text) {
            None => Ok(Self(text)),
            Some(why) => Err(FileError::Path { path: shown(text), why }),
        }
    }

    pub(crate) fn as_str(self) -> &'a str {
        self.0
    }

    /// Iterates over the names between the slashes.
    pub(crate) fn parts(self) -> impl DoubleEndedIterator<Item = &'a str> {
        self.0.split('/')
    }

    /// Splits the path into the directories above it and its name.
    pub(crate) fn split(self) -> (impl Iterator<Item = &'a str>, &'a str) {
        let (parents, name) = self.0.rsplit_once('/').unwrap_or(("", self.0));
        (parents.split('/').filter(|part| !part.is_empty()), name)
    }

    /// Returns the path as messages show it: cleaned and cut.
    pub(crate) fn shown(self) -> String {
        shown(self.0)
    }
}

// The messages below contain these numbers.
const _: () = assert!(limits::PATH_BYTES == 4_096 && limits::NAME_BYTES == 255 && limits::DEPTH == 64);

/// Returns why `text` is not a valid path; `None` if it is valid.
fn path_error(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("it is empty")
    } else if text.len() > limits::PATH_BYTES {
        Some("it is longer than 4096 bytes")
    } else if text.starts_with('/') {
        Some("it is absolute")
    } else if text.split('/').count() > limits::DEPTH {
        Some("it has more than 64 segments")
    } else {
        text.split('/').find_map(part_error)
    }
}

/// Returns why `part` is not a valid segment of a path. Walks skip such names, because no call could use them.
pub(crate) fn part_error(part: &str) -> Option<&'static str> {
    match part {
        "" => Some("it has an empty segment"),
        "." | ".." => Some("'.' and '..' are not followed"),
        part if part.len() > limits::NAME_BYTES => Some("it has a segment longer than 255 bytes"),
        part if part.contains('\\') => Some("it contains a backslash; separate segments with '/'"),
        part if part.contains('/') => Some("a name cannot contain '/'"),
        part if part.chars().any(char::is_control) => Some("it contains a control character"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_paths_are_accepted() {
        for path in
            ["a", "a/b.c", ".patchbay/skills/x/SKILL.md", "naïve/日本/🙂", "a b/ c", "..a/b..", "...", "~", "C:"]
        {
            assert!(RelPath::parse(path).is_ok(), "{path}");
        }
        let (parents, name) = RelPath::parse("a/b/c").unwrap().split();
        assert_eq!((parents.collect::<Vec<_>>(), name), (vec!["a", "b"], "c"));
        let (parents, name) = RelPath::parse("c").unwrap().split();
        assert_eq!((parents.count(), name), (0, "c"));
    }

    #[test]
    fn malformed_paths_are_refused() {
        let deep = ["a"; limits::DEPTH + 1].join("/");
        let long = ["a".repeat(200).as_str(); 21].join("/");
        let name = "a".repeat(256);
        for path in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../a",
            "a/../b",
            "a/..",
            ".",
            "./a",
            "a/.",
            "a//b",
            "a/",
            "a\\b",
            "..\\a",
            "a\0b",
            "a\nb",
            "a\u{1b}",
            "a\u{85}",
            &deep,
            &long,
            &name,
        ] {
            let error = RelPath::parse(path).map(RelPath::as_str).unwrap_err();
            assert_eq!(error.kind(), "invalid", "{path:?}");
            assert!(error.to_string().len() < 1_000);
        }
    }
}
