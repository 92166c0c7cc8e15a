//! What `exec` prints: results and answers on standard output, everything else on standard error.

use std::io::{self, ErrorKind, Write};

use patchbay_core::{Code, DeltaKind, Event, EventKind, MessageKind, Outcome};
use patchbay_session::Received;
use serde_json::json;

use super::EarlyEnd;
use crate::CliError;

/// Prints a line on standard error. Where nothing reads it, it is lost.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

pub(super) struct Printer<W = io::Stdout> {
    out: W,
    json: bool,
    /// Bytes of the present answer that are printed.
    printed: usize,
    /// Whether what is printed ends within a line.
    open: bool,
    /// Where pieces were missed: the session's last row at that moment. The answer that was under way then, whose row comes
    /// after that one, is printed when its row comes.
    lagged: Option<u64>,
    /// The number of the last answer's row. A piece with a lower number belongs to an answer that was printed whole.
    answered: u64,
    /// Whether a message was stored since `/quit` named the session.
    conversation: bool,
}

impl Printer {
    /// A printer on standard output; `json`: one object a line.
    pub(super) fn new(json: bool) -> Self {
        Self::on(io::stdout(), json)
    }
}

impl<W: Write> Printer<W> {
    fn on(out: W, json: bool) -> Self {
        Self { out, json, printed: 0, open: false, lagged: None, answered: 0, conversation: false }
    }

    /// Whether a message, answered or not, was stored in a session that was not named yet.
    pub(super) fn has_conversation(&self) -> bool {
        self.conversation
    }

    /// Prints one line, or several, and has them out before the next line is run.
    pub(super) fn print(&mut self, text: &str) -> Result<(), EarlyEnd> {
        self.end_line()?;
        self.write(text)?;
        self.write("\n")
    }

    /// Ends the line that is being printed, if one is.
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

    /// Prints what is to be printed of an event. `latest` is the number of the session's last row.
    pub(super) fn event(&mut self, received: Received, latest: u64) -> Result<(), EarlyEnd> {
        match received {
            Received::Lagged(missed) if self.json => {
                self.print(&json!({"event": "lagged", "missed": missed}).to_string())
            }
            Received::Lagged(_) => {
                self.lagged = Some(latest);
                Ok(())
            }
            // The outcome is an object of its own.
            Received::Event(Event { kind: EventKind::LineEnded { .. } | EventKind::Unknown, .. }) => Ok(()),
            Received::Event(event) if self.json => {
                let mut object = serde_json::to_value(&event.kind).unwrap_or_default();
                if let Some(object) = object.as_object_mut() {
                    // Pieces are printed in their order: scripts need no position.
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
                EventKind::Delta { .. }
                | EventKind::Message { .. }
                | EventKind::Progress { .. }
                | EventKind::LineEnded { .. }
                | EventKind::Unknown => Ok(()),
            },
        }
    }

    /// A piece of an answer. All pieces together are the answer's text.
    fn piece(&mut self, seq: u64, text: &str) -> Result<(), EarlyEnd> {
        if self.lagged.is_some() || seq < self.answered {
            return Ok(());
        }
        self.conversation = true;
        self.printed += text.len();
        self.write(text)
    }

    /// A whole answer, or all that came of it: prints what was not printed yet.
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
        // An answer was printed as it came.
        if outcome.code == Code::Answered { Ok(()) } else { self.print(&outcome.line()) }
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::{AgentId, DeltaPosition, SessionId};

    use super::*;

    /// What `received` prints in all.
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
    fn pieces_are_printed_as_they_come_and_end_with_a_line_feed() {
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
    fn a_lag_loses_and_repeats_nothing() {
        let late = vec![
            piece(1, "One "),
            // The gap reaches into the next answer, and row 2 is replayed before what is left of the pieces.
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
