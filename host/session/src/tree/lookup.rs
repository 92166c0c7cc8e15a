//! Finds an agent by its UUID or a prefix of it, among the living and dead agents of a session.

use patchbay_core::{Code, Outcome, text};
use patchbay_store::AgentRow;

use crate::Session;

/// Maximum number of agents that an error lists.
const LISTED: usize = 10;

impl Session {
    /// Returns the agent whose UUID is or begins with `uuid`.
    ///
    /// # Errors
    /// `agent_not_found`, `ambiguous_uuid`, or an error of the store.
    pub(crate) async fn find_agent(&self, uuid: &str) -> Result<AgentRow, Outcome> {
        let found = self.log().store().agents_with_prefix(self.id(), uuid, LISTED as u32 + 1).await;
        let mut found = found.map_err(|error| Outcome::error(error.code(), format_args!("{error}.")))?;
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => Err(not_found(uuid)),
            count => {
                let mut ids: Vec<String> = found.iter().take(LISTED).map(|agent| agent.id.to_string()).collect();
                if count > LISTED {
                    ids.push("\u{2026}".to_owned());
                }
                let message = format!("'{}' matches several agents: {}.", text::excerpt(uuid, 80), ids.join(", "));
                Err(Outcome::error(Code::AmbiguousUuid, message))
            }
        }
    }
}

pub(crate) fn not_found(uuid: &str) -> Outcome {
    Outcome::error(Code::AgentNotFound, format_args!("agent '{}' was not found.", text::excerpt(uuid, 80)))
}

/// The error of a line or a change that needs a living agent.
pub(crate) fn dead(agent: impl std::fmt::Display) -> Outcome {
    Outcome::error(Code::AgentDead, format_args!("agent '{agent}' is dead."))
}
