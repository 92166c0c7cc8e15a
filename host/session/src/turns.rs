//! Runs turns, from their first rows to their outcomes, and stops them. `line::turn` and `wake` begin them.

use std::sync::Arc;

use patchbay_agent::{Agent, Turn, TurnEnding};
use patchbay_core::{AgentId, Code, EventKind, MessageKind, Outcome, TurnCause, TurnState};
use patchbay_store::{MessageRow, NewMessage, SessionChange, StoreError};
use patchbay_tools::OutsideTools;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{
    Session,
    gathering::MissingReport,
    line::client::LineClient,
    line::queue::{JoinedLines, LineTurn, StopScope},
    recovery,
    session::SessionState,
};

/// A stored turn that was not begun by a line.
pub(crate) struct BackgroundTurn {
    pub(crate) agent: Arc<Agent>,
    pub(crate) right: LineTurn,
    /// The turn begins when this is cancelled; `None` for a turn that begins immediately.
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
    /// The client whose line began the turn, or the front of the process.
    pub(crate) client: Arc<LineClient>,
}

impl Session {
    /// Runs a turn to its end and commits its outcome. A stopped turn keeps the partial answer.
    pub(crate) async fn run_turn(self: &Arc<Self>, turn: RunningTurn) -> Outcome {
        let RunningTurn { agent, right, stop, cause, ending, answers, missing, client } = turn;
        let id = agent.id();
        self.log().publish(id, EventKind::TurnBegan { turn: ending.began, cause });
        self.running_turns.lock().insert(id, stop.clone());
        // A kill or a stop that came before the previous statement found no turn to cancel.
        if agent.is_dead() || self.queue.is_cancelled(id) {
            stop.cancel();
        }
        stop.run_until_cancelled(self.keep_skill_files(id)).await;
        let outside = stop.run_until_cancelled(self.outside_for_turn(id, &client)).await.unwrap_or_default();
        let lines = JoinedLines::new(&self.queue, id, ending.began, stop.clone());
        let joins = Some(lines.message_join());
        let turn = Turn {
            joins,
            editor: client.editor.clone(),
            ..self.turn(&agent, cause, ending.clone(), answers, stop, outside)
        };
        let span = tracing::info_span!("turn", agent = %id, began = ending.began);
        let mut outcome = agent.run(&turn).instrument(span).await;
        self.running_turns.lock().remove(&id);
        if agent.is_dead() {
            let message = format!("agent '{id}' was killed. The partial answer is kept.");
            outcome = Outcome::error(Code::AgentDead, message);
        } else if !outcome.is_ok() {
            if let Err(error) = self.commit_failure(&agent, &ending, &outcome).await {
                tracing::error!("cannot store the outcome of a turn: {error}");
            }
            if cause == TurnCause::Person || lines.is_any() {
                self.note_unanswered(&agent, &mut outcome).await;
            }
        }
        let state = if agent.is_dead() { TurnState::Interrupted } else { TurnState::Done };
        let ended = EventKind::TurnEnded { turn: ending.began, cause, state, outcome: outcome.clone() };
        self.log().publish(id, ended);
        lines.end(&outcome);
        let is_stopped = outcome.code == Code::TurnCancelled;
        // The report is stored, so the parent need not wait for it any more.
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

    /// Returns the input of a turn, with the current persona and snapshot.
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
            surroundings: persona.surroundings.clone(),
            internal: self.tree_tools(agent),
            outside,
            editor: None,
            snapshot,
            cause,
            ending,
            answers,
            joins: None,
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

    /// Stores a notice for the user, which is not sent to models.
    pub(crate) async fn add_notice(&self, agent: AgentId, content: String) -> Result<(), StoreError> {
        let data = Some(serde_json::json!({ "host": true }));
        let notice = NewMessage { agent, kind: MessageKind::Notice, content, data };
        self.log().commit(SessionChange { messages: vec![notice], ..SessionChange::default() }, || {}).await.map(drop)
    }

    /// Stops the turn of the agent in view, even if it has just begun, and keeps the partial answer. The agent begins no turn by
    /// itself until the user's next message to it. Returns false if no turn is running.
    pub fn stop_turn(&self) -> bool {
        let agent = self.agent_in_view().id();
        let is_running = self.queue.is_active(agent);
        if is_running {
            self.stop_queue_of(agent, StopScope::Agent);
        }
        is_running
    }

    /// Stops the turn of `agent`, even if it has just begun, and then runs its waiting lines.
    /// Returns false if no turn is running.
    pub fn stop_turn_of(&self, agent: AgentId) -> bool {
        if !self.queue.is_active(agent) {
            return false;
        }
        self.stop_queue_of(agent, StopScope::Agent);
        self.release_queue_of(agent);
        true
    }

    /// Stops the turns of all agents, even those that have just begun. No agent begins a turn by itself until the user's next
    /// message to any of them. Returns the number of turns.
    pub fn stop_all(&self) -> usize {
        // A child that is added after this finds its parent stopped.
        let agents = self.agents();
        agents.living().filter(|agent| self.stop_queue_of(agent.id(), StopScope::Session)).count()
    }

    /// Holds the lines of `agent` and cancels its turn. Returns whether one is running. A turn that has begun but whose first rows
    /// are not stored yet is cancelled once they are, in [`Session::run_turn`].
    fn stop_queue_of(&self, agent: AgentId, scope: StopScope) -> bool {
        let is_running = self.queue.stop(agent, scope);
        if let Some(stop) = self.running_turns.lock().get(&agent) {
            stop.cancel();
        }
        is_running
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
