//! Lines that begin a turn: which lines do, how they wait, and how their turn runs. `lines` calls it.

use std::sync::atomic::Ordering;

use patchbay_agent::{Turn, system_context};
use patchbay_command::{Line, Resolved, resolve};
use patchbay_core::{Code, DequeueReason, EventKind, MessageKind, Outcome};
use patchbay_skill::Snapshot;
use patchbay_store::{MessageRow, NewMessage, QueueRow, SessionChange, StoreError};
use tracing::Instrument as _;

use crate::{
    builtin::{self, BeginsTurn},
    invoke,
    lines::{LineContext, LineEntry, not_kept, stopped},
    queue::{Arrival, LineTurn, WaitingTurn, Wake},
    session::SessionState,
    unanswered::UnansweredMessage,
};

/// The message of a turn.
pub(crate) enum TurnStart {
    /// Rows to add.
    Rows(Vec<NewMessage>),
    /// A stored message without an answer.
    Again(UnansweredMessage),
}

/// Returns how `line` enters the queue of its agent; `None` if it begins no turn. `ahead` is true for a line that runs before
/// the waiting lines.
pub(crate) fn arrival(line: &str, snapshot: &Snapshot, ahead: bool) -> Option<Arrival> {
    let begins = match Line::parse(line).ok()? {
        Line::Conversation(_) => BeginsTurn::Yes,
        Line::Command { name, argument } => match resolve(name, builtin::TABLE, snapshot).ok()? {
            Resolved::BuiltIn(command) => command.begins_turn(snapshot, argument),
            Resolved::Alias(skill) => invoke::begins_turn(snapshot, skill.as_str(), argument),
        },
    };
    match begins {
        BeginsTurn::No => None,
        BeginsTurn::Yes => Some(Arrival { first: ahead, waits: true, releases: !ahead }),
        BeginsTurn::IfIdle { releases } => Some(Arrival { first: true, waits: false, releases: releases && !ahead }),
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
    async fn wait(&self, line: &str, mut waiting: WaitingTurn) -> Result<LineTurn, Outcome> {
        let early = waiting.try_wake();
        if early.is_none() && !self.queued.load(Ordering::Relaxed) {
            let row = QueueRow {
                line: self.line,
                agent: self.agent.id(),
                position: waiting.position(),
                text: line.to_owned(),
            };
            let log = self.session.log();
            log.store().queue_line(log.hold(), row).await.map_err(not_kept)?;
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
    pub(crate) async fn command_turn(&mut self, line: &str, start: TurnStart, more: serde_json::Value) -> Outcome {
        let mut outcome = match self.converse(start).await {
            Ok(outcome) => outcome,
            Err(nothing_kept) => return nothing_kept,
        };
        if let (Some(data), serde_json::Value::Object(more)) = (&mut outcome.data, more)
            && let Some(data) = data.as_object_mut()
        {
            data.extend(more);
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
        let (began, answers) = match start {
            TurnStart::Rows(said) => {
                let rows = self.commit(said).await.map_err(not_kept)?;
                (rows.first().map_or(0, |row| row.seq), 0)
            }
            TurnStart::Again(message) => (message.first, message.answers),
        };
        let SessionState { persona, snapshot } = self.session.state();
        let files = persona.files.iter().map(|file| file.text.clone());
        let turn = Turn {
            system: system_context(files, &snapshot, self.agent.id(), None),
            snapshot,
            began,
            answers,
            cancel: self.stop.clone(),
        };
        let span = tracing::info_span!("turn", agent = %self.agent.id(), began = turn.began);
        let outcome = self.agent.run(&turn).instrument(span).await;
        if outcome.is_ok() {
            right.succeeded();
            return Ok(outcome);
        }
        let notice = self.message(MessageKind::Notice, &outcome.line(), None);
        if let Err(error) = self.commit(vec![notice]).await {
            tracing::error!("how a turn ended could not be kept: {error}");
        }
        Ok(outcome)
    }

    async fn commit(&self, messages: Vec<NewMessage>) -> Result<Vec<MessageRow>, StoreError> {
        self.commit_change(SessionChange { messages, ..SessionChange::default() }, || {}).await
    }
}
