//! The data that a front needs to show an agent that comes into view: its last message and answer, and the answer that
//! it is writing. Fronts call [`Session::agent_in_view_now`] at startup and after each event `ViewMoved`.

use std::sync::Arc;

use patchbay_agent::{Agent, AnswerSoFar};
use patchbay_core::{AgentId, AssistantRecord, Task};
use patchbay_store::{MessageRow, StoreError};
use serde::Deserialize as _;

use crate::{Session, recap};

/// The state of the agent in view at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentInView {
    /// The UUID that identifies the agent.
    pub id: AgentId,
    /// Whether it is the root of the tree.
    pub is_root: bool,
    /// Whether the agent was killed.
    pub is_dead: bool,
    /// Whether it is running a turn.
    pub is_working: bool,
    /// The number of the session's last row at that moment. `exchange` contains no later rows.
    pub seq: u64,
    /// The last message that the agent received and its answer, as lines to print; empty if it received none.
    pub exchange: Vec<String>,
    /// Length of its conversation after the last answer, in tokens; `None` if unknown.
    pub context_tokens: Option<u64>,
    /// Number of unread messages in its inbox.
    pub unread: u64,
    /// The latest task list from its model.
    pub tasks: Vec<Task>,
    /// The answer that it is writing, if any. This answer is not in the store yet.
    pub answer: Option<AnswerSoFar>,
}

impl Session {
    /// Returns the state of the agent in view. To keep it current, apply the events that follow: rows after `seq`, and
    /// deltas, which continue the text of `answer`.
    ///
    /// # Errors
    /// The store could not be read.
    pub async fn agent_in_view_now(&self) -> Result<AgentInView, StoreError> {
        loop {
            let agent = self.agent_in_view();
            let before = agent.answer_so_far();
            let seq = self.last_seq();
            let exchange = self.log().store().exchange_before(self.id(), agent.id(), seq.saturating_add(1)).await?;
            let unread = self.log().store().mail_counts(agent.id()).await?.unread;
            let tasks = self.tasks_of(agent.id()).await?;
            let answer = agent.answer_so_far();
            // If the agent is still writing the same answer, `exchange` cannot contain it. Otherwise an answer ended in
            // between and could be in both or in neither, so everything is read again.
            if answer_index(before.as_ref()) == answer_index(answer.as_ref()) {
                return Ok(AgentInView { unread, tasks, ..in_view(&agent, seq, exchange, answer) });
            }
        }
    }

    /// Returns the answers that agents are writing, with their text so far. Later deltas continue the text.
    pub fn answers_so_far(&self) -> Vec<(AgentId, AnswerSoFar)> {
        let agents: Vec<Arc<Agent>> = self.agents().living().cloned().collect();
        agents.iter().filter_map(|agent| Some((agent.id(), agent.answer_so_far()?))).collect()
    }

    /// Returns the number of unread messages in the inbox of the agent in view.
    ///
    /// # Errors
    /// The store could not be read.
    pub async fn unread_mail(&self) -> Result<u64, StoreError> {
        Ok(self.log().store().mail_counts(self.view()).await?.unread)
    }
}

/// Identifies an answer by its turn and its index in the turn.
fn answer_index(answer: Option<&AnswerSoFar>) -> Option<(u64, u32)> {
    answer.map(|answer| (answer.turn, answer.answer))
}

/// Returns the state without `unread` and `tasks`, which the caller has read from the store.
fn in_view(
    agent: &Agent,
    seq: u64,
    exchange: Option<(MessageRow, Option<MessageRow>)>,
    answer: Option<AnswerSoFar>,
) -> AgentInView {
    let is_working = agent.is_answering();
    let answered = exchange.as_ref().and_then(|(_, answer)| answer.as_ref());
    let usage =
        answered.and_then(|row| AssistantRecord::deserialize(row.data.as_ref()?).ok()).map(|record| record.usage);
    AgentInView {
        id: agent.id(),
        is_root: agent.parent().is_none(),
        is_dead: agent.is_dead(),
        is_working,
        seq,
        exchange: exchange
            .map(|(said, answer)| recap::lines_of(&said, answer.as_ref(), is_working))
            .unwrap_or_default(),
        context_tokens: usage.map(|usage| usage.total()).filter(|tokens| *tokens > 0),
        unread: 0,
        tasks: Vec::new(),
        answer,
    }
}
