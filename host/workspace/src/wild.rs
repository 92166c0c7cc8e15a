//! Matching names with wildcards, as git does: `*` and `?` and `[…]` never match a `/`, `**` between slashes does.
//!
//! Both sides may be hostile here, and matchers made of regular expressions do not bear that: a `.gitignore` of two
//! kilobytes can make them use a gigabyte and a minute. This one steps through the set of places of the pattern that
//! the text can have reached, so its time is at most the product of both lengths, and its memory a bit a place. The
//! steps are counted.

mod parse;
mod places;

pub(crate) use parse::{PatternFault, class_length};
pub(crate) use places::Places;

use crate::{error::FileError, work::Work};

/// A pattern, ready to match.
#[derive(Debug)]
pub(crate) enum Pattern {
    /// No wildcard.
    Exact(String),
    /// A `*`, then no more wildcards: the usual `*.log`.
    Suffix(String),
    /// Anything else.
    Wild(Vec<Token>),
}

/// One place of a pattern, and what takes a text beyond it.
#[derive(Debug)]
pub(crate) enum Token {
    Char(char),
    /// `?`: one character, not `/`.
    Any,
    /// `[…]`: one character of these ranges, or of none of them; not `/`.
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
    /// `*`: any number of characters, not `/`.
    Star,
    /// `**`: any number of any characters.
    Deep,
    /// Before `**/`, which is a `Deep` and a `/`: both may be left out.
    Optional,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, PatternFault> {
        let tokens = parse::tokens(text)?;
        let literal = |tokens: &[Token]| {
            tokens
                .iter()
                .map(|token| if let Token::Char(c) = token { Some(*c) } else { None })
                .collect::<Option<String>>()
        };
        if let Some(exact) = literal(&tokens) {
            return Ok(Self::Exact(exact));
        }
        if let [Token::Star, rest @ ..] = tokens.as_slice()
            && let Some(suffix) = literal(rest)
        {
            return Ok(Self::Suffix(suffix));
        }
        Ok(Self::Wild(tokens))
    }

    /// Whether the whole of `text` matches.
    pub(crate) fn matches(&self, text: &str, work: &mut Work) -> Result<bool, FileError> {
        work.steps(1)?;
        match self {
            Self::Exact(exact) => Ok(text == exact),
            Self::Suffix(suffix) => Ok(text.strip_suffix(suffix.as_str()).is_some_and(|head| !head.contains('/'))),
            Self::Wild(tokens) => Ok(run(tokens, text.chars(), work)?.contains(tokens.len())),
        }
    }

    /// Whether anything below the directory `dir` can match.
    pub(crate) fn reaches_below(&self, dir: &str, work: &mut Work) -> Result<bool, FileError> {
        work.steps(1)?;
        match self {
            Self::Exact(exact) => Ok(exact.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))),
            Self::Suffix(suffix) => Ok(suffix.contains('/')),
            Self::Wild(tokens) => Ok(run(tokens, dir.chars().chain(['/']), work)?.any_before(tokens.len())),
        }
    }
}

/// The places of `tokens` that can be reached with the whole of `text`.
fn run<'w>(tokens: &[Token], text: impl Iterator<Item = char>, work: &'w mut Work) -> Result<&'w Places, FileError> {
    work.places.0.start(tokens.len());
    work.places.1.start(tokens.len());
    work.places.0.add(0);
    let mut steps = work.places.0.skip(tokens);
    for c in text {
        work.steps(steps)?;
        let (from, to) = (&mut work.places.0, &mut work.places.1);
        to.clear();
        from.each(|place| match tokens.get(place) {
            Some(Token::Char(expected)) if *expected == c => to.add(place + 1),
            Some(Token::Any) if c != '/' => to.add(place + 1),
            Some(Token::Class { negated, ranges }) if c != '/' && within(ranges, c) != *negated => to.add(place + 1),
            Some(Token::Star) if c != '/' => to.add(place),
            Some(Token::Deep) => to.add(place),
            _ => {}
        });
        steps = to.skip(tokens);
        std::mem::swap(&mut work.places.0, &mut work.places.1);
        if work.places.0.is_empty() {
            break;
        }
    }
    work.steps(steps)?;
    Ok(&work.places.0)
}

fn within(ranges: &[(char, char)], c: char) -> bool {
    ranges.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

#[cfg(test)]
mod tests {
    use globset::GlobBuilder;
    use proptest::prelude::*;

    use super::*;
    use crate::limits;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(text, &mut Work::default()).unwrap()
    }

    #[test]
    fn wildcards() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "a", true),
            ("*", "a/b", false),
            ("*.rs", ".rs", true),
            ("*.rs", "a/b.rs", false),
            ("a*b*c", "axxbxxc", true),
            ("a*b*c", "axxbxx", false),
            ("a*", "a/b", false),
            ("?", "é", true),
            ("?", "/", false),
            ("a?c", "ac", false),
            ("**", "a/b/c", true),
            ("**/a", "a", true),
            ("**/a", "b/c/a", true),
            ("**/a", "b/ca", false),
            ("a/**", "a/b/c", true),
            ("a/**", "a", false),
            ("a/**/b", "a/b", true),
            ("a/**/b", "a/x/y/b", true),
            ("a/**/b", "a/xb", false),
            ("a/**/**/b", "a/b", true),
            ("a**b", "axxb", true),
            ("a**b", "ax/xb", false),
            ("a/b**", "a/bc", true),
            ("a/b**", "a/b/c", false),
            ("**/*a*", "x/y/bab", true),
            ("[abc]", "b", true),
            ("[!abc]", "b", false),
            ("[^abc]", "d", true),
            ("[!a]", "/", false),
            ("x[/]y", "x/y", false),
            ("[a-cé]x", "éx", true),
            ("[]a]", "]", true),
            ("[!]a]", "]", false),
            ("[a-]", "-", true),
            ("[\\]]", "]", true),
            ("[[:digit:]x]", "7", true),
            ("[[:digit:]x]", "x", true),
            ("[[:nonsense:]]", "n", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("{a,b}", "{a,b}", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn faults() {
        for (pattern, fault) in [
            ("[a", PatternFault::UnclosedClass),
            ("[]", PatternFault::UnclosedClass),
            ("[a-", PatternFault::UnclosedClass),
            ("[[:digit:", PatternFault::UnclosedClass),
            ("[b-a]", PatternFault::ReversedRange),
            ("a\\", PatternFault::DanglingEscape),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap_err(), fault, "{pattern}");
        }
    }

    #[test]
    fn what_lies_below() {
        for (pattern, dir, expected) in [
            ("src/main.rs", "src", true),
            ("src/main.rs", "sr", false),
            ("src/main.rs", "src/main.rs", false),
            ("src/**/*.rs", "src/a/b", true),
            ("src/**/*.rs", "tests", false),
            ("*/src/*.rs", "a", true),
            ("*/src/*.rs", "a/b", false),
            ("*/src/*.rs", "a/src", true),
            ("*/src/*.rs", "a/src/b", false),
            ("*.rs", "a", false),
            ("*/a", "x", true),
            ("a/**", "a", true),
            ("a/**", "b", false),
        ] {
            let reaches = Pattern::parse(pattern).unwrap().reaches_below(dir, &mut Work::default()).unwrap();
            assert_eq!(reaches, expected, "{pattern} {dir}");
        }
    }

    #[test]
    fn the_worst_pattern_is_counted_and_stopped() {
        let pattern = Pattern::parse(&"*a?".repeat(2_000)).unwrap();
        let text = "a".repeat(4_000);
        let mut work = Work::default();
        // 4,000 characters, against up to 6,000 places each.
        assert!(pattern.matches(&text, &mut work).unwrap());
        work.steps(limits::MATCH_STEPS - 20_000_000).unwrap();
        assert!(matches!(pattern.matches(&text, &mut work), Err(FileError::TooMuchMatching)));
    }

    proptest! {
        /// The usual library agrees, but for three stars: they are two to git, and one to it.
        #[test]
        fn agrees_with_globset(
            parts in prop::collection::vec("[ab?*]{1,4}|\\*\\*|\\[[ab]{1,2}\\]", 1..5),
            path in "[abc]{1,3}(/[abc]{1,3}){0,4}",
        ) {
            let glob = parts.join("/");
            prop_assume!(!glob.contains("***"));
            let other = GlobBuilder::new(&glob).literal_separator(true).build().unwrap().compile_matcher();
            prop_assert_eq!(matches(&glob, &path), other.is_match(&path), "{} {}", glob, path);
        }

        #[test]
        fn any_text_is_a_pattern_or_a_fault(pattern in "[ab*?\\[\\]!^:\\\\/-]{0,30}", text in "[ab/]{0,30}") {
            if let Ok(pattern) = Pattern::parse(&pattern) {
                pattern.matches(&text, &mut Work::default()).unwrap();
            }
        }
    }
}
