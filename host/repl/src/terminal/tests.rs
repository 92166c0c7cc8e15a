//! Laws of the front as a whole: an answer that arrives in any pieces, while the user types and resizes the window, is printed
//! once, and all earlier lines of the terminal stay.

use std::{
    fs::File,
    io::{self, IsTerminal},
    time::Instant,
};

use patchbay_core::{DeltaKind, DeltaPosition, EventKind, MessageKind};
use proptest::prelude::*;

use super::{
    fake_terminal::FakeTerminal,
    key_events,
    live::{LiveArea, LiveView, Row},
    style::Look,
    transcript::{
        Transcript,
        tests::{VIEW, at as received},
    },
    wrap::{self, Mark},
};

const ROWS: usize = 24;
/// Lines that a shell has printed before.
const SHELL_LINES: usize = 30;

#[derive(Clone, Debug)]
enum Action {
    /// Receives this many characters of the answer.
    Receive(usize),
    Resize(usize),
    /// Sets the text of the composer.
    Draft(String),
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (1usize..60).prop_map(Action::Receive),
        1 => (30usize..120).prop_map(Action::Resize),
        1 => "[a-z世 ]{0,100}".prop_map(Action::Draft),
    ]
}

/// A block of Markdown. Its layout depends on the width, but not its letters.
fn block() -> impl Strategy<Value = String> {
    let words = || {
        prop::collection::vec("[a-z]{1,9}|世界|\\*\\*[a-z]{1,5}\\*\\*|`[a-z]{1,5}`", 1..30)
            .prop_map(|words| words.join(" "))
    };
    prop_oneof![
        3 => words(),
        1 => words().prop_map(|text| format!("## {text}")),
        1 => prop::collection::vec(words(), 1..4).prop_map(|items| format!("- {}", items.join("\n- "))),
        1 => words().prop_map(|text| format!("> {text}")),
        1 => prop::collection::vec("[a-z(){} ]{0,60}", 0..6).prop_map(|lines| format!("```\n{}\n```", lines.join("\n"))),
        // The output of a hostile model.
        1 => Just("a\u{1b}[2Jb\u{1b}]0;x\u{7}c\u{9b}3Jd\u{1b}ce\u{202e}f".to_owned()),
    ]
}

fn answer() -> impl Strategy<Value = String> {
    prop::collection::vec(block(), 1..8).prop_map(|blocks| blocks.join("\n\n"))
}

/// Feeds `answer` to `transcript` from byte `offset`, at most `characters` of it, and returns the next offset.
fn receive(transcript: &mut Transcript, answer: &str, offset: usize, characters: usize) -> usize {
    let rest = &answer[offset..];
    let end = rest.char_indices().nth(characters).map_or(rest.len(), |(at, _)| at);
    if end > 0 {
        let at = DeltaPosition { offset: offset as u64, ..DeltaPosition::default() };
        let delta = EventKind::Delta { block: DeltaKind::Text, text: rest[..end].to_owned(), at };
        transcript.event(received(1, delta), Instant::now());
    }
    offset + end
}

/// Feeds the stored row of `answer`, which ends it.
fn end(transcript: &mut Transcript, answer: &str) {
    let row = EventKind::Message { kind: MessageKind::Assistant, content: answer.to_owned(), data: None };
    transcript.event(received(1, row), Instant::now());
}

/// The letters of lines with sequences, in order.
fn letters(lines: &[String]) -> String {
    lines.iter().flat_map(|line| unstyled(line).chars().filter(|c| c.is_alphanumeric()).collect::<Vec<_>>()).collect()
}

/// Removes the sequences that set attributes, and fails for all others.
fn unstyled(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (codes, rest) = part.strip_prefix('[').and_then(|part| part.split_once('m')).expect("only styles");
        assert!(codes.chars().all(|c| c.is_ascii_digit() || c == ';'), "{line:?}");
        text.push_str(rest);
    }
    assert!(!text.chars().any(char::is_control), "{line:?}");
    text
}

/// The rows as the loop draws them: the open block, the composer, a status.
fn view(transcript: &Transcript, draft: &str, columns: usize) -> LiveView {
    let mut rows = transcript.tail(ROWS / 3);
    let input = wrap::input(wrap::PROMPT, draft, draft.len(), columns, ROWS / 3, Mark::None, None);
    let cursor = (rows.len() + input.cursor.0, input.cursor.1);
    rows.extend(input.rows);
    rows.push(Row::plain(wrap::cut("model · ~/workspace", columns - 1)));
    LiveView { rows, cursor }
}

proptest! {
    /// However an answer is cut into pieces, the same lines are printed.
    #[test]
    fn pieces_of_an_answer_do_not_change_what_is_printed(
        answer in answer(),
        sizes in prop::collection::vec(1usize..60, 0..40),
        columns in 20usize..120,
    ) {
        let mut whole = Transcript::new(VIEW, columns, Look::default());
        receive(&mut whole, &answer, 0, usize::MAX);
        end(&mut whole, &answer);
        let mut pieces = Transcript::new(VIEW, columns, Look::default());
        let mut offset = 0;
        for size in sizes {
            offset = receive(&mut pieces, &answer, offset, size);
        }
        receive(&mut pieces, &answer, offset, usize::MAX);
        end(&mut pieces, &answer);
        prop_assert_eq!(pieces.take_finished(), whole.take_finished());
    }

    /// With any pieces, resizes and keys, the shell's lines and all printed lines are in the terminal, in order,
    /// and the answer is printed once.
    #[test]
    fn answer_is_printed_once_whatever_happens(
        answer in answer(),
        actions in prop::collection::vec(action(), 0..60),
    ) {
        let mut columns = 80;
        let mut terminal = FakeTerminal::new(columns, ROWS);
        let mut area = LiveArea::new(true);
        let mut transcript = Transcript::new(VIEW, columns, Look::default());
        let mut printed: Vec<String> = (0..SHELL_LINES).map(|number| format!("shell line {number}")).collect();
        for line in &printed {
            terminal.write(&format!("{line}\r\n"));
        }
        let (mut draft, mut offset, mut ended) = (String::new(), 0, false);
        let last = [Action::Receive(usize::MAX)];
        for action in actions.into_iter().chain(last) {
            match action {
                Action::Receive(characters) => offset = receive(&mut transcript, &answer, offset, characters),
                Action::Resize(to) => {
                    columns = to;
                    terminal.resize(to);
                    transcript.resize(to);
                }
                Action::Draft(text) => draft = text,
            }
            if offset == answer.len() && !ended {
                ended = true;
                end(&mut transcript, &answer);
            }
            let finished = transcript.take_finished();
            terminal.write(&area.frame(columns, &finished, view(&transcript, &draft, columns)));
            printed.extend(finished);
        }
        let finished = transcript.take_finished();
        printed.extend(finished.iter().cloned());
        terminal.write(&area.leave(columns, &finished));
        // The answer was printed once if the letters are the same as for an answer in one piece.
        let mut whole = Transcript::new(VIEW, 80, Look::default());
        receive(&mut whole, &answer, 0, usize::MAX);
        end(&mut whole, &answer);
        prop_assert_eq!(letters(&printed[SHELL_LINES..]), letters(&whole.take_finished()));
        // The terminal has no empty lines at its end.
        while printed.last().is_some_and(String::is_empty) {
            printed.pop();
        }
        // A row of the live area may remain as a ghost after a resize, but no printed line is lost.
        let shown = terminal.text();
        let mut rest = shown.iter();
        for line in printed.iter().map(|line| unstyled(line).trim_end().to_owned()) {
            prop_assert!(rest.any(|shown| *shown == line), "{:?} is lost: {:#?}", line, shown);
        }
    }
}

/// A terminal that was closed between its check and the first key.
#[test]
fn keys_without_a_terminal_are_an_error() {
    let has_terminal = io::stdin().is_terminal() || File::open("/dev/tty").is_ok();
    assert_eq!(key_events().is_ok(), has_terminal);
}
