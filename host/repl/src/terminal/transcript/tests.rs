//! Tests of the transcript: which lines an event finishes.

use patchbay_core::{DeltaPosition, Event, Retrying, SessionId};
use patchbay_session::AnswerSoFar;
use serde_json::json;

use super::*;

pub(in crate::terminal) const VIEW: AgentId = AgentId::from_bytes([2; 16]);

pub(in crate::terminal) fn at(seq: u64, kind: EventKind) -> Received {
    Received::Event(Event { session: SessionId::from_bytes([1; 16]), agent: VIEW, seq, kind })
}

fn delta_at(block: DeltaKind, offset: u64, text: &str) -> Received {
    let position = DeltaPosition { offset, ..DeltaPosition::default() };
    at(1, EventKind::Delta { block, text: text.to_owned(), at: position })
}

fn delta(block: DeltaKind, text: &str) -> Received {
    delta_at(block, 0, text)
}

fn assistant(seq: u64, content: &str) -> Received {
    at(seq, EventKind::Message { kind: MessageKind::Assistant, content: content.to_owned(), data: None })
}

fn row(content: &str) -> Received {
    assistant(1, content)
}

/// The finished lines without styles.
fn printed(transcript: &mut Transcript) -> Vec<String> {
    transcript.take_finished().iter().map(|line| line.replace("\x1b[2m", "").replace("\x1b[0m", "")).collect()
}

fn texts(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.text.as_str()).collect()
}

#[test]
fn streamed_answer_is_printed_once() {
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    let now = Instant::now();
    transcript.event(delta_at(DeltaKind::Text, 0, "first line\n\nsec"), now);
    transcript.event(delta_at(DeltaKind::Text, 15, "ond line"), now);
    transcript.event(row("first line\n\nsecond line"), now);
    transcript.outcome(&Outcome::ok(Code::Answered, "first line\n\nsecond line"), true);
    assert_eq!(printed(&mut transcript), ["first line", "", "second line"]);
}

#[test]
fn next_turn_may_begin_before_the_outcome_is_shown() {
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    let now = Instant::now();
    transcript.event(delta(DeltaKind::Text, "one"), now);
    transcript.event(row("one"), now);
    transcript.event(delta(DeltaKind::Thinking, "hm"), now);
    transcript.outcome(&Outcome::ok(Code::Answered, "one"), true);
    assert_eq!(printed(&mut transcript), ["one"]);
    assert_eq!(texts(&transcript.tail(3)), ["\x1b[2mhm\x1b[0m"]);
}

#[test]
fn thinking_is_folded_to_one_line() {
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    let now = Instant::now();
    transcript.event(delta(DeltaKind::Thinking, "one\ntwo\nthree\nfour"), now);
    assert_eq!(texts(&transcript.tail(9)), ["\x1b[2mtwo\x1b[0m", "\x1b[2mthree\x1b[0m", "\x1b[2mfour\x1b[0m"]);
    transcript.event(delta(DeltaKind::Text, "Done.\n"), now + Duration::from_secs(4));
    assert_eq!(transcript.take_finished()[0], "\x1b[2mthought 4 s (/show thinking)\x1b[0m");
    assert_eq!(transcript.results().show("thinking"), Ok("one\ntwo\nthree\nfour"));
}

fn thinking_with(display: ThinkingDisplay, pieces: &[&str]) -> (Vec<String>, Vec<String>) {
    let mut transcript = Transcript::new(VIEW, 80, Look { thinking: display, ..Look::default() });
    let now = Instant::now();
    let mut offset = 0;
    for text in pieces {
        transcript.event(delta_at(DeltaKind::Thinking, offset, text), now);
        offset += text.len() as u64;
    }
    let tail = texts(&transcript.tail(9)).into_iter().map(str::to_owned).collect();
    transcript.event(delta(DeltaKind::Text, "Done.\n\n"), now);
    assert!(transcript.results().show("thinking").is_ok());
    (tail, printed(&mut transcript))
}

#[test]
fn thinking_is_shown_or_hidden_as_configured() {
    let (tail, lines) = thinking_with(ThinkingDisplay::Show, &["one\ntw", "o\nthr", "ee"]);
    assert_eq!(
        (&*tail, &*lines),
        (&["\x1b[2mthree\x1b[0m".to_owned()][..], &["one", "two", "three", "Done."].map(str::to_owned)[..])
    );
    // The same lines are printed for any pieces.
    assert_eq!(thinking_with(ThinkingDisplay::Show, &["one\ntwo\nthree\n"]).1, ["one", "two", "three", "Done."]);
    // An emoji that arrives in two pieces.
    assert_eq!(thinking_with(ThinkingDisplay::Show, &["👩", "\u{200d}🚀\n"]).1, ["👩\u{200d}🚀", "Done."]);
    let (tail, lines) = thinking_with(ThinkingDisplay::Hide, &["one\ntwo"]);
    assert_eq!((tail.len(), &*lines), (0, &["Done.".to_owned()][..]));
}

fn called(content: &str, error: Option<Code>) -> Received {
    let data = serde_json::json!({"call_id": "1", "name": "a__b", "content": [], "error": error});
    at(1, EventKind::Message { kind: MessageKind::Tool, content: content.to_owned(), data: Some(data) })
}

#[test]
fn results_have_a_number_a_size_and_a_time() {
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    // A call that began before the front started.
    transcript.event(called("x", None), at(0));
    transcript.event(row(""), at(1_000));
    transcript.event(called("one\ntwo", None), at(1_090));
    transcript.set_question(true, at(1_100));
    transcript.set_question(false, at(60_000));
    transcript.event(called("no such file", Some(Code::InvalidInput)), at(62_000));
    let lines = printed(&mut transcript);
    assert_eq!(lines[0], "✓ 1  a__b: x");
    let failed = "\x1b[31m✗ 3  a__b · 2.1 s: no such file";
    assert_eq!(lines[lines.len() - 4..], ["✓ 2  a__b · 2 lines · 0.1 s", "  one", "  two", failed]);
    assert_eq!(transcript.results().show("3"), Ok("no such file"));
}

/// A call is in the live area until its result arrives; then both are printed as one row.
#[test]
fn result_stands_on_the_row_of_its_call() {
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    let parts = [("1", "grep__search", r#"{"pattern":"foo"}"#), ("2", "fork", r#"{"prompt":"Read"}"#)]
        .map(|(id, name, input)| serde_json::json!({"type": "tool_call", "id": id, "name": name, "input": input}));
    let answer = serde_json::json!({
        "provider": "p", "adapter": "a", "model": "m", "usage": {"input": 0, "output": 0}, "interrupted": false, "parts": parts,
    });
    let content = String::new();
    let asked = EventKind::Message { kind: MessageKind::Assistant, content, data: Some(answer) };
    transcript.event(at(1, asked), Instant::now());
    assert!(printed(&mut transcript).is_empty());
    assert_eq!(transcript.tail(9).len(), 2);
    transcript.event(called("12 hits", None), Instant::now());
    assert_eq!(printed(&mut transcript), ["✓ 1  grep__search {\"pattern\":\"foo\"} · 0.1 s: 12 hits"]);
    assert_eq!(transcript.results().show("1 in"), Ok("{\n  \"pattern\": \"foo\"\n}"));
    // The turn was stopped.
    transcript.end();
    assert_eq!((printed(&mut transcript), transcript.tail(9).len()), (vec!["→ fork \"Read\"".to_owned()], 0));
}

#[test]
fn failure_names_its_command_whole() {
    let mut transcript = Transcript::new(VIEW, 62, Look::default());
    let command = "patchbay grant add --root bundled files workspace-write";
    let denied = format!("skill 'files' may not use 'workspace-write': it is not granted. To grant it: {command}");
    transcript.event(called(&denied, Some(Code::Denied)), Instant::now());
    let expected =
        ["\x1b[31m✗ 1  a__b: skill 'files' may not use 'workspace-write': it is", "not granted. To grant it:", command];
    assert_eq!(printed(&mut transcript), expected);
    assert_eq!(transcript.results().show("1"), Ok(&*denied));
}

#[test]
fn results_of_commands_are_broken_at_words() {
    let mut transcript = Transcript::new(VIEW, 20, Look::default());
    transcript.outcome(&Outcome::ok(Code::CommandsListed, "/mail-check - List the inbox"), true);
    transcript.outcome(&Outcome::ok(Code::ToolResult, "let code = \"of a skill\";"), true);
    assert_eq!(transcript.take_finished(), ["/mail-check - List", "the inbox", "let code = \"of a skill\";"]);
}

#[test]
fn stop_says_how_long_it_ran() {
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    transcript.event(delta(DeltaKind::Text, "The answer"), Instant::now());
    let stopped = Outcome::refused(Code::TurnCancelled, "Cancelled. The partial answer is kept.");
    transcript.outcome_after(Some(Duration::from_millis(3_400)), &stopped, true);
    assert_eq!(printed(&mut transcript), ["The answer", "Stopped after 3 s; the partial answer is kept."]);
}

#[test]
fn outcome_of_a_command_leaves_a_running_answer_open() {
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    transcript.event(delta(DeltaKind::Text, "open"), Instant::now());
    transcript.outcome(&Outcome::ok(Code::SkillsListed, "calc"), false);
    assert_eq!(transcript.take_finished(), ["calc"]);
    assert_eq!(transcript.tail(3).len(), 1);
}

#[test]
fn long_message_is_shortened() {
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    let text: String = (1..=50).map(|number| format!("line {number}\n")).collect();
    transcript.entered(&text);
    let lines = transcript.take_finished();
    assert_eq!(lines.len(), 4);
    assert!(lines[0].contains("> ") && lines[0].ends_with("line 1"), "{lines:?}");
    assert!(lines[3].contains("… 47 more lines"), "{lines:?}");
}

#[test]
fn message_of_one_long_line_is_shortened() {
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    let entered = |transcript: &mut Transcript, text: &str| {
        transcript.entered(text);
        let lines = transcript.take_finished();
        lines.iter().map(|line| line.chars().filter(|c| *c == 'x').count()).collect::<Vec<_>>()
    };
    assert_eq!(entered(&mut transcript, &"x".repeat(1_000)), [1_000]);
    assert_eq!(entered(&mut transcript, &"x".repeat(3_000)), [300, 0]);
    assert_eq!(entered(&mut transcript, &format!("one\n{}", "x".repeat(3_000))), [0, 296, 0]);
    assert_eq!(counted_rest(&"x".repeat(2_700)), "… 2,700 more characters");
    assert_eq!((&*counted_rest("\none"), &*counted_rest("\none\ntwo\n")), ("… 1 more line", "… 2 more lines"));
}

#[test]
fn control_characters_never_reach_the_terminal() {
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    transcript.event(delta(DeltaKind::Text, "a\x1b]0;OWNED\x07b\x1b[2Jc\n"), Instant::now());
    transcript.entered("x\x1b[2Jy");
    let printed = transcript.take_finished().join("\n");
    assert!(!printed.contains("\x1b]0") && !printed.contains("\x1b[2J"), "{printed:?}");
}

#[test]
fn last_block_of_code_is_found() {
    assert_eq!(last_code("a\n```rust\nfn x() {}\n```\nb\n~~~\ny\nz\n~~~\n"), Some("y\nz"));
    assert_eq!(last_code("a\n````\n```\n````\n"), Some("```"));
    assert_eq!(last_code("```\ncut off"), Some("cut off"));
    assert_eq!(last_code("none"), None);
}

/// This also holds if the next line is entered before the next frame.
#[test]
fn end_of_an_output_is_marked_before_the_next_prompt() {
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    transcript.entered("/calc 1");
    transcript.print("1");
    transcript.end_output(true);
    transcript.entered("/nope");
    transcript.end_output(false);
    let (first, second) =
        ("\x1b]133;A\x07> \x1b]133;B\x07/calc 1\x1b]133;C\x07", "\x1b]133;A\x07> \x1b]133;B\x07/nope\x1b]133;C\x07");
    assert_eq!(transcript.take_finished(), [first, "1", &format!("\x1b]133;D;0\x07{second}")]);
    assert_eq!((&*transcript.take_mark(), &*transcript.take_mark()), ("\x1b]133;D;1\x07", ""));
}

#[test]
fn answer_is_printed_again_for_another_width_only() {
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    transcript.event(row("An answer."), Instant::now());
    transcript.take_finished();
    transcript.reprint();
    assert!(transcript.take_finished().is_empty());
    transcript.resize(40);
    transcript.reprint();
    transcript.reprint();
    assert_eq!(transcript.take_finished(), ["An answer."]);
}

#[test]
fn resumed_session_shows_its_last_exchange_as_answers_look() {
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    let exchange = |earlier, answer: Option<&str>, note| LastExchange {
        earlier,
        said: vec!["> How?".to_owned()],
        answer: answer.map(str::to_owned),
        note,
    };
    transcript.resumed(&exchange(42, Some("# Steps\n\n* one\n"), None));
    let lines = transcript.take_finished();
    let expected = ["\x1b[2m… 42 earlier messages: /history\x1b[0m", "> How?", "\x1b[1mSteps\x1b[0m", "", "- one"];
    assert_eq!(lines, expected);
    assert_eq!(transcript.copied(""), Ok("# Steps\n\n* one"));
    transcript.resumed(&exchange(0, None, Some("(no answer)")));
    assert_eq!(printed(&mut transcript), ["> How?", "(no answer)"]);
    let long: String = (1..=30).map(|number| format!("line {number}\n\n")).collect();
    transcript.resumed(&exchange(1, Some(&long), None));
    let lines = printed(&mut transcript);
    assert_eq!((&*lines[0], &*lines[2]), ("… 1 earlier message: /history", "… 39 more lines"));
    assert_eq!(lines.last().map(String::as_str), Some("line 30"));
}

fn in_view(seq: u64, answer: Option<&str>) -> AgentInView {
    AgentInView {
        id: VIEW,
        is_root: false,
        is_dead: false,
        is_working: answer.is_some(),
        seq,
        exchange: vec!["> How?".to_owned()],
        context_tokens: Some(7),
        unread: 0,
        tasks: Vec::new(),
        answer: answer.map(|text| AnswerSoFar {
            turn: 5,
            answer: 1,
            given_up: 0,
            text: text.to_owned(),
            thinking: Vec::new(),
        }),
    }
}

fn piece(seq: u64, answer: u32, offset: u64, text: &str) -> Received {
    let position = DeltaPosition { turn: 5, answer, offset, ..DeltaPosition::default() };
    at(seq, EventKind::Delta { block: DeltaKind::Text, text: text.to_owned(), at: position })
}

#[test]
fn agent_that_comes_into_view_goes_on_with_its_answer() {
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    let now = Instant::now();
    transcript.event(piece(8, 0, 0, "of another agent"), now);
    transcript.join(&in_view(9, Some("First.\n\nSec")), now);
    assert_eq!(transcript.context_tokens(), Some(7));
    // Events for rows already printed: an earlier answer, its row, and the same pieces.
    transcript.event(piece(8, 0, 0, "earlier"), now);
    transcript.event(assistant(9, "earlier"), now);
    transcript.event(piece(9, 1, 6, "\n\nSec"), now);
    transcript.event(piece(9, 1, 11, "ond."), now);
    transcript.event(assistant(10, "First.\n\nSecond."), now);
    let expected = ["of another agent", "Agent 02020202 is in view; it is working.", "> How?", "First.", "", "Second."];
    assert_eq!(printed(&mut transcript), expected);
}

#[test]
fn lines_about_other_agents_are_never_inside_a_block() {
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    let now = Instant::now();
    transcript.event(delta_at(DeltaKind::Text, 0, "```\none\n"), now);
    transcript.other_agent("a1b2c3d4 is done.");
    transcript.event(delta_at(DeltaKind::Text, 8, "two\n"), now);
    assert_eq!(printed(&mut transcript), ["one", "two"]);
    transcript.event(delta_at(DeltaKind::Text, 12, "```\n"), now);
    assert_eq!(printed(&mut transcript), ["a1b2c3d4 is done."]);
    transcript.other_agent("b2c3d4e5 is done.");
    assert_eq!(printed(&mut transcript), ["b2c3d4e5 is done."]);
}

fn given_up(seq: u64, answer: u32, given_up: u32) -> Received {
    let [provider, what, cause] = ["openai", "Server error", "overloaded"].map(str::to_owned);
    let retry = Retrying { provider, what, cause, wait_ms: 1_000, attempt: given_up, of: 4 };
    at(seq, EventKind::GivenUp { turn: 5, answer, given_up, retry })
}

/// A piece of an answer after `given_up` abandoned attempts.
fn piece_after(seq: u64, given_up: u32, offset: u64, text: &str) -> Received {
    let position = DeltaPosition { turn: 5, answer: 1, offset, given_up, ..DeltaPosition::default() };
    at(seq, EventKind::Delta { block: DeltaKind::Text, text: text.to_owned(), at: position })
}

/// The row of an answer after one abandoned attempt.
fn assistant_after(seq: u64, text: &str) -> Received {
    let failed = json!({"given_up": 1, "usage": {}});
    let data = json!({
        "provider": "p", "adapter": "a", "model": "m", "usage": {}, "failed_attempts": failed,
        "parts": [{"type": "text", "text": text}],
    });
    at(seq, EventKind::Message { kind: MessageKind::Assistant, content: text.to_owned(), data: Some(data) })
}

const AGAIN: &str = "The answer broke off; asking again (attempt 2 of 5).";

#[test]
fn answer_that_broke_off_is_marked_and_shown_again() {
    let now = Instant::now();
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    for event in [
        piece_after(9, 0, 0, "Half of"),
        given_up(9, 1, 1),
        piece_after(9, 1, 0, "All "),
        piece_after(9, 1, 4, "of it."),
        assistant_after(10, "All of it."),
    ] {
        transcript.event(event, now);
    }
    assert_eq!(printed(&mut transcript), ["Half of", AGAIN, "All of it."]);
    // The attempt may have shown no text, for example only thinking or a call.
    transcript.event(given_up(10, 2, 1), now);
    assert_eq!(printed(&mut transcript), [AGAIN]);
}

#[test]
fn attempt_whose_event_was_lost_is_marked() {
    let mut transcript = Transcript::new(VIEW, 80, Look::default());
    for event in [piece_after(9, 0, 0, "Half of"), assistant_after(10, "All of it.")] {
        transcript.event(event, Instant::now());
    }
    let lost = "The answer broke off and was requested again.";
    assert_eq!(printed(&mut transcript), ["Half of", lost, "All of it."]);
}
