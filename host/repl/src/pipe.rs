//! Output without a terminal, for `plain`. Results are printed from the line's outcome, errors and progress on standard error; of the
//! stored rows only tool calls and their results are shown. Of agents that are not in view, one line on standard error is shown when a
//! turn ends. A terminal shows an answer as it arrives. In a pipe or a file it is printed from its row: until then it can break off and
//! be requested again, and what was printed cannot be taken back.

use std::{
    collections::BTreeSet,
    io::{self, IsTerminal as _, Write},
};

use patchbay_core::{
    AgentId, AssistantPart, Attachment, Code, DeltaKind, DeltaPosition, Event, EventKind, MessageKind, Outcome,
    completion::ToolCall, text,
};
use patchbay_session::{Received, unanswered_hint};
use tokio::sync::watch;

use crate::words;

/// Length limit in characters of a shown tool input or result.
const SHOWN: usize = 100;

/// Writes the output of lines and turns.
pub(crate) struct PipeOutput {
    /// The agent whose output is shown.
    view: AgentId,
    /// Agents that run a turn.
    working: BTreeSet<AgentId>,
    /// Lines about other agents that wait for the end of a block.
    later: Vec<String>,
    /// The kind of block that the current line belongs to; `None` at the start of a line.
    open: Option<DeltaKind>,
    /// The turn and the index of the answer whose beginning was shown.
    answer: Option<(u64, u32)>,
    /// Whether answers are shown as they arrive: only in a terminal.
    streams: bool,
    /// Whether the final answer was already shown.
    answered: bool,
    /// The error that the last turn ended with, if it was shown.
    told: Option<(Code, String)>,
    /// Whether the line that runs is a kill, whose outcome names the killed agents.
    kills: bool,
    /// Whether the prompt stands on the current line.
    prompted: bool,
    /// Receives the number of each row that was shown.
    shown: watch::Sender<u64>,
}

impl PipeOutput {
    /// Begins with `view` in view. `shown` receives the number of each row that was shown.
    pub(crate) fn new(view: AgentId, shown: watch::Sender<u64>) -> Self {
        let (working, later) = (BTreeSet::new(), Vec::new());
        Self {
            view,
            working,
            later,
            open: None,
            answer: None,
            streams: io::stdout().is_terminal(),
            answered: false,
            told: None,
            kills: false,
            prompted: false,
            shown,
        }
    }

    /// Prints the prompt for the next line.
    pub(crate) fn prompt(&mut self, is_capturing: bool) -> io::Result<()> {
        self.end()?;
        self.prompted = true;
        let mut out = io::stdout().lock();
        out.write_all(if is_capturing { b"(capturing) > " } else { b"> " })?;
        out.flush()
    }

    /// The user has entered a line behind the prompt.
    pub(crate) fn entered(&mut self) {
        self.prompted = false;
    }

    /// Begins a line.
    pub(crate) fn begin(&mut self, line: &str) {
        (self.answered, self.told) = (false, None);
        self.kills = line.split_whitespace().next() == Some("/kill");
    }

    /// Shows an event.
    pub(crate) fn show(&mut self, received: Received) -> io::Result<()> {
        let event = match received {
            Received::Event(event) => event,
            // If deltas are missing, the answer is printed as a whole at its end. Rows are never missing.
            Received::Lagged(_) => {
                self.answered &= !self.streams;
                return Ok(());
            }
        };
        let row = matches!(event.kind, EventKind::Message { .. }).then_some(event.seq);
        let written = self.event(event);
        if let Some(seq) = row {
            self.shown.send_replace(seq);
        }
        written
    }

    fn event(&mut self, event: Event) -> io::Result<()> {
        match &event.kind {
            EventKind::ViewMoved => {
                self.view = event.agent;
                return self.end();
            }
            EventKind::TurnBegan { .. } => drop(self.working.insert(event.agent)),
            EventKind::TurnEnded { .. } => drop(self.working.remove(&event.agent)),
            _ => {}
        }
        if event.agent == self.view { self.agent_in_view(event) } else { self.other_agent(&event) }
    }

    fn other_agent(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            // What the host says of a turn is for those who see it; other notices are for the user.
            EventKind::Notice { text } if !self.working.contains(&event.agent) => self.later.push(text.clone()),
            EventKind::AgentKilled if self.kills => {}
            _ => self.later.extend(event.headline()),
        }
        self.print_later()
    }

    fn print_later(&mut self) -> io::Result<()> {
        if self.open.is_some() || self.later.is_empty() {
            return Ok(());
        }
        self.end_prompt()?;
        self.later.drain(..).try_for_each(|line| writeln!(io::stderr().lock(), "{line}"))
    }

    fn agent_in_view(&mut self, event: Event) -> io::Result<()> {
        let (answer, result) = (event.kind.answer(), event.kind.tool_result());
        if let Some(attached) = Attachment::summary(&event.kind.attachments()) {
            self.line(&attached)?;
        }
        match event.kind {
            EventKind::Delta { block, text, at } if self.streams => self.delta(block, &text, at),
            // The result may repeat it, such as the lines that a program of `code` logs.
            EventKind::Progress { text, .. } => {
                self.end()?;
                writeln!(io::stderr().lock(), "{}", text.trim_end_matches('\n'))
            }
            EventKind::Notice { text } => self.line(&text),
            EventKind::Retrying(retrying) => self.line(&retrying.to_string()),
            EventKind::GivenUp { turn, answer, retry, .. } => {
                let is_printed = std::mem::take(&mut self.answered) && self.answer == Some((turn, answer));
                self.line(&retry.broke_off(is_printed))
            }
            EventKind::Message { kind: MessageKind::Assistant, .. } => {
                let parts = answer.map(|answer| answer.parts).unwrap_or_default();
                if !self.streams {
                    self.blocks(&parts)?;
                }
                self.end()?;
                for ToolCall { name, input, .. } in parts.iter().filter_map(AssistantPart::tool_call) {
                    let (name, input) = (text::excerpt(&name, SHOWN), text::excerpt(&input, SHOWN));
                    self.line(&format!("→ {name} {input}"))?;
                }
                Ok(())
            }
            EventKind::Message { kind: MessageKind::Tool, content, .. } => {
                self.line(&match result.and_then(|result| result.error) {
                    Some(code) => format!("✗ {}", words::failure(code, &content, SHOWN)),
                    None => format!("← {}", text::excerpt(&content, SHOWN)),
                })
            }
            EventKind::TurnBegan { .. } => {
                self.answered = false;
                Ok(())
            }
            EventKind::TurnEnded { outcome, .. } => self.turn_ended(&outcome),
            EventKind::AgentKilled if !self.kills => {
                self.later.push(format!("{} was killed.", self.view.short()));
                self.end()
            }
            EventKind::Delta { .. }
            | EventKind::Message { .. }
            | EventKind::RequestWaits { .. }
            | EventKind::LineEnded { .. }
            | EventKind::LineQueued { .. }
            | EventKind::LineDequeued { .. }
            | EventKind::QueueHeld { .. }
            | EventKind::AgentForked { .. }
            | EventKind::AgentKilled
            | EventKind::ViewMoved
            | EventKind::MailArrived { .. }
            | EventKind::Unknown => Ok(()),
        }
    }

    /// Ends a turn, which may have no line: its error is shown now, and an answer of which pieces were missed.
    fn turn_ended(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.end()?;
        if outcome.is_ok() {
            if !self.answered && !outcome.message.is_empty() {
                self.line(&outcome.message)?;
                self.answered = true;
            }
            return Ok(());
        }
        self.told = Some((outcome.code, outcome.message.clone()));
        // The event of a kill says it.
        if outcome.code == Code::AgentDead { Ok(()) } else { writeln!(io::stderr().lock(), "{}", outcome.line()) }
    }

    /// Prints the outcome, unless it was already shown.
    pub(crate) fn outcome(&mut self, outcome: &Outcome) -> io::Result<()> {
        self.end()?;
        self.kills = false;
        let told = self.told.take();
        let shown = match outcome.code {
            Code::Answered => self.answered || outcome.message.is_empty(),
            code => told.is_some_and(|told| told == (code, outcome.message.clone())),
        };
        match shown {
            true => {}
            false if !outcome.is_ok() => writeln!(io::stderr().lock(), "{}", outcome.line())?,
            false => self.line(&outcome.line())?,
        }
        unanswered_hint(outcome).map_or(Ok(()), |hint| writeln!(io::stderr().lock(), "{hint}"))
    }

    /// Ends the line with the prompt, before other output.
    fn end_prompt(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.prompted) { io::stdout().lock().write_all(b"\n") } else { Ok(()) }
    }

    /// Ends the current line.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.end_prompt()?;
        if self.open.take().is_some() {
            io::stdout().lock().write_all(b"\n")?;
        }
        self.print_later()
    }

    fn delta(&mut self, block: DeltaKind, text: &str, at: DeltaPosition) -> io::Result<()> {
        if block == DeltaKind::Text {
            let answer = Some((at.turn, at.answer));
            // An agent that came into view in the middle of its answer: the answer is printed at its end.
            if self.answer != answer && at.offset > 0 {
                return Ok(());
            }
            self.answer = answer;
        }
        self.piece(block, text)
    }

    /// Prints the text and the thinking of a whole answer, as its deltas would be.
    fn blocks(&mut self, parts: &[AssistantPart]) -> io::Result<()> {
        for part in parts {
            match part {
                AssistantPart::Text { text, .. } if !text.is_empty() => {
                    if self.open == Some(DeltaKind::Text) {
                        self.piece(DeltaKind::Text, "\n\n")?;
                    }
                    self.piece(DeltaKind::Text, text)?;
                }
                AssistantPart::Thinking { text, .. } => self.piece(DeltaKind::Thinking, text)?,
                AssistantPart::Text { .. } | AssistantPart::ToolCall { .. } | AssistantPart::Opaque { .. } => {}
            }
        }
        // Without text, the outcome of the turn is printed.
        self.answered = parts.iter().any(|part| matches!(part, AssistantPart::Text { text, .. } if !text.is_empty()));
        Ok(())
    }

    /// Prints a piece of a block, which begins on a line of its own.
    fn piece(&mut self, block: DeltaKind, mut text: &str) -> io::Result<()> {
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
