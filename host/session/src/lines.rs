//! Lines: a front submits one and gets its id at once; the line runs on a task of its own until it ends or is stopped.
//!
//! A message waits for the turn lock of its agent and is committed when its turn begins. A command is worked out against
//! state that does not change meanwhile, then committed with its own row, and only then shown.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::SystemTime,
};

use patchbay_agent::{Agent, AgentInference, Turn, TurnPermit, system_context};
use patchbay_command::{Line, Resolved, resolve};
use patchbay_core::{CallId, Code, EventKind, LineId, MessageKind, Outcome};
use patchbay_sandbox::Inference;
use patchbay_store::{MessageRow, NewMessage, SessionChange, StoreError};
use patchbay_tools::EffectFlag;
use tokio::sync::oneshot;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

use crate::{
    Session,
    builtin::{self, CommandChange, Effect},
    invoke,
    json::to_json,
    recovery,
    session::SessionState,
};

/// The longest line, in bytes: a whole document fits.
const LINE_BYTES: usize = 1 << 20;

/// A line that was submitted. As a future it gives the line's outcome. Dropping it stops nothing:
/// [`Session::stop`] stops the line.
#[derive(Debug)]
pub struct Submitted {
    id: LineId,
    outcome: oneshot::Receiver<Outcome>,
}

impl Submitted {
    /// The id of the line, as in [`EventKind::LineEnded`].
    pub fn id(&self) -> LineId {
        self.id
    }
}

impl Future for Submitted {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        // The sender is dropped unused only where the runtime ends.
        let outcome = ready!(Pin::new(&mut self.outcome).poll(context));
        Poll::Ready(
            outcome.unwrap_or_else(|_| Outcome::error(Code::Internal, "the line was given up with the process.")),
        )
    }
}

/// The tasks of a session, and the lines that run.
#[derive(Default)]
pub(crate) struct RunningLines {
    running: Mutex<HashMap<LineId, CancellationToken>>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl RunningLines {
    /// Cancelled when the session begins to close.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Runs a task that [`RunningLines::close`] waits for. It must end when the session closes.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Stops all lines and waits until every task has ended.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn begin(&self, id: LineId) -> CancellationToken {
        let stop = self.closing.child_token();
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(id, stop.clone());
        stop
    }

    fn end(&self, id: LineId) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

/// What a command works with: the session, its state at the moment, and the line that it was typed in.
pub(crate) struct LineContext {
    pub(crate) session: Arc<Session>,
    /// The agent in view when the line was submitted.
    pub(crate) agent: Arc<Agent>,
    pub(crate) line: LineId,
    /// The session's state when the command began.
    pub(crate) state: SessionState,
    /// Cancelled when the line is stopped.
    pub(crate) stop: CancellationToken,
    /// Set when a tool that the line calls begins its first effect.
    pub(crate) effect: EffectFlag,
}

impl LineContext {
    /// A row of the line's agent.
    pub(crate) fn message(&self, kind: MessageKind, content: &str, data: Option<serde_json::Value>) -> NewMessage {
        NewMessage { agent: self.agent.id(), kind, content: content.to_owned(), data }
    }

    /// What answers the prompts of a tool that this line calls.
    pub(crate) fn inference(&self) -> Arc<dyn Inference> {
        Arc::new(AgentInference::new(&self.agent, self.stop.clone()))
    }
}

impl Session {
    /// Takes one line as a person typed it, for the agent in view, and returns at once. The line runs whether or not what this
    /// returns is awaited; how it ends is also an event ([`EventKind::LineEnded`]). Commands run side by side, also while a
    /// turn runs; the turns of an agent run one after the other, in the order of their lines.
    pub fn submit(self: &Arc<Self>, line: &str) -> Submitted {
        let id = accepted_now();
        let (sender, outcome) = oneshot::channel();
        let stop = self.lines.begin(id);
        let agent = self.agent_in_view();
        let effect = EffectFlag::default();
        let context = LineContext { session: Arc::clone(self), agent, line: id, state: self.state(), stop, effect };
        // A message takes its place in the queue of its agent before this returns.
        let permit = (!line.starts_with('/')).then(|| context.agent.begin_turn());
        let line = line.to_owned();
        let span = tracing::info_span!("session", id = %self.id(), line = %id);
        self.lines.spawn(
            async move {
                let (session, agent) = (Arc::clone(&context.session), context.agent.id());
                // On a task of its own, so that a fault in it ends as an outcome too.
                let running = tokio::spawn(async move { context.run(&line, permit).await }.in_current_span()).await;
                let outcome = running.unwrap_or_else(|error| {
                    Outcome::error(Code::Internal, format_args!("the line did not end well: {error}."))
                });
                session.lines.end(id);
                session.log().publish(agent, EventKind::LineEnded { line: id, outcome: outcome.clone() });
                // An error says that the front does not wait for it.
                let _ = sender.send(outcome);
            }
            .instrument(span),
        );
        Submitted { id, outcome }
    }

    /// Stops a line: the tool that it runs is ended, its turn is cancelled and keeps what came of it. Returns whether the line
    /// was running. Its outcome follows.
    pub fn stop(&self, line: LineId) -> bool {
        let running = self.lines.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.get(&line).inspect(|stop| stop.cancel()).is_some()
    }
}

impl LineContext {
    async fn run(mut self, line: &str, permit: Option<impl Future<Output = TurnPermit>>) -> Outcome {
        if self.session.lines.closing.is_cancelled() {
            return Outcome::error(Code::SessionClosed, "this session is closed. Nothing of this line was kept.");
        }
        if line.len() > LINE_BYTES {
            let message =
                format!("a line of {} bytes is over the limit of {LINE_BYTES}; nothing of it was kept.", line.len());
            return Outcome::error(Code::LineTooLong, message);
        }
        // Before anything runs: a tool of a session that was taken over must have no effects.
        if let Err(error) = self.session.log().store().check_hold(self.session.log().hold()).await {
            return not_kept(error);
        }
        let command = match Line::parse(line) {
            Ok(Line::Conversation(text)) => {
                let said = self.message(MessageKind::User, text, None);
                let permit = async {
                    match permit {
                        Some(permit) => permit.await,
                        None => self.agent.begin_turn().await,
                    }
                };
                return self.converse(permit, vec![said]).await.unwrap_or_else(|nothing_kept| nothing_kept);
            }
            Ok(Line::Command { name, argument }) => Ok((name, argument)),
            Err(outcome) => Err(outcome),
        };
        self.command(line, command).await
    }

    /// Works a command out, again if another command has replaced the snapshot that it built on.
    async fn command(&mut self, line: &str, command: Result<(&str, &str), Outcome>) -> Outcome {
        loop {
            let effect = tokio::select! {
                biased;
                () = self.stop.cancelled() => return self.stopped(line).await,
                effect = self.effect(&command) => effect,
            };
            let (outcome, change) = match effect {
                Effect::Show(outcome) => (outcome, None),
                Effect::Change(outcome, change) => (outcome, Some(change)),
                Effect::Turn { messages, data } => return self.command_turn(line, messages, data).await,
            };
            match self.settle(line, outcome, change).await {
                Ok(outcome) => return outcome,
                Err(Outdated) => self.state = self.session.state(),
            }
        }
    }

    /// Returns the outcome of a command that was stopped. If its tool had begun an effect, the command's row says that the
    /// outcome is not known.
    async fn stopped(&self, line: &str) -> Outcome {
        if !self.effect.is_set() {
            return stopped();
        }
        match recovery::unknown_outcome(self.session.log().hold(), &self.session.host.store, self.line).await {
            // Only a change of the snapshot can be outdated.
            Ok(outcome) => self.settle(line, outcome, None).await.unwrap_or_else(|Outdated| stopped()),
            Err(error) => not_kept(error),
        }
    }

    async fn effect(&self, command: &Result<(&str, &str), Outcome>) -> Effect {
        let (name, argument) = match command {
            Ok(command) => *command,
            Err(outcome) => return outcome.clone().into(),
        };
        match resolve(name, builtin::TABLE, &*self.state.snapshot) {
            Err(outcome) => outcome.into(),
            Ok(Resolved::BuiltIn(command)) => match command.spec().check(argument) {
                Err(outcome) => outcome.into(),
                Ok(()) => command.run(self, argument).await,
            },
            Ok(Resolved::Alias(skill)) => {
                let command = format!("/{name}");
                invoke::skill(self, skill.as_str(), argument, &command).await
            }
        }
    }

    /// Commits the change of a command with the command's own row, applies it, and returns the outcome.
    async fn settle(&self, line: &str, outcome: Outcome, change: Option<CommandChange>) -> Result<Outcome, Outdated> {
        let _committing = self.session.committing.lock().await;
        let mut messages = Vec::new();
        let mut stored = SessionChange::default();
        let (session, agent) = (Arc::clone(&self.session), Arc::clone(&self.agent));
        let apply: Box<dyn FnOnce() + Send> = match change {
            None => Box::new(|| {}),
            Some(CommandChange::Rows(rows)) => {
                messages = rows;
                Box::new(|| {})
            }
            Some(CommandChange::Persona(persona)) => {
                stored.persona = Some(to_json(&persona));
                Box::new(move || session.change_state(|state| state.persona = Arc::new(persona)))
            }
            Some(CommandChange::Model(chosen)) => {
                stored.model = Some((agent.id(), chosen.to_row()));
                Box::new(move || agent.choose(chosen))
            }
            Some(CommandChange::Snapshot(built)) => {
                if self.session.snapshot().version() != self.state.snapshot.version() {
                    return Err(Outdated);
                }
                stored.snapshot = Some((built.stored(), built.snapshot.version()));
                Box::new(move || session.change_state(|state| state.snapshot = Arc::new(built.snapshot)))
            }
        };
        messages.push(self.message(MessageKind::Command, line, serde_json::to_value(&outcome).ok()));
        stored.messages = messages;
        stored.settles = vec![CallId::of_line(self.line)];
        Ok(match self.session.log().commit(stored, apply).await {
            Ok(_) => outcome,
            Err(error) => not_kept(error),
        })
    }

    /// A command that asks the model: its rows first, then the turn, then its own row.
    async fn command_turn(&self, line: &str, messages: Vec<NewMessage>, more: serde_json::Value) -> Outcome {
        let mut outcome = match self.converse(self.agent.begin_turn(), messages).await {
            Ok(outcome) => outcome,
            Err(nothing_kept) => return nothing_kept,
        };
        if let (Some(data), serde_json::Value::Object(more)) = (&mut outcome.data, more)
            && let Some(data) = data.as_object_mut()
        {
            data.extend(more);
        }
        // The answer has a row of its own.
        let mut result = outcome.clone();
        if result.is_ok() {
            result.message.clear();
        }
        let row = self.message(MessageKind::Command, line, serde_json::to_value(&result).ok());
        match self.commit(vec![row]).await {
            Ok(_) => outcome,
            Err(error) => {
                Outcome::error(Code::StoreFailed, format_args!("{error}. What came of the turn itself is kept."))
            }
        }
    }

    /// Waits for the turn lock, commits what is said, and runs a turn on it. A turn that is stopped keeps what came of it.
    ///
    /// # Errors
    /// The outcome where nothing was committed: the line was stopped before, or the store failed.
    async fn converse(
        &self,
        permit: impl Future<Output = TurnPermit>,
        said: Vec<NewMessage>,
    ) -> Result<Outcome, Outcome> {
        let _permit = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(stopped()),
            permit = permit => permit,
        };
        let rows = self.commit(said).await.map_err(not_kept)?;
        let SessionState { persona, snapshot } = self.session.state();
        let files = persona.files.iter().map(|file| file.text.clone());
        let turn = Turn {
            system: system_context(files, &snapshot, self.agent.id(), None),
            snapshot,
            began: rows.first().map_or(0, |row| row.seq),
            cancel: self.stop.clone(),
        };
        let span = tracing::info_span!("turn", agent = %self.agent.id(), began = turn.began);
        let outcome = self.agent.run(&turn).instrument(span).await;
        if !outcome.is_ok() {
            let notice = self.message(MessageKind::Notice, &outcome.line(), None);
            if let Err(error) = self.commit(vec![notice]).await {
                tracing::error!("how a turn ended could not be kept: {error}");
            }
        }
        Ok(outcome)
    }

    async fn commit(&self, messages: Vec<NewMessage>) -> Result<Vec<MessageRow>, StoreError> {
        self.session.log().commit(SessionChange { messages, ..SessionChange::default() }, || {}).await
    }
}

/// The id of a line that is accepted at this moment.
fn accepted_now() -> LineId {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    LineId::new(u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX))
}

/// Another command has replaced the snapshot that a change builds on.
struct Outdated;

fn not_kept(error: StoreError) -> Outcome {
    Outcome::error(error.code(), format_args!("{error}. Nothing of this line was kept."))
}

/// The outcome of a line that was stopped before anything of it was committed.
fn stopped() -> Outcome {
    Outcome::refused(Code::TurnCancelled, "Cancelled. Nothing of this line was kept.")
}
