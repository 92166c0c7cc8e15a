//! What happens while a line runs, as it is written to the terminal. Rows are shown by the line's own outcome, except what a
//! model does on the way to its answer.

use std::io::{self, Write};

use patchbay_core::{AssistantPart, Code, DeltaKind, EventKind, MessageKind, Outcome, completion::ToolCall, text};
use patchbay_session::Received;

/// Characters of a tool's input or answer that are shown.
const SHOWN: usize = 100;

/// Writes to a terminal, or to whatever standard output is.
pub(crate) struct Screen {
    styled: bool,
    /// Whether errors go to standard error.
    errors_apart: bool,
    /// What the line that is being written belongs to.
    open: Option<DeltaKind>,
    /// Whether the answer that the outcome carries has been shown.
    answered: bool,
}

impl Screen {
    /// A terminal: thinking and what tools do is written faint.
    pub(crate) fn of_terminal() -> Self {
        Self { styled: true, errors_apart: false, open: None, answered: false }
    }

    /// No terminal, or one that cannot style text: errors go to standard error.
    pub(crate) fn of_pipe() -> Self {
        Self { styled: false, errors_apart: true, open: None, answered: false }
    }

    /// Shows what happens.
    pub(crate) fn show(&mut self, received: Received) -> io::Result<()> {
        let event = match received {
            Received::Event(event) => event,
            // Pieces of the answer are missing: it is shown whole at its end.
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
            EventKind::Message { .. } | EventKind::LineEnded { .. } | EventKind::Unknown => Ok(()),
        }
    }

    /// Shows what the line came to.
    pub(crate) fn outcome(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.end()?;
        let shown = outcome.code == Code::Answered && (self.answered || outcome.message.is_empty());
        match shown {
            true => Ok(()),
            false if self.errors_apart && !outcome.is_ok() => writeln!(io::stderr().lock(), "{}", outcome.line()),
            false => self.line(&outcome.line()),
        }
    }

    /// Ends the line that is being written.
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
            // The blank line between two blocks of text is not needed after other output.
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

/// `text` as a terminal writes what is not the answer itself.
pub(crate) fn faint(text: &str) -> String {
    format!("\x1b[2m{text}\x1b[0m")
}
