//! Prints the output of lines. In text mode, the results, answers and attachments of the agent in view go to standard output, and
//! notes and errors to standard error. JSON goes to standard output only. A user at a prompt also sees tool calls.

use std::io::{self, ErrorKind, Write};

use patchbay_core::{
    AgentId, AssistantPart, Attachment, Code, DeltaKind, Event, EventKind, MessageKind, Outcome, SessionId, TurnCause,
    TurnState, text,
};
use patchbay_repl::tool_failure;
use patchbay_session::{AnswerFollower, Followed, Received, event_object, unanswered_hint};
use serde_json::{Value, json};

use super::EarlyEnd;
use crate::{CliError, out::note};

/// Length limit of another agent's answer or failure, in characters.
const FIRST_WORDS: usize = 80;
/// Length limit of a tool's input or result, in characters.
const CALL: usize = 100;
/// Length limit of a line that was not run, in characters.
const KILLED_LINE: usize = 200;

pub(super) struct Printer<W = io::Stdout> {
    out: W,
    json: bool,
    /// Whether a user reads the output at a prompt.
    typed: bool,
    /// Whether the prompt is on the current line.
    prompted: bool,
    /// Selects the text of the agent in view that is still to be printed.
    answers: AnswerFollower,
    /// Set when the view has moved; see [`Printer::moved_view`].
    moved: bool,
    /// The agent of the running line. The line's outcome already reports how this agent's turn ended.
    line_agent: Option<AgentId>,
    /// Whether the last printed line has no newline yet.
    open: bool,
    /// Whether a message was stored since the last `/quit`, which prints the session's id.
    conversation: bool,
}

impl Printer {
    /// Returns a printer on standard output. With `json`, it prints one object per line. `typed` is set if a user reads the output
    /// at a prompt. `view` is the agent in view.
    pub(super) fn new(json: bool, typed: bool, view: AgentId) -> Self {
        Self::on(io::stdout(), json, typed, view)
    }
}

impl<W: Write> Printer<W> {
    fn on(out: W, json: bool, typed: bool, view: AgentId) -> Self {
        let answers = AnswerFollower::new(view);
        Self {
            out,
            json,
            typed,
            prompted: false,
            answers,
            moved: false,
            line_agent: None,
            open: false,
            conversation: false,
        }
    }

    /// Returns whether a message was stored in this session, answered or not, since its id was last printed.
    pub(super) fn has_conversation(&self) -> bool {
        self.conversation
    }

    /// Returns the agent in view if the view has moved since the last call. JSON contains the events of all agents, so it does not
    /// depend on the view.
    pub(super) fn moved_view(&mut self) -> Option<AgentId> {
        (std::mem::take(&mut self.moved) && !self.json).then_some(self.answers.view())
    }

    /// Prints the session's id, in JSON only.
    pub(super) fn session(&mut self, id: SessionId) -> Result<(), EarlyEnd> {
        if self.json { self.object(&json!({"session": id.to_string()})) } else { Ok(()) }
    }

    /// Prints the prompt for the next line.
    pub(super) fn prompt(&mut self, is_capturing: bool) -> Result<(), EarlyEnd> {
        self.end_line()?;
        self.write(if is_capturing { "(capturing) > " } else { "> " })?;
        (self.open, self.prompted) = (false, true);
        Ok(())
    }

    /// Notes that a line was read; `None` is the end of the input.
    pub(super) fn read(&mut self, line: Option<&str>) -> Result<(), EarlyEnd> {
        match line {
            // Enter has ended the line with the prompt.
            Some(_) => self.prompted = false,
            None => self.end_line()?,
        }
        Ok(())
    }

    /// Notes that a line is submitted.
    pub(super) fn begin_line(&mut self) {
        self.line_agent = Some(self.answers.view());
    }

    /// Prints that all agents are idle, in JSON only.
    pub(super) fn idle(&mut self) -> Result<(), EarlyEnd> {
        if self.json { self.object(&json!({"event": "idle"})) } else { self.end_line() }
    }

    fn object(&mut self, object: &Value) -> Result<(), EarlyEnd> {
        self.print(&object.to_string())
    }

    /// Prints text as one or more lines of output, and flushes it immediately.
    pub(super) fn print(&mut self, text: &str) -> Result<(), EarlyEnd> {
        self.end_line()?;
        self.write(text)?;
        self.write("\n")
    }

    /// Prints a newline if the current line has none.
    pub(super) fn end_line(&mut self) -> Result<(), EarlyEnd> {
        if std::mem::take(&mut self.prompted) || self.open { self.write("\n") } else { Ok(()) }
    }

    /// Prints a line on standard error. At a prompt, this first ends an unfinished line of an answer on the same screen.
    fn note(&mut self, text: &str) -> Result<(), EarlyEnd> {
        if self.typed {
            self.end_line()?;
        }
        note(text);
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<(), EarlyEnd> {
        let Some(last) = text.chars().last() else { return Ok(()) };
        self.open = last != '\n';
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => EarlyEnd::ReaderGone,
            _ => CliError::new(Code::FolderUnusable, format!("cannot write to standard output: {error}.")).into(),
        })
    }

    /// Prints an event, if it has output. `view` is the agent in view now.
    pub(super) fn event(&mut self, received: Received, view: AgentId) -> Result<(), EarlyEnd> {
        match received {
            Received::Lagged(missed) => {
                // The lost events may include a `ViewMoved`.
                self.look_at(view)?;
                if self.json { self.object(&json!({"event": "lagged", "missed": missed})) } else { Ok(()) }
            }
            Received::Event(event) if self.json => {
                if event.kind == EventKind::ViewMoved {
                    self.look_at(event.agent)?;
                }
                match event_object(event) {
                    Some(object) => self.object(&object),
                    None => Ok(()),
                }
            }
            Received::Event(event) => self.text(event),
        }
    }

    /// Prints an event as text instead of JSON.
    fn text(&mut self, event: Event) -> Result<(), EarlyEnd> {
        let followed = self.answers.follow(&event);
        self.answer(followed)?;
        let Event { agent, kind, .. } = event;
        let answer = if self.typed { kind.answer() } else { None };
        let calls = answer.map(|answer| answer.parts).unwrap_or_default();
        let failed = kind.tool_result().and_then(|result| result.error);
        let in_view = agent == self.answers.view();
        if let Some(attached) = Attachment::summary(&kind.attachments()).filter(|_| in_view) {
            self.print(&attached)?;
        }
        match kind {
            EventKind::GivenUp { retry, .. } if !in_view => self.note_of(agent, &retry.broke_off(false)),
            EventKind::Message { kind: MessageKind::Assistant, .. } if in_view => {
                self.conversation = true;
                self.end_line()?;
                self.calls(&calls)
            }
            EventKind::Message { kind: MessageKind::Tool, content, .. } if in_view => self.call_ended(&content, failed),
            EventKind::Progress { text, .. } if in_view && self.typed => self.note(text.trim_end_matches('\n')),
            EventKind::Message { kind: MessageKind::User | MessageKind::Assistant, .. } => {
                self.conversation = true;
                Ok(())
            }
            EventKind::Notice { text } => self.note_of(agent, &text),
            EventKind::Retrying(retrying) => self.note_of(agent, &retrying.to_string()),
            EventKind::TurnBegan { .. } if in_view => self.end_line(),
            EventKind::TurnEnded { cause, state, outcome, .. } => {
                if !in_view {
                    return self.note(&end_of_turn(agent, state, &outcome));
                }
                self.end_line()?;
                // The outcome of the line has the same message.
                let is_of_line = cause == TurnCause::Person && self.line_agent == Some(agent);
                if outcome.is_ok() || is_of_line { Ok(()) } else { self.note(&outcome.line()) }
            }
            EventKind::ViewMoved => self.look_at(agent),
            EventKind::Delta { .. }
            | EventKind::Message { .. }
            | EventKind::GivenUp { .. }
            | EventKind::Progress { .. }
            | EventKind::RequestWaits { .. }
            | EventKind::LineEnded { .. }
            | EventKind::LineQueued { .. }
            | EventKind::LineDequeued { .. }
            | EventKind::QueueHeld { .. }
            | EventKind::TurnBegan { .. }
            | EventKind::AgentForked { .. }
            | EventKind::AgentKilled
            | EventKind::MailArrived { .. }
            | EventKind::Unknown => Ok(()),
        }
    }

    /// Prints a line about an agent on standard error. If the agent is not in view, the line begins with its short id, unless the
    /// text already contains it.
    fn note_of(&mut self, agent: AgentId, text: &str) -> Result<(), EarlyEnd> {
        let short = agent.short();
        let is_named = agent == self.answers.view() || text.contains(&*short);
        if is_named { self.note(text) } else { self.note(&format!("{short}: {text}")) }
    }

    /// Prints the tool calls of an answer.
    fn calls(&mut self, parts: &[AssistantPart]) -> Result<(), EarlyEnd> {
        parts.iter().filter_map(AssistantPart::tool_call).try_for_each(|call| {
            let (name, input) = (text::excerpt(&call.name, CALL), text::excerpt(&call.input, CALL));
            self.print(&format!("→ {name} {input}"))
        })
    }

    /// Prints the result of a call. A script only sees calls that were not allowed, and how to allow them.
    fn call_ended(&mut self, content: &str, failed: Option<Code>) -> Result<(), EarlyEnd> {
        match failed {
            Some(code) if self.typed || matches!(code, Code::Denied | Code::Blocked) => {
                self.note(&format!("✗ {}", tool_failure(code, content, CALL)))
            }
            None if self.typed => self.print(&format!("← {}", text::excerpt(content, CALL))),
            _ => Ok(()),
        }
    }

    /// Moves the view. An answer of the new agent that has already begun is printed as a whole when it is complete.
    fn look_at(&mut self, agent: AgentId) -> Result<(), EarlyEnd> {
        if !self.answers.look_at(agent) {
            return Ok(());
        }
        self.moved = true;
        if self.json { Ok(()) } else { self.end_line() }
    }

    /// Prints a piece of an answer. If an attempt broke off before it, reports that first, on a separate line.
    fn answer(&mut self, Followed { broke_off, piece }: Followed<'_>) -> Result<(), EarlyEnd> {
        if let Some(broke_off) = broke_off {
            self.end_line()?;
            note(&broke_off.line());
        }
        match piece {
            Some(piece) if piece.block == DeltaKind::Text => {
                if self.prompted {
                    self.end_line()?;
                }
                self.conversation = true;
                self.write(piece.text)
            }
            _ => Ok(()),
        }
    }

    /// Prints why a line or its attachments were refused.
    pub(super) fn refused(&mut self, outcome: &Outcome) -> Result<(), EarlyEnd> {
        if self.json {
            return self.object(&serde_json::to_value(outcome).unwrap_or_default());
        }
        note(&outcome.line());
        Ok(())
    }

    /// Prints the outcome of a line. `latest` is the number of the session's last row.
    pub(super) fn outcome(&mut self, line: &str, outcome: &Outcome, latest: u64) -> Result<(), EarlyEnd> {
        let agent = self.line_agent.take().unwrap_or(self.answers.view());
        for killed in killed_lines(line, outcome) {
            let text = format!("Not run because its agent was killed: {}", text::excerpt(killed, KILLED_LINE));
            if self.json {
                let notice = json!({"event": "notice", "text": text, "agent": agent.to_string(), "seq": latest});
                self.object(&notice)?;
            } else {
                note(&text);
            }
        }
        if self.json {
            let mut object = serde_json::to_value(outcome).unwrap_or_default();
            object["line"] = line.into();
            return self.object(&object);
        }
        self.end_line()?;
        self.conversation &= outcome.code != Code::Quit;
        if !outcome.is_ok() {
            note(&outcome.line());
            unanswered_hint(outcome).into_iter().for_each(note);
            return Ok(());
        }
        // The answer is already printed.
        if outcome.code == Code::Answered { Ok(()) } else { self.print(&outcome.line()) }
    }
}

/// Returns the line about the end of a turn of an agent that is not in view.
fn end_of_turn(agent: AgentId, state: TurnState, outcome: &Outcome) -> String {
    let words = text::excerpt(&outcome.message, FIRST_WORDS);
    let end = match outcome.code {
        _ if state == TurnState::Interrupted => "killed".to_owned(),
        Code::TurnCancelled => "stopped".to_owned(),
        _ if !outcome.is_ok() => format!("failed: {words}"),
        _ if words.is_empty() => "done".to_owned(),
        _ => format!("done: {words}"),
    };
    format!("{}: {end}", agent.short())
}

/// Returns the lines that did not run because their agent was killed: the waiting lines of an agent that `line` killed, or
/// `line` itself.
fn killed_lines<'a>(line: &'a str, outcome: &'a Outcome) -> Vec<&'a str> {
    match outcome.code {
        Code::LineTakenBack => vec![line],
        _ => outcome.killed_lines().iter().map(String::as_str).collect(),
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::{DeltaPosition, Retrying};

    use super::*;

    const VIEW: AgentId = AgentId::from_bytes([1; 16]);
    const OTHER: AgentId = AgentId::from_bytes([2; 16]);

    /// Returns everything that the printer prints for `received`.
    fn printed(received: Vec<Received>) -> String {
        let mut printer = Printer::on(Vec::new(), false, false, VIEW);
        for received in received {
            assert!(printer.event(received, VIEW).is_ok());
        }
        assert!(printer.outcome("hello", &Outcome::ok(Code::Answered, "not printed again"), 9).is_ok());
        String::from_utf8(printer.out).unwrap()
    }

    fn event(seq: u64, kind: EventKind) -> Received {
        Received::Event(Event { session: SessionId::random(), agent: VIEW, seq, kind })
    }

    /// An event of another agent.
    fn of_other(received: Received) -> Received {
        match received {
            Received::Event(event) => Received::Event(Event { agent: OTHER, ..event }),
            lagged => lagged,
        }
    }

    fn piece(offset: u64, text: &str, given_up: u32) -> Received {
        let at = DeltaPosition { turn: 1, offset, given_up, ..DeltaPosition::default() };
        event(1, EventKind::Delta { block: DeltaKind::Text, text: text.to_owned(), at })
    }

    fn answer(seq: u64, text: &str) -> Received {
        event(seq, EventKind::Message { kind: MessageKind::Assistant, content: text.to_owned(), data: None })
    }

    fn broke_off(given_up: u32) -> Received {
        let [provider, what, cause] = ["openai", "Server error", "overloaded"].map(str::to_owned);
        let retry = Retrying { provider, what, cause, wait_ms: 1_000, attempt: given_up, of: 4 };
        event(1, EventKind::GivenUp { turn: 1, answer: 0, given_up, retry })
    }

    #[test]
    fn deltas_are_printed_immediately_and_end_with_a_line_feed() {
        let pieces = [piece(0, "Good ", 0), piece(5, "day.", 0)];
        assert_eq!(printed(pieces.to_vec()), "Good day.\n");
        assert_eq!(printed([&pieces[..], &[answer(2, "Good day.")]].concat()), "Good day.\n");
        assert_eq!(
            printed(vec![piece(0, "One.\n", 0), answer(2, "One.\n"), answer(4, ""), answer(6, "Two.")]),
            "One.\nTwo.\n"
        );
        let thought = event(
            1,
            EventKind::Delta { block: DeltaKind::Thinking, text: "Hm.".to_owned(), at: DeltaPosition::default() },
        );
        assert_eq!(printed(vec![thought, answer(2, "Yes.")]), "Yes.\n");
        assert_eq!(printed(vec![answer(2, "")]), "");
    }

    #[test]
    fn answer_that_broke_off_is_followed_by_the_whole_new_one() {
        let received = vec![
            piece(0, "Half of", 0),
            broke_off(1),
            piece(0, "All ", 1),
            piece(4, "of it.", 1),
            answer(2, "All of it."),
            answer(4, "Next."),
        ];
        assert_eq!(printed(received), "Half of\nAll of it.\nNext.\n");
        // A pipe receives no pieces.
        assert_eq!(printed(vec![broke_off(1), answer(2, "All."), answer(4, "Next.")]), "All.\nNext.\n");
    }

    #[test]
    fn given_up_is_an_object_for_scripts() {
        let Received::Event(event) = broke_off(1) else { panic!() };
        let expected = json!({"event": "given_up", "turn": 1, "answer": 0, "agent": VIEW.to_string(), "seq": 1});
        assert_eq!(event_object(event), Some(expected));
    }

    #[test]
    fn user_at_a_prompt_reads_calls_on_lines_of_their_own() {
        let mut printer = Printer::on(Vec::new(), false, true, VIEW);
        let call = json!({"type": "tool_call", "id": "c", "name": "calc__eval", "input": "{}"});
        let data = json!({"provider": "p", "adapter": "a", "model": "m", "usage": {}, "parts": [call]});
        let answer = EventKind::Message { kind: MessageKind::Assistant, content: "One.".to_owned(), data: Some(data) };
        let result = json!({"call_id": "c", "name": "calc__eval", "content": []});
        let result = EventKind::Message { kind: MessageKind::Tool, content: "42\n43".to_owned(), data: Some(result) };
        assert!(printer.prompt(false).is_ok());
        for received in [event(2, answer), event(3, result)] {
            assert!(printer.event(received, VIEW).is_ok());
        }
        assert!(printer.prompt(true).is_ok() && printer.read(Some("x")).is_ok());
        assert!(printer.outcome("x", &Outcome::ok(Code::Captured, "Captured."), 3).is_ok());
        let expected = "> \nOne.\n→ calc__eval {}\n← 42 43\n(capturing) > Captured.\n";
        assert_eq!(String::from_utf8(printer.out).unwrap(), expected);
    }

    #[test]
    fn moved_view_ends_the_line() {
        let received = vec![
            piece(0, "Half of", 0),
            of_other(answer(2, "Not shown.")),
            of_other(event(2, EventKind::ViewMoved)),
            piece(7, " this.", 0),
            of_other(answer(4, "First words.")),
        ];
        assert_eq!(printed(received), "Half of\nFirst words.\n");
    }

    #[test]
    fn ends_of_turns_of_other_agents_are_one_line() {
        let ended = |state, outcome: Outcome| end_of_turn(VIEW, state, &outcome);
        let answered = |text: &str| ended(TurnState::Done, Outcome::ok(Code::Answered, text));
        assert_eq!(answered("Three\nfiles."), "01010101: done: Three files.");
        assert_eq!(answered(" "), "01010101: done");
        let failed = Outcome::error(Code::ProviderServer, "demo: it broke.");
        assert_eq!(ended(TurnState::Done, failed.clone()), "01010101: failed: demo: it broke.");
        assert_eq!(ended(TurnState::Interrupted, failed), "01010101: killed");
        let stopped = Outcome::refused(Code::TurnCancelled, "Cancelled.");
        assert_eq!(ended(TurnState::Done, stopped), "01010101: stopped");
    }
}
