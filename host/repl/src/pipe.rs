//! Output of a line without a terminal, for `plain`. Results are printed from the line's outcome, errors on standard error;
//! of the stored rows only tool calls and their results are shown.

use std::io::{self, Write};

use patchbay_core::{AssistantPart, Code, DeltaKind, EventKind, MessageKind, Outcome, completion::ToolCall, text};
use patchbay_session::Received;

/// Length limit in characters of a shown tool input or result.
const SHOWN: usize = 100;

/// Writes the output of one line.
#[derive(Default)]
pub(crate) struct PipeOutput {
    /// The kind of block that the current line belongs to; `None` at the start of a line.
    open: Option<DeltaKind>,
    /// Whether the final answer was already shown as deltas.
    answered: bool,
}

impl PipeOutput {
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
            EventKind::Notice { text } => self.line(&text),
            EventKind::Retrying(retrying) => self.line(&retrying.to_string()),
            EventKind::Message { kind: MessageKind::Assistant, .. } => {
                self.end()?;
                let calls = answer.iter().flat_map(|answer| &answer.parts).filter_map(AssistantPart::tool_call);
                for ToolCall { name, input, .. } in calls {
                    let (name, input) = (text::excerpt(&name, SHOWN), text::excerpt(&input, SHOWN));
                    self.line(&format!("→ {name} {input}"))?;
                }
                Ok(())
            }
            EventKind::Message { kind: MessageKind::Tool, content, .. } => {
                let mark = if result.is_some_and(|result| result.error.is_some()) { "✗" } else { "←" };
                self.line(&format!("{mark} {}", text::excerpt(&content, SHOWN)))
            }
            EventKind::Message { .. }
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
        }
    }

    /// Prints the outcome, unless it was already shown.
    pub(crate) fn outcome(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.end()?;
        let shown = outcome.code == Code::Answered && (self.answered || outcome.message.is_empty());
        match shown {
            true => Ok(()),
            false if !outcome.is_ok() => writeln!(io::stderr().lock(), "{}", outcome.line()),
            false => self.line(&outcome.line()),
        }
    }

    /// Ends the current line.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        if self.open.take().is_none() {
            return Ok(());
        }
        io::stdout().lock().write_all(b"\n")
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
        }
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        self.end()?;
        writeln!(io::stdout().lock(), "{text}")
    }
}
