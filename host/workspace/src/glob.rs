//! The globs of `walk`: [`wild`](crate::wild) patterns, with `{a,b}` for alternatives.

use crate::{
    error::{FileError, shown},
    limits,
    wild::{Pattern, class_length},
    work::Work,
};

// What the words below say.
const _: () = assert!(limits::GLOB_BYTES == 512 && limits::GLOB_ALTERNATIVES == 64);

/// A glob: the patterns that its braces stand for.
pub(crate) struct Glob(Vec<Pattern>);

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
            return Err(error("it has a control character"));
        }
        let patterns = alternatives(text).map_err(error)?.into_iter().map(|alternative| {
            if let Some(why) = alternative.split('/').find_map(fault_of_part) {
                return Err(error(why));
            }
            Pattern::parse(&alternative).map_err(|fault| error(fault.why()))
        });
        Ok(Self(patterns.collect::<Result<_, _>>()?))
    }

    /// Whether it matches `path`.
    pub(crate) fn matches(&self, path: &str, work: &mut Work) -> Result<bool, FileError> {
        for pattern in &self.0 {
            if pattern.matches(path, work)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether it can match anything below the directory `dir`.
    pub(crate) fn reaches_below(&self, dir: &str, work: &mut Work) -> Result<bool, FileError> {
        for pattern in &self.0 {
            if pattern.reaches_below(dir, work)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Parts that match nothing, so that whoever writes one learns of it.
fn fault_of_part(part: &str) -> Option<&'static str> {
    match part {
        "" => Some("a part of it is empty: it does not begin or end with '/'"),
        "." | ".." => Some("'.' and '..' match nothing"),
        _ => None,
    }
}

/// The texts that the braces of `glob` stand for, in no order.
fn alternatives(glob: &str) -> Result<Vec<String>, &'static str> {
    let mut open = vec![glob.to_owned()];
    let mut closed = Vec::new();
    while let Some(text) = open.pop() {
        match braces(&text)? {
            None => closed.push(text),
            Some(Braces { before, within, after }) => {
                open.extend(within.iter().map(|alternative| format!("{before}{alternative}{after}")));
            }
        }
        if open.len() + closed.len() > limits::GLOB_ALTERNATIVES {
            return Err("its braces stand for more than 64 globs");
        }
    }
    Ok(closed)
}

/// The first braces of a text.
struct Braces<'a> {
    before: &'a str,
    within: Vec<&'a str>,
    after: &'a str,
}

fn braces(text: &str) -> Result<Option<Braces<'_>>, &'static str> {
    let (mut depth, mut start, mut from) = (0usize, 0, 0);
    let mut within = Vec::new();
    for (at, c) in separators(text) {
        match c {
            '{' => {
                depth += 1;
                if depth == 1 {
                    (start, from) = (at, at + 1);
                }
            }
            ',' if depth == 1 => {
                within.push(&text[from..at]);
                from = at + 1;
            }
            '}' if depth == 0 => return Err("a '}' has no '{'"),
            '}' => {
                depth -= 1;
                if depth == 0 {
                    within.push(&text[from..at]);
                    return Ok(Some(Braces { before: &text[..start], within, after: &text[at + 1..] }));
                }
            }
            _ => {}
        }
    }
    if depth > 0 { Err("a '{' has no '}'") } else { Ok(None) }
}

/// Where braces and commas are meant as such: not after a backslash, and not in a class.
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
        Glob::parse(glob).unwrap().matches(path, &mut Work::default()).unwrap()
    }

    #[test]
    fn braces_stand_for_alternatives() {
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
    fn a_bad_glob_says_why() {
        let many = "{a,b}".repeat(7);
        let long = "a".repeat(limits::GLOB_BYTES + 1);
        for (glob, why) in [
            ("", "empty"),
            ("/a", "begin or end with '/'"),
            ("a/", "begin or end with '/'"),
            ("a//b", "empty"),
            ("../*", "match nothing"),
            ("a/./b", "match nothing"),
            ("{..,a}/b", "match nothing"),
            ("a{b", "no '}'"),
            ("a}b", "no '{'"),
            ("[a", "no ']'"),
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
        fn any_text_is_a_glob_or_an_error(glob in "[a{},*?!/\\[\\]\\\\-]{0,40}", path in "[a/{},-]{0,20}") {
            if let Ok(glob) = Glob::parse(&glob) {
                let mut work = Work::default();
                let matched = glob.matches(&path, &mut work).unwrap();
                if let (true, Some((dir, _))) = (matched, path.rsplit_once('/')) {
                    prop_assert!(glob.reaches_below(dir, &mut work).unwrap());
                }
            }
        }
    }
}
