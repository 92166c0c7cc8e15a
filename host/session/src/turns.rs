//! Turns: which lines begin one, how such lines wait, and how a turn runs. `lines` and `wake` call it.

use std::sync::{Arc, atomic::Ordering};

use patchbay_agent::{Agent, Turn, TurnEnding};
use patchbay_command::{Line, Resolved, resolve};
use patchbay_core::{
    AgentId, Attachment, Code, DequeueReason, EventKind, MessageKind, Outcome, OutcomeData, TurnCause, TurnState,
};
use patchbay_skill::Snapshot;
use patchbay_store::{MessageRow, NewMessage, NewTurn, QueueRow, SessionChange, StoreError};
use patchbay_tools::OutsideTools;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{
    Session,
    builtin::{self, BeginsTurn},
    gathering::MissingReport,
    invoke,
    lines::{LineContext, LineEntry, not_kept, stopped},
    queue::{Arrival, LineTurn, StopScope, WaitingTurn, Wake},
    recovery,
    session::SessionState,
    unanswered::UnansweredMessage,
};

/// A turn without a line, which is stored.
pub(crate) struct BackgroundTurn {
    pub(crate) agent: Arc<Agent>,
    pub(crate) right: LineTurn,
    /// The turn begins when this is cancelled; `None` for a turn that begins at once.
    pub(crate) after: Option<CancellationToken>,
    pub(crate) cause: TurnCause,
    pub(crate) ending: TurnEnding,
    /// The report to the agent's parent; `None` if the turn is not reported.
    pub(crate) missing: Option<MissingReport>,
}

/// A turn whose first rows are stored.
pub(crate) struct RunningTurn {
    pub(crate) agent: Arc<Agent>,
    pub(crate) right: LineTurn,
    /// Cancelled when the turn is stopped.
    pub(crate) stop: CancellationToken,
    pub(crate) cause: TurnCause,
    pub(crate) ending: TurnEnding,
    /// Number of answers that are already stored.
    pub(crate) answers: u32,
    /// The report to the agent's parent; `None` if the turn is not reported.
    pub(crate) missing: Option<MissingReport>,
}

/// The message of a turn.
pub(crate) enum TurnStart {
    /// Rows to add.
    Rows(Vec<NewMessage>),
    /// A stored message without an answer.
    Again(UnansweredMessage),
}

/// Returns whether `line` begins a turn.
pub(crate) fn begins_turn(line: &str, snapshot: &Snapshot) -> BeginsTurn {
    let (name, argument) = match Line::parse(line) {
        Ok(Line::Conversation(_)) => return BeginsTurn::Yes,
        Ok(Line::Command { name, argument }) => (name, argument),
        Err(_) => return BeginsTurn::No,
    };
    match resolve(name, builtin::TABLE, snapshot) {
        Ok(Resolved::BuiltIn(command)) => command.begins_turn(snapshot, argument),
        Ok(Resolved::Alias(skill)) => invoke::begins_turn(snapshot, skill.as_str(), argument),
        Err(_) => BeginsTurn::No,
    }
}

/// Returns whether `line` waits for the earlier commands of its agent: whether it is a command, known or not, that does not overtake.
pub(crate) fn waits_for_commands(line: &str, snapshot: &Snapshot) -> bool {
    match Line::parse(line) {
        Ok(Line::Conversation(_)) => false,
        Ok(Line::Command { name, .. }) => match resolve(name, builtin::TABLE, snapshot) {
            Ok(Resolved::BuiltIn(command)) => !command.overtakes(),
            Ok(Resolved::Alias(_)) | Err(_) => true,
        },
        Err(_) => true,
    }
}

/// Returns how a line enters the queue of its agent; `None` if it begins no turn. `ahead` is true for a line that runs before
/// the waiting lines.
pub(crate) fn arrival(begins: BeginsTurn, ahead: bool) -> Option<Arrival> {
    match begins {
        BeginsTurn::No | BeginsTurn::NoButDelays => None,
        BeginsTurn::Yes => Some(Arrival { first: ahead, waits: true, releases: !ahead, is_message: true }),
        BeginsTurn::IfIdle { releases } => {
            Some(Arrival { first: true, waits: false, releases: releases && !ahead, is_message: releases })
        }
    }
}

impl LineContext {
    /// Waits until the line may run.
    ///
    /// # Errors
    /// The outcome of a line that does not run.
    pub(crate) async fn enter(&mut self, line: &str, entry: LineEntry) -> Result<(), Outcome> {
        self.turn = match entry {
            LineEntry::Direct => None,
            LineEntry::Turn(turn) => Some(turn),
            LineEntry::Refused(outcome) => return Err(outcome),
            LineEntry::Waits(waiting) | LineEntry::Restored(waiting) => {
                let turn = self.wait(line, waiting).await?;
                // A waiting line is resolved when its turn begins.
                self.state = self.session.state();
                Some(turn)
            }
        };
        Ok(())
    }

    /// Stores the line among the waiting lines and waits for its turn.
    async fn wait(&mut self, line: &str, mut waiting: WaitingTurn) -> Result<LineTurn, Outcome> {
        let early = waiting.try_wake();
        if early.is_none() && !self.queued.load(Ordering::Relaxed) {
            // A command that runs may choose another model. The files are checked again when the turn begins.
            if !self.session.queue.is_delayed() {
                self.check_readable().await?;
            }
            let retained = self.store_attachments().await?;
            let row = QueueRow {
                line: self.line,
                agent: self.agent.id(),
                position: waiting.position(),
                text: line.to_owned(),
                attachments: self.attachments.clone(),
            };
            let log = self.session.log();
            log.store().queue_line(log.hold(), row, retained).await.map_err(not_kept)?;
            self.queued.store(true, Ordering::Relaxed);
            log.publish(self.agent.id(), EventKind::LineQueued { line: self.line, text: line.to_owned() });
        }
        let wake = match early {
            Some(wake) => Some(wake),
            None => tokio::select! {
                biased;
                wake = waiting.wake() => wake,
                () = self.stop.cancelled() => return Err(stopped()),
            },
        };
        match wake {
            Some(Wake::Begin(turn)) => Ok(turn),
            Some(Wake::TakenBack(removed)) => {
                self.remove_from_store().await;
                drop(removed);
                Err(Outcome::refused(Code::LineTakenBack, "Taken back. Nothing of this line was kept."))
            }
            None => Err(Outcome::error(Code::Internal, "the queue of the line is gone.")),
        }
    }

    /// Removes a line that ended before its turn from the waiting lines. If the session is closing, the line stays there.
    pub(crate) async fn end_waiting(&self, outcome: Outcome) -> Outcome {
        if !self.queued.load(Ordering::Relaxed) {
            return outcome;
        }
        if self.is_closing() {
            let message = "The session is closed. This line waits in it until the session is resumed.";
            return Outcome::refused(Code::LineWaits, message);
        }
        self.remove_from_store().await;
        outcome
    }

    async fn remove_from_store(&self) {
        if !self.queued.load(Ordering::Relaxed) {
            return;
        }
        let log = self.session.log();
        if let Err(error) = log.store().remove_queued_line(log.hold(), self.line).await {
            tracing::error!("a line that waited could not be deleted: {error}");
        }
        self.left_queue(DequeueReason::TakenBack);
    }

    /// Notes and publishes that the line no longer waits.
    pub(crate) fn left_queue(&self, reason: DequeueReason) {
        if self.queued.swap(false, Ordering::Relaxed) {
            let event = EventKind::LineDequeued { line: self.line, reason };
            self.session.log().publish(self.agent.id(), event);
        }
    }

    /// Runs a command that begins a turn: its rows first, then the turn, then the command's own row.
    pub(crate) async fn command_turn(
        &mut self,
        line: &str,
        start: TurnStart,
        more: serde_json::Map<String, serde_json::Value>,
    ) -> Outcome {
        let mut outcome = match self.converse(start).await {
            Ok(outcome) => outcome,
            Err(nothing_kept) => return nothing_kept,
        };
        if let Some(OutcomeData::Turn(turn)) = &mut outcome.data {
            turn.command.extend(more);
        }
        // The answer is a row of its own.
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

    /// Commits the message and runs a turn. A stopped turn keeps the partial answer. If the turn fails or is stopped, the
    /// queue of the agent is held.
    ///
    /// # Errors
    /// The outcome if nothing was committed: the line was stopped before, or the store failed.
    pub(crate) async fn converse(&mut self, start: TurnStart) -> Result<Outcome, Outcome> {
        let Some(mut right) = self.turn.take() else {
            return Err(Outcome::error(Code::Internal, "the line began a turn without the right to run one."));
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(stopped()),
            () = right.ready() => {}
        }
        let stored = match self.check_readable().await {
            Ok(()) => self.store_attachments().await,
            Err(unreadable) => Err(unreadable),
        };
        let attachments = match stored {
            Ok(retained) => retained,
            Err(outcome) => {
                right.unused();
                return Err(outcome);
            }
        };
        let agent = self.agent.id();
        let turn = |began| NewTurn { agent, cause: TurnCause::Person, state: TurnState::Running, began };
        let (mut messages, again, answers) = match start {
            TurnStart::Rows(said) => (said, None, 0),
            TurnStart::Again(message) => (Vec::new(), Some(message.first), message.answers),
        };
        if let Some(message) = messages.last_mut() {
            message.data = Attachment::add_to_data(message.data.take(), &self.attachments);
        }
        let change = SessionChange {
            messages,
            attachments,
            begins_turns: vec![turn(again)],
            requires_alive: vec![agent],
            ..SessionChange::default()
        };
        let rows = self.commit_change(change, || {}).await.map_err(not_kept)?;
        let began = again.or_else(|| rows.first().map(|row| row.seq)).unwrap_or_default();
        let ending = TurnEnding { agent, began, report_to: None };
        let (agent, stop) = (Arc::clone(&self.agent), self.stop.clone());
        let cause = TurnCause::Person;
        let turn = RunningTurn { agent, right, stop, cause, ending, answers, missing: None };
        Ok(self.session.run_turn(turn).await)
    }

    async fn commit(&self, messages: Vec<NewMessage>) -> Result<Vec<MessageRow>, StoreError> {
        self.commit_change(SessionChange { messages, ..SessionChange::default() }, || {}).await
    }
}

impl Session {
    /// Runs a turn to its end and commits how it ended. A stopped turn keeps the partial answer.
    pub(crate) async fn run_turn(self: &Arc<Self>, turn: RunningTurn) -> Outcome {
        let RunningTurn { agent, right, stop, cause, ending, answers, missing } = turn;
        let id = agent.id();
        self.log().publish(id, EventKind::TurnBegan { turn: ending.began, cause });
        self.running_turns.lock().insert(id, stop.clone());
        // A kill or a stop that came before this line found no turn to cancel.
        if agent.is_dead() || self.queue.is_cancelled(id) {
            stop.cancel();
        }
        stop.run_until_cancelled(self.keep_skill_files(id)).await;
        let outside = stop.run_until_cancelled(self.outside_for_turn(id)).await.unwrap_or_default();
        let turn = self.turn(&agent, cause, ending.clone(), answers, stop, outside);
        let span = tracing::info_span!("turn", agent = %id, began = ending.began);
        let mut outcome = agent.run(&turn).instrument(span).await;
        self.running_turns.lock().remove(&id);
        if agent.is_dead() {
            let message = format!("agent '{id}' was killed. What came is kept.");
            outcome = Outcome::error(Code::AgentDead, message);
        } else if !outcome.is_ok() {
            if let Err(error) = self.commit_failure(&agent, &ending, &outcome).await {
                tracing::error!("how a turn ended could not be kept: {error}");
            }
            if cause == TurnCause::Person {
                self.note_unanswered(&agent, &mut outcome).await;
            }
        }
        let state = if agent.is_dead() { TurnState::Interrupted } else { TurnState::Done };
        let ended = EventKind::TurnEnded { turn: ending.began, cause, state, outcome: outcome.clone() };
        self.log().publish(id, ended);
        let is_stopped = outcome.code == Code::TurnCancelled;
        // The report is stored, so the parent does not wait for it any more.
        drop(missing);
        if let Some(parent) = ending.report_to.filter(|_| !is_stopped && !agent.is_dead()) {
            self.mail_came(parent, id);
        }
        match outcome.is_ok() {
            true => right.succeeded(),
            false if is_stopped => right.stopped(),
            // Dropping the right holds the queue.
            false => drop(right),
        }
        outcome
    }

    /// Returns the input of a turn, with the persona and the snapshot of this moment.
    pub(crate) fn turn(
        self: &Arc<Self>,
        agent: &Arc<Agent>,
        cause: TurnCause,
        ending: TurnEnding,
        answers: u32,
        cancel: CancellationToken,
        outside: OutsideTools,
    ) -> Turn {
        let SessionState { persona, snapshot } = self.state();
        Turn {
            persona: persona.files.iter().map(|file| file.text.clone()).collect(),
            internal: self.tree_tools(agent),
            outside,
            snapshot,
            cause,
            ending,
            answers,
            cancel,
        }
    }

    async fn commit_failure(
        &self,
        agent: &Agent,
        ending: &TurnEnding,
        outcome: &Outcome,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let id = agent.id();
        let last = recovery::last_text(self.log().store(), self.id(), id, ending.began).await?;
        let content = outcome.line().into_owned();
        let notice = NewMessage { agent: id, kind: MessageKind::Notice, content, data: None };
        let mut change = SessionChange { messages: vec![notice], requires_alive: vec![id], ..SessionChange::default() };
        ending.failed(outcome, &last, &mut change);
        self.log().commit(change, || {}).await
    }

    /// Stops the turn of the agent in view. What came is kept. The agent begins no turn by itself until the user's next message
    /// to it. Returns false if no turn runs.
    pub fn stop_turn(&self) -> bool {
        let agent = self.agent_in_view().id();
        self.running_turns.lock().get(&agent).inspect(|stop| stop.cancel()).is_some()
    }

    /// Stops the turn of `agent`, also one that has just begun. Its waiting lines then run. Returns false if no turn runs.
    pub fn stop_turn_of(&self, agent: AgentId) -> bool {
        if !self.queue.is_active(agent) {
            return false;
        }
        self.queue.stop(agent, StopScope::Agent);
        if let Some(stop) = self.running_turns.lock().get(&agent) {
            stop.cancel();
        }
        self.release_queue_of(agent);
        true
    }

    /// Stops the turns of all agents, which begin none by themselves until the user's next message to any of them. Returns the
    /// number of turns.
    pub fn stop_all(&self) -> usize {
        {
            // A child that is added after this finds its parent stopped.
            let agents = self.agents();
            agents.living().for_each(|agent| self.queue.stop(agent.id(), StopScope::Session));
        }
        let running = self.running_turns.lock();
        running.values().for_each(CancellationToken::cancel);
        running.len()
    }

    /// Returns whether no line and no turn runs and no agent is about to begin one.
    pub fn is_idle(&self) -> bool {
        self.activity.is_idle()
    }

    /// Waits until no line and no turn runs and no agent is about to begin one.
    pub async fn wait_idle(&self) {
        self.activity.idle().await;
    }

    /// Cancels the turn and the lines of an agent that was killed.
    pub(crate) fn cancel_work_of(&self, agent: AgentId) {
        if let Some(stop) = self.running_turns.lock().get(&agent) {
            stop.cancel();
        }
        self.lines.cancel_of(agent);
    }
}
