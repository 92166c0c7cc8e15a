//! What a front needs to show a stored session: which rows are the conversation of the agent in view, and how the turns of other
//! agents ended.

use patchbay_core::{AgentId, Code, Event, EventKind, MessageKind, Outcome, TurnState};
use patchbay_store::{StoreError, TurnRow};

use crate::Session;

/// The rows of the agent in view, and those that it inherits from its ancestors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The agent and its ancestors, each with the number of its last row that belongs to the conversation.
    agents: Vec<(AgentId, u64)>,
}

/// A stored turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTurn {
    /// How far it came.
    pub state: TurnState,
    /// How it ended, without a message.
    pub outcome: Outcome,
}

impl Lineage {
    /// Returns whether the agent in view shows a stored row as its own. What was shown to a parent alone, such as the result of a
    /// command, is not inherited.
    pub fn has(&self, event: &Event) -> bool {
        let EventKind::Message { kind, .. } = &event.kind else { return false };
        let inherited = matches!(
            kind,
            MessageKind::User
                | MessageKind::Skill
                | MessageKind::Assistant
                | MessageKind::Tool
                | MessageKind::Compaction
        );
        let is_own = self.agents.first().is_some_and(|(agent, _)| *agent == event.agent);
        let is_in_line = self.agents.iter().any(|(agent, last)| *agent == event.agent && event.seq <= *last);
        is_in_line && (is_own || inherited)
    }
}

impl Session {
    /// Returns the conversation of the agent in view.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn lineage(&self) -> Result<Lineage, StoreError> {
        let (store, view) = (self.log().store(), self.agent_in_view());
        let mut agents = vec![(view.id(), u64::MAX)];
        let mut last = u64::MAX;
        let mut of = view.id();
        for ancestor in view.ancestors() {
            let Some(row) = store.agent(self.id(), of).await? else { break };
            last = last.min(row.fork_point);
            agents.push((*ancestor, last));
            of = *ancestor;
        }
        Ok(Lineage { agents })
    }

    /// Returns the turn whose first row is number `seq`; `None` if no turn began there.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn turn_from(&self, seq: u64) -> Result<Option<StoredTurn>, StoreError> {
        let turn = self.log().store().turn(self.id(), seq).await?;
        Ok(turn.map(|(TurnRow { state, .. }, code)| {
            let outcome = match code {
                None | Some(Code::Answered) => Outcome::ok(Code::Answered, ""),
                Some(code) => Outcome::refused(code, ""),
            };
            StoredTurn { state, outcome }
        }))
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::SessionId;

    use super::*;

    #[test]
    fn conversation_has_its_own_rows_and_those_before_the_fork() {
        let [child, parent, other] = [1, 2, 3].map(|byte| AgentId::from_bytes([byte; 16]));
        let lineage = Lineage { agents: vec![(child, u64::MAX), (parent, 7)] };
        let has = |agent, seq, kind| {
            let kind = EventKind::Message { kind, content: String::new(), data: None };
            lineage.has(&Event { session: SessionId::from_bytes([9; 16]), agent, seq, kind })
        };
        assert!(has(child, 9, MessageKind::Command) && has(child, 9, MessageKind::User));
        assert!(has(parent, 7, MessageKind::Assistant) && !has(parent, 8, MessageKind::Assistant));
        assert!(!has(parent, 5, MessageKind::Command) && !has(other, 5, MessageKind::User));
    }
}
