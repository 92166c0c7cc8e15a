//! The data that a front needs to show a stored session: which rows are the conversation of the agent in view, and how
//! the turns of other agents ended.

use patchbay_core::{AgentId, Code, Event, EventKind, MessageKind, Outcome, TurnState};
use patchbay_store::{Lineage, StoreError, TurnRow};

use crate::Session;

/// The rows of an agent's conversation, including the rows that it inherits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewRows {
    /// The agents whose rows belong to the conversation, the agent itself first.
    agents: Vec<Lineage>,
}

/// A turn, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredTurn {
    /// The state that the turn has reached.
    pub state: TurnState,
    /// How the turn ended, without a message.
    pub outcome: Outcome,
}

impl ViewRows {
    /// Returns whether the agent shows a stored row as its own. Rows that only concern a parent, such as the result of a command,
    /// are not inherited.
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
        let is_own = self.agents.first().is_some_and(|view| view.agent == event.agent);
        let is_in_line = self.agents.iter().any(|of| of.agent == event.agent && event.seq <= of.last);
        is_in_line && (is_own || inherited)
    }
}

impl Session {
    /// Returns the conversation of the agent in view.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn view_rows(&self) -> Result<ViewRows, StoreError> {
        self.rows_of(self.view()).await
    }

    /// Returns the conversation of an agent of the session.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn rows_of(&self, agent: AgentId) -> Result<ViewRows, StoreError> {
        Ok(ViewRows { agents: self.log().store().lineage(agent).await? })
    }

    /// Returns the turn whose first row is number `seq`; `None` if no turn began there.
    ///
    /// # Errors
    /// The store could not be read or written.
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
        let of = |agent, last| Lineage { agent, parent: None, last };
        let rows = ViewRows { agents: vec![of(child, u64::MAX), of(parent, 7)] };
        let has = |agent, seq, kind| {
            let kind = EventKind::Message { kind, content: String::new(), data: None };
            rows.has(&Event { session: SessionId::from_bytes([9; 16]), agent, seq, kind })
        };
        assert!(has(child, 9, MessageKind::Command) && has(child, 9, MessageKind::User));
        assert!(has(parent, 7, MessageKind::Assistant) && !has(parent, 8, MessageKind::Assistant));
        assert!(!has(parent, 5, MessageKind::Command) && !has(other, 5, MessageKind::User));
    }
}
