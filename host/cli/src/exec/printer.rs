//! Output of `exec`: results and answers on standard output, everything else on standard error.

use std::io::{self, ErrorKind, Write};

use patchbay_core::{Code, DeltaKind, Event, EventKind, MessageKind, Outcome};
use patchbay_session::Received;
use serde_json::json;

use super::EarlyEnd;
use crate::CliError;

/// Prints a line on standard error. Write errors are ignored.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

pub(super) struct Printer<W = io::Stdout> {
    out: W,
    json: bool,
    /// Bytes of the current answer that are already printed.
    printed: usize,
    /// Whether the last printed line has no line feed yet.
    open: bool,
    /// Set when events were lost: the session's last row at that time. The current answer is then printed as a whole when
    /// its row arrives, which has a higher number.
    lagged: Option<u64>,
    /// The number of the last answer's row. A delta with a lower number belongs to an answer that is already printed.
    answered: u64,
    /// Whether a message was stored since the last `/quit`, which prints the session's id.
    conversation: bool,
}

impl Printer {
    /// Returns a printer on standard output; with `json`, it prints one object per line.
    pub(super) fn new(json: bool) -> Self {
        Self::on(io::stdout(), json)
    }
}

impl<W: Write> Printer<W> {
    fn on(out: W, json: bool) -> Self {
        Self { out, json, printed: 0, open: false, lagged: None, answered: 0, conversation: false }
    }

    /// Returns whether a message was stored in this session, answered or not, since its id was last printed.
    pub(super) fn has_conversation(&self) -> bool {
        self.conversation
    }

    /// Prints one or more lines and flushes them before the next line runs.
    pub(super) fn print(&mut self, text: &str) -> Result<(), EarlyEnd> {
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

    /// Prints an event, if it has output. `latest` is the number of the session's last row.
    pub(super) fn event(&mut self, received: Received, latest: u64) -> Result<(), EarlyEnd> {
        match received {
            Received::Lagged(missed) if self.json => {
                self.print(&json!({"event": "lagged", "missed": missed}).to_string())
            }
            Received::Lagged(_) => {
                self.lagged = Some(latest);
                Ok(())
            }
            // The outcome is printed as an object of its own. Lines of `exec` do not wait in the queue.
            Received::Event(Event {
                kind:
                    EventKind::LineEnded { .. }
                    | EventKind::LineQueued { .. }
                    | EventKind::LineDequeued { .. }
                    | EventKind::QueueHeld { .. }
                    | EventKind::TurnBegan { .. }
                    | EventKind::TurnEnded { .. }
                    | EventKind::AgentForked { .. }
                    | EventKind::AgentKilled
                    | EventKind::ViewMoved
                    | EventKind::MailArrived { .. }
                    | EventKind::Unknown,
                ..
            }) => Ok(()),
            Received::Event(mut event) if self.json => {
                // Scripts read a retry as the notice that it was before it had a kind of its own.
                if let Some(text) = event.kind.notice() {
                    event.kind = EventKind::Notice { text };
                }
                let mut object = serde_json::to_value(&event.kind).unwrap_or_default();
                if let Some(object) = object.as_object_mut() {
                    // Deltas are printed in order, so scripts need no position.
                    object.remove("at");
                }
                object["agent"] = event.agent.to_string().into();
                object["seq"] = event.seq.into();
                self.print(&object.to_string())
            }
            Received::Event(Event { seq, kind, .. }) => match kind {
                EventKind::Delta { block: DeltaKind::Text, text, .. } => self.piece(seq, &text),
                EventKind::Message { kind: MessageKind::Assistant, content, .. } => self.answer(seq, &content),
                EventKind::Message { kind: MessageKind::User, .. } => {
                    self.conversation = true;
                    Ok(())
                }
                EventKind::Notice { text } => {
                    note(&text);
                    Ok(())
                }
                EventKind::Retrying(retrying) => {
                    note(&retrying.to_string());
                    Ok(())
                }
                EventKind::Delta { .. }
                | EventKind::Message { .. }
                | EventKind::Progress { .. }
                | EventKind::LineEnded { .. }
                | EventKind::LineQueued { .. }
                | EventKind::LineDequeued { .. }
                | EventKind::QueueHeld { .. }
                | EventKind::TurnBegan { .. }
                | EventKind::TurnEnded { .. }
                | EventKind::AgentForked { .. }
                | EventKind::AgentKilled
                | EventKind::ViewMoved
                | EventKind::MailArrived { .. }
                | EventKind::Unknown => Ok(()),
            },
        }
    }

    /// Prints a piece of an answer. All pieces together are the answer's text.
    fn piece(&mut self, seq: u64, text: &str) -> Result<(), EarlyEnd> {
        if self.lagged.is_some() || seq < self.answered {
            return Ok(());
        }
        self.conversation = true;
        self.printed += text.len();
        self.write(text)
    }

    /// Prints the part of an answer that was not printed yet. The answer may be incomplete.
    fn answer(&mut self, seq: u64, content: &str) -> Result<(), EarlyEnd> {
        self.conversation = true;
        self.answered = seq;
        if self.lagged.is_some_and(|latest| seq > latest) {
            self.lagged = None;
        }
        let rest = content.get(std::mem::take(&mut self.printed)..).unwrap_or_default();
        self.write(rest)?;
        self.end_line()
    }

    pub(super) fn outcome(&mut self, line: &str, outcome: &Outcome) -> Result<(), EarlyEnd> {
        if self.json {
            let mut object = serde_json::to_value(outcome).unwrap_or_default();
            object["line"] = line.into();
            return self.print(&object.to_string());
        }
        self.end_line()?;
        (self.printed, self.lagged) = (0, None);
        self.conversation &= outcome.code != Code::Quit;
        if !outcome.is_ok() {
            note(&outcome.line());
            return Ok(());
        }
        // The answer is already printed.
        if outcome.code == Code::Answered { Ok(()) } else { self.print(&outcome.line()) }
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::{AgentId, DeltaPosition, SessionId};

    use super::*;

    /// Returns everything that the printer prints for `received`.
    fn printed(received: Vec<Received>) -> String {
        let mut printer = Printer::on(Vec::new(), false);
        for received in received {
            assert!(printer.event(received, 3).is_ok());
        }
        assert!(printer.outcome("hello", &Outcome::ok(Code::Answered, "not printed again")).is_ok());
        String::from_utf8(printer.out).unwrap()
    }

    fn event(seq: u64, kind: EventKind) -> Received {
        Received::Event(Event { session: SessionId::random(), agent: AgentId::random(), seq, kind })
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
}
