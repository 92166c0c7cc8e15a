use crate::{
    error::{FileError, shown},
    limits,
};

/// A path that a guest gave and that can name something in a workspace: relative, `/` between the parts, no empty
/// part, no `.` or `..`, no backslash, no control character, within the limits. Whether it is there, and may be
/// touched, is another matter.
#[derive(Clone, Copy)]
pub(crate) struct RelPath<'a>(&'a str);

impl RelPath<'static> {
    /// The root itself, for messages: no guest can name it.
    pub(crate) const ROOT: Self = Self(".");
}

impl<'a> RelPath<'a> {
    pub(crate) fn parse(text: &'a str) -> Result<Self, FileError> {
        match fault(text) {
            None => Ok(Self(text)),
            Some(why) => Err(FileError::Path { path: shown(text), why }),
        }
    }

    pub(crate) fn as_str(self) -> &'a str {
        self.0
    }

    pub(crate) fn parts(self) -> impl DoubleEndedIterator<Item = &'a str> {
        self.0.split('/')
    }

    /// The directories above it, and its name.
    pub(crate) fn split(self) -> (impl Iterator<Item = &'a str>, &'a str) {
        let (parents, name) = self.0.rsplit_once('/').unwrap_or(("", self.0));
        (parents.split('/').filter(|part| !part.is_empty()), name)
    }

    /// The path as a message shows it.
    pub(crate) fn shown(self) -> String {
        shown(self.0)
    }
}

// What the words below say.
const _: () = assert!(limits::PATH_BYTES == 4_096 && limits::NAME_BYTES == 255 && limits::DEPTH == 64);

fn fault(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("it is empty")
    } else if text.len() > limits::PATH_BYTES {
        Some("it is longer than 4096 bytes")
    } else if text.starts_with('/') {
        Some("it is absolute")
    } else if text.split('/').count() > limits::DEPTH {
        Some("it has more than 64 parts")
    } else {
        text.split('/').find_map(fault_of_part)
    }
}

/// Why `part` cannot be a part of a path. Walks pass over such names: nobody could ask for them.
pub(crate) fn fault_of_part(part: &str) -> Option<&'static str> {
    match part {
        "" => Some("a part of it is empty"),
        "." | ".." => Some("'.' and '..' are not followed"),
        part if part.len() > limits::NAME_BYTES => Some("a part of it is longer than 255 bytes"),
        part if part.contains('\\') => Some("it has a backslash; parts are separated by '/'"),
        part if part.contains('/') => Some("a name has no '/'"),
        part if part.chars().any(char::is_control) => Some("it has a control character"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_names_something() {
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
    fn refuses_what_does_not() {
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
