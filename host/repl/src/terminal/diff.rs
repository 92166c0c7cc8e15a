//! File diffs as rows: below the results of `files__edit` and `files__write`, and in questions.

use patchbay_core::{completion::ToolCall, text};
use patchbay_markdown::Palette;
use patchbay_session::{DiffLine, FileDiff};

use super::{
    live::Row,
    style::{self, FAINT},
    wrap::cut,
};

/// How many changed lines are shown below a result. The others are counted.
const LINES: usize = 20;

/// Returns the changes that `call` makes to a file; `None` for other tools, and for invalid inputs. The old text of a
/// whole file is not known here, so all lines of a written file count as added.
pub(crate) fn of_call(call: &ToolCall) -> Option<FileDiff> {
    match &*call.name {
        "files__edit" => match call.text_arguments(["old", "new"]) {
            [Some(old), Some(new)] => Some(FileDiff::new(&old, &new)),
            _ => None,
        },
        "files__write" => match call.text_arguments(["text"]) {
            [Some(new)] => Some(FileDiff::new("", &new)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the lines that differ, to show below a result. Their numbers in the file are not known.
pub(crate) fn changed_lines(diff: &FileDiff, palette: Palette) -> Vec<String> {
    let changed = diff.lines.iter().filter_map(DiffLine::parts).filter(|(_, sign, _)| *sign != ' ');
    let shown =
        changed.take(LINES).map(|(_, sign, text)| styled(sign, &format!("{sign} {}", text::clean(text)), palette).text);
    let mut shown: Vec<String> = shown.collect();
    let more = (diff.added + diff.removed).saturating_sub(shown.len());
    shown.extend((more > 0).then(|| style::faint(&format!("… {more} more lines"))));
    shown
}

/// Returns at most `most` lines with their numbers, for a question, as rows of at most `limit` columns.
pub(crate) fn rows(diff: &FileDiff, most: usize, palette: Palette, limit: usize) -> Vec<Row> {
    let digits = diff.digits();
    let row = |line: &DiffLine| match line.parts() {
        // A tab would move the cursor by an unknown number of columns.
        Some((number, sign, text)) => {
            let text = text.replace('\t', "    ");
            styled(sign, &cut(&format!("{number:>digits$} {sign} {text}"), limit), palette)
        }
        None => match line {
            DiffLine::Heading(text) => Row::styled(style::BOLD, &cut(text, limit)),
            _ => Row::styled(FAINT, &format!("{:>digits$}", "…")),
        },
    };
    let mut rows: Vec<Row> = diff.lines.iter().take(most).map(row).collect();
    let shown = diff.lines.iter().take(most).filter_map(DiffLine::parts).filter(|(_, sign, _)| *sign != ' ').count();
    let more = (diff.added + diff.removed).saturating_sub(shown);
    if more > 0 {
        rows.pop();
        rows.push(Row::styled(FAINT, &cut(&format!("… {} more changed lines: v shows them", more + 1), limit)));
    }
    rows
}

fn styled(sign: char, line: &str, palette: Palette) -> Row {
    match (sign, palette) {
        (' ', _) => Row::styled(FAINT, line),
        (_, Palette::NoColour) => Row::plain(line),
        ('+', _) => Row::styled(style::ADDED, line),
        _ => Row::styled(style::REMOVED, line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str, input: &str) -> Vec<String> {
        let call = ToolCall { id: "1".to_owned(), name: name.to_owned(), input: input.to_owned() };
        of_call(&call).map(|diff| changed_lines(&diff, Palette::NoColour)).unwrap_or_default()
    }

    #[test]
    fn edit_shows_the_lines_that_change() {
        let input = r#"{"path":"a","old":"one\ntwo\nthree\n","new":"one\n2\nthree\nfour\u001b[2J\n"}"#;
        assert_eq!(lines("files__edit", input), ["- two", "+ 2", "+ four\\u{1b}[2J"]);
        let text: String = (1..=25).map(|number| format!("{number}\\n")).collect();
        let written = lines("files__write", &format!(r#"{{"path":"a","text":"{text}"}}"#));
        assert_eq!((written.len(), &*written[0], &*written[20]), (21, "+ 1", "\u{1b}[2m… 5 more lines\u{1b}[0m"));
    }

    #[test]
    fn other_calls_have_no_difference() {
        for (name, input) in [
            ("files__read", r#"{"path":"a"}"#),
            ("files__edit", "none"),
            ("files__edit", r#"{"old":1,"new":"a"}"#),
            ("notes__write", r#"{"text":"a"}"#),
        ] {
            assert_eq!(lines(name, input), <[&str; 0]>::default());
        }
    }

    #[test]
    fn question_shows_numbers_and_counts_the_rest() {
        let old: String = (1..=12).map(|number| format!("{number}\n")).collect();
        let diff = FileDiff::new(&old, &old.replace("5\n", "five\n").replace("12\n", ""));
        let texts = |most| {
            let rows = rows(&diff, most, Palette::NoColour, 40);
            rows.into_iter().map(|row| row.text.replace("\x1b[2m", "").replace("\x1b[0m", "")).collect::<Vec<_>>()
        };
        let all = [
            " 2   2",
            " 3   3",
            " 4   4",
            " 5 - 5",
            " 5 + five",
            " 6   6",
            " 7   7",
            " 8   8",
            " 9   9",
            "10   10",
            "11   11",
            "12 - 12",
        ];
        assert_eq!(texts(20), all);
        assert_eq!(texts(5), [all[0], all[1], all[2], all[3], "… 2 more changed lines: v shows them"]);
    }
}
