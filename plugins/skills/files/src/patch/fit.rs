//! Finds where the hunks of a patch apply in a file, and applies them.

use patchbay_sdk::{Failure, Result};

use super::parse::Hunk;
use crate::words::{at_lines, shown, visible};

/// The text of a file as lines without newlines.
struct Lines<'a> {
    lines: Vec<&'a str>,
    /// Whether all line endings are CRLF.
    crlf: bool,
    /// Whether the last line has no newline.
    open: bool,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let crlf = text.contains("\r\n") && text.matches('\n').count() == text.matches("\r\n").count();
        let open = !text.is_empty() && !text.ends_with('\n');
        let mut lines: Vec<&str> = text.split('\n').collect();
        if !open {
            lines.pop();
        }
        if crlf {
            lines.iter_mut().for_each(|line| *line = line.strip_suffix('\r').unwrap_or(line));
        }
        Self { lines, crlf, open }
    }

    /// Whether line `at`, counted from 0, is where `old` begins.
    fn has(&self, at: usize, hunk: &Hunk<'_>) -> bool {
        let Some(end) = at.checked_add(hunk.old.len()).filter(|end| *end <= self.lines.len()) else { return false };
        let here = self.lines[at..end].iter().zip(&hunk.old).all(|(here, old)| self.matches(here, old));
        here && (!hunk.old_open || (end == self.lines.len() && self.open))
    }

    /// A diff of a file with CRLF line endings may show its lines with or without the carriage return.
    fn matches(&self, here: &str, old: &str) -> bool {
        here == old || (self.crlf && old.strip_suffix('\r') == Some(here))
    }
}

/// Returns `text` with `hunks` applied, which must fit in order.
///
/// # Errors
/// A hunk that does not fit or fits at several places: nothing is to be written then.
pub(crate) fn apply(path: &str, text: &str, hunks: &[Hunk<'_>]) -> Result<String> {
    let file = Lines::of(text);
    let mut done: Vec<&str> = Vec::with_capacity(file.lines.len());
    let mut open = file.open;
    // The first line that no hunk has taken, and how far the hunks stand from where their headers say.
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
            open = if hunk.old_open || hunk.new_open { hunk.new_open } else { file.open && !hunk.old.is_empty() };
        }
    }
    done.extend(&file.lines[from..]);
    let end = if file.crlf { "\r\n" } else { "\n" };
    let mut applied = done.join(end);
    if !done.is_empty() && !open {
        applied.push_str(end);
    }
    Ok(applied)
}

/// The line, from 0, at which the header says that the hunk begins. A hunk without old lines stands behind
/// the line that its header names.
fn expected(hunk: &Hunk<'_>, line: usize) -> usize {
    if hunk.old.is_empty() { line } else { line.saturating_sub(1) }
}

/// Returns where `hunk` applies: at its header's line, moved as far as the hunk before, or at the only other place.
fn place(path: &str, file: &Lines<'_>, hunk: &Hunk<'_>, index: usize, from: usize, shift: isize) -> Result<usize> {
    let hint = hunk.line.map(|line| expected(hunk, line).saturating_add_signed(shift));
    if let Some(at) = hint.filter(|at| *at >= from && file.has(*at, hunk)) {
        return Ok(at);
    }
    let (path, number) = (shown(path), index + 1);
    if hunk.old.is_empty() {
        let count = file.lines.len();
        let message = match hunk.line {
            None if count == from => return Ok(count),
            None => format!(
                "hunk {number} of '{path}' only adds lines and does not say where; include lines around \
                it"
            ),
            Some(line) => format!("hunk {number} of '{path}' adds after line {line}, but the file has {count} lines"),
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
                "hunk {number} of '{path}' fits at {}; nothing was written. Include more of the surrounding lines",
                at_lines(&lines)
            );
            Err(Failure::new("ambiguous", message))
        }
    }
}

/// Names the first line that differs where most lines of the hunk fit, or at the expected place.
fn stale(path: &str, number: usize, file: &Lines<'_>, hunk: &Hunk<'_>, expected: usize) -> Failure {
    let fits =
        |at: usize| file.lines[at..].iter().zip(&hunk.old).take_while(|(here, old)| file.matches(here, old)).count();
    let start = hunk.old.first().copied().unwrap_or_default();
    let candidates = (0..file.lines.len()).filter(|at| file.matches(file.lines[*at], start));
    let best =
        candidates.map(|at| (fits(at), at)).max_by_key(|(fits, at)| (*fits, std::cmp::Reverse(at.abs_diff(expected))));
    let (fitting, at) = best.unwrap_or((0, expected));
    let wanted = shown(hunk.old.get(fitting).copied().unwrap_or_default());
    let bare = |line: &str| visible(line).map(|(_, c)| c).collect::<String>();
    let what = match file.lines.get(at + fitting) {
        Some(here) if hunk.old.get(fitting).is_some_and(|old| bare(old) == bare(here)) => {
            let line = at + fitting + 1;
            let message = format!(
                "hunk {number} of '{path}' does not fit: line {line} differs in invisible characters; nothing was written. \
                 Change the line with edit, which ignores them"
            );
            return Failure::new("stale", message);
        }
        _ if fitting == hunk.old.len() => format!("line {} is not the end of the file", at + fitting),
        Some(here) => format!("line {} is '{}', not '{wanted}'", at + fitting + 1, shown(here)),
        None => format!("the file has {} lines, and '{wanted}' would come after them", file.lines.len()),
    };
    Failure::new(
        "stale",
        format!("hunk {number} of '{path}' does not fit: {what}; nothing was written. Read the file again"),
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
    fn hunks_are_applied_where_they_fit() {
        let text = "a\nb\nc\nd\ne\n";
        assert_eq!(applied(text, "@@ -2,2 +2,2 @@\n b\n-c\n+C\n"), Ok("a\nb\nC\nd\ne\n".into()));
        // Wrong numbers, none, and two hunks.
        assert_eq!(applied(text, "@@ -40,9 +2 @@\n b\n-c\n+C\n"), Ok("a\nb\nC\nd\ne\n".into()));
        assert_eq!(applied(text, "@@\n-a\n@@\n d\n+D\n"), Ok("b\nc\nd\nD\ne\n".into()));
        // Without old lines: after the line of the header.
        assert_eq!(applied(text, "@@ -2,0 +3 @@\n+x\n"), Ok("a\nb\nx\nc\nd\ne\n".into()));
        assert_eq!(applied("", "@@ -0,0 +1 @@\n+x\n"), Ok("x\n".into()));
        assert_eq!(applied("a\n", "@@\n-a\n"), Ok(String::new()));
    }

    #[test]
    fn of_equal_places_the_one_that_the_header_names_is_meant() {
        let text = "x\n1\nx\n2\nx\n";
        assert_eq!(applied(text, "@@ -3 +3 @@\n-x\n+y\n"), Ok("x\n1\ny\n2\nx\n".into()));
        // The second hunk is as far from its header as the first.
        let text = "new\nq\nx\n2\nx\n";
        assert_eq!(applied(text, "@@ -1 +1 @@\n-q\n+Q\n@@ -4 +4 @@\n-x\n+y\n"), Ok("new\nQ\nx\n2\ny\n".into()));
        let message = applied(text, "@@\n-x\n+y\n").unwrap_err();
        assert_eq!(
            message,
            "ambiguous: hunk 1 of 'f' fits at lines 3 and 5; nothing was written. Include more of the surrounding lines"
        );
    }

    #[test]
    fn stale_hunk_names_the_line_that_differs() {
        let text = "fn a() {\n    one();\n    TWO();\n}\n";
        let message =
            applied(text, "@@ -1,3 +1,3 @@\n fn a() {\n     one();\n-    two();\n+    three();\n").unwrap_err();
        assert_eq!(
            message,
            "stale: hunk 1 of 'f' does not fit: line 3 is '    TWO();', not '    two();'; nothing was written. Read the file again"
        );
        let message = applied("a\n", "@@ -7 +7 @@\n-b\n+c\n").unwrap_err();
        assert!(message.contains("the file has 1 lines, and 'b' would come after them"), "{message}");
        let message = applied("a\nb\n", "@@ -2 +2 @@\n-b\n\\ No newline at end of file\n+c\n").unwrap_err();
        assert!(message.contains("line 2 is not the end of the file"), "{message}");
        assert!(
            applied("a\n", "@@ -9,0 +10 @@\n+b\n").unwrap_err().contains("adds after line 9, but the file has 1 lines")
        );
        assert!(applied("a\n", "@@\n+b\n").unwrap_err().contains("does not say where"));
        assert_eq!(
            applied("a\nb\u{200b}c\n", "@@\n a\n-bc\n+d\n").unwrap_err(),
            "stale: hunk 1 of 'f' does not fit: line 2 differs in invisible characters; nothing was written. Change \
             the line with edit, which ignores them"
        );
    }

    #[test]
    fn line_ends_are_preserved() {
        assert_eq!(applied("a\r\nb\r\n", "@@\n a\n-b\n+c\n+d\n"), Ok("a\r\nc\r\nd\r\n".into()));
        assert_eq!(applied("a\r\nb\r\n", "@@\n a\r\n-b\r\n+c\r\n"), Ok("a\r\nc\r\n".into()));
        // The last line has no end, before or after.
        assert_eq!(applied("a\nb", "@@\n-a\n+A\n"), Ok("A\nb".into()));
        assert_eq!(applied("a\nb", "@@\n-b\n\\ No newline at end of file\n+B\n"), Ok("a\nB\n".into()));
        assert_eq!(applied("a\nb\n", "@@\n-b\n+B\n\\ No newline at end of file\n"), Ok("a\nB".into()));
        assert_eq!(applied("a\nb", "@@\n-b\n+B\n"), Ok("a\nB".into()), "the patch says nothing about the end");
    }
}
