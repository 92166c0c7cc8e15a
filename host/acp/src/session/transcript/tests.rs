//! Tests of whole sequences of events.

use patchbay_core::{DeltaKind, DeltaPosition, KilledData, LineId, Retrying, TurnState};
use serde_json::json;

use super::*;

const ROOT: AgentId = AgentId::from_bytes([1; 16]);
const CHILD: AgentId = AgentId::from_bytes([0xab; 16]);

struct Play {
    transcript: SessionTranscript,
    seq: u64,
}

impl Play {
    fn new(shows_notices: bool) -> Self {
        let mut play = Self::before_prompts(shows_notices);
        assert_eq!(play.prompt_began(), Vec::<String>::new());
        play
    }

    fn before_prompts(shows_notices: bool) -> Self {
        Self { transcript: SessionTranscript::new("/w", ROOT, shows_notices), seq: 4 }
    }

    /// Begins a prompt and returns the updates in short form.
    fn prompt_began(&mut self) -> Vec<String> {
        let mut out = Vec::new();
        self.transcript.prompt_began(&mut out);
        out.iter().map(short).collect()
    }

    /// Passes an event of an agent and returns the updates in short form.
    fn event(&mut self, agent: AgentId, kind: EventKind) -> Vec<String> {
        if matches!(kind, EventKind::Message { .. }) {
            self.seq += 1;
        }
        let mut out = Vec::new();
        let event = Event { session: SessionId::from_bytes([9; 16]), agent, seq: self.seq, kind };
        self.transcript.event(event, 1000, &mut out);
        out.iter().map(short).collect()
    }
}

fn short(update: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    match update["sessionUpdate"].as_str().unwrap() {
        kind if kind.ends_with("_chunk") => {
            format!("{} {:?}", kind.trim_end_matches("_message_chunk"), text(&update["content"]["text"]))
        }
        "usage_update" => format!("usage {} of {}", update["used"], update["size"]),
        "notice" => format!("notice {:?}", text(&update["title"])),
        kind => format!("{kind} {} {}", text(&update["toolCallId"]), text(&update["status"])),
    }
}

fn delta(text: &str, offset: u64) -> EventKind {
    let at = DeltaPosition { turn: 4, offset, ..DeltaPosition::default() };
    EventKind::Delta { block: DeltaKind::Text, text: text.to_owned(), at }
}

fn answer(text: &str, calls: &[&str]) -> EventKind {
    let call = |name: &&str| json!({"type": "tool_call", "id": name, "name": name, "input": "{}"});
    let parts: Vec<Value> = calls.iter().map(call).collect();
    let data = json!({
        "provider": "demo", "adapter": "demo", "model": "demo-1", "usage": {"input": 10, "output": 2}, "parts": parts,
    });
    EventKind::Message { kind: MessageKind::Assistant, content: text.to_owned(), data: Some(data) }
}

fn ended(cause: TurnCause, outcome: Outcome) -> EventKind {
    EventKind::TurnEnded { turn: 4, cause, state: TurnState::Done, outcome }
}

#[test]
fn turn_with_a_tool_is_text_call_and_usage() {
    let mut play = Play::new(false);
    assert_eq!(play.event(ROOT, EventKind::TurnBegan { turn: 4, cause: TurnCause::Person }), Vec::<String>::new());
    assert_eq!(play.event(ROOT, delta("Let me", 0)), ["agent \"Let me\""]);
    let expected = ["agent \" see.\"", "tool_call 5-0 pending", "tool_call_update 5-0 in_progress", "usage 12 of 1000"];
    assert_eq!(play.event(ROOT, answer("Let me see.", &["calc__eval"])), expected);
    let result = json!({"call_id": "calc__eval", "name": "calc__eval", "content": [{"type": "text", "text": "2"}]});
    let row = EventKind::Message { kind: MessageKind::Tool, content: "2".to_owned(), data: Some(result) };
    assert_eq!(play.event(ROOT, row), ["tool_call_update 5-0 completed"]);
    assert_eq!(play.event(ROOT, answer("Two.", &[])), ["agent \"Two.\"", "usage 12 of 1000"]);
    assert_eq!(play.event(ROOT, ended(TurnCause::Person, Outcome::ok(Code::Answered, "Two."))), Vec::<String>::new());
}

#[test]
fn messages_are_set_apart_and_pieces_of_one_are_not() {
    let mut play = Play::new(false);
    let mut out = Vec::new();
    play.event(ROOT, delta("One", 0));
    assert_eq!(play.event(ROOT, delta(" two", 3)), ["agent \" two\""]);
    play.transcript.say("Said.", &mut out);
    play.transcript.say("Said again.", &mut out);
    assert_eq!(out.iter().map(short).collect::<Vec<_>>(), ["agent \"\\n\\nSaid.\"", "agent \"\\n\\nSaid again.\""]);
    assert_ne!(out[0]["messageId"], out[1]["messageId"]);
}

#[test]
fn other_agents_are_cards_and_their_talk_is_not_mixed_in() {
    let mut play = Play::new(false);
    let began = EventKind::TurnBegan { turn: 4, cause: TurnCause::Fork };
    assert_eq!(play.event(CHILD, began), ["tool_call turn-4 in_progress"]);
    assert_eq!(play.event(CHILD, delta("Secret", 0)), Vec::<String>::new());
    assert_eq!(play.event(CHILD, answer("Secret", &[])), ["tool_call_update turn-4 in_progress"]);
    let done = ended(TurnCause::Fork, Outcome::ok(Code::Answered, "Secret"));
    assert_eq!(play.event(CHILD, done), ["tool_call_update turn-4 completed"]);
}

#[test]
fn moved_view_shows_the_other_agent_from_its_next_row_on() {
    let mut play = Play::new(false);
    play.event(ROOT, EventKind::TurnBegan { turn: 4, cause: TurnCause::Person });
    play.event(ROOT, delta("Half of", 0));
    assert_eq!(play.event(CHILD, EventKind::ViewMoved), ["tool_call turn-4 in_progress"]);
    assert_eq!(play.event(ROOT, delta(" this", 7)), Vec::<String>::new());
    // The first pieces of this answer were not received.
    assert_eq!(play.event(CHILD, delta("words", 6)), Vec::<String>::new());
    assert_eq!(play.event(CHILD, answer("First words", &[])), ["agent \"First words\"", "usage 12 of 1000"]);
}

#[test]
fn notices_are_updates_for_clients_that_show_them() {
    let [provider, what, cause] = ["openai", "Rate limit exceeded", "429"].map(str::to_owned);
    let retry = Retrying { provider, what, cause, wait_ms: 1000, attempt: 1, of: 4 };
    let line = "Rate limit exceeded: openai. Retrying in 1 s (attempt 1 of at most 4).";
    assert_eq!(Play::new(true).event(ROOT, EventKind::Retrying(retry.clone())), [format!("notice {line:?}")]);
    let mut play = Play::new(false);
    assert_eq!(
        play.event(CHILD, EventKind::Retrying(retry.clone())),
        [format!("agent {:?}", format!("abababab: {line}"))]
    );
    play.event(ROOT, delta("Half", 0));
    let given_up = EventKind::GivenUp { turn: 4, answer: 0, given_up: 1, retry };
    let line = "\n\nThe answer broke off; asking again (attempt 2 of 5). Ignore the part that was already printed.";
    assert_eq!(play.event(ROOT, given_up), [format!("agent {line:?}")]);
}

#[test]
fn failures_of_turns_that_no_person_began_are_told() {
    let mut play = Play::new(false);
    let failed = || Outcome::error(Code::ProviderServer, "demo: it broke.");
    assert_eq!(play.event(ROOT, ended(TurnCause::Mail, failed())), ["agent \"Error: demo: it broke.\""]);
    assert_eq!(play.event(ROOT, ended(TurnCause::Person, failed())), Vec::<String>::new());
}

#[test]
fn calls_of_a_stopped_turn_do_not_stay_open() {
    let mut play = Play::new(false);
    play.event(ROOT, answer("", &["calc__eval"]));
    let stopped = Outcome::refused(Code::TurnCancelled, "Cancelled. The partial answer is kept.");
    assert_eq!(play.event(ROOT, ended(TurnCause::Person, stopped)), ["tool_call_update 5-0 failed"]);
}

fn notice(text: &str) -> EventKind {
    EventKind::Notice { text: text.to_owned() }
}

#[test]
fn next_message_tells_a_client_that_resumes_that_an_answer_was_lost() {
    let mut play = Play::new(true);
    play.event(ROOT, delta("Half of", 0));
    let position = play.transcript.position();
    let mut resumed = Play::new(true);
    resumed.transcript.resume(&position);
    let message = EventKind::Message { kind: MessageKind::User, content: "Again.".to_owned(), data: None };
    let event = Event { session: SessionId::from_bytes([9; 16]), agent: ROOT, seq: 6, kind: message };
    let mut out = Vec::new();
    resumed.transcript.lost_before(&event, &mut out);
    let lost = r#"notice "The server stopped during this answer; none of it was saved.""#;
    assert_eq!(out.iter().map(short).collect::<Vec<_>>(), [lost]);
    resumed.transcript.lost_before(&event, &mut out);
    assert_eq!(out.len(), 1, "it is reported once");
}

#[test]
fn client_can_resume_with_any_position() {
    let mut play = Play::new(false);
    play.transcript.resume(&Position::new(u64::MAX, ROOT, u64::MAX, None));
    let mut out = Vec::new();
    play.transcript.say("One.", &mut out);
    play.transcript.say("Two.", &mut out);
    assert_eq!(out.iter().map(short).collect::<Vec<_>>(), ["agent \"One.\"", "agent \"Two.\""]);
}

#[test]
fn notices_between_prompts_wait_for_the_next_prompt() {
    let mut play = Play::before_prompts(false);
    for text in ["One.", "One.", "Two."] {
        assert_eq!(play.event(ROOT, notice(text)), Vec::<String>::new());
    }
    // A client that loads the session again still receives them.
    play.transcript.replay_began(ROOT);
    play.transcript.replayed(false, &mut Vec::new());
    assert_eq!(play.prompt_began(), ["agent \"One.\"", "agent \"\\n\\nTwo.\""]);
    assert_eq!(play.event(ROOT, notice("Now.")), ["agent \"\\n\\nNow.\""]);
    play.transcript.prompts_ended();
    for number in 0..100 {
        play.event(ROOT, notice(&number.to_string()));
    }
    assert_eq!(play.prompt_began().len(), WAITING_NOTICES);
    // Clients that show notices receive them at once.
    assert_eq!(Play::before_prompts(true).event(ROOT, notice("One.")), ["notice \"One.\""]);
}

#[test]
fn waiting_lines_of_killed_agents_are_named() {
    let not_sent = |lines: &[&str]| {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        not_sent(&Outcome::ok(Code::Killed, "Killed 1 agent: x").with_data(KilledData { killed: Vec::new(), lines }))
    };
    assert_eq!(not_sent(&["one"]).unwrap(), "1 waiting line was not sent: one");
    assert_eq!(not_sent(&["one\ntwo", "three"]).unwrap(), "2 waiting lines were not sent: one two; three");
    assert_eq!(not_sent(&[]), None);
}

#[test]
fn question_of_another_agent_names_the_agent() {
    let mut play = Play::new(true);
    let mut out = Vec::new();
    play.event(ROOT, answer("", &["files__write"]));
    let chain = ["files__write".to_owned()];
    let of_child = play.transcript.question(CHILD, &chain, "May it?", &mut out);
    assert_eq!((&*of_child.topic, &*of_child.call.title), ("abababab asks: May it?", "abababab asks: May it?"));
    assert_eq!(out[0]["title"], "abababab asks: May it?");
    let of_root = play.transcript.question(ROOT, &chain, "May it?", &mut out);
    assert_eq!((&*of_root.topic, &*of_root.call.title), ("May it?", "files__write"));
}

fn waiting(text: &str, attached: &[&str]) -> QueuedLine {
    let attached = attached.iter().map(|name| (*name).to_owned()).collect();
    QueuedLine { id: LineId::new(1, [0; 16]), text: text.to_owned(), attached, joins: false }
}

#[test]
fn lines_of_an_earlier_process_are_shown_whole() {
    for shows_notices in [false, true] {
        let mut play = Play::new(shows_notices);
        let mut out = Vec::new();
        play.transcript.earlier_lines(&[], &mut out);
        assert_eq!(out, Vec::<Value>::new());
        let long = "x".repeat(10_000);
        play.transcript.earlier_lines(&[waiting("one\ntwo", &["a.png"]), waiting(&long, &[])], &mut out);
        let expected = format!("2 waiting lines were not sent:\n\none\ntwo\n[attached: a.png]\n\n{long}");
        assert_eq!(out.iter().map(short).collect::<Vec<_>>(), [format!("agent {expected:?}")]);
    }
}

#[test]
fn outcome_that_moves_the_view_says_where_to() {
    let mut play = Play::new(false);
    let mut said = |view: AgentId, code: Code| {
        play.event(view, EventKind::ViewMoved);
        let mut out = Vec::new();
        play.transcript.moved_view(ROOT, &Outcome::ok(code, "x"), &mut out);
        out.iter().map(|update| update["content"]["text"].as_str().unwrap().trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(said(ROOT, Code::Killed), Vec::<String>::new());
    assert_eq!(said(CHILD, Code::Forked), ["You are now talking to it; /switch parent goes back."]);
    assert_eq!(said(CHILD, Code::Killed), ["You are now talking to abababab."]);
    assert_eq!(said(CHILD, Code::Switched), Vec::<String>::new());
}

#[test]
fn tool_without_output_is_no_silence() {
    let mut play = Play::new(false);
    let mut shown = |outcome: Outcome| {
        let mut out = Vec::new();
        play.transcript.outcome(&outcome, &mut out);
        out.iter().map(short).collect::<Vec<_>>()
    };
    assert_eq!(shown(Outcome::ok(Code::ToolResult, "")), ["agent \"(no output)\""]);
    assert_eq!(shown(Outcome::ok(Code::Answered, "")), Vec::<String>::new());
}

#[test]
fn stored_thoughts_precede_their_answer() {
    let mut play = Play::new(false);
    let parts = json!([
        {"type": "thinking", "text": "First\u{1b}[2J."}, {"type": "thinking", "text": " "},
        {"type": "thinking", "text": "Then."}, {"type": "text", "text": "So."},
    ]);
    let usage = json!({"input": 0, "output": 0});
    let data = json!({"provider": "demo", "adapter": "demo", "model": "demo-1", "usage": usage, "parts": parts});
    let row = EventKind::Message { kind: MessageKind::Assistant, content: "So.".to_owned(), data: Some(data) };
    let mut out = Vec::new();
    play.transcript.stored_thoughts(5, &row.answer().unwrap(), &mut out);
    assert_eq!(out[0]["sessionUpdate"], "agent_thought_chunk");
    assert_eq!(out[0]["content"]["text"], "First[2J.\n\nThen.");
    assert_eq!(play.event(ROOT, row), ["agent \"So.\""]);
}
