//! The globs of [`Workspace::walk`](crate::Workspace::walk): [`wild`](crate::wild) patterns plus `{a,b}` alternatives.

use crate::{
    error::{FileError, shown},
    limits,
    wild::{WildPattern, class_length},
    work::WorkBudget,
};

// The messages below contain these numbers.
const _: () = assert!(limits::GLOB_BYTES == 512 && limits::GLOB_ALTERNATIVES == 64);

/// A parsed glob: one pattern for each expansion of its braces.
pub(crate) struct Glob(Vec<WildPattern>);

impl Glob {
    pub(crate) fn parse(text: &str) -> Result<Self, FileError> {
        let error = |why| FileError::Glob { glob: shown(text), why };
        if text.is_empty() {
            return Err(error("it is empty"));
        }
        if text.len() > limits::GLOB_BYTES {
            return Err(error("it is longer than 512 bytes"));
        }
        if text.chars().any(char::is_control) {
            return Err(error("it contains a control character"));
        }
        let patterns = alternatives(text).map_err(error)?.into_iter().map(|alternative| {
            if let Some(why) = alternative.split('/').find_map(part_error) {
                return Err(error(why));
            }
            WildPattern::parse(&alternative).map_err(|fault| error(fault.why()))
        });
        Ok(Self(patterns.collect::<Result<_, _>>()?))
    }

    /// Returns true if the glob matches the whole `path`.
    pub(crate) fn matches(&self, path: &str, work: &mut WorkBudget) -> Result<bool, FileError> {
        for pattern in &self.0 {
            if pattern.matches(path, work)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if the glob can match anything below the directory `dir`.
    pub(crate) fn reaches_below(&self, dir: &str, work: &mut WorkBudget) -> Result<bool, FileError> {
        for pattern in &self.0 {
            if pattern.reaches_below(dir, work)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns why `part` can never match. Refusing such globs makes the mistake visible to their author.
fn part_error(part: &str) -> Option<&'static str> {
    match part {
        "" => Some("it has an empty segment; remove '/' at the beginning or end, and '//'"),
        "." | ".." => Some("'.' and '..' match nothing"),
        _ => None,
    }
}

/// Expands the braces of `glob`, in no particular order.
fn alternatives(glob: &str) -> Result<Vec<String>, &'static str> {
    let mut open = vec![glob.to_owned()];
    let mut closed = Vec::new();
    while let Some(text) = open.pop() {
        match braces(&text)? {
            None => closed.push(text),
            Some(Braces { before, inside, after }) => {
                open.extend(inside.iter().map(|alternative| format!("{before}{alternative}{after}")));
            }
        }
        if open.len() + closed.len() > limits::GLOB_ALTERNATIVES {
            return Err("its braces expand to more than 64 globs");
        }
    }
    Ok(closed)
}

/// The first pair of braces in a text.
struct Braces<'a> {
    before: &'a str,
    inside: Vec<&'a str>,
    after: &'a str,
}

/// Finds the first pair of braces. `None` if there is none.
fn braces(text: &str) -> Result<Option<Braces<'_>>, &'static str> {
    let (mut depth, mut start, mut from) = (0usize, 0, 0);
    let mut inside = Vec::new();
    for (at, c) in separators(text) {
        match c {
            '{' => {
                depth += 1;
                if depth == 1 {
                    (start, from) = (at, at + 1);
                }
            }
            ',' if depth == 1 => {
                inside.push(&text[from..at]);
                from = at + 1;
            }
            '}' if depth == 0 => return Err("unmatched '}'"),
            '}' => {
                depth -= 1;
                if depth == 0 {
                    inside.push(&text[from..at]);
                    return Ok(Some(Braces { before: &text[..start], inside, after: &text[at + 1..] }));
                }
            }
            _ => {}
        }
    }
    if depth > 0 { Err("unclosed '{'") } else { Ok(None) }
}

/// Returns the positions of braces and commas that are not escaped and not in a class.
fn separators(text: &str) -> Vec<(usize, char)> {
    let mut found = Vec::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '[' => {
                for _ in 0..class_length(chars.as_str()).unwrap_or(0) {
                    chars.next();
                }
            }
            '{' | ',' | '}' => found.push((at, c)),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(glob: &str, path: &str) -> bool {
        Glob::parse(glob).unwrap().matches(path, &mut WorkBudget::default()).unwrap()
    }

    #[test]
    fn braces_expand_to_alternatives() {
        for (glob, yes, no) in [
            ("*.{rs,toml}", ["a.rs", "a.toml"], ["a.r", "a/b.rs"]),
            ("{src,tests}/**/*.rs", ["src/a.rs", "tests/b/c.rs"], ["a.rs", "docs/a.rs"]),
            ("a{,.b}", ["a", "a.b"], ["ab", "a."]),
            ("{a,{b,c/d}}e", ["ae", "c/de"], ["c/d", "e"]),
            ("[{,}]x", ["{x", ",x"], ["x", "[x"]),
            ("\\{a,b\\}", ["{a,b}", "{a,b}"], ["a", "b"]),
            ("a,b", ["a,b", "a,b"], ["a", "b"]),
            ("{[],],x}", ["]", "x"], ["[]", "],"]),
        ] {
            assert!(yes.iter().all(|path| matches(glob, path)), "{glob}");
            assert!(!no.iter().any(|path| matches(glob, path)), "{glob}");
        }
    }

    #[test]
    fn malformed_glob_names_the_reason() {
        let many = "{a,b}".repeat(7);
        let long = "a".repeat(limits::GLOB_BYTES + 1);
        for (glob, why) in [
            ("", "empty"),
            ("/a", "the beginning or end"),
            ("a/", "the beginning or end"),
            ("a//b", "empty"),
            ("../*", "match nothing"),
            ("a/./b", "match nothing"),
            ("{..,a}/b", "match nothing"),
            ("a{b", "unclosed '{'"),
            ("a}b", "unmatched '}'"),
            ("[a", "unclosed '['"),
            ("[z-a]", "ends before it begins"),
            ("a\\", "backslash"),
            ("a\nb", "control character"),
            (&many, "more than 64"),
            (&long, "longer than 512"),
        ] {
            let error = Glob::parse(glob).err().unwrap();
            assert_eq!(error.kind(), "invalid", "{glob}");
            assert!(error.to_string().contains(why), "{glob}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_glob_is_handled_and_reach_is_consistent(glob in "[a{},*?!/\\[\\]\\\\-]{0,40}", path in "[a/{},-]{0,20}") {
            if let Ok(glob) = Glob::parse(&glob) {
                let mut work = WorkBudget::default();
                let matched = glob.matches(&path, &mut work).unwrap();
                if let (true, Some((dir, _))) = (matched, path.rsplit_once('/')) {
                    prop_assert!(glob.reaches_below(dir, &mut work).unwrap());
                }
            }
        }
    }
}
