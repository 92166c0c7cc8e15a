//! Compiles the pattern of a text search. Time and memory of a match are bounded whatever the pattern: the engine of the
//! crate `regex` takes time linear in the text, and the size of the automaton is limited.

use grep_regex::{ErrorKind, RegexMatcher, RegexMatcherBuilder};

use crate::{
    error::{FileError, shown},
    limits,
    search::TextQuery,
};

/// Compiles the pattern. A match never contains a newline; `^` and `$` match at the ends of a line, even before a `\r`.
pub(super) fn compile(query: &TextQuery) -> Result<RegexMatcher, FileError> {
    let pattern = query.pattern.as_str();
    let refused = |why: String| FileError::Pattern { pattern: shown(pattern), why };
    if pattern.is_empty() {
        return Err(refused("is empty; pass a text or a regular expression to search for".to_owned()));
    }
    if pattern.len() > limits::PATTERN_BYTES {
        let (bytes, most) = (pattern.len(), limits::PATTERN_BYTES);
        return Err(refused(format!("has {bytes} bytes, over the limit of {most}; search for part of it")));
    }
    if !query.is_fixed {
        check_syntax(query).map_err(refused)?;
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(query.ignores_case)
        .fixed_strings(query.is_fixed)
        .multi_line(true)
        .nest_limit(limits::PATTERN_NESTING)
        .size_limit(limits::PATTERN_AUTOMATON)
        .dfa_size_limit(limits::PATTERN_CACHE)
        .crlf(true)
        // Set after `crlf`, which also changes it, because only a newline ends a line.
        .line_terminator(Some(b'\n'));
    builder.build(pattern).map_err(|error| {
        refused(match error.kind() {
            ErrorKind::NotAllowed(_) => {
                "contains a newline, but a match lies within one line; search for part of it".to_owned()
            }
            _ => "is too large when compiled; repeat less, as in \\w{1,20} for \\w{1,500}, or use \\w+".to_owned(),
        })
    })
}

/// Checks the pattern on its own. The builder wraps the pattern in a group, so its error messages would name other
/// columns, and it would accept `a)|(b`.
fn check_syntax(query: &TextQuery) -> Result<(), String> {
    let mut parser = regex_syntax::ParserBuilder::new();
    parser
        .nest_limit(limits::PATTERN_NESTING)
        .utf8(false)
        .case_insensitive(query.ignores_case)
        .multi_line(true)
        .crlf(true);
    let Err(error) = parser.build().parse(&query.pattern) else { return Ok(()) };
    let (problem, offset) = match &error {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), error.span().start.offset),
        regex_syntax::Error::Translate(error) => (error.kind().to_string(), error.span().start.offset),
        _ => (error.to_string(), 0),
    };
    let column = query.pattern.char_indices().take_while(|(position, _)| *position < offset).count() + 1;
    Err(format!("does not parse at column {column}: {problem}. To search for it as plain text, set fixed"))
}

#[cfg(test)]
mod tests {
    use grep_matcher::Matcher as _;
    use proptest::prelude::*;

    use super::*;

    fn matched<'a>(query: &TextQuery, line: &'a str) -> Option<&'a str> {
        let found = compile(query).unwrap().find(line.as_bytes()).unwrap();
        found.map(|found| &line[found.start()..found.end()])
    }

    fn refused(pattern: &str) -> String {
        let error = compile(&TextQuery::for_test(pattern)).err().unwrap();
        assert_eq!(error.kind(), "invalid");
        error.to_string()
    }

    #[test]
    fn match_lies_within_one_line() {
        for (pattern, text, expected) in [
            ("a[^x]*", "a b\nc", "a b"),
            ("(?s)a.*", "a b\nc", "a b"),
            (r"b\s+c", "b\nc b  c", "b  c"),
            ("^b$", "a\nb\nc", "b"),
            ("^b$", "a\r\nb\r\nc", "b"),
            (r"\bété\b", "l’été", "été"),
        ] {
            assert_eq!(matched(&TextQuery::for_test(pattern), text), Some(expected), "{pattern}");
        }
        for pattern in ["a\nb", r"a\nb", r"x|(\n)", r"\x0A*", r"[\n]"] {
            assert!(refused(pattern).contains("contains a newline"), "{pattern}");
        }
    }

    #[test]
    fn options_for_case_and_plain_text_are_used() {
        let found = |pattern: &str, is_fixed, ignores_case, text: &str| {
            matched(&TextQuery { is_fixed, ignores_case, ..TextQuery::for_test(pattern) }, text).is_some()
        };
        assert!(!found("straße", false, false, "STRAßE"));
        assert!(found("straße", false, true, "STRAßE"));
        assert!(found("(?i)ÉTÉ", false, false, "été"));
        assert!(found("a.b(", true, false, "a.b("));
        assert!(!found("a.b", true, false, "axb"));
        assert!(found("A.B(", true, true, "a.b("));
    }

    #[test]
    fn syntax_errors_name_the_column() {
        assert_eq!(
            refused("é(abc"),
            "the pattern 'é(abc' does not parse at column 2: unclosed group. To search for it as plain text, set fixed"
        );
        assert!(refused("a)|(b").contains("column 2: unopened group"), "{}", refused("a)|(b"));
        assert!(refused(r"a(?=b)").contains("look-around"), "{}", refused(r"a(?=b)"));
        assert!(refused(r"(a)\1").contains("backreferences are not supported"), "{}", refused(r"(a)\1"));
        assert!(refused("").contains("is empty"));
    }

    #[test]
    fn hostile_patterns_are_refused_or_small() {
        assert!(refused(&"x".repeat(5_000)).contains("has 5000 bytes"));
        for pattern in [r"\w{5000}", r"(((\w{40}){40}){40}){40}", r"\pL{1,999}x"] {
            assert!(refused(pattern).contains("too large when compiled"), "{pattern}");
        }
        for pattern in ["(".repeat(2_000) + &")".repeat(2_000), "a".to_owned() + &"**".repeat(1_000), "[".repeat(4_000)]
        {
            assert!(refused(&pattern).len() < 500, "{}", refused(&pattern));
        }
        assert!(compile(&TextQuery::for_test(r"\w{1,20}")).is_ok());
        assert!(compile(&TextQuery::for_test(&"x|".repeat(2_000))).is_ok());
    }

    proptest! {
        #[test]
        fn any_pattern_is_handled(pattern in "[ab.*+?()|{}\\[\\]^$\\\\nwbA-]{0,20}") {
            if let Ok(matcher) = compile(&TextQuery::for_test(&pattern)) {
                let found = matcher.find(b"ab\nba").unwrap();
                prop_assert!(found.is_none_or(|found| !b"ab\nba"[found.start()..found.end()].contains(&b'\n')));
            }
        }
    }
}
