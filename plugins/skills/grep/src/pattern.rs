//! Compiles a pattern so that a match lies within one line.
//!
//! Then a whole file can be searched at once, with the same result as line by line, but much faster: everything that
//! could match a line feed is removed from the expression, and its anchors match at line ends.
//!
//! The fast engine does not support word boundaries next to letters outside ASCII; it falls back to an engine that is
//! fifty times slower. So an expression with word boundaries is first searched without them, and only the lines found
//! are searched with the complete expression.

use std::{cell::Cell, ops::Range};

use patchbay_sdk::{Failure, Result};
use regex_automata::{Input, Span, meta, util::syntax};
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look};

/// The longest pattern in bytes.
pub(crate) const MAX_BYTES: usize = 4096;
/// The deepest nesting of groups and repetitions.
const MAX_NESTING: u32 = 100;
/// The most bytes of the automaton. `\w{100}` exceeds it, `\w{20}` does not.
const MAX_AUTOMATON: usize = 2 << 20;
/// The size of the search cache in bytes. It is cleared when it is full.
const CACHE: usize = 2 << 20;

/// The most bytes of lines with letters outside ASCII in which a search uses Unicode word boundaries. Each byte costs
/// up to a thousand instructions. For later lines it uses ASCII word boundaries, and the answer says so.
const MAX_SLOW: usize = 256 << 10;

/// A compiled pattern.
pub(crate) struct Pattern {
    /// The pattern itself, or without word boundaries a superset of its matches.
    rough: meta::Regex,
    /// The complete pattern, if `candidates` finds more than the pattern matches.
    exact: Option<Exact>,
}

struct Exact {
    unicode: meta::Regex,
    ascii: meta::Regex,
    /// The rest of [`MAX_SLOW`]; `None` after it was exceeded.
    left: Cell<Option<usize>>,
}

/// How word boundaries are treated in a variant of the expression.
#[derive(Clone, Copy)]
enum Edges {
    Unicode,
    Ascii,
    Ignored,
}

impl Pattern {
    pub(crate) fn new(pattern: &str, fixed: bool, ignore_case: bool) -> Result<Self> {
        if pattern.is_empty() {
            return Err(Failure::invalid("the pattern is empty; give a text or a regular expression to search for"));
        }
        if pattern.len() > MAX_BYTES {
            let bytes = pattern.len();
            return Err(Failure::invalid(format!("a pattern of {bytes} bytes is over the limit of {MAX_BYTES}")));
        }
        let escaped;
        let expression = match fixed {
            true => {
                escaped = regex_syntax::escape(pattern);
                &escaped
            }
            false => pattern,
        };
        let syntax = syntax::Config::new()
            .case_insensitive(ignore_case)
            .multi_line(true)
            .crlf(true)
            .utf8(false)
            .nest_limit(MAX_NESTING);
        let hir = syntax::parse_with(expression, &syntax).map_err(|error| does_not_parse(pattern, &error))?;
        let compile = |edges| {
            let hir = within_line(&hir, edges).ok_or_else(|| asks_for_line_feed(pattern))?;
            automaton(&hir).ok_or_else(|| too_large(pattern))
        };
        Ok(match hir.properties().look_set().contains_word_unicode() {
            false => Self { rough: compile(Edges::Unicode)?, exact: None },
            true => Self {
                rough: compile(Edges::Ignored)?,
                exact: Some(Exact {
                    unicode: compile(Edges::Unicode)?,
                    ascii: compile(Edges::Ascii)?,
                    left: Cell::new(Some(MAX_SLOW)),
                }),
            },
        })
    }

    /// Returns the first offset in `text` from `from`, a beginning of a line, whose line may contain a match.
    pub(crate) fn candidate(&self, text: &[u8], from: usize) -> Option<Span> {
        self.rough.find(Input::new(text).range(from..)).map(|found| found.span())
    }

    /// Returns the first match in the line of `candidate`.
    pub(crate) fn confirm(&self, text: &[u8], line: Range<usize>, candidate: Span) -> Option<Span> {
        let Some(exact) = &self.exact else { return Some(candidate) };
        let is_fast = text[line.clone()].is_ascii();
        if !is_fast {
            exact.left.set(exact.left.get().and_then(|left| left.checked_sub(line.len())));
        }
        let regex = if is_fast || exact.left.get().is_some() { &exact.unicode } else { &exact.ascii };
        regex.find(Input::new(text).range(line)).map(|found| found.span())
    }

    /// Returns true if ASCII word boundaries were used for some lines.
    pub(crate) fn is_approximate(&self) -> bool {
        self.exact.as_ref().is_some_and(|exact| exact.left.get().is_none())
    }
}

fn automaton(hir: &Hir) -> Option<meta::Regex> {
    let config = meta::Config::new().utf8_empty(false).nfa_size_limit(Some(MAX_AUTOMATON)).hybrid_cache_capacity(CACHE);
    meta::Builder::new().configure(config).build_from_hir(hir).ok()
}

/// Returns the expression without matches across line ends. `None` if it contains a literal line feed.
fn within_line(hir: &Hir, edges: Edges) -> Option<Hir> {
    let part = |hir: &Hir| within_line(hir, edges);
    Some(match hir.kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) => match literal.0.contains(&b'\n') {
            true => return None,
            false => Hir::literal(literal.0.clone()),
        },
        HirKind::Class(Class::Unicode(class)) => {
            let mut class = class.clone();
            class.difference(&ClassUnicode::new([ClassUnicodeRange::new('\n', '\n')]));
            Hir::class(Class::Unicode(class))
        }
        HirKind::Class(Class::Bytes(class)) => {
            let mut class = class.clone();
            class.difference(&ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]));
            Hir::class(Class::Bytes(class))
        }
        // The anchors of the text become those of the line.
        HirKind::Look(Look::Start) => Hir::look(Look::StartCRLF),
        HirKind::Look(Look::End) => Hir::look(Look::EndCRLF),
        HirKind::Look(look) => match (ascii_edge(*look), edges) {
            (None, _) | (_, Edges::Unicode) => Hir::look(*look),
            (Some(ascii), Edges::Ascii) => Hir::look(ascii),
            (Some(_), Edges::Ignored) => Hir::empty(),
        },
        HirKind::Repetition(repetition) => Hir::repetition(repetition.with(part(&repetition.sub)?)),
        // Captures are not needed.
        HirKind::Capture(capture) => part(&capture.sub)?,
        HirKind::Concat(parts) => Hir::concat(parts.iter().map(part).collect::<Option<_>>()?),
        HirKind::Alternation(parts) => Hir::alternation(parts.iter().map(part).collect::<Option<_>>()?),
    })
}

/// Returns the ASCII form of a Unicode word boundary; `None` for any other assertion.
fn ascii_edge(look: Look) -> Option<Look> {
    Some(match look {
        Look::WordUnicode => Look::WordAscii,
        Look::WordUnicodeNegate => Look::WordAsciiNegate,
        Look::WordStartUnicode => Look::WordStartAscii,
        Look::WordEndUnicode => Look::WordEndAscii,
        Look::WordStartHalfUnicode => Look::WordStartHalfAscii,
        Look::WordEndHalfUnicode => Look::WordEndHalfAscii,
        _ => return None,
    })
}

fn asks_for_line_feed(pattern: &str) -> Failure {
    Failure::invalid(format!(
        "the pattern '{}' asks for a line feed, but a match lies within one line; search for a part of it",
        clip(pattern)
    ))
}

fn too_large(pattern: &str) -> Failure {
    Failure::invalid(format!(
        "the pattern '{}' is too large when compiled; repeat less, as in \\w{{1,20}} for \\w{{1,500}}, or use \\w+",
        clip(pattern)
    ))
}

fn does_not_parse(pattern: &str, error: &regex_syntax::Error) -> Failure {
    let (what, offset) = match error {
        regex_syntax::Error::Parse(error) => (error.kind().to_string(), error.span().start.offset),
        regex_syntax::Error::Translate(error) => (error.kind().to_string(), error.span().start.offset),
        _ => (error.to_string(), 0),
    };
    let column = pattern.char_indices().take_while(|(position, _)| *position < offset).count() + 1;
    Failure::invalid(format!(
        "the pattern '{}' does not parse at column {column}: {what}. To search for it as plain text, set fixed (-F)",
        clip(pattern)
    ))
}

/// Shortens a pattern for a quotation.
pub(crate) fn clip(text: &str) -> String {
    match text.char_indices().nth(100) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pattern: &Pattern, text: &[u8]) -> Option<Range<usize>> {
        crate::matching::find(text, pattern).next().map(|hit| hit.matched)
    }

    fn matches(pattern: &str, text: &str) -> Option<String> {
        let pattern = Pattern::new(pattern, false, false).expect("a pattern");
        find(&pattern, text.as_bytes()).map(|range| text[range].to_owned())
    }

    fn refused(pattern: &str) -> String {
        Pattern::new(pattern, false, false).err().expect("a refusal").to_string()
    }

    #[test]
    fn match_lies_within_one_line() {
        assert_eq!(matches("a[^x]*", "a b\nc").as_deref(), Some("a b"));
        assert_eq!(matches(r"(?s)a.*", "a b\nc").as_deref(), Some("a b"));
        assert_eq!(matches(r"b\s+c", "b\nc b  c").as_deref(), Some("b  c"));
        assert_eq!(matches(r"(?s-u)b.c", "b\nc b c").as_deref(), Some("b c"));
        assert_eq!(matches(r"\D\W", "1\n\n2"), None);
        assert_eq!(matches(r"(a|[\s])+$", "x\na ").as_deref(), Some("a "));
    }

    #[test]
    fn anchors_match_at_line_ends() {
        assert_eq!(matches("^b$", "a\nb\nc").as_deref(), Some("b"));
        assert_eq!(matches(r"\Ab\z", "a\nb\nc").as_deref(), Some("b"));
        assert_eq!(matches("^b$", "a\r\nb\r\nc").as_deref(), Some("b"));
        assert_eq!(matches(r"\bb\b", "ab\nb").as_deref(), Some("b"));
        assert_eq!(matches(r"(?-m)^b", "a\nb").as_deref(), Some("b"));
    }

    #[test]
    fn options_for_case_and_plain_text_are_used() {
        let found = |pattern: &str, fixed, ignore_case, text: &str| {
            let pattern = Pattern::new(pattern, fixed, ignore_case).expect("a pattern");
            find(&pattern, text.as_bytes()).is_some()
        };
        assert!(!found("straße", false, false, "STRAßE"));
        assert!(found("straße", false, true, "STRAßE"));
        assert!(found("(?i)ÉTÉ", false, false, "été"));
        assert!(found("a.b(", true, false, "a.b("));
        assert!(!found("a.b", true, false, "axb"));
        assert!(found("A.B", true, true, "a.b"));
    }

    #[test]
    fn bytes_that_are_no_utf8_can_be_searched_around() {
        let pattern = Pattern::new("caf.* au", false, false).expect("a pattern");
        assert_eq!(find(&pattern, b"caf\xe9 au"), None, "a dot is a character");
        let bytes = Pattern::new("(?-u)caf.* au", false, false).expect("a pattern");
        assert_eq!(find(&bytes, b"\xff\ncaf\xe9 au lait"), Some(2..9));
    }

    #[test]
    fn parse_errors_name_the_position() {
        let message = refused("é(abc");
        assert_eq!(
            message,
            "the pattern 'é(abc' does not parse at column 2: unclosed group. To search for it as plain text, set fixed (-F)"
        );
        assert!(refused(r"a(?=b)").contains("look-around"), "{}", refused(r"a(?=b)"));
        assert!(refused(r"(a)\1").contains("backreferences are not supported"), "{}", refused(r"(a)\1"));
        assert!(refused(r"\p{Nope}").contains("column 1: Unicode property not found"), "{}", refused(r"\p{Nope}"));
        assert!(refused("").starts_with("the pattern is empty"));
    }

    #[test]
    fn literal_line_feeds_are_refused() {
        for pattern in ["a\nb", r"a\nb", r"x|(\n)", r"\x0A*"] {
            assert!(refused(pattern).contains("asks for a line feed"), "{pattern}");
        }
    }

    #[test]
    fn patterns_are_limited() {
        assert_eq!(refused(&"x".repeat(5_000)), "a pattern of 5000 bytes is over the limit of 4096");
        for pattern in [r"\w{5000}", r"(((\w{40}){40}){40}){40}", r"\pL{1,999}x"] {
            assert!(refused(pattern).contains("too large when compiled"), "{pattern}");
        }
        for pattern in ["(".repeat(2_000) + &")".repeat(2_000), "a".to_owned() + &"**".repeat(1_000), "[".repeat(4_000)]
        {
            assert!(refused(&pattern).len() < 400, "{}", refused(&pattern));
        }
        assert!(Pattern::new(r"\w{1,20}", false, true).is_ok());
        assert!(Pattern::new(&"x|".repeat(2_000), false, true).is_ok());
    }

    #[test]
    fn word_boundaries_follow_unicode() {
        assert_eq!(matches(r"\bété\b", "l’été").as_deref(), Some("été"));
        assert_eq!(matches(r"\bt\b", "été t").as_deref(), Some("t"));
        assert_eq!(matches(r"\bt\b", "été\n-t-").as_deref(), Some("t"));
        assert_eq!(matches(r"\Bt", "t été").as_deref(), Some("t"));
        assert_eq!(matches(r"\b{start}t|t\b{end-half}", "été\nét").as_deref(), Some("t"));
    }

    #[test]
    fn word_boundaries_are_ascii_after_the_limit() {
        let pattern = Pattern::new(r"t\b", false, false).expect("a pattern");
        // A word boundary in ASCII, but not in Unicode.
        let text = "été\n".repeat(MAX_SLOW / 5 + 1);
        let hits: Vec<_> = crate::matching::find(text.as_bytes(), &pattern).collect();
        assert_eq!((hits.len(), hits[0].number), (1, MAX_SLOW / 5 + 1));
        assert!(pattern.is_approximate());
        assert_eq!(find(&pattern, b"-t-"), Some(1..2), "lines of ASCII are not slow");
        let pattern = Pattern::new(r"t\b", false, false).expect("a pattern");
        assert_eq!(find(&pattern, &text.as_bytes()[..MAX_SLOW / 2]), None);
        assert!(!pattern.is_approximate());
        let long = format!("é{}t", " ".repeat(MAX_SLOW));
        assert_eq!(matches(r"\bt\b", &long).as_deref(), Some("t"));
    }

    proptest::proptest! {
        /// Searching the whole text finds the same as searching line by line.
        #[test]
        fn text_search_equals_line_search(pattern in "(\\^|\\\\A|\\\\b)?([abc.]|\\[\\^b\\]|\\\\s|\\(\\?s:\\.\\)|\\(a\\|c\\)){1,3}[*+?]?(\\$|\\\\z|\\\\B)?", text in "[ab cé\n]{0,30}") {
            let reference = meta::Builder::new().syntax(syntax::Config::new().multi_line(true)).build(&pattern).expect("a pattern");
            let pattern = Pattern::new(&pattern, false, false).expect("a pattern");
            let found = crate::matching::find(text.as_bytes(), &pattern);
            let found: Vec<&str> = found.map(|hit| &text[hit.line]).collect();
            let lines = text.split_inclusive('\n').map(|line| line.strip_suffix('\n').unwrap_or(line));
            let expected: Vec<&str> = lines.filter(|line| reference.is_match(line)).collect();
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
