//! The commands that the user types after `!`. They run immediately, one at a time. Their output is shown, and attached to the next
//! message.

use std::{future::pending, sync::Arc};

use patchbay_cage::{ProgramEnd, RunningProgram};
use patchbay_core::text;
use patchbay_session::{LineInput, NewAttachment, Session};

use super::Front;
use crate::programs::{ProgramOptions, Programs, end_line, shown_output};

/// How many lines of an output are printed. `/show` prints all of them.
const LINES: usize = 40;
/// Maximum number of outputs that wait for the next message. Beyond it, the oldest are discarded.
const WAITING: usize = 8;

/// The program that the user has started, and the outputs of earlier ones.
pub(super) struct OwnPrograms {
    programs: Arc<Programs>,
    running: Option<OwnProgram>,
    /// Outputs for the next message.
    outputs: Vec<NewAttachment>,
}

struct OwnProgram {
    /// The line as typed, with its `!`.
    line: String,
    running: RunningProgram,
}

impl OwnPrograms {
    /// Returns the state in which nothing runs, and offers models the tools that run programs.
    pub(super) fn new(session: &Arc<Session>, options: ProgramOptions) -> Self {
        Self { programs: Programs::offer(session, options), running: None, outputs: Vec::new() }
    }

    pub(super) fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Waits until the running command has ended. Cancel-safe.
    pub(super) async fn changed(&self) -> ProgramEnd {
        match &self.running {
            Some(own) => own.running.ended().await,
            None => pending().await,
        }
    }

    /// Stops the running command. Returns false if there is none.
    pub(super) fn stop(&self) -> bool {
        self.running.as_ref().inspect(|own| own.running.stop()).is_some()
    }

    /// Returns the row about the running command.
    pub(super) fn row(&self) -> Option<String> {
        let own = self.running.as_ref()?;
        let last = own.running.output(|output| output.tail(400).text);
        let last =
            last.lines().rfind(|line| !line.trim().is_empty()).map(|line| format!(" · {}", text::excerpt(line, 60)));
        Some(format!("* {} · Esc stops{}", text::excerpt(&own.line, 40), last.unwrap_or_default()))
    }

    /// Attaches the outputs to a message.
    pub(super) fn attach_output(&mut self, input: &mut LineInput) {
        if !input.text.starts_with('/') {
            input.attachments.append(&mut self.outputs);
        }
    }
}

impl Front {
    /// Starts the process for a command while the user still types it.
    pub(super) fn prepare_own(&self) {
        if self.input.composer.is_own_command() {
            self.own_programs.programs.prepare();
        }
    }

    /// Runs a command that the user typed. `line` begins with `!`.
    pub(super) fn run_own(&mut self, line: &str) {
        self.conversation.transcript.entered(line);
        if self.own_programs.running.is_some() {
            return self.conversation.transcript.prose("Error: another command of yours still runs; Esc stops it.");
        }
        match self.own_programs.programs.start_own(line.trim_start_matches('!')) {
            Ok(running) => self.own_programs.running = Some(OwnProgram { line: line.to_owned(), running }),
            Err(error) => self.conversation.transcript.prose(&format!("Error: cannot start the command: {error}.")),
        }
    }

    /// Shows a command that has ended, and keeps its output for the next message.
    pub(super) fn own_program(&mut self, end: ProgramEnd) {
        self.window.change_now();
        let Some(OwnProgram { line, running }) = self.own_programs.running.take() else { return };
        let output = shown_output(&running);
        let end = end_line(&end);
        let number = self.conversation.transcript.keep_result(output.clone(), line.clone());
        let lines: Vec<&str> = output.lines().collect();
        let hidden = lines.len().saturating_sub(LINES);
        if hidden > 0 {
            self.conversation.transcript.notice(&format!("{hidden} lines before these: /show {number}"));
        }
        self.conversation.transcript.print(&lines[hidden..].join("\n"));
        let content = format!("$ {}\n{end}\n{output}", &line[1..]);
        // Text of this size is never refused.
        if let Ok(output) = NewAttachment::new(&format!("output of {line}"), content.into_bytes()) {
            let excess = (self.own_programs.outputs.len() + 1).saturating_sub(WAITING);
            self.own_programs.outputs.drain(..excess);
            self.own_programs.outputs.push(output);
        }
        self.conversation.transcript.notice(&format!("{end}. Your next message will include this output."));
    }
}
