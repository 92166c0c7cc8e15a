//! Lines that begin or join a turn. A line that begins a turn commits its rows first; then `turns` runs the turn, and a command
//! finally commits its own row. A message that joins a turn only commits its row.

use std::sync::Arc;

use patchbay_agent::TurnEnding;
use patchbay_core::{
    Attachment, Code, DequeueReason, KilledData, MessageKind, MessageNotices, Outcome, OutcomeData, TurnCause,
    TurnState,
};
use patchbay_store::{MessageRow, NewMessage, NewTurn, SessionChange, StoreError};

use serde_json::json;

use super::{
    context::{LineContext, not_kept, stopped},
    queue::JoiningLine,
};
use crate::{change_sets::undo_notice, turns::RunningTurn, unanswered::UnansweredMessage};

pub(crate) enum TurnStart {
    Rows(Vec<NewMessage>),
    /// A stored message without an answer.
    Again(UnansweredMessage),
}

impl LineContext {
    /// Runs a command that begins a turn: its rows first, then the turn, then the command's own row.
    pub(crate) async fn command_turn(
        &mut self,
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
        let row = self.message(MessageKind::Command, &self.text, serde_json::to_value(&result).ok());
        match self.commit(vec![row]).await {
            Ok(_) => outcome,
            Err(error) => Outcome::error(Code::StoreFailed, format_args!("{error}. The turn's own output is kept.")),
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
            () = self.stop.cancelled() => return Err(self.not_begun(stopped())),
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
        if let Some(message) = messages.first_mut() {
            let undone = self.session.log().store().undone_changes(self.session.id(), agent).await.map_err(not_kept)?;
            let notices = undone.iter().filter_map(undo_notice).collect();
            message.data = MessageNotices::add_to_data(message.data.take(), notices);
        }
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
        let rows = self.commit_change(change, || {}).await.map_err(|error| self.not_begun(not_kept(error)))?;
        let began = again.or_else(|| rows.first().map(|row| row.seq)).unwrap_or_default();
        let ending = TurnEnding { agent, began, report_to: None };
        let (agent, stop) = (Arc::clone(&self.agent), self.stop.clone());
        let (cause, client) = (TurnCause::Person, Arc::clone(&self.client));
        let turn = RunningTurn { agent, right, stop, cause, ending, answers, missing: None, client };
        Ok(self.session.run_turn(turn).await)
    }

    /// Adds a waiting message to the running turn, and waits for the end of the turn.
    ///
    /// # Errors
    /// The outcome if nothing was committed: the model cannot read the files, or the store failed.
    pub(super) async fn join(&self, joining: JoiningLine) -> Result<Outcome, Outcome> {
        self.check_readable().await?;
        let data = Attachment::add_to_data(Some(json!({"joined": joining.began})), &self.attachments);
        let change = SessionChange {
            messages: vec![self.message(MessageKind::User, &self.text, data)],
            requires_alive: vec![self.agent.id()],
            begins: Some(self.line),
            ..SessionChange::default()
        };
        self.session.log().commit(change, || {}).await.map_err(|error| self.not_begun(not_kept(error)))?;
        self.left_queue(DequeueReason::Joined);
        Ok(joining.joined(&self.stop).await)
    }

    /// Returns the outcome of a line that ends before its message is committed. If the agent was killed meanwhile, the line had
    /// already left the queue whose lines the kill returns, so this outcome returns the line's text to the front.
    fn not_begun(&self, outcome: Outcome) -> Outcome {
        if outcome.code != Code::AgentDead && !self.agent.is_dead() {
            return outcome;
        }
        outcome.with_data(KilledData { killed: Vec::new(), lines: vec![self.text.clone()] })
    }

    async fn commit(&self, messages: Vec<NewMessage>) -> Result<Vec<MessageRow>, StoreError> {
        self.commit_change(SessionChange { messages, ..SessionChange::default() }, || {}).await
    }
}
