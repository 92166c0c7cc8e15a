//! Output of `exec`: results, and answers of the agent in view, on standard output; everything else on standard error.

use std::io::{self, ErrorKind, Write};

use patchbay_core::{
    AgentId, Attachment, Code, DeltaKind, DeltaPosition, Event, EventKind, MessageKind, Outcome, Retrying, SessionId,
    TurnCause, TurnState, text,
};
use patchbay_session::{Received, unanswered_hint};
use serde_json::{Value, json};

use super::EarlyEnd;
use crate::{CliError, out::note};

/// Limit of characters of another agent's answer or failure.
const FIRST_WORDS: usize = 80;
/// Limit of characters of a line that was not run.
const KILLED_LINE: usize = 200;

pub(super) struct Printer<W = io::Stdout> {
    out: W,
    json: bool,
    /// The agent in view. Text is printed of its answers only.
    view: AgentId,
    /// Set when the view has moved; see [`Printer::moved_view`].
    moved: bool,
    /// The agent of the line that runs. The outcome of the line says how its turn ended.
    line_agent: Option<AgentId>,
    /// Bytes of the current attempt at the answer that are already printed.
    printed: usize,
    /// Number of attempts at the current answer that are known to be given up.
    given_up: u32,
    /// Whether the last printed line has no line feed yet.
    open: bool,
    /// Set when pieces of the current answer are missing: the session's last row at that time. The answer is then printed as a
    /// whole when its row arrives, which has a higher number.
    lagged: Option<u64>,
    /// The number of the last answer's row. A delta with a lower number belongs to an answer that is already printed.
    answered: u64,
    /// Whether a message was stored since the last `/quit`, which prints the session's id.
    conversation: bool,
}

impl Printer {
    /// Returns a printer on standard output; with `json`, it prints one object per line. `view` is the agent in view.
    pub(super) fn new(json: bool, view: AgentId) -> Self {
        Self::on(io::stdout(), json, view)
    }
}

impl<W: Write> Printer<W> {
    fn on(out: W, json: bool, view: AgentId) -> Self {
        Self {
            out,
            json,
            view,
            moved: false,
            line_agent: None,
            printed: 0,
            given_up: 0,
            open: false,
            lagged: None,
            answered: 0,
            conversation: false,
        }
    }

    /// Returns whether a message was stored in this session, answered or not, since its id was last printed.
    pub(super) fn has_conversation(&self) -> bool {
        self.conversation
    }

    /// Returns the agent in view if the view has moved since the last call. JSON has the events of all agents, so that nothing
    /// depends on the view.
    pub(super) fn moved_view(&mut self) -> Option<AgentId> {
        (std::mem::take(&mut self.moved) && !self.json).then_some(self.view)
    }

    /// Prints the session's id, in JSON only.
    pub(super) fn session(&mut self, id: SessionId) -> Result<(), EarlyEnd> {
        if self.json { self.object(&json!({"session": id.to_string()})) } else { Ok(()) }
    }

    /// Notes that a line is submitted.
    pub(super) fn begin_line(&mut self) {
        self.line_agent = Some(self.view);
    }

    /// Prints that all agents are idle, in JSON only.
    pub(super) fn idle(&mut self) -> Result<(), EarlyEnd> {
        if self.json { self.object(&json!({"event": "idle"})) } else { self.end_line() }
    }

    fn object(&mut self, object: &Value) -> Result<(), EarlyEnd> {
        self.print(&object.to_string())
    }

    /// Prints one or more lines and flushes them before the next line runs.
    fn print(&mut self, text: &str) -> Result<(), EarlyEnd> {
        self.end_line()?;
        self.write(text)?;
        self.write("\n")
    }

    /// Prints a line feed if the current line has none.
    pub(super) fn end_line(&mut self) -> Result<(), EarlyEnd> {
        if self.open { self.write("\n") } else { Ok(()) }
    }

    fn write(&mut self, text: &str) -> Result<(), EarlyEnd> {
        let Some(last) = text.chars().last() else { return Ok(()) };
        self.open = last != '\n';
        self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()).map_err(|error| match error.kind() {
            ErrorKind::BrokenPipe => EarlyEnd::ReaderGone,
            _ => CliError::new(Code::FolderUnusable, format!("standard output cannot be written: {error}.")).into(),
        })
    }

    /// Prints an event, if it has output. `latest` is the number of the session's last row, `view` the agent in view now.
    pub(super) fn event(&mut self, received: Received, latest: u64, view: AgentId) -> Result<(), EarlyEnd> {
        match received {
            Received::Lagged(missed) => {
                // The event of a move can be lost.
                self.look_at(view)?;
                self.lagged = Some(latest);
                if self.json { self.object(&json!({"event": "lagged", "missed": missed})) } else { Ok(()) }
            }
            Received::Event(event) if self.json => {
                if event.kind == EventKind::ViewMoved {
                    self.look_at(event.agent)?;
                }
                match json_of(event) {
                    Some(object) => self.object(&object),
                    None => Ok(()),
                }
            }
            Received::Event(event) => self.text(event),
        }
    }

    /// Prints an event as text.
    fn text(&mut self, event: Event) -> Result<(), EarlyEnd> {
        let Event { agent, seq, kind, .. } = event;
        let in_view = agent == self.view;
        let record = kind.answer();
        if let Some(attached) = Attachment::summary(&kind.attachments()).filter(|_| in_view) {
            self.print(&attached)?;
        }
        match kind {
            EventKind::Delta { block: DeltaKind::Text, text, at } if in_view => self.piece(seq, at, &text),
            EventKind::Message { kind: MessageKind::Assistant, content, .. } if in_view => {
                self.answer(seq, &content, record.map_or(0, |record| record.failed_attempts.given_up))
            }
            EventKind::GivenUp { given_up, retry, .. } if in_view => self.give_up(given_up, Some(&retry)),
            EventKind::GivenUp { retry, .. } => {
                self.note_of(agent, &retry.broke_off(false));
                Ok(())
            }
            EventKind::Message { kind: MessageKind::User | MessageKind::Assistant, .. } => {
                self.conversation = true;
                Ok(())
            }
            EventKind::Notice { text } => {
                self.note_of(agent, &text);
                Ok(())
            }
            EventKind::Retrying(retrying) => {
                self.note_of(agent, &retrying.to_string());
                Ok(())
            }
            EventKind::TurnBegan { .. } if in_view => self.begin_answer(),
            EventKind::TurnEnded { cause, state, outcome, .. } => {
                if !in_view {
                    note(&end_of_turn(agent, state, &outcome));
                    return Ok(());
                }
                self.begin_answer()?;
                // The outcome of the line has the same message.
                let is_of_line = cause == TurnCause::Person && self.line_agent == Some(agent);
                if !outcome.is_ok() && !is_of_line {
                    note(&outcome.line());
                }
                Ok(())
            }
            EventKind::ViewMoved => self.look_at(agent),
            EventKind::Delta { .. }
            | EventKind::Message { .. }
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

    /// Prints a line about an agent on standard error; the name of an agent that is not in view comes first.
    fn note_of(&self, agent: AgentId, text: &str) {
        let short = agent.short();
        if agent == self.view || text.contains(&*short) { note(text) } else { note(&format!("{short}: {text}")) }
    }

    /// Moves the view. An answer of the new agent that has already begun is printed as a whole when it is complete.
    fn look_at(&mut self, agent: AgentId) -> Result<(), EarlyEnd> {
        if self.view == agent {
            return Ok(());
        }
        (self.view, self.moved) = (agent, true);
        if self.json { Ok(()) } else { self.begin_answer() }
    }

    /// Prepares for the first answer of a turn.
    fn begin_answer(&mut self) -> Result<(), EarlyEnd> {
        (self.printed, self.given_up, self.lagged) = (0, 0, None);
        self.end_line()
    }

    /// Ends the line of an attempt that broke off: so many are given up now. `retry` is missing if its event was lost.
    fn give_up(&mut self, given_up: u32, retry: Option<&Retrying>) -> Result<(), EarlyEnd> {
        if given_up <= self.given_up {
            return Ok(());
        }
        self.given_up = given_up;
        let is_printed = std::mem::take(&mut self.printed) > 0;
        self.end_line()?;
        match retry {
            Some(retry) => {
                // All pieces of the next attempt follow.
                self.lagged = None;
                note(&retry.broke_off(is_printed));
            }
            None if is_printed => {
                note("The answer broke off and was asked for again. What was printed of it is given up.");
            }
            None => {}
        }
        Ok(())
    }

    /// Prints a piece of an answer. All pieces of an attempt together are the answer's text.
    fn piece(&mut self, seq: u64, at: DeltaPosition, text: &str) -> Result<(), EarlyEnd> {
        if seq >= self.answered {
            self.give_up(at.given_up, None)?;
        }
        if self.printed == 0 && at.offset > 0 && self.lagged.is_none() {
            self.lagged = Some(seq);
        }
        if self.lagged.is_some() || seq < self.answered {
            return Ok(());
        }
        self.conversation = true;
        self.printed += text.len();
        self.write(text)
    }

    /// Prints the part of an answer that was not printed yet. The answer may be incomplete. `given_up` attempts at it broke off.
    fn answer(&mut self, seq: u64, content: &str, given_up: u32) -> Result<(), EarlyEnd> {
        self.give_up(given_up, None)?;
        self.given_up = 0;
        self.conversation = true;
        self.answered = seq;
        if self.lagged.is_some_and(|latest| seq > latest) {
            self.lagged = None;
        }
        let rest = content.get(std::mem::take(&mut self.printed)..).unwrap_or_default();
        self.write(rest)?;
        self.end_line()
    }

    /// Prints why no line is run.
    pub(super) fn refused(&mut self, outcome: &Outcome) -> Result<(), EarlyEnd> {
        if self.json {
            return self.object(&serde_json::to_value(outcome).unwrap_or_default());
        }
        note(&outcome.line());
        Ok(())
    }

    /// Prints the outcome of a line. `latest` is the number of the session's last row.
    pub(super) fn outcome(&mut self, line: &str, outcome: &Outcome, latest: u64) -> Result<(), EarlyEnd> {
        let agent = self.line_agent.take().unwrap_or(self.view);
        for killed in killed_lines(line, outcome) {
            let text = format!("Not run, since its agent was killed: {}", text::excerpt(killed, KILLED_LINE));
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

/// Returns the lines that did not run because their agent was killed: by `line`, or `line` itself while it waited.
fn killed_lines<'a>(line: &'a str, outcome: &'a Outcome) -> Vec<&'a str> {
    match outcome.code {
        Code::LineTakenBack => vec![line],
        Code::Killed => {
            let lines = outcome.data.as_ref().and_then(|data| data.get("lines")).and_then(Value::as_array);
            lines.into_iter().flatten().filter_map(Value::as_str).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns an event as an object for scripts; `None` for events that are printed in another way or not at all.
fn json_of(event: Event) -> Option<Value> {
    let Event { agent, seq, mut kind, .. } = event;
    match &kind {
        EventKind::TurnEnded { turn, cause, state, outcome } => {
            return Some(json!({
                "event": "turn",
                "agent": agent.to_string(),
                "turn": turn,
                "cause": cause,
                "state": state,
                "code": outcome.code,
            }));
        }
        // The outcome is printed as an object of its own, and each turn when it has ended.
        EventKind::RequestWaits { .. }
        | EventKind::LineEnded { .. }
        | EventKind::LineQueued { .. }
        | EventKind::LineDequeued { .. }
        | EventKind::QueueHeld { .. }
        | EventKind::TurnBegan { .. }
        | EventKind::Unknown => return None,
        _ => {}
    }
    // Scripts see that it is asked for again by the pieces that follow.
    if let EventKind::GivenUp { turn, answer, .. } = kind {
        let event =
            json!({"event": "given_up", "turn": turn, "answer": answer, "agent": agent.to_string(), "seq": seq});
        return Some(event);
    }
    // Scripts read a retry as the notice that it was before it had a kind of its own.
    if let Some(text) = kind.notice() {
        kind = EventKind::Notice { text };
    }
    let mut object = serde_json::to_value(&kind).unwrap_or_default();
    if let Some(object) = object.as_object_mut() {
        // Deltas are printed in order, so scripts need no position.
        object.remove("at");
    }
    object["agent"] = agent.to_string().into();
    object["seq"] = seq.into();
    Some(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIEW: AgentId = AgentId::from_bytes([1; 16]);
    const OTHER: AgentId = AgentId::from_bytes([2; 16]);

    /// Returns everything that the printer prints for `received`.
    fn printed(received: Vec<Received>) -> String {
        let mut printer = Printer::on(Vec::new(), false, VIEW);
        for received in received {
            assert!(printer.event(received, 3, VIEW).is_ok());
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

    fn piece(seq: u64, text: &str) -> Received {
        event(seq, EventKind::Delta { block: DeltaKind::Text, text: text.to_owned(), at: DeltaPosition::default() })
    }

    fn answer(seq: u64, text: &str) -> Received {
        event(seq, EventKind::Message { kind: MessageKind::Assistant, content: text.to_owned(), data: None })
    }

    #[test]
    fn deltas_are_printed_immediately_and_end_with_a_line_feed() {
        assert_eq!(printed(vec![piece(1, "Good "), piece(1, "day.")]), "Good day.\n");
        assert_eq!(printed(vec![piece(1, "Good "), piece(1, "day."), answer(2, "Good day.")]), "Good day.\n");
        assert_eq!(
            printed(vec![piece(1, "One.\n"), answer(2, "One.\n"), answer(4, ""), answer(6, "Two.")]),
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
    fn lagging_neither_loses_nor_repeats_text() {
        let late = vec![
            piece(1, "One "),
            // The gap reaches into the next answer, and row 2 is replayed before the remaining deltas.
            Received::Lagged(3),
            answer(2, "One two three."),
            piece(1, "three."),
            piece(3, "five."),
            answer(4, "Four five."),
            piece(4, "Six."),
            answer(5, "Six."),
        ];
        assert_eq!(printed(late), "One two three.\nFour five.\nSix.\n");
    }

    /// A piece of an attempt, before which `given_up` attempts were given up.
    fn piece_after(given_up: u32, offset: u64, text: &str) -> Received {
        let at = DeltaPosition { offset, given_up, ..DeltaPosition::default() };
        event(1, EventKind::Delta { block: DeltaKind::Text, text: text.to_owned(), at })
    }

    fn broke_off(given_up: u32) -> Received {
        let [provider, what, cause] = ["openai", "Server error", "overloaded"].map(str::to_owned);
        let retry = Retrying { provider, what, cause, wait_ms: 1_000, attempt: given_up, of: 4 };
        event(1, EventKind::GivenUp { turn: 1, answer: 0, given_up, retry })
    }

    /// The row of an answer of which one attempt was given up.
    fn answer_after(seq: u64, text: &str) -> Received {
        let data = json!({
            "provider": "p", "adapter": "a", "model": "m", "usage": {}, "parts": [],
            "failed_attempts": {"given_up": 1, "usage": {}},
        });
        event(seq, EventKind::Message { kind: MessageKind::Assistant, content: text.to_owned(), data: Some(data) })
    }

    #[test]
    fn answer_that_broke_off_is_followed_by_the_whole_new_one() {
        let received = vec![
            piece(1, "Half of"),
            broke_off(1),
            piece_after(1, 0, "All "),
            piece_after(1, 4, "of it."),
            answer_after(2, "All of it."),
            piece(2, "Next."),
        ];
        assert_eq!(printed(received), "Half of\nAll of it.\nNext.\n");
        // Nothing was printed of it.
        assert_eq!(printed(vec![broke_off(1), piece_after(1, 0, "All."), answer_after(2, "All.")]), "All.\n");
        // A pipe receives no pieces.
        assert_eq!(printed(vec![broke_off(1), answer_after(2, "All."), answer(4, "Next.")]), "All.\nNext.\n");
    }

    #[test]
    fn lagging_never_mixes_two_attempts() {
        // The event and the first piece of the second attempt are lost.
        let lost =
            vec![piece(1, "Half of"), Received::Lagged(2), piece_after(1, 4, "of it."), answer_after(4, "All of it.")];
        assert_eq!(printed(lost), "Half of\nAll of it.\n");
        let lost = vec![piece(1, "Half of"), Received::Lagged(3), answer_after(4, "All of it.")];
        assert_eq!(printed(lost), "Half of\nAll of it.\n");
        // Pieces were lost before; the attempt that follows is printed as it arrives.
        let late = vec![piece(1, "Half"), Received::Lagged(1), broke_off(1), piece_after(1, 0, "All of it.")];
        assert_eq!(printed(late), "Half\nAll of it.\n");
    }

    #[test]
    fn given_up_is_an_object_for_scripts() {
        let Received::Event(event) = broke_off(1) else { panic!() };
        let expected = json!({"event": "given_up", "turn": 1, "answer": 0, "agent": VIEW.to_string(), "seq": 1});
        assert_eq!(json_of(event), Some(expected));
    }

    #[test]
    fn only_answers_of_the_agent_in_view_are_printed() {
        let late = |offset, text: &str| {
            let at = DeltaPosition { offset, ..DeltaPosition::default() };
            of_other(event(2, EventKind::Delta { block: DeltaKind::Text, text: text.to_owned(), at }))
        };
        let moved = of_other(event(2, EventKind::ViewMoved));
        let received = vec![
            piece(1, "Half of"),
            late(0, "First "),
            of_other(answer(2, "Not shown.")),
            moved,
            piece(2, " this."),
            // The beginning of this answer was not received, so that it is printed with its row.
            late(6, "words"),
            late(11, "."),
            answer(3, "Half of this."),
            of_other(answer(4, "First words.")),
            of_other(piece(4, "Then ")),
            of_other(piece(4, "this.")),
        ];
        assert_eq!(printed(received), "Half of\nFirst words.\nThen this.\n");
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
