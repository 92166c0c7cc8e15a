//! The data that a front shows when an agent comes into view: its last exchange, and the answer that it is writing.
//! Fronts call it after the event `ViewMoved`.

use std::sync::Arc;

use patchbay_agent::{Agent, AnswerSoFar};
use patchbay_core::{AgentId, AssistantRecord, Task};
use patchbay_store::{MessageRow, StoreError};
use serde::Deserialize as _;

use crate::{Session, recap};

/// The agent in view at one moment.
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
    /// The number of the last row of the session at that moment: later rows are not part of `exchange`.
    pub seq: u64,
    /// Its last message and the answer to it, as lines for a user; empty if it has none.
    pub exchange: Vec<String>,
    /// Tokens of its conversation after the last answer; `None` if they are not known.
    pub context_tokens: Option<u64>,
    /// Number of its unread mails.
    pub unread: u64,
    /// Its tasks, as its model listed them last.
    pub tasks: Vec<Task>,
    /// The answer that it is writing, which is not stored yet.
    pub answer: Option<AnswerSoFar>,
}

impl Session {
    /// Returns the agent in view. Events that follow continue it: rows after `seq`, and pieces of `answer` behind its text.
    ///
    /// # Errors
    /// The store could not be read or written.
    pub async fn agent_in_view_now(&self) -> Result<AgentInView, StoreError> {
        loop {
            let agent = self.agent_in_view();
            let before = agent.answer_so_far();
            let seq = self.last_seq();
            let exchange = self.log().store().exchange_before(self.id(), agent.id(), seq.saturating_add(1)).await?;
            let unread = self.log().store().mail_counts(agent.id()).await?.unread;
            let tasks = self.tasks_of(agent.id()).await?;
            let answer = agent.answer_so_far();
            // The same answer before and after: it was not stored when `seq` was the last row.
            if place(before.as_ref()) == place(answer.as_ref()) {
                return Ok(AgentInView { unread, tasks, ..in_view(&agent, seq, exchange, answer) });
            }
        }
    }

    /// Returns the answers that agents are writing, with the text so far. Pieces that follow continue it.
    pub fn answers_so_far(&self) -> Vec<(AgentId, AnswerSoFar)> {
        let agents: Vec<Arc<Agent>> = self.agents().living().cloned().collect();
        agents.iter().filter_map(|agent| Some((agent.id(), agent.answer_so_far()?))).collect()
    }

    /// Returns the number of unread mails of the agent in view.
    ///
    /// # Errors
    /// The store could not be read or written.
    pub async fn unread_mail(&self) -> Result<u64, StoreError> {
        Ok(self.log().store().mail_counts(self.view()).await?.unread)
    }
}

/// Returns the turn and the index of an answer.
fn place(answer: Option<&AnswerSoFar>) -> Option<(u64, u32)> {
    answer.map(|answer| (answer.turn, answer.answer))
}

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
