//! How the last turn of each agent ended, for the exit code of `exec` and the end of its lines.

use std::collections::HashMap;

use patchbay_core::{AgentId, Event, EventKind};

#[derive(Default)]
pub(super) struct LastTurns {
    /// Whether the last turn of an agent succeeded. Agents without a finished turn are missing.
    succeeded: HashMap<AgentId, bool>,
}

impl LastTurns {
    /// Notes an event, if it ends a turn. A killed agent has ended its turn, also if the turn had not begun.
    pub(super) fn note(&mut self, event: &Event) {
        match &event.kind {
            EventKind::TurnEnded { outcome, .. } => {
                self.succeeded.insert(event.agent, outcome.is_ok());
            }
            EventKind::AgentKilled => {
                self.succeeded.entry(event.agent).or_insert(false);
            }
            _ => {}
        }
    }

    /// Returns whether the last turn of `agent` succeeded; `None` if no turn of it has ended.
    pub(super) fn succeeded(&self, agent: AgentId) -> Option<bool> {
        self.succeeded.get(&agent).copied()
    }
}
