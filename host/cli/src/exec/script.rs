//! Runs the lines of `exec` one after another, prints what the agents do meanwhile, and waits until all are idle.

use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use patchbay_core::{AgentId, Code, Event, EventKind, LineId, Outcome};
use patchbay_session::{LineInput, NewAttachment, Received, Session, Submitted, Subscription};
use tokio::time::timeout;

use super::{EarlyEnd, last_turns::LastTurns, line_source::LineSource, printer::Printer};
use crate::{FAILED, args::Exec, out::note};

/// How long the turns that `/quit` stops may take to store their partial answers.
const STOPPING: Duration = Duration::from_secs(2);

/// The session of an `exec`, with its output.
pub(super) struct ScriptRun {
    session: Arc<Session>,
    events: Subscription,
    pub(super) printer: Printer,
    /// Whether pieces of answers are printed as they arrive: only in a terminal. An answer that breaks off, in any block, is requested
    /// again as a whole, and a pipe or a file cannot take back what was printed. The answer's row is final.
    streams: bool,
    turns: LastTurns,
}

/// The end of a line that was submitted.
struct EndedLine {
    outcome: Outcome,
    /// Events to print after the outcome.
    after: Vec<Received>,
}

impl ScriptRun {
    pub(super) fn new(session: Arc<Session>, exec: &Exec) -> Self {
        let &Exec { json, typed, .. } = exec;
        let (mut events, view) = (session.subscribe(session.last_seq() + 1), session.view());
        let streams = io::stdout().is_terminal();
        if !json {
            events.only_deltas_of(streams.then_some(view));
        }
        Self { session, events, printer: Printer::new(json, typed, view), streams, turns: LastTurns::default() }
    }

    /// Runs the lines of `exec` and waits until every agent is idle. Returns the exit code.
    pub(super) async fn run(&mut self, exec: &Exec) -> Result<ExitCode, EarlyEnd> {
        self.printer.session(self.session.id())?;
        if let Some(exclusions) = self.session.exclusions().filter(|_| !exec.json) {
            note(&exclusions);
        }
        for notice in self.session.notices() {
            note(&format!("Note: {notice}"));
        }
        let mut attachments = match self.read_attachments(&exec.attach).await {
            Ok(attachments) => attachments,
            Err(refused) => {
                self.printer.refused(&refused)?;
                return Ok(ExitCode::from(FAILED));
            }
        };
        let mut lines = LineSource::new(exec);
        let (mut succeeded, mut quit) = (true, false);
        while let Some(line) = self.next_line(&mut lines, exec.typed).await? {
            if line.trim().is_empty() {
                continue;
            }
            match self.run_line(line, std::mem::take(&mut attachments)).await? {
                LineStatus::Succeeded => {}
                LineStatus::Quit => {
                    quit = true;
                    break;
                }
                LineStatus::Failed => {
                    succeeded = false;
                    if !exec.keep_going {
                        break;
                    }
                }
            }
        }
        if !attachments.is_empty() {
            let unused = Outcome::error(Code::InvalidArgs, "--attach needs a line with a message.");
            self.printer.refused(&unused)?;
            succeeded = false;
        }
        if quit || exec.typed {
            succeeded &= self.view_has_answer();
            self.stop_agents().await?;
        } else {
            self.wait_idle().await?;
            succeeded &= self.view_has_answer();
        }
        self.printer.idle()?;
        // A user has read the errors; a script only has the exit code.
        Ok(if succeeded || exec.typed { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
    }

    /// Reads the files for the first line.
    async fn read_attachments(&self, files: &[PathBuf]) -> Result<Vec<NewAttachment>, Outcome> {
        let mut attachments = Vec::with_capacity(files.len());
        for file in files {
            attachments.push(self.session.attach_file(file).await?);
        }
        Ok(attachments)
    }

    /// Prints the events that are available without waiting.
    pub(super) async fn drain(&mut self) -> Result<(), EarlyEnd> {
        while let Some(received) = self.events.try_next().await? {
            self.print(received)?;
        }
        Ok(())
    }

    /// Returns the next line, with a prompt before it if a user types. Events that come meanwhile are printed.
    async fn next_line(&mut self, lines: &mut LineSource<'_>, typed: bool) -> Result<Option<String>, EarlyEnd> {
        if typed && self.streams {
            self.printer.prompt(self.session.is_capturing())?;
        }
        let mut next = std::pin::pin!(lines.next());
        let line = loop {
            tokio::select! {
                line = &mut next => break line?,
                received = self.events.next() => match received? {
                    Some(received) => self.print(received)?,
                    None => break next.await?,
                },
            }
        };
        self.printer.read(line.as_deref())?;
        Ok(line)
    }

    /// Runs one line to its end: that of its own turn, if it begins one.
    async fn run_line(&mut self, line: String, attachments: Vec<NewAttachment>) -> Result<LineStatus, EarlyEnd> {
        self.printer.begin_line();
        let submitted = self.session.submit_input(LineInput { text: line.clone(), attachments, ahead: true });
        let EndedLine { outcome, after } = self.ended(submitted).await?;
        self.printer.outcome(&line, &outcome, self.session.last_seq())?;
        for received in after {
            self.print(received)?;
        }
        if outcome.code == Code::Quit {
            return Ok(LineStatus::Quit);
        }
        let succeeded = match outcome.child_with_turn() {
            Some(child) => self.first_turn_of(child).await?,
            None => outcome.is_ok(),
        };
        Ok(if succeeded { LineStatus::Succeeded } else { LineStatus::Failed })
    }

    /// Waits for the outcome of a line and prints the events before it. The answer of a child that the line makes comes after
    /// the outcome, which names the child.
    async fn ended(&mut self, mut submitted: Submitted) -> Result<EndedLine, EarlyEnd> {
        let line = submitted.id();
        let (mut child, mut after) = (None, Vec::new());
        loop {
            tokio::select! {
                biased;
                received = self.events.next() => match received? {
                    None => return Ok(EndedLine { outcome: submitted.await, after }),
                    Some(Received::Event(event)) => {
                        if let Some(outcome) = outcome_of(line, &event) {
                            return Ok(EndedLine { outcome, after });
                        }
                        if matches!(event.kind, EventKind::AgentForked { foreground: true, .. }) {
                            child = Some(event.agent);
                        }
                        let child_begins = matches!(event.kind, EventKind::TurnBegan { .. }) && child == Some(event.agent);
                        if child_begins || !after.is_empty() {
                            after.push(Received::Event(event));
                        } else {
                            self.print(Received::Event(event))?;
                        }
                    }
                    Some(lagged) => self.print(lagged)?,
                },
                // The event of the outcome can be lost, if there were too many.
                outcome = &mut submitted => {
                    if after.is_empty() {
                        self.drain().await?;
                    }
                    return Ok(EndedLine { outcome, after });
                }
            }
        }
    }

    /// Waits for the end of a child's first turn. Returns whether it succeeded.
    async fn first_turn_of(&mut self, child: AgentId) -> Result<bool, EarlyEnd> {
        let session = Arc::clone(&self.session);
        loop {
            if let Some(succeeded) = self.turns.succeeded(child) {
                return Ok(succeeded);
            }
            tokio::select! {
                biased;
                received = self.events.next() => match received? {
                    Some(received) => self.print(received)?,
                    None => return Ok(true),
                },
                // The event of the turn's end was lost.
                () = session.wait_idle() => {
                    self.drain().await?;
                    return Ok(self.turns.succeeded(child).unwrap_or(true));
                }
            }
        }
    }

    /// Waits until every agent is idle or held, and prints what comes meanwhile.
    async fn wait_idle(&mut self) -> Result<(), EarlyEnd> {
        let session = Arc::clone(&self.session);
        let mut idle = std::pin::pin!(session.wait_idle());
        loop {
            tokio::select! {
                biased;
                received = self.events.next() => match received? {
                    Some(received) => self.print(received)?,
                    None => return Ok(()),
                },
                () = &mut idle => return self.drain().await,
            }
        }
    }

    /// Stops the agents that work, as Ctrl+C does.
    async fn stop_agents(&mut self) -> Result<(), EarlyEnd> {
        match self.session.stop_all() {
            0 => {}
            1 => note("Stopped 1 agent."),
            stopped => note(&format!("Stopped {stopped} agents.")),
        }
        // Closing the session stops the rest.
        timeout(STOPPING, self.wait_idle()).await.unwrap_or(Ok(()))
    }

    /// Returns whether the last turn of the agent in view has an answer; true if no turn of it has ended.
    fn view_has_answer(&self) -> bool {
        self.turns.has_answer(self.session.view()).unwrap_or(true)
    }

    fn print(&mut self, received: Received) -> Result<(), EarlyEnd> {
        if let Received::Event(event) = &received {
            self.turns.note(event);
        }
        self.printer.event(received, self.session.view())?;
        if let Some(view) = self.printer.moved_view() {
            self.events.only_deltas_of(self.streams.then_some(view));
        }
        Ok(())
    }
}

/// How a line ended.
enum LineStatus {
    Succeeded,
    Failed,
    Quit,
}

/// Returns the outcome of `line`, if `event` is its end.
fn outcome_of(line: LineId, event: &Event) -> Option<Outcome> {
    match &event.kind {
        EventKind::LineEnded { line: ended, outcome } if *ended == line => Some(outcome.clone()),
        _ => None,
    }
}
