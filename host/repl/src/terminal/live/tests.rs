//! Tests of the live area: exact bytes of frames, and the law that finished lines survive.

use proptest::prelude::*;

use super::*;
use crate::terminal::fake_terminal::FakeTerminal;

fn view(rows: &[&str], cursor: (usize, usize)) -> LiveView {
    LiveView { rows: rows.iter().map(|row| Row::plain(*row)).collect(), cursor }
}

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[test]
fn unchanged_view_writes_nothing() {
    let mut area = LiveArea::new(true);
    assert!(!area.frame(80, &[], view(&["> "], (0, 2))).is_empty());
    assert_eq!(area.frame(80, &[], view(&["> "], (0, 2))), "");
}

#[test]
fn frame_is_one_synchronized_update_without_clearing_the_screen() {
    let mut area = LiveArea::new(true);
    let first = area.frame(80, &lines(&["done"]), view(&["tail", "> "], (1, 2)));
    assert_eq!(first, "\x1b[?2026h\r\x1b[Jdone\r\ntail\r\n> \x1b[3G\x1b[?2026l");
    let second = area.frame(80, &lines(&["more"]), view(&["> x"], (0, 3)));
    assert_eq!(second, "\x1b[?2026h\x1b[1A\r\x1b[Jmore\r\n> x\x1b[4G\x1b[?2026l");
}

#[test]
fn mark_is_written_once_behind_the_finished_lines() {
    let mut area = LiveArea::new(true);
    area.frame(80, &[], view(&["> "], (0, 2)));
    area.mark("\x1b]133;D;0\x07");
    let marked = area.frame(80, &lines(&["done"]), view(&["> "], (0, 2)));
    assert_eq!(marked, "\x1b[?2026h\r\x1b[Jdone\r\n\x1b]133;D;0\x07> \x1b[3G\x1b[?2026l");
    assert_eq!(area.frame(80, &[], view(&["> "], (0, 2))), "");
    area.mark("\x1b]133;D;1\x07");
    assert_eq!(area.leave(80, &[]), "\x1b[?2026h\r\x1b[J\x1b]133;D;1\x07\x1b[?2026l");
}

#[test]
fn only_changed_rows_are_written() {
    let mut area = LiveArea::new(true);
    area.frame(80, &[], view(&["busy 1 s", "> draft", "status"], (1, 7)));
    let next = area.frame(80, &[], view(&["busy 2 s", "> draft", "status"], (1, 7)));
    assert_eq!(next, "\x1b[?2026h\x1b[1A\rbusy 2 s\x1b[1B\x1b[8G\x1b[?2026l");
    let shorter = area.frame(80, &[], view(&["busy", "> draft"], (1, 7)));
    assert_eq!(shorter, "\x1b[?2026h\x1b[1A\rbusy\x1b[K\x1b[2B\r\x1b[J\x1b[1A\x1b[8G\x1b[?2026l");
}

#[test]
fn growing_row_is_written_from_its_change_on() {
    let mut area = LiveArea::new(true);
    area.frame(80, &[], view(&["a 世界 growing", "> "], (1, 2)));
    let next = area.frame(80, &[], view(&["a 世界 growing row", "> "], (1, 2)));
    assert_eq!(next, "\x1b[?2026h\x1b[1A\x1b[15G row\x1b[1B\x1b[3G\x1b[?2026l");
    // A row with a style sequence is written completely.
    let styled = |text: &str| LiveView { rows: vec![Row::styled("\x1b[2m", text)], cursor: (0, 0) };
    let mut area = LiveArea::new(true);
    area.frame(80, &[], styled("a growing"));
    assert_eq!(
        area.frame(80, &[], styled("a growing row")),
        "\x1b[?2026h\r\x1b[2ma growing row\x1b[0m\x1b[1G\x1b[?2026l"
    );
}

#[test]
fn narrowing_moves_up_by_the_rewrapped_rows() {
    let mut terminal = FakeTerminal::new(20, 10);
    let mut area = LiveArea::new(true);
    terminal.write(&area.frame(20, &lines(&["a finished line"]), view(&["seventeen columns", "> draft"], (1, 7))));
    terminal.resize(6);
    terminal.write(&area.frame(6, &[], view(&["five5", "> dra"], (1, 5))));
    assert_eq!(terminal.text(), ["a finished line", "five5", "> dra"]);
}

#[test]
fn terminal_that_does_not_rewrap_counts_each_row_once() {
    let mut area = LiveArea::new(false);
    area.frame(20, &[], view(&["seventeen columns", "> "], (1, 2)));
    assert!(area.frame(6, &[], view(&["five5", "> "], (1, 2))).starts_with("\x1b[?2026h\x1b[1A\r\x1b[J"));
}

#[test]
fn leaving_removes_the_area() {
    let mut terminal = FakeTerminal::new(20, 10);
    let mut area = LiveArea::new(true);
    terminal.write(&area.frame(20, &lines(&["one"]), view(&["busy", "> draft"], (1, 7))));
    terminal.write(&area.leave(20, &lines(&["two"])));
    assert_eq!(terminal.text(), ["one", "two"]);
}

#[derive(Clone, Debug)]
enum Step {
    Finish(Vec<String>),
    Draw(Vec<String>),
    Resize(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let text = "[a-z世é ]{0,60}[a-z]";
    prop_oneof![
        3 => prop::collection::vec(text, 0..4).prop_map(Step::Finish),
        3 => prop::collection::vec("[a-z世é ]{0,30}", 1..6).prop_map(Step::Draw),
        1 => (8usize..100).prop_map(Step::Resize),
    ]
}

/// `text` cut to `columns - 1` columns, as the loop cuts rows.
fn cut(text: &str, columns: usize) -> Row {
    let mut kept = String::new();
    for character in text.chars() {
        if kept.width() + character.to_string().width() > columns - 1 {
            break;
        }
        kept.push(character);
    }
    Row::plain(kept)
}

proptest! {
    /// Law of the live area: each finished line, and each line before them, is there once and in order.
    #[test]
    fn finished_lines_survive_any_sequence_of_frames_and_resizes(steps in prop::collection::vec(step(), 1..40)) {
        const ROWS: usize = 24;
        let mut columns = 80;
        let mut terminal = FakeTerminal::new(columns, ROWS);
        let mut area = LiveArea::new(true);
        let mut expected: Vec<String> = (0..30).map(|number| format!("shell line {number}")).collect();
        for line in &expected {
            terminal.write(&format!("{line}\r\n"));
        }
        let mut rows = vec!["> ".to_owned()];
        let mut fits = true;
        for step in steps {
            let mut finished = Vec::new();
            match step {
                Step::Finish(lines) => finished = lines,
                Step::Draw(drawn) => rows = drawn,
                Step::Resize(to) => {
                    let height: usize = rows.iter().map(|row| cut(row, columns).width.max(1).div_ceil(to)).sum();
                    // A row of the area may remain as a ghost in three cases: the area is taller than the window, a wide
                    // character leaves a column empty at the edge, or the cursor is at the edge and may be on either row.
                    let edge = rows.last().is_some_and(|row| cut(row, columns).width.is_multiple_of(to));
                    fits &= height < ROWS && !edge && rows.iter().all(|row| row.chars().count() == row.width());
                    columns = to;
                    terminal.resize(to);
                }
            }
            expected.extend(finished.iter().cloned());
            let shown: Vec<Row> = rows.iter().map(|row| cut(row, columns)).collect();
            let last = shown.len() - 1;
            let cursor = (last, shown[last].width);
            terminal.write(&area.frame(columns, &finished, LiveView { rows: shown, cursor }));
        }
        terminal.write(&area.leave(columns, &[]));
        if fits {
            prop_assert_eq!(terminal.text(), expected);
        } else {
            let mut text = terminal.text().into_iter();
            for line in expected {
                prop_assert!(text.any(|shown| shown == line), "{} is lost", line);
            }
        }
    }
}
