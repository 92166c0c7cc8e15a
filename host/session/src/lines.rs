//! Lines. A front submits a line and gets its id at once; the line runs in its own task until it ends or is stopped.
//!
//! A message waits in the queue of its agent and is committed when its turn starts; `turns` runs the turn. A command is computed
//! against a fixed state, then committed with its own row, and only then shown.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::SystemTime,
};

use parking_lot::Mutex;
use patchbay_agent::{Agent, AgentInference};
use patchbay_command::{Line, Resolved, resolve};
use patchbay_core::{AgentId, Attachment, CallId, Code, DequeueReason, EventKind, LineId, MessageKind, Outcome};
use patchbay_sandbox::Inference;
use patchbay_store::{MessageRow, NewMessage, QueueRow, SessionChange, StoreError};
use patchbay_tools::EffectFlag;
use tokio::sync::oneshot;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

use crate::{
    LineInput, Session,
    attach::{AcceptedLine, NewAttachment, UsedMemory},
    builtin::{self, BeginsTurn, CommandChange, Effect},
    capture::{CaptureEffect, CaptureTicket},
    invoke,
    json::to_json,
    order::CommandPlace,
    prepared::{Applied, Prepare, Prepared},
    queue::{Entered, LineTurn, WaitingTurn},
    recovery,
    session::SessionState,
    tree::lookup::dead,
    turns::{self, TurnStart},
};

/// Length limit of a line in bytes, enough for a whole document.
const LINE_BYTES: usize = 1 << 20;

/// A submitted line; a future of its outcome. Dropping it does not stop the line; [`Session::stop`] does.
#[derive(Debug)]
pub struct Submitted {
    id: LineId,
    agent: AgentId,
    waits_for: Option<LineId>,
    outcome: oneshot::Receiver<Outcome>,
}

impl Submitted {
    /// Returns the line's id, as in [`EventKind::LineEnded`].
    pub fn id(&self) -> LineId {
        self.id
    }

    /// Returns the agent that the line belongs to: the one in view when it was submitted.
    pub fn agent(&self) -> AgentId {
        self.agent
    }

    /// Returns the command of the same agent that has to end before this one begins; `None` if there is none, also for a line that
    /// waits in the queue.
    pub fn waits_for(&self) -> Option<LineId> {
        self.waits_for
    }
}

impl Future for Submitted {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        // The sender is dropped without a value only if the runtime shuts down.
        let outcome = ready!(Pin::new(&mut self.outcome).poll(context));
        Poll::Ready(
            outcome.unwrap_or_else(|_| Outcome::error(Code::Internal, "the line was given up with the process.")),
        )
    }
}

/// The tasks of a session and its running lines.
#[derive(Default)]
pub(crate) struct RunningLines {
    running: Mutex<HashMap<LineId, (AgentId, CancellationToken)>>,
    tasks: TaskTracker,
    closing: CancellationToken,
}

impl RunningLines {
    /// Returns a token that is cancelled when the session begins to close.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Spawns a task that [`RunningLines::close`] waits for. The task must end when the session closes.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Stops all lines and waits for all tasks.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Cancels the lines of an agent.
    pub(crate) fn cancel_of(&self, agent: AgentId) {
        self.running.lock().values().filter(|(of, _)| *of == agent).for_each(|(_, stop)| stop.cancel());
    }

    fn begin(&self, id: LineId, agent: AgentId) -> CancellationToken {
        let stop = self.closing.child_token();
        self.running.lock().insert(id, (agent, stop.clone()));
        stop
    }

    fn end(&self, id: LineId) {
        self.running.lock().remove(&id);
    }
}

/// The context of a running line: the session, its state, and the agent that the line belongs to.
pub(crate) struct LineContext {
    pub(crate) session: Arc<Session>,
    /// The agent in view when the line was submitted.
    pub(crate) agent: Arc<Agent>,
    pub(crate) line: LineId,
    /// The session's state when the command started.
    pub(crate) state: SessionState,
    /// Cancelled when the line is stopped.
    pub(crate) stop: CancellationToken,
    /// Set when a tool of the line begins its first effect.
    pub(crate) effect: EffectFlag,
    /// The right to run a turn; `None` for a command that begins none.
    pub(crate) turn: Option<LineTurn>,
    /// Attached files that are not stored yet.
    pub(crate) new_attachments: Vec<NewAttachment>,
    /// The memory of these files; `None` without files.
    pub(crate) file_memory: Option<UsedMemory>,
    /// Attached files that are stored.
    pub(crate) attachments: Vec<Attachment>,
    /// Cancelled when the outcome of the line is published.
    pub(crate) ended: CancellationToken,
    /// Whether `/model` is also accepted while a turn runs.
    pub(crate) during_turn: bool,
    /// Whether the line is stored among the waiting lines.
    pub(crate) queued: AtomicBool,
    /// The agent, if it must still be alive when the line is committed; not if it was dead when the line was submitted.
    requires_alive: Vec<AgentId>,
    /// The line's place among the lines that begin, end or may be captured.
    capture: Option<CaptureTicket>,
    /// The line's place among the commands of the agent; `None` for a line that waits for none.
    place: Option<Arc<CommandPlace>>,
    /// Says that the attached files are not used; `None` once it was said.
    unused_files: Option<String>,
}

/// How a line begins to run.
pub(crate) enum LineEntry {
    /// At once; it begins no turn.
    Direct,
    /// At once, with the right to run a turn.
    Turn(LineTurn),
    /// After other turns.
    Waits(WaitingTurn),
    /// After other turns; it is already stored.
    Restored(WaitingTurn),
    /// Not at all.
    Refused(Outcome),
}

impl LineContext {
    /// Builds a row for the line's agent.
    pub(crate) fn message(&self, kind: MessageKind, content: &str, data: Option<serde_json::Value>) -> NewMessage {
        NewMessage { agent: self.agent.id(), kind, content: content.to_owned(), data }
    }

    /// Returns the `inference` capability for a tool of this line.
    pub(crate) fn inference(&self) -> Arc<dyn Inference> {
        Arc::new(AgentInference::new(&self.agent, self.stop.clone()))
    }
}

impl Session {
    /// Submits a line, as typed, for the agent in view and returns at once. The line runs even if the result is not awaited;
    /// its outcome is also published as [`EventKind::LineEnded`]. Commands of an agent run one after another in the order of their
    /// lines, also during a turn; `/kill`, `/switch` and `/quit` wait for no other command. Messages, and commands that begin a
    /// turn, run one after another in the order of their lines: they wait in the queue ([`Session::queue`]) during a turn, and
    /// while an earlier command runs that changes what turns do, such as `/model`. A message or such a command also releases a
    /// held queue and runs after its lines.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn submit(self: &Arc<Self>, line: &str) -> Submitted {
        self.submit_input(line.into())
    }

    /// Like [`Session::submit`], for fronts that run one line after another, such as scripts: the line runs before waiting
    /// lines, and a held queue stays held.
    pub fn submit_ahead(self: &Arc<Self>, line: &str) -> Submitted {
        self.submit_input(LineInput { ahead: true, ..line.into() })
    }

    /// Like [`Session::submit`], for a line with attached files: a message, or a command that passes them to a skill.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn submit_input(self: &Arc<Self>, input: LineInput) -> Submitted {
        self.accept(input, false)
    }

    /// Like [`Session::submit`], for a command that is also accepted while a turn runs.
    pub(crate) fn submit_during_turn(self: &Arc<Self>, command: &str) -> Submitted {
        self.accept(command.into(), true)
    }

    fn accept(self: &Arc<Self>, mut input: LineInput, during_turn: bool) -> Submitted {
        let (id, agent, state) = (accepted_now(), self.agent_in_view(), self.state());
        let unused_files = input.drop_unused(&state.snapshot);
        let (line, ahead) = (&*input.text, input.ahead);
        let checked = input.check(&state.snapshot).and_then(|()| self.host.file_memory.take(&input.attachments));
        let (memory, refused) = checked.map_or_else(|refused| (None, Some(refused)), |memory| (memory, None));
        let usable = line.len() <= LINE_BYTES && !agent.is_dead() && refused.is_none();
        let capture = if usable { self.captures.ticket(agent.id(), capture_effect(line)) } else { None };
        let captured = capture.as_ref().is_some_and(|ticket| ticket.captured);
        let begins_turn = if captured || !usable { BeginsTurn::No } else { turns::begins_turn(line, &state.snapshot) };
        let delays = begins_turn == BeginsTurn::NoButDelays;
        if delays {
            self.queue.delay();
        }
        let arrival = turns::arrival(begins_turn, ahead);
        if arrival.is_some_and(|arrival| arrival.is_message) {
            self.message_came(&agent, ahead);
        }
        // A line that begins a turn enters its agent's queue before this returns.
        let entry = match arrival.map(|arrival| self.queue.enter(&agent, id, &input, arrival)) {
            None | Some(Entered::Busy) => refused.map_or(LineEntry::Direct, LineEntry::Refused),
            Some(Entered::Begins(turn)) => LineEntry::Turn(turn),
            Some(Entered::Waits(waiting)) => LineEntry::Waits(waiting),
            Some(Entered::Full(outcome)) => LineEntry::Refused(outcome),
        };
        let is_ordered = matches!(entry, LineEntry::Direct) && turns::waits_for_commands(line, &state.snapshot);
        let place = is_ordered.then(|| self.order.enter(agent.id(), id));
        let waits_for = place.as_ref().and_then(CommandPlace::before);
        let (text, new) = (input.text, input.attachments);
        let line = AcceptedLine { text, new, memory, stored: Vec::new(), during_turn, delays, place, unused_files };
        Submitted { id, agent: agent.id(), waits_for, outcome: self.start(id, line, agent, state, entry, capture) }
    }

    /// Lets the lines run that waited for a command of `agent`, which has ended.
    fn delay_ended(&self, agent: AgentId, stopped: bool) {
        self.queue.delay_ended(agent, stopped);
        let agents: Vec<Arc<Agent>> = self.agents().living().cloned().collect();
        agents.iter().for_each(|agent| self.queue.resume(agent));
    }

    /// Notes a message of a person: counts since the last one begin at zero, and stopped agents may go on.
    fn message_came(&self, agent: &Arc<Agent>, ahead: bool) {
        self.requests.message_came();
        self.results.message_came();
        self.queue.message_came(agent.id(), ahead);
        let others: Vec<Arc<Agent>> =
            self.agents().living().filter(|other| other.id() != agent.id()).cloned().collect();
        for other in others {
            self.queue.resume(&other);
        }
    }

    /// Puts the stored lines of a resumed session into the queues of their agents, which are held.
    pub(crate) fn restore_queue(self: &Arc<Self>, rows: Vec<QueueRow>) {
        for row in rows {
            // Lines of agents that this build does not know stay in the store.
            let Some(agent) = self.agent(row.agent) else { continue };
            let entry = LineEntry::Restored(self.queue.restore(&agent, &row));
            // The outcome is published as an event.
            let line = AcceptedLine { text: row.text, stored: row.attachments, ..AcceptedLine::default() };
            drop(self.start(row.line, line, agent, self.state(), entry, None));
        }
    }

    /// Runs a line on a task of its own.
    fn start(
        self: &Arc<Self>,
        id: LineId,
        line: AcceptedLine,
        agent: Arc<Agent>,
        state: SessionState,
        entry: LineEntry,
        capture: Option<CaptureTicket>,
    ) -> oneshot::Receiver<Outcome> {
        let AcceptedLine { text, new, memory, stored, during_turn, delays, place, unused_files } = line;
        let place = place.map(Arc::new);
        let (sender, outcome) = oneshot::channel();
        let busy = (!matches!(entry, LineEntry::Waits(_) | LineEntry::Restored(_))).then(|| self.activity.begin());
        let stop = self.lines.begin(id, agent.id());
        let ended = CancellationToken::new();
        let requires_alive = if agent.is_dead() { Vec::new() } else { vec![agent.id()] };
        let context = LineContext {
            session: Arc::clone(self),
            agent,
            line: id,
            state,
            stop,
            effect: EffectFlag::default(),
            turn: None,
            new_attachments: new,
            file_memory: memory,
            attachments: stored,
            ended: ended.clone(),
            during_turn,
            queued: AtomicBool::new(matches!(entry, LineEntry::Restored(_))),
            requires_alive,
            capture,
            place: place.clone(),
            unused_files,
        };
        let span = tracing::info_span!("session", id = %self.id(), line = %id);
        let ended = ended.drop_guard();
        self.lines.spawn(
            async move {
                let (session, agent) = (Arc::clone(&context.session), context.agent.id());
                // The line runs in its own task, so that a panic also ends as an outcome.
                let running = tokio::spawn(async move { context.run(&text, entry).await }.in_current_span()).await;
                let outcome = running.unwrap_or_else(|error| {
                    Outcome::error(Code::Internal, format_args!("the line panicked or was cancelled: {error}."))
                });
                session.lines.end(id);
                session.log().publish(agent, EventKind::LineEnded { line: id, outcome: outcome.clone() });
                if delays {
                    session.delay_ended(agent, outcome.code == Code::TurnCancelled);
                }
                // An error means that the front does not wait for the outcome.
                let _ = sender.send(outcome);
                // The next command begins when the result of this one was published.
                drop(place);
                drop(ended);
                drop(busy);
            }
            .instrument(span),
        );
        outcome
    }

    /// Stops a line: its tool is stopped, its turn is cancelled and keeps the partial answer. The queue of its agent is then
    /// held. A line that waits leaves the queue. Returns false if the line has ended.
    pub fn stop(&self, line: LineId) -> bool {
        let running = self.lines.running.lock();
        running.get(&line).inspect(|(_, stop)| stop.cancel()).is_some()
    }
}

/// Also after a panic, later lines must not wait for this one.
impl Drop for LineContext {
    fn drop(&mut self) {
        self.end_capture_ticket();
    }
}

impl LineContext {
    async fn run(mut self, line: &str, entry: LineEntry) -> Outcome {
        let outcome = self.run_entered(line, entry).await;
        // The turn of a line that failed before its first commit is over.
        self.turn = None;
        self.end_waiting(outcome).await
    }

    /// Lets the lines run that wait for this one.
    fn end_capture_ticket(&mut self) {
        if let Some(ticket) = &mut self.capture {
            self.session.captures.ended(self.agent.id(), ticket);
        }
    }

    /// Waits for earlier lines that begin or end capturing. Returns whether this line is captured.
    async fn is_captured(&mut self, line: &str) -> bool {
        let Some(ticket) = &mut self.capture else { return false };
        ticket.wait().await;
        let is_message = matches!(Line::parse(line), Ok(Line::Conversation(_)));
        let captured = is_message && (ticket.captured || self.session.is_capturing_agent(self.agent.id()));
        if is_message && !captured {
            self.end_capture_ticket();
        }
        captured
    }

    /// Waits until the earlier commands of the agent have ended. A command that waited is resolved afterwards, like a line that
    /// waited for its turn.
    ///
    /// # Errors
    /// The outcome of a line that was stopped meanwhile.
    async fn wait_for_commands(&mut self) -> Result<(), Outcome> {
        let Some(place) = self.place.take() else { return Ok(()) };
        let waited = tokio::select! {
            biased;
            waited = place.reached() => waited,
            () = self.stop.cancelled() => return Err(stopped()),
        };
        if waited {
            self.state = self.session.state();
        }
        Ok(())
    }

    async fn run_entered(&mut self, line: &str, entry: LineEntry) -> Outcome {
        if self.is_closing() {
            return Outcome::error(Code::SessionClosed, "this session is closed. Nothing of this line was kept.");
        }
        if line.len() > LINE_BYTES {
            let message =
                format!("a line of {} bytes is over the limit of {LINE_BYTES}; nothing of it was kept.", line.len());
            return Outcome::error(Code::LineTooLong, message);
        }
        if self.is_captured(line).await {
            if let LineEntry::Turn(turn) = entry {
                turn.unused();
            }
            if !self.new_attachments.is_empty() {
                return Outcome::error(Code::AttachmentsCaptured, "attachments cannot be captured.");
            }
            return self.capture(line).await;
        }
        if let Err(outcome) = self.enter(line, entry).await {
            return outcome;
        }
        if let Err(outcome) = self.wait_for_commands().await {
            return outcome;
        }
        if let Some(notice) = self.unused_files.take() {
            self.session.log().publish(self.agent.id(), EventKind::Notice { text: notice });
        }
        // Checked before anything runs: tools of a session that was taken over must have no effects.
        if let Err(error) = self.session.log().store().check_hold(self.session.log().hold()).await {
            return not_kept(error);
        }
        let command = match Line::parse(line) {
            Ok(Line::Conversation(_)) if self.agent.is_dead() => return dead(self.agent.id()),
            Ok(Line::Conversation(text)) => {
                let said = self.message(MessageKind::User, text, None);
                return self.converse(TurnStart::Rows(vec![said])).await.unwrap_or_else(|nothing_kept| nothing_kept);
            }
            Ok(Line::Command { name, argument }) => Ok((name, argument)),
            Err(outcome) => Err(outcome),
        };
        self.command(line, command).await
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.session.lines.closing.is_cancelled()
    }

    /// Runs a command, again if another command replaced the snapshot in the meantime.
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
                Effect::Turn { messages, data } => {
                    return self.command_turn(line, TurnStart::Rows(messages), data).await;
                }
                Effect::Prepare(prepare) => match self.commit_prepared(line, prepare).await {
                    Ok(outcome) => return outcome,
                    Err(Outdated) => continue,
                },
                Effect::Retry(message) => {
                    return self.command_turn(line, TurnStart::Again(message), serde_json::Map::new()).await;
                }
            };
            match self.settle(line, outcome, change).await {
                Ok(outcome) => {
                    if let Some(turn) = self.turn.take() {
                        turn.unused();
                    }
                    return outcome;
                }
                Err(Outdated) => self.state = self.session.state(),
            }
        }
    }

    /// Returns the outcome of a stopped command. If its tool had begun an effect, the command's row says that the outcome is
    /// unknown.
    async fn stopped(&self, line: &str) -> Outcome {
        if !self.effect.is_set() {
            return stopped();
        }
        match recovery::unknown_outcome(self.session.log().hold(), &self.session.host.store, self.line).await {
            // The commit of the kill has added the command's row.
            Ok(outcome) if self.agent.is_dead() => outcome,
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
            Ok(Resolved::BuiltIn(command)) if command.needs_living_agent() && self.agent.is_dead() => {
                dead(self.agent.id()).into()
            }
            Ok(Resolved::Alias(_)) if self.agent.is_dead() => dead(self.agent.id()).into(),
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

    /// Commits a command's change together with its row, applies the change and returns the outcome.
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
            Some(CommandChange::Drop(message)) => {
                stored.drops = Some(message);
                Box::new(|| {})
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
        stored.requires_alive.clone_from(&self.requires_alive);
        Ok(match self.commit_change(stored, apply).await {
            Ok(_) => outcome,
            Err(error) => not_kept(error),
        })
    }

    /// Commits a prepared change together with the command's row. A change that is refused leaves only the row. The change of
    /// a kill is outdated if a tool of a dying agent began an effect meanwhile.
    async fn commit_prepared(&self, line: &str, prepare: Prepare) -> Result<Outcome, Outdated> {
        let _committing = self.session.committing.lock().await;
        let (row, settles) = (self.message(MessageKind::Command, line, None), CallId::of_line(self.line));
        let alive = self.requires_alive.clone();
        let prepare = async move {
            let prepared = prepare.await.unwrap_or_else(|refused| Prepared::shown(refused, serde_json::Value::Null));
            let Prepared { outcome, mut change, applied, .. } = prepared;
            change.messages.push(NewMessage { data: serde_json::to_value(&outcome).ok(), ..row });
            change.settles.push(settles);
            change.requires_alive.extend(alive);
            Ok::<_, StoreError>((change, (outcome, applied)))
        };
        let applied = |rows: &[MessageRow], (outcome, applied): (Outcome, Applied)| {
            applied(rows);
            outcome
        };
        match self.session.log().commit_prepared(prepare, applied).await {
            Err(StoreError::CallBegan(_)) => Err(Outdated),
            committed => Ok(committed.unwrap_or_else(not_kept)),
        }
    }

    /// Commits a change of this line. If the line waited, the same commit deletes it from the waiting lines.
    pub(crate) async fn commit_change(
        &self,
        change: SessionChange,
        applied: impl FnOnce() + Send + 'static,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let begins = self.queued.load(Ordering::Relaxed).then_some(self.line);
        let rows = self.session.log().commit(SessionChange { begins, ..change }, applied).await?;
        if begins.is_some() {
            self.left_queue(DequeueReason::Began);
        }
        Ok(rows)
    }
}

/// Returns how a line affects capturing. Skills cannot take the names of these commands.
fn capture_effect(line: &str) -> CaptureEffect {
    match Line::parse(line) {
        Ok(Line::Conversation(_)) => CaptureEffect::Message,
        Ok(Line::Command { name: "capture", .. }) => CaptureEffect::Begins,
        Ok(Line::Command { name: "fork" | "cancel", .. }) => CaptureEffect::Ends,
        _ => CaptureEffect::None,
    }
}

/// Returns a new id for a line that is accepted now.
fn accepted_now() -> LineId {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    LineId::new(u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX))
}

/// What a change was based on has changed meanwhile: it is worked out again.
struct Outdated;

pub(crate) fn not_kept(error: StoreError) -> Outcome {
    Outcome::error(error.code(), format_args!("{error}. Nothing of this line was kept."))
}

/// The outcome of a line that was stopped before anything was committed.
pub(crate) fn stopped() -> Outcome {
    Outcome::refused(Code::TurnCancelled, "Cancelled. Nothing of this line was kept.")
}
