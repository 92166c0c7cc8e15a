//! Finds where the hunks of a patch apply to a file, and applies them. A hunk applies where its old lines match.

use patchbay_sdk::{Failure, Result};

use super::parse::Hunk;
use crate::words::{at_lines, count, shown, visible};

/// The text of a file as lines without newlines.
struct Lines<'a> {
    lines: Vec<&'a str>,
    /// Whether all line endings are CRLF.
    crlf: bool,
    /// Whether the last line has no newline.
    unterminated: bool,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let crlf = text.contains("\r\n") && text.matches('\n').count() == text.matches("\r\n").count();
        let unterminated = !text.is_empty() && !text.ends_with('\n');
        let mut lines: Vec<&str> = text.split('\n').collect();
        if !unterminated {
            lines.pop();
        }
        if crlf {
            lines.iter_mut().for_each(|line| *line = line.strip_suffix('\r').unwrap_or(line));
        }
        Self { lines, crlf, unterminated }
    }

    /// Returns whether the old lines of `hunk` match from line `at` on, counted from 0.
    fn has(&self, at: usize, hunk: &Hunk<'_>) -> bool {
        let Some(end) = at.checked_add(hunk.old.len()).filter(|end| *end <= self.lines.len()) else { return false };
        let here = self.lines[at..end].iter().zip(&hunk.old).all(|(here, old)| self.matches(here, old));
        here && (!hunk.old_unterminated || (end == self.lines.len() && self.unterminated))
    }

    /// Compares a line with an old line of a hunk. A diff of a file with CRLF line endings may contain the carriage
    /// returns or not.
    fn matches(&self, here: &str, old: &str) -> bool {
        here == old || (self.crlf && old.strip_suffix('\r') == Some(here))
    }
}

/// Returns `text` with `hunks` applied. They must be in the order of their lines.
///
/// # Errors
/// A hunk does not apply, or applies at several places. In either case, the caller must not write anything, as the
/// message promises.
pub(crate) fn apply(path: &str, text: &str, hunks: &[Hunk<'_>]) -> Result<String> {
    let file = Lines::of(text);
    let mut done: Vec<&str> = Vec::with_capacity(file.lines.len());
    let mut unterminated = file.unterminated;
    // The first line after the hunks so far, and the offset of the last hunk from the line in its header.
    let (mut from, mut shift) = (0, 0);
    for (index, hunk) in hunks.iter().enumerate() {
        let at = place(path, &file, hunk, index, from, shift)?;
        if let Some(line) = hunk.line {
            shift = at as isize - expected(hunk, line) as isize;
        }
        done.extend(&file.lines[from..at]);
        done.extend(hunk.new.iter().map(|line| if file.crlf { line.strip_suffix('\r').unwrap_or(line) } else { line }));
        from = at + hunk.old.len();
        if from == file.lines.len() && !hunk.new.is_empty() {
            // The patch's `\ No newline` markers decide. Without one, the end of the file stays as it was, but lines
            // that are only added get a newline.
            unterminated = if hunk.old_unterminated || hunk.new_unterminated {
                hunk.new_unterminated
            } else {
                file.unterminated && !hunk.old.is_empty()
            };
        }
    }
    done.extend(&file.lines[from..]);
    let end = if file.crlf { "\r\n" } else { "\n" };
    let mut applied = done.join(end);
    if !done.is_empty() && !unterminated {
        applied.push_str(end);
    }
    Ok(applied)
}

/// Returns the line, from 0, at which the hunk begins according to its header. A hunk without old lines begins after
/// the line in its header.
fn expected(hunk: &Hunk<'_>, line: usize) -> usize {
    if hunk.old.is_empty() { line } else { line.saturating_sub(1) }
}

/// Returns where `hunk` applies: at its header's line with the previous hunk's offset, else at the only line where it
/// matches.
fn place(path: &str, file: &Lines<'_>, hunk: &Hunk<'_>, index: usize, from: usize, shift: isize) -> Result<usize> {
    let hint = hunk.line.map(|line| expected(hunk, line).saturating_add_signed(shift));
    if let Some(at) = hint.filter(|at| *at >= from && file.has(*at, hunk)) {
        return Ok(at);
    }
    let (path, number) = (shown(path), index + 1);
    if hunk.old.is_empty() {
        let lines = file.lines.len();
        let message = match hunk.line {
            None if lines == from => return Ok(lines),
            None => format!(
                "hunk {number} of '{path}' only adds lines, but its header has no line number; include the lines around them"
            ),
            Some(line) if hint.is_some_and(|at| at < from) => format!(
                "hunk {number} of '{path}' adds lines after line {line}, but hunk {index} ends after it; put the hunks in order"
            ),
            Some(line) => {
                let lines = count(lines, "line");
                format!("hunk {number} of '{path}' adds lines after line {line}, but the file has {lines}")
            }
        };
        return Err(Failure::new("stale", format!("{message}; nothing was written")));
    }
    let found: Vec<usize> = (from..file.lines.len()).filter(|at| file.has(*at, hunk)).collect();
    match found[..] {
        [at] => Ok(at),
        [] => Err(stale(&path, number, file, hunk, hint.unwrap_or(from).max(from))),
        _ => {
            let lines: Vec<usize> = found.iter().map(|at| at + 1).collect();
            let message = format!(
                "hunk {number} of '{path}' matches at {}; nothing was written. Include more of the surrounding lines",
                at_lines(&lines)
            );
            Err(Failure::new("ambiguous", message))
        }
    }
}

/// Returns the error for a hunk that does not apply. It names the first line that differs, at the place where most
/// lines of the hunk match, or at the expected line.
fn stale(path: &str, number: usize, file: &Lines<'_>, hunk: &Hunk<'_>, expected: usize) -> Failure {
    let matches =
        |at: usize| file.lines[at..].iter().zip(&hunk.old).take_while(|(here, old)| file.matches(here, old)).count();
    let start = hunk.old.first().copied().unwrap_or_default();
    let candidates = (0..file.lines.len()).filter(|at| file.matches(file.lines[*at], start));
    let best = candidates
        .map(|at| (matches(at), at))
        .max_by_key(|(matches, at)| (*matches, std::cmp::Reverse(at.abs_diff(expected))));
    let (matching, at) = best.unwrap_or((0, expected));
    let wanted = shown(hunk.old.get(matching).copied().unwrap_or_default());
    let bare = |line: &str| visible(line).map(|(_, c)| c).collect::<String>();
    let what = match file.lines.get(at + matching) {
        Some(here) if hunk.old.get(matching).is_some_and(|old| bare(old) == bare(here)) => {
            let line = at + matching + 1;
            let message = format!(
                "hunk {number} of '{path}' does not apply: line {line} differs in invisible characters; nothing was written. \
                 Change the line with edit, which ignores them"
            );
            return Failure::new("stale", message);
        }
        _ if matching == hunk.old.len() && !hunk.old_unterminated => {
            format!("it matches at line {}, before the end of hunk {}; put the hunks in order", at + 1, number - 1)
        }
        _ if matching == hunk.old.len() => format!("line {} has a newline, unlike in the patch", at + matching),
        Some(here) => format!("line {} is '{}', not '{wanted}'", at + matching + 1, shown(here)),
        None => format!("the file ends after {}, but '{wanted}' should follow", count(file.lines.len(), "line")),
    };
    Failure::new(
        "stale",
        format!("hunk {number} of '{path}' does not apply: {what}; nothing was written. Read the file again"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::parse::parse;

    fn applied(text: &str, hunks: &str) -> Result<String, String> {
        let patch = format!("--- f\n+++ f\n{hunks}");
        let files = parse(&patch).expect("a patch");
        apply("f", text, &files[0].hunks).map_err(|failure| format!("{}: {failure}", failure.kind()))
    }

    #[test]
    fn hunks_are_applied_where_they_match() {
        let text = "a\nb\nc\nd\ne\n";
        assert_eq!(applied(text, "@@ -2,2 +2,2 @@\n b\n-c\n+C\n"), Ok("a\nb\nC\nd\ne\n".into()));
        // Wrong line numbers; two hunks without numbers.
        assert_eq!(applied(text, "@@ -40,9 +2 @@\n b\n-c\n+C\n"), Ok("a\nb\nC\nd\ne\n".into()));
        assert_eq!(applied(text, "@@\n-a\n@@\n d\n+D\n"), Ok("b\nc\nd\nD\ne\n".into()));
        // A hunk without old lines is inserted after the line in its header.
        assert_eq!(applied(text, "@@ -2,0 +3 @@\n+x\n"), Ok("a\nb\nx\nc\nd\ne\n".into()));
        assert_eq!(applied("", "@@ -0,0 +1 @@\n+x\n"), Ok("x\n".into()));
        assert_eq!(applied("a\n", "@@\n-a\n"), Ok(String::new()));
    }

    #[test]
    fn header_chooses_between_equal_places() {
        let text = "x\n1\nx\n2\nx\n";
        assert_eq!(applied(text, "@@ -3 +3 @@\n-x\n+y\n"), Ok("x\n1\ny\n2\nx\n".into()));
        // The second hunk has the same offset from its header as the first.
        let text = "new\nq\nx\n2\nx\n";
        assert_eq!(applied(text, "@@ -1 +1 @@\n-q\n+Q\n@@ -4 +4 @@\n-x\n+y\n"), Ok("new\nQ\nx\n2\ny\n".into()));
        let message = applied(text, "@@\n-x\n+y\n").unwrap_err();
        assert_eq!(
            message,
            "ambiguous: hunk 1 of 'f' matches at lines 3 and 5; nothing was written. Include more of the surrounding lines"
        );
    }

    #[test]
    fn stale_hunk_names_the_line_that_differs() {
        let text = "fn a() {\n    one();\n    TWO();\n}\n";
        let message =
            applied(text, "@@ -1,3 +1,3 @@\n fn a() {\n     one();\n-    two();\n+    three();\n").unwrap_err();
        assert_eq!(
            message,
            "stale: hunk 1 of 'f' does not apply: line 3 is '    TWO();', not '    two();'; nothing was written. Read the file again"
        );
        let message = applied("a\n", "@@ -7 +7 @@\n-b\n+c\n").unwrap_err();
        assert!(message.contains("the file ends after 1 line, but 'b' should follow"), "{message}");
        let message = applied("a\nb\n", "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+c\n").unwrap_err();
        assert!(message.contains("line 2 has a newline, unlike in the patch"), "{message}");
        assert!(
            applied("a\n", "@@ -9,0 +10 @@\n+b\n")
                .unwrap_err()
                .contains("adds lines after line 9, but the file has 1 line;")
        );
        assert!(applied("a\n", "@@\n+b\n").unwrap_err().contains("its header has no line number"));
        let unordered = applied("a\nb\n", "@@ -2 +2 @@\n-b\n+c\n@@ -0,0 +1 @@\n+x\n").unwrap_err();
        assert!(unordered.contains("hunk 2 of 'f' adds lines after line 0, but hunk 1 ends after it"), "{unordered}");
        let unordered = applied("a\nb\n", "@@ -2 +2 @@\n-b\n+c\n@@ -1 +1 @@\n-a\n+x\n").unwrap_err();
        assert!(
            unordered.contains("hunk 2 of 'f' does not apply: it matches at line 1, before the end of hunk 1"),
            "{unordered}"
        );
        assert_eq!(
            applied("a\nb\u{200b}c\n", "@@\n a\n-bc\n+d\n").unwrap_err(),
            "stale: hunk 1 of 'f' does not apply: line 2 differs in invisible characters; nothing was written. Change \
             the line with edit, which ignores them"
        );
    }

    #[test]
    fn line_endings_are_preserved() {
        assert_eq!(applied("a\r\nb\r\n", "@@\n a\n-b\n+c\n+d\n"), Ok("a\r\nc\r\nd\r\n".into()));
        assert_eq!(applied("a\r\nb\r\n", "@@\n a\r\n-b\r\n+c\r\n"), Ok("a\r\nc\r\n".into()));
        // The last line has no newline, before or after the patch.
        assert_eq!(applied("a\nb", "@@\n-a\n+A\n"), Ok("A\nb".into()));
        assert_eq!(applied("a\nb", "@@\n-b\n\\ No newline at end of file\n+B\n"), Ok("a\nB\n".into()));
        assert_eq!(applied("a\nb\n", "@@\n-b\n+B\n\\ No newline at end of file\n"), Ok("a\nB".into()));
        assert_eq!(applied("a\nb", "@@\n-b\n+B\n"), Ok("a\nB".into()), "the patch has no marker");
    }
}
