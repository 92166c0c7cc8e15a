//! Wildcard matching with git's rules: `*`, `?` and `[…]` never match a `/`, `**` between slashes does. Used for globs
//! and `.gitignore` rules.
//!
//! Why not a library: both the pattern and the text may be hostile, and matchers based on regular expressions cannot
//! handle that. A `.gitignore` of two kilobytes can make them use a gigabyte and a minute. This matcher simulates an
//! automaton: it keeps the set of pattern positions that the text can have reached. Its time is at most the product of
//! both lengths, its memory one bit per position, and its steps are counted.

mod parse;
mod states;
mod token;

pub(crate) use parse::{PatternFault, class_length};
pub(crate) use states::StateSet;
use token::Token;

use crate::{error::FileError, work::WorkBudget};

/// A parsed pattern. The common simple forms have their own variants because they match faster.
#[derive(Debug)]
pub(crate) enum WildPattern {
    /// A pattern without wildcards, compared as a string.
    Exact(String),
    /// A single `*` at the beginning, such as `*.log`.
    Suffix(String),
    Wild(Vec<Token>),
}

impl WildPattern {
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

    /// Returns true if the pattern matches the whole `text`.
    pub(crate) fn matches(&self, text: &str, work: &mut WorkBudget) -> Result<bool, FileError> {
        work.count_steps(1)?;
        match self {
            Self::Exact(exact) => Ok(text == exact),
            Self::Suffix(suffix) => Ok(text.strip_suffix(suffix.as_str()).is_some_and(|head| !head.contains('/'))),
            Self::Wild(tokens) => Ok(run(tokens, text.chars(), work)?.contains(tokens.len())),
        }
    }

    /// Returns true if the pattern can match anything below the directory `dir`.
    pub(crate) fn reaches_below(&self, dir: &str, work: &mut WorkBudget) -> Result<bool, FileError> {
        work.count_steps(1)?;
        match self {
            Self::Exact(exact) => Ok(exact.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))),
            Self::Suffix(suffix) => Ok(suffix.contains('/')),
            Self::Wild(tokens) => Ok(run(tokens, dir.chars().chain(['/']), work)?.any_before(tokens.len())),
        }
    }
}

/// Returns the positions in `tokens` that can be reached with the whole `text`.
fn run<'w>(
    tokens: &[Token],
    text: impl Iterator<Item = char>,
    work: &'w mut WorkBudget,
) -> Result<&'w StateSet, FileError> {
    work.states.0.start(tokens.len());
    work.states.1.start(tokens.len());
    work.states.0.add(0);
    let mut steps = work.states.0.skip(tokens);
    for c in text {
        work.count_steps(steps)?;
        let (from, to) = (&mut work.states.0, &mut work.states.1);
        to.clear();
        from.each(|state| match tokens.get(state) {
            Some(Token::Char(expected)) if *expected == c => to.add(state + 1),
            Some(Token::Any) if c != '/' => to.add(state + 1),
            Some(Token::Class { negated, ranges }) if c != '/' && within(ranges, c) != *negated => to.add(state + 1),
            Some(Token::Star) if c != '/' => to.add(state),
            Some(Token::Deep) => to.add(state),
            _ => {}
        });
        steps = to.skip(tokens);
        std::mem::swap(&mut work.states.0, &mut work.states.1);
        if work.states.0.is_empty() {
            break;
        }
    }
    work.count_steps(steps)?;
    Ok(&work.states.0)
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
        WildPattern::parse(pattern).unwrap().matches(text, &mut WorkBudget::default()).unwrap()
    }

    #[test]
    fn wildcards_match_as_in_git() {
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
    fn malformed_patterns_are_refused() {
        for (pattern, fault) in [
            ("[a", PatternFault::UnclosedClass),
            ("[]", PatternFault::UnclosedClass),
            ("[a-", PatternFault::UnclosedClass),
            ("[[:digit:", PatternFault::UnclosedClass),
            ("[b-a]", PatternFault::ReversedRange),
            ("a\\", PatternFault::DanglingEscape),
        ] {
            assert_eq!(WildPattern::parse(pattern).unwrap_err(), fault, "{pattern}");
        }
    }

    #[test]
    fn reach_below_a_directory() {
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
            let reaches = WildPattern::parse(pattern).unwrap().reaches_below(dir, &mut WorkBudget::default()).unwrap();
            assert_eq!(reaches, expected, "{pattern} {dir}");
        }
    }

    #[test]
    fn worst_pattern_is_stopped_by_the_budget() {
        let pattern = WildPattern::parse(&"*a?".repeat(2_000)).unwrap();
        let text = "a".repeat(4_000);
        let mut work = WorkBudget::default();
        // 4,000 characters, against up to 6,000 positions each.
        assert!(pattern.matches(&text, &mut work).unwrap());
        work.count_steps(limits::MATCH_STEPS - 20_000_000).unwrap();
        assert!(matches!(pattern.matches(&text, &mut work), Err(FileError::TooMuchMatching)));
    }

    proptest! {
        /// The crate `globset` gives the same result, except for `***`: git treats it as `**`, globset as `*`.
        #[test]
        fn matching_agrees_with_globset(
            parts in prop::collection::vec("[ab?*]{1,4}|\\*\\*|\\[[ab]{1,2}\\]", 1..5),
            path in "[abc]{1,3}(/[abc]{1,3}){0,4}",
        ) {
            let glob = parts.join("/");
            prop_assume!(!glob.contains("***"));
            let other = GlobBuilder::new(&glob).literal_separator(true).build().unwrap().compile_matcher();
            prop_assert_eq!(matches(&glob, &path), other.is_match(&path), "{} {}", glob, path);
        }

        #[test]
        fn any_pattern_is_handled(pattern in "[ab*?\\[\\]!^:\\\\/-]{0,30}", text in "[ab/]{0,30}") {
            if let Ok(pattern) = WildPattern::parse(&pattern) {
                pattern.matches(&text, &mut WorkBudget::default()).unwrap();
            }
        }
    }
}
