//! Runs the lines of `exec` one after another, prints the agents' events, and waits until all agents are idle.

use std::{
    future::pending,
    io::{self, IsTerminal as _},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use patchbay_core::{AgentId, Code, Event, EventKind, LineId, Outcome};
use patchbay_repl::{LineQuestions, Programs};
use patchbay_session::{LineInput, NewAttachment, Received, Session, Submitted, Subscription};
use tokio::time::timeout;

use super::{
    EarlyEnd,
    last_turns::LastTurns,
    later_lines::LaterLines,
    line_source::{LineSource, TimedLine},
    piped_input,
    printer::Printer,
};
use crate::{
    CliError, FAILED,
    args::{Exec, is_standard_input},
    out::note,
};

/// How long the turns that `/quit` stops may take to store their partial answers.
const STOPPING: Duration = Duration::from_secs(2);

/// A run of `exec`: the session, its lines and its output.
pub(super) struct ScriptRun {
    session: Arc<Session>,
    events: Subscription,
    pub(super) printer: Printer,
    /// Whether pieces of answers are printed as they arrive, which happens only in a terminal. An answer that breaks off is
    /// requested again as a whole, and output to a pipe or a file cannot be taken back. There, an answer is printed once complete.
    streams: bool,
    turns: LastTurns,
    lines: LineSource,
    /// Lines to run before the next input: `first`, and lines that did not answer the question that waited.
    later: LaterLines,
    /// The questions that the user answers by typing lines; `None` if no user types.
    questions: Option<LineQuestions>,
    /// The programs that models run; `None` if no user types.
    pub(super) programs: Option<Arc<Programs>>,
}

/// How a submitted line ended.
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
        let mut later = LaterLines::default();
        if let Some(first) = exec.first.clone() {
            // This cannot fail: the queue is empty, and the system limits the length of arguments.
            let _ = later.add(first);
        }
        let questions = (typed && io::stdin().is_terminal()).then(|| LineQuestions::of(&session));
        Self {
            session,
            events,
            printer: Printer::new(json, typed, view),
            streams,
            turns: LastTurns::default(),
            lines: LineSource::new(exec),
            later,
            questions,
            programs: None,
        }
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
        let mut attachments = match self.read_attachments(exec).await {
            Ok(attachments) => attachments,
            Err(refused) => {
                self.printer.refused(&refused)?;
                return Ok(ExitCode::from(FAILED));
            }
        };
        let (mut succeeded, mut quit) = (true, false);
        while let Some(line) = self.next_line(exec.typed).await? {
            if line.trim().is_empty() || self.lists_programs(&line)? {
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

    /// Reads the files to attach to the first line, and standard input if it should be attached as well.
    async fn read_attachments(&self, exec: &Exec) -> Result<Vec<NewAttachment>, Outcome> {
        let mut attachments = Vec::with_capacity(exec.attach.len());
        for file in &exec.attach {
            attachments.push(match is_standard_input(file) {
                true => piped_input::read().await?,
                false => self.session.attach_file(file).await?,
            });
        }
        if exec.may_have_piped_text() && !self.session.is_capturing() {
            attachments.extend(piped_input::read_if_piped().await?);
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

    /// Returns the next line, after printing a prompt if a user types. Events that arrive meanwhile are printed.
    async fn next_line(&mut self, typed: bool) -> Result<Option<String>, EarlyEnd> {
        if let Some(line) = self.later.take_first() {
            self.printer.print(&format!("> {line}"))?;
            return Ok(Some(line));
        }
        if typed && self.streams {
            self.printer.prompt(self.session.is_capturing())?;
        }
        let line = loop {
            tokio::select! {
                line = self.lines.next() => match line? {
                    Some(line) if self.answered(&line)? => {}
                    line => break line.map(|line| line.line),
                },
                said = next_of(&mut self.questions) => self.printer.print(&said)?,
                received = self.events.next() => match received? {
                    Some(received) => self.print(received)?,
                    None => break self.lines.next().await?.map(|line| line.line),
                },
            }
        };
        self.printer.read(line.as_deref())?;
        Ok(line)
    }

    /// Runs `/ps`, which the session does not know. Returns false for any other line.
    fn lists_programs(&mut self, line: &str) -> Result<bool, EarlyEnd> {
        let Some(programs) = &self.programs else { return Ok(false) };
        let (name, argument) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        if name != "/ps" {
            return Ok(false);
        }
        let listed = programs.list(argument).unwrap_or_else(|error| error);
        self.printer.print(&listed)?;
        Ok(true)
    }

    /// Passes a line to the waiting question. Returns whether it was an answer.
    fn answered(&mut self, TimedLine { line, at }: &TimedLine) -> Result<bool, EarlyEnd> {
        let said = self.questions.as_mut().and_then(|questions| questions.typed(line, *at));
        if let Some(said) = said.as_deref().filter(|said| !said.is_empty()) {
            self.printer.print(said)?;
        }
        Ok(said.is_some())
    }

    /// Prints a question, or handles a line that arrives while a question waits. A line that does not answer the question runs
    /// after the current one.
    fn meanwhile(&mut self, came: Meanwhile) -> Result<(), EarlyEnd> {
        match came {
            Meanwhile::Said(said) => self.printer.print(&said)?,
            Meanwhile::Typed(Some(line)) if self.answered(&line)? => {}
            Meanwhile::Typed(Some(line)) => {
                if let Err(full) = self.later.add(line.line) {
                    self.printer.refused(&full)?;
                }
            }
            // The end of the input denies the waiting question.
            Meanwhile::Typed(None) => self.questions = None,
        }
        Ok(())
    }

    /// Runs one line until it ends; if it begins a turn, until the turn ends.
    async fn run_line(&mut self, line: String, attachments: Vec<NewAttachment>) -> Result<LineStatus, EarlyEnd> {
        self.printer.begin_line();
        let submitted = self.session.submit_input(LineInput {
            text: line.clone(),
            attachments,
            ahead: true,
            ..LineInput::default()
        });
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

    /// Waits for the outcome of a line and prints the events before it. If the line creates a child, the child's events follow the
    /// outcome, which names the child.
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
                came = meanwhile(&mut self.questions, &mut self.lines) => self.meanwhile(came?)?,
                // The `LineEnded` event can be lost if there are too many events.
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
                came = meanwhile(&mut self.questions, &mut self.lines) => self.meanwhile(came?)?,
                // The `TurnEnded` event was lost.
                () = session.wait_idle() => {
                    self.drain().await?;
                    return Ok(self.turns.succeeded(child).unwrap_or(true));
                }
            }
        }
    }

    /// Waits until every agent is idle or held, and prints events meanwhile.
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
                came = meanwhile(&mut self.questions, &mut self.lines) => self.meanwhile(came?)?,
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

    /// Returns whether the last turn of the agent in view has an answer; true if none of its turns has ended.
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

/// Returns the next text to print about questions. Waits forever if no user types.
async fn next_of(questions: &mut Option<LineQuestions>) -> String {
    match questions {
        Some(questions) => questions.next().await,
        None => pending().await,
    }
}

/// Something to handle while lines run.
enum Meanwhile {
    /// Text of a question to print.
    Said(String),
    /// A line, typed while a question waits; `None` at the end of the input.
    Typed(Option<TimedLine>),
}

/// Returns the next text of a question or typed line. Waits forever if no user types. Lines are read only while a question waits.
async fn meanwhile(questions: &mut Option<LineQuestions>, lines: &mut LineSource) -> Result<Meanwhile, CliError> {
    let Some(questions) = questions else { return pending().await };
    if !questions.is_open() {
        return Ok(Meanwhile::Said(questions.next().await));
    }
    tokio::select! {
        said = questions.next() => Ok(Meanwhile::Said(said)),
        line = lines.next() => line.map(Meanwhile::Typed),
    }
}

/// The part of a line's result that matters for later lines.
enum LineStatus {
    Succeeded,
    Failed,
    Quit,
}

/// Returns the outcome of `line`, if `event` ends it.
fn outcome_of(line: LineId, event: &Event) -> Option<Outcome> {
    match &event.kind {
        EventKind::LineEnded { line: ended, outcome } if *ended == line => Some(outcome.clone()),
        _ => None,
    }
}
