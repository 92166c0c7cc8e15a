//! Output while a line runs. Results are printed from the line's outcome; of the stored rows only tool calls and their
//! results are shown.

use std::io::{self, Write};

use patchbay_core::{AssistantPart, Code, DeltaKind, EventKind, MessageKind, Outcome, completion::ToolCall, text};
use patchbay_session::Received;

/// Length limit in characters of a shown tool input or result.
const SHOWN: usize = 100;

/// Writes to a terminal or a pipe.
pub(crate) struct Screen {
    styled: bool,
    /// Whether errors go to standard error.
    errors_apart: bool,
    /// The kind of block that the current line belongs to; `None` at the start of a line.
    open: Option<DeltaKind>,
    /// Whether the final answer was already shown as deltas.
    answered: bool,
}

impl Screen {
    /// Returns a screen for a terminal: thinking and tool calls are faint.
    pub(crate) fn of_terminal() -> Self {
        Self { styled: true, errors_apart: false, open: None, answered: false }
    }

    /// Returns a screen for a pipe or a plain terminal: errors go to standard error.
    pub(crate) fn of_pipe() -> Self {
        Self { styled: false, errors_apart: true, open: None, answered: false }
    }

    /// Shows an event.
    pub(crate) fn show(&mut self, received: Received) -> io::Result<()> {
        let event = match received {
            Received::Event(event) => event,
            // Deltas are missing, so the answer is printed as a whole at its end.
            Received::Lagged(_) => {
                self.answered = false;
                return Ok(());
            }
        };
        let (answer, result) = (event.kind.answer(), event.kind.tool_result());
        match event.kind {
            EventKind::Delta { block, text, .. } => self.delta(block, &text),
            EventKind::Progress { text, .. } => self.line(&text),
            EventKind::Notice { text } => self.aside(&text),
            EventKind::Message { kind: MessageKind::Assistant, .. } => {
                self.end()?;
                let calls = answer.iter().flat_map(|answer| &answer.parts).filter_map(AssistantPart::tool_call);
                for ToolCall { name, input, .. } in calls {
                    let (name, input) = (text::excerpt(&name, SHOWN), text::excerpt(&input, SHOWN));
                    self.aside(&format!("→ {name} {input}"))?;
                }
                Ok(())
            }
            EventKind::Message { kind: MessageKind::Tool, content, .. } => {
                let mark = if result.is_some_and(|result| result.error.is_some()) { "✗" } else { "←" };
                self.aside(&format!("{mark} {}", text::excerpt(&content, SHOWN)))
            }
            EventKind::Message { .. }
            | EventKind::LineEnded { .. }
            | EventKind::LineQueued { .. }
            | EventKind::LineDequeued { .. }
            | EventKind::QueueHeld { .. }
            | EventKind::Unknown => Ok(()),
        }
    }

    /// Prints the outcome, unless it was already shown.
    pub(crate) fn outcome(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.end()?;
        let shown = outcome.code == Code::Answered && (self.answered || outcome.message.is_empty());
        match shown {
            true => Ok(()),
            false if self.errors_apart && !outcome.is_ok() => writeln!(io::stderr().lock(), "{}", outcome.line()),
            false => self.line(&outcome.line()),
        }
    }

    /// Ends the current line.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let mut out = io::stdout().lock();
        if open == DeltaKind::Thinking && self.styled {
            out.write_all(b"\x1b[0m")?;
        }
        out.write_all(b"\n")
    }

    fn delta(&mut self, block: DeltaKind, text: &str) -> io::Result<()> {
        let mut text = text;
        if self.open != Some(block) {
            // The blank line that separates two blocks of text is not needed after other output.
            text = text.trim_start_matches('\n');
            if text.is_empty() {
                return Ok(());
            }
            self.end()?;
            self.open = Some(block);
            self.answered = block == DeltaKind::Text;
            if block == DeltaKind::Thinking && self.styled {
                io::stdout().lock().write_all(b"\x1b[2m")?;
            }
        }
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        self.end()?;
        writeln!(io::stdout().lock(), "{text}")
    }

    fn aside(&mut self, text: &str) -> io::Result<()> {
        if self.styled { self.line(&faint(text)) } else { self.line(text) }
    }
}

/// Returns `text` in faint style, for everything except the answer.
pub(crate) fn faint(text: &str) -> String {
    format!("\x1b[2m{text}\x1b[0m")
}
