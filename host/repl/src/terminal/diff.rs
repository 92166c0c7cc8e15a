//! The change that a call of `files__edit` or `files__write` makes, as lines of a diff. Pure; `transcript` prints them below
//! the result of the call.

use std::time::Duration;

use patchbay_core::{completion::ToolCall, text};
use similar::{ChangeTag, TextDiff};

/// Lines of a diff that are shown; further ones are counted.
const LINES: usize = 20;
/// Characters of a line that are shown.
const LINE: usize = 300;
/// Bytes of texts that are compared. Of longer ones all old lines are shown as removed, all new ones as added.
const COMPARED: usize = 256 << 10;
/// Time for a comparison; when it is over, the rest counts as changed.
const TIME: Duration = Duration::from_millis(50);

/// One line of a diff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DiffLine {
    Added(String),
    Removed(String),
    /// The number of lines that are not shown.
    More(usize),
}

/// Returns what `call` changes in a file; nothing for other tools, and for inputs that are not theirs. The old text of a
/// whole file is not known here, so that all lines of a written file are added ones.
pub(crate) fn of_call(call: &ToolCall) -> Vec<DiffLine> {
    match &*call.name {
        "files__edit" => match call.text_arguments(["old", "new"]) {
            [Some(old), Some(new)] => lines(&old, &new),
            _ => Vec::new(),
        },
        "files__write" => match call.text_arguments(["text"]) {
            [Some(new)] => lines("", &new),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Returns the first `limit` lines of a diff, and how many more there are.
pub(crate) fn shortened(diff: &[DiffLine], limit: usize) -> Vec<DiffLine> {
    let (shown, rest) = diff.split_at(limit.min(diff.len()));
    let more: usize = rest.iter().map(|line| if let DiffLine::More(more) = line { *more } else { 1 }).sum();
    shown.iter().cloned().chain((more > 0).then_some(DiffLine::More(more))).collect()
}

/// Returns the lines that differ between two texts, cleaned and bounded.
fn lines(old: &str, new: &str) -> Vec<DiffLine> {
    let mut shown = Vec::new();
    let mut more = 0;
    let mut push = |line: &str, is_added: bool| {
        if shown.len() == LINES {
            more += 1;
            return;
        }
        let line = text::clean(line.trim_end_matches(['\r', '\n']));
        let line = match line.char_indices().nth(LINE) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        };
        shown.push(if is_added { DiffLine::Added(line) } else { DiffLine::Removed(line) });
    };
    if old.len() + new.len() > COMPARED {
        old.lines().for_each(|line| push(line, false));
        new.lines().for_each(|line| push(line, true));
    } else {
        for change in TextDiff::configure().timeout(TIME).diff_lines(old, new).iter_all_changes() {
            match change.tag() {
                ChangeTag::Equal => {}
                ChangeTag::Delete => push(change.value(), false),
                ChangeTag::Insert => push(change.value(), true),
            }
        }
    }
    if more > 0 {
        shown.push(DiffLine::More(more));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, input: &str) -> ToolCall {
        ToolCall { id: "1".to_owned(), name: name.to_owned(), input: input.to_owned() }
    }

    fn added(line: &str) -> DiffLine {
        DiffLine::Added(line.to_owned())
    }

    fn removed(line: &str) -> DiffLine {
        DiffLine::Removed(line.to_owned())
    }

    #[test]
    fn edit_shows_the_lines_that_change() {
        let input = r#"{"path":"a","old":"one\ntwo\nthree","new":"one\n2\nthree\nfour"}"#;
        let expected = [removed("two"), removed("three"), added("2"), added("three"), added("four")];
        // The last line has no line end in `old`, but one in `new`.
        assert_eq!(of_call(&call("files__edit", input)), expected);
        let input = r#"{"path":"a","old":"one\ntwo\n","new":"one\n"}"#;
        assert_eq!(of_call(&call("files__edit", input)), [removed("two")]);
    }

    #[test]
    fn written_file_shows_its_first_lines() {
        let text: String = (1..=25).map(|number| format!("{number}\\n")).collect();
        let lines = of_call(&call("files__write", &format!(r#"{{"path":"a","text":"{text}"}}"#)));
        assert_eq!((lines.len(), &lines[0], &lines[20]), (21, &added("1"), &DiffLine::More(5)));
    }

    #[test]
    fn shortened_diff_counts_the_rest() {
        let diff = [added("1"), added("2"), added("3"), DiffLine::More(5)];
        assert_eq!(shortened(&diff, 2), [added("1"), added("2"), DiffLine::More(6)]);
        assert_eq!(shortened(&diff[..2], 2), [added("1"), added("2")]);
        assert_eq!(shortened(&[], 2), []);
    }

    #[test]
    fn other_calls_have_no_diff() {
        for (name, input) in [
            ("files__read", r#"{"path":"a"}"#),
            ("files__edit", "none"),
            ("files__edit", r#"{"old":1,"new":"a"}"#),
            ("notes__write", r#"{"text":"a"}"#),
        ] {
            assert_eq!(of_call(&call(name, input)), []);
        }
    }

    #[test]
    fn hostile_texts_are_cleaned_and_cheap() {
        assert_eq!(lines("", "a\u{1b}[2Jb\r\n"), [added("a[2Jb")]);
        let (old, new) = ("x\n".repeat(1 << 20), "y".repeat(1 << 20));
        let diff = lines(&old, &new);
        assert_eq!((diff.len(), &diff[20]), (21, &DiffLine::More((1 << 20) - 20 + 1)));
        // Lines in another order are slow to compare.
        let numbers = |step: usize| (0..20_000).map(|n| format!("{}\n", n * step % 20_011)).collect::<String>();
        let start = std::time::Instant::now();
        assert_eq!(lines(&numbers(7), &numbers(11)).len(), 21);
        assert!(start.elapsed() < Duration::from_secs(20));
    }
}
