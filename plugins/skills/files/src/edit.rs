//! The tool `edit`: replaces an exact text in a file.

use std::ops::Range;

use patchbay_sdk::{Failure, Result, workspace};

use crate::{
    contents::{MAX_FILE, whole},
    words::{at_lines, count, shown, visible},
};

pub(crate) fn edit(path: &str, old: &str, new: &str, all: bool) -> Result<String> {
    if old.is_empty() {
        return Err(Failure::invalid("'old' is empty; give the text to replace, or write the whole file with write"));
    }
    if old == new {
        return Err(Failure::invalid("'old' and 'new' are the same; nothing would change"));
    }
    let text = whole(path)?;
    let (old, new) = (with_line_ends_of(&text, old), with_line_ends_of(&text, new));
    let mut found: Vec<_> = text.match_indices(&old).map(|(at, old)| at..at + old.len()).collect();
    let is_exact = !found.is_empty();
    if !is_exact {
        found = visibly_equal(&text, &old);
    }
    match found.len() {
        0 => return Err(missing(path, &text, &old)),
        1 => {}
        _ if all => {}
        times => {
            return Err(Failure::new(
                "ambiguous",
                format!(
                    "'old' occurs {times} times in '{}', at {}; nothing was written. Include more of the \
                     surrounding text, or replace all with all: true",
                    shown(path),
                    at_lines(&lines(&text, &found))
                ),
            ));
        }
    }
    let replaced: usize = found.iter().map(Range::len).sum();
    let size = (text.len() - replaced).saturating_add(found.len().saturating_mul(new.len()));
    if size > MAX_FILE {
        let message =
            format!("'{}' would have {size} bytes, over the limit of {MAX_FILE}; nothing was written", shown(path));
        return Err(Failure::new("too-large", message));
    }
    let mut edited = String::with_capacity(size);
    let mut end = 0;
    for range in &found {
        edited.push_str(&text[end..range.start]);
        edited.push_str(&new);
        end = range.end;
    }
    edited.push_str(&text[end..]);
    workspace::write(path, edited.as_bytes())?;
    let times = count(found.len(), "occurrence");
    let removed =
        if is_exact { "" } else { " It differed from 'old' in invisible characters, which were replaced, too." };
    Ok(format!("Replaced {times} in '{}', at {}.{removed}", shown(path), at_lines(&lines(&text, &found))))
}

/// Returns the ranges of `text` whose visible characters equal those in `old`, because a model does not see invisible
/// characters. A range begins and ends with a visible character.
fn visibly_equal(text: &str, old: &str) -> Vec<Range<usize>> {
    let old: String = visible(old).map(|(_, c)| c).collect();
    if old.is_empty() {
        return Vec::new();
    }
    let mut bare = String::with_capacity(text.len());
    // For each byte of `bare`, the position in `text` where its character ends.
    let mut ends = Vec::with_capacity(text.len());
    for (at, c) in visible(text) {
        bare.push(c);
        ends.resize(bare.len(), at + c.len_utf8());
    }
    let first = old.chars().next().map_or(0, char::len_utf8);
    bare.match_indices(&old).map(|(at, _)| ends[at] - first..ends[at + old.len() - 1]).collect()
}

/// Returns `part` with CRLF line endings if all line endings of `text` are CRLF, because a model that
/// read the text only saw newlines.
fn with_line_ends_of(text: &str, part: &str) -> String {
    let crlf = text.contains("\r\n") && text.matches('\n').count() == text.matches("\r\n").count();
    match crlf && !part.contains("\r\n") {
        true => part.replace('\n', "\r\n"),
        false => part.to_owned(),
    }
}

/// Returns the error for a text that does not occur, with a hint about similar text in the file.
fn missing(path: &str, text: &str, old: &str) -> Failure {
    let path = shown(path);
    let first = old.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let near: Vec<usize> = match first.is_empty() {
        true => Vec::new(),
        false => {
            text.lines().enumerate().filter(|(_, line)| line.contains(first)).map(|(index, _)| index + 1).collect()
        }
    };
    let hint = match near.is_empty() {
        true => "It may have been changed: read it again".to_owned(),
        false => format!(
            "Its first line, apart from surrounding white space, is at {}: read that part, and copy the text exactly",
            at_lines(&near)
        ),
    };
    Failure::new("not-found", format!("'old' does not occur in '{path}'; nothing was written. {hint}"))
}

/// Returns the line numbers at which `ranges` begin, which must be ascending.
fn lines(text: &str, ranges: &[Range<usize>]) -> Vec<usize> {
    let (mut line, mut from) = (1, 0);
    let number = |range: &Range<usize>| {
        line += text[from..range.start].matches('\n').count();
        from = range.start;
        line
    };
    ranges.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_sdk::testing::{Host, Reaction};

    fn edited(text: &str, old: &str, new: &str, all: bool) -> (Result<String, String>, String) {
        let host = Host::new().with_file("f", text);
        let answer = host.run(|| edit("f", old, new, all)).map_err(|failure| failure.to_string());
        (answer, String::from_utf8(host.file("f").expect("the file")).expect("UTF-8"))
    }

    /// Returns the message of a refused edit and checks that the file is unchanged.
    fn refused(text: &str, old: &str, new: &str, all: bool) -> String {
        let (answer, left) = edited(text, old, new, all);
        assert_eq!(left, text);
        answer.expect_err("a refusal")
    }

    #[test]
    fn one_occurrence_is_replaced() {
        let text = "one\ntwo\nthree\n";
        let (answer, left) = edited(text, "two\n", "2\n2b\n", false);
        assert_eq!(
            (answer.as_deref(), &*left),
            (Ok("Replaced 1 occurrence in 'f', at line 2."), "one\n2\n2b\nthree\n")
        );
        assert_eq!(edited(text, "two\n", "", false).1, "one\nthree\n");
        assert_eq!(edited("\u{e9}a\u{e9}", "a\u{e9}", "$1\\n", false).1, "\u{e9}$1\\n");
    }

    #[test]
    fn several_occurrences_need_all() {
        let message = refused("a\nb a\na\n", "a", "c", false);
        assert_eq!(
            message,
            "'old' occurs 3 times in 'f', at lines 1, 2 and 3; nothing was written. Include more of the surrounding \
             text, or replace all with all: true"
        );
        let (answer, left) = edited("a\nb a\na\n", "a", "aa", true);
        assert_eq!(
            (answer.as_deref(), &*left),
            (Ok("Replaced 3 occurrences in 'f', at lines 1, 2 and 3."), "aa\nb aa\naa\n")
        );
        // Overlapping occurrences count once, because they are replaced once.
        assert_eq!(edited("xxx", "xx", "y", false).1, "yx");
    }

    #[test]
    fn missing_text_is_reported_with_similar_text() {
        let text = "fn a() {\n\tlet x = 1;\n}\n\tlet x = 1; // again\n";
        assert_eq!(
            refused(text, "    let x = 1;\n    y", "z", false),
            "'old' does not occur in 'f'; nothing was written. Its first line, apart from surrounding white space, is at lines 2 \
             and 4: read that part, and copy the text exactly"
        );
        let message = refused(text, "let y", "z", true);
        assert_eq!(
            message,
            "'old' does not occur in 'f'; nothing was written. It may have been changed: read it again"
        );
        assert!(refused(text, "   \n \n", "z", true).ends_with("read it again"));
    }

    #[test]
    fn line_ends_are_preserved() {
        let (answer, left) = edited("a\r\nb\r\nc\r\n", "a\nb", "1\n2\n3", false);
        assert_eq!(
            (answer.as_deref(), &*left),
            (Ok("Replaced 1 occurrence in 'f', at line 1."), "1\r\n2\r\n3\r\nc\r\n")
        );
        assert_eq!(edited("a\r\nb\r\n", "a\r\nb", "x\r\ny", false).1, "x\r\ny\r\n");
        // Mixed line endings must match exactly.
        assert!(refused("a\r\nb\n", "a\nb", "x", false).contains("does not occur"));
        assert_eq!(edited("a\r\nb\n", "a\r\nb", "x\ny", false).1, "x\ny\n");
    }

    #[test]
    fn invisible_characters_do_not_prevent_an_edit() {
        let text = "\u{feff}\u{200b}fn\u{200b} a\u{202e}b()\u{200b}\nمی\u{200c}خواهم\n";
        let (answer, left) = edited(text, "fn ab()", "fn c()", false);
        let words = "Replaced 1 occurrence in 'f', at line 1. It differed from 'old' in invisible characters, which were \
                     replaced, too.";
        assert_eq!(answer.as_deref(), Ok(words));
        assert_eq!(left, "\u{feff}\u{200b}fn c()\u{200b}\nمی\u{200c}خواهم\n");
        assert_eq!(edited("a\u{200b}b ab", "ab", "c", true).1, "a\u{200b}b c", "an exact text comes first");
        assert_eq!(edited("a\u{200b}é a\u{ad}é", "aé", "c", true).1, "c c");
        assert_eq!(edited("☕ x", "☕\u{fe0f} x", "y", false).1, "y");
        assert!(refused("a\u{200b}b a\u{ad}b", "ab", "c", false).contains("occurs 2 times in 'f', at line"));
        assert!(refused("ab", "\u{200b}", "c", false).contains("does not occur"));
    }

    #[test]
    fn nothing_to_do_is_refused() {
        assert!(refused("a", "", "b", false).starts_with("'old' is empty"));
        assert!(refused("a", "a", "a", false).starts_with("'old' and 'new' are the same"));
    }

    #[test]
    fn files_that_cannot_be_edited_are_reported() {
        let refused = |host: Host| host.run(|| edit("f", "a", "b", false)).expect_err("no text");
        let message = |bytes: &[u8]| refused(Host::new().with_file("f", bytes));
        let failure = message(b"a\xff");
        assert_eq!(
            (failure.kind(), failure.message()),
            ("not-text", "'f' is not UTF-8 from byte 1 on, and cannot be edited")
        );
        assert_eq!(message(b"a\0").kind(), "not-text");
        let failure = message(&vec![b'a'; MAX_FILE + 1]);
        let words = "'f' has more than the 2097152 bytes that can be edited";
        assert_eq!((failure.kind(), failure.message()), ("too-large", words));
        assert_eq!(refused(Host::new()).kind(), "not-found");
    }

    #[test]
    fn edited_file_is_limited_in_size() {
        let message = refused(&"a".repeat(MAX_FILE / 2), "a", "bbb", true);
        assert_eq!(message, "'f' would have 3145728 bytes, over the limit of 2097152; nothing was written");
    }

    #[test]
    fn refusal_by_the_host_is_passed_on() {
        let denying = Host::new().with_file("f", "a").on_call(|call| match call.function {
            "workspace.write" => Reaction::Fail("denied"),
            _ => Reaction::Proceed,
        });
        let failure = denying.run(|| edit("f", "a", "b", false)).expect_err("denied");
        assert_eq!((failure.kind(), failure.message()), ("denied", "simulated denied"));
    }
}
