//! Parses the line that the user types after `/grep`.

use patchbay_sdk::{Failure, Result};

use crate::Search;

const USAGE: &str = "write [-i] [-F] [-C N] PATTERN [GLOB], as in: -i \"todo:\" *.rs";

/// The input of the tool, parsed from the line.
#[derive(Debug)]
pub(crate) struct Typed(pub(crate) Search);

pub(crate) fn read(line: &str) -> Result<Typed> {
    let mut rest = line.trim();
    let mut search = Search::default();
    while let Some((option, behind)) = option(rest)? {
        rest = behind;
        match option {
            Flag::End => break,
            Flag::IgnoreCase => search.ignore_case = true,
            Flag::Fixed => search.fixed = true,
            Flag::Context(lines) => search.context = lines,
        }
    }
    let (pattern, behind) = word(rest)?.ok_or_else(|| Failure::invalid(format!("nothing to search for; {USAGE}")))?;
    let (glob, behind) = word(behind)?.unzip();
    if let Some(more) = behind.filter(|more| !more.is_empty()) {
        return Err(Failure::invalid(format!(
            "'{}' is unexpected: a pattern with spaces must be in quotes; {USAGE}",
            clip(more)
        )));
    }
    Ok(Typed(Search { pattern: pattern.to_owned(), glob: glob.map(str::to_owned), ..search }))
}

enum Flag {
    IgnoreCase,
    Fixed,
    Context(usize),
    End,
}

/// Splits an option off the beginning.
fn option(text: &str) -> Result<Option<(Flag, &str)>> {
    let (word, behind) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let behind = behind.trim_start();
    let Some(name) = word.strip_prefix('-').filter(|name| !name.is_empty()) else { return Ok(None) };
    Ok(Some(match name {
        "-" => (Flag::End, behind),
        "i" => (Flag::IgnoreCase, behind),
        "F" => (Flag::Fixed, behind),
        _ => {
            let Some(number) = name.strip_prefix('C') else {
                return Err(Failure::invalid(format!(
                    "unknown option '{}'; {USAGE}. A pattern that begins with '-' follows '--'",
                    clip(word)
                )));
            };
            let (number, behind) = match number {
                "" => behind.split_once(char::is_whitespace).unwrap_or((behind, "")),
                number => (number, behind),
            };
            let lines = number.parse().map_err(|_| {
                Failure::invalid(format!("-C takes a number of lines, as in -C 2, not '{}'", clip(number)))
            })?;
            (Flag::Context(lines), behind.trim_start())
        }
    }))
}

/// Splits a word, quoted or not, off the beginning.
fn word(text: &str) -> Result<Option<(&str, &str)>> {
    let Some(quote) = text.chars().next() else { return Ok(None) };
    if quote != '"' && quote != '\'' {
        let (word, behind) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        return Ok(Some((word, behind.trim_start())));
    }
    let inner = &text[1..];
    let end = inner
        .match_indices(quote)
        .map(|(end, _)| end)
        .find(|end| inner[end + 1..].chars().next().is_none_or(char::is_whitespace));
    let Some(end) = end else {
        let other = if quote == '"' { '\'' } else { '"' };
        return Err(Failure::invalid(format!(
            "the quote in '{}' is not closed; to search for the quote itself, write {other}{quote}{other}",
            clip(text)
        )));
    };
    Ok(Some((&inner[..end], inner[end + 1..].trim_start())))
}

/// Shortens a string for quoting.
pub(crate) fn clip(text: &str) -> String {
    match text.char_indices().nth(100) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Search {
        read(line).unwrap_or_else(|failure| panic!("{line}: {failure}")).0
    }

    fn refused(line: &str) -> String {
        read(line).expect_err("a refusal").to_string()
    }

    #[test]
    fn line_has_a_pattern_and_an_optional_glob() {
        for (line, pattern, glob) in [
            ("todo", "todo", None),
            (" todo  *.rs ", "todo", Some("*.rs")),
            ("\"two words\" 'a b/*.rs'", "two words", Some("a b/*.rs")),
            (r#"'say "no"'"#, r#"say "no""#, None),
            (r#""a"b" x"#, r#"a"b"#, Some("x")),
            (r#"a"b"#, r#"a"b"#, None),
            (r"\s+$", r"\s+$", None),
            ("- x", "-", Some("x")),
            ("'' x", "", Some("x")),
            ("\u{e9}\tx", "\u{e9}", Some("x")),
        ] {
            let search = typed(line);
            assert_eq!((&*search.pattern, search.glob.as_deref()), (pattern, glob), "{line}");
        }
    }

    #[test]
    fn options_come_first() {
        let search = typed("-i -C 2 -F x -i");
        assert_eq!((search.ignore_case, search.context, search.fixed), (true, 2, true));
        assert_eq!((&*search.pattern, search.glob.as_deref()), ("x", Some("-i")));
        assert_eq!(typed("-C3 x").context, 3);
        let search = typed("-- -i");
        assert_eq!((&*search.pattern, search.ignore_case), ("-i", false));
        assert_eq!(typed("'-i'").pattern, "-i");
    }

    #[test]
    fn errors_name_the_problem() {
        for line in ["", "  ", "-i", "-C 2", "--"] {
            assert!(refused(line).starts_with("nothing to search for; write [-i]"), "{line}");
        }
        assert!(
            refused("fn main () x").starts_with("'() x' is unexpected: a pattern with spaces must be in quotes; write")
        );
        let message = refused("-w x");
        assert!(message.starts_with("unknown option '-w'; write [-i]"), "{message}");
        assert!(message.ends_with("A pattern that begins with '-' follows '--'"), "{message}");
        assert_eq!(refused("-C x y"), "-C takes a number of lines, as in -C 2, not 'x'");
        assert_eq!(refused("-C -1 y"), "-C takes a number of lines, as in -C 2, not '-1'");
        assert_eq!(
            refused("\"two words"),
            "the quote in '\"two words' is not closed; to search for the quote itself, write '\"'"
        );
        let long = "x ".repeat(100_000);
        assert!(refused(&long).len() < 300);
    }
}
