//! Moves the view to another agent of the tree, alive or dead.

use std::sync::Arc;

use patchbay_agent::Agent;
use patchbay_core::{AgentId, Code, EventKind, Outcome};
use patchbay_store::{AgentRow, SessionChange};
use serde_json::{Value, json};

use crate::{
    Session,
    agents::AgentParts,
    prepared::{Prepare, Prepared},
};

impl Session {
    /// Returns the agent that `/switch` with `text` names: `root`, `parent` of `agent`, or a UUID.
    ///
    /// # Errors
    /// The outcome of the command.
    pub(crate) async fn switch_target(&self, agent: &Agent, text: &str) -> Result<AgentId, Outcome> {
        match text {
            "root" => Ok(self.agents().root().id()),
            "parent" => agent.parent().ok_or_else(|| Outcome::error(Code::NoParent, "the root agent has no parent.")),
            uuid => Ok(self.find_agent(uuid).await?.id),
        }
    }

    /// Returns the change that moves the view to `target`.
    pub(crate) fn switch(self: &Arc<Self>, target: AgentId) -> Prepare {
        let session = Arc::clone(self);
        Box::pin(async move {
            let known = session.agent(target);
            let agent = match known {
                Some(agent) => agent,
                None => {
                    let failed =
                        |error: patchbay_store::StoreError| Outcome::error(error.code(), format_args!("{error}."));
                    let (row, ancestors) = session.host.dead_agent(session.id(), target).await.map_err(failed)?;
                    session.dead(row, ancestors)
                }
            };
            let outcome =
                Outcome::ok(Code::Switched, format!("Switched to {target}.")).with_data(json!({"agent": target}));
            let change = SessionChange { view: Some(target), ..SessionChange::default() };
            let applied = Box::new(move |_: &[_]| {
                session.agents().set_view(agent);
                session.log().publish(target, EventKind::ViewMoved);
            });
            Ok(Prepared { change, applied, ..Prepared::shown(outcome, Value::Null) })
        })
    }

    /// Recreates an agent that was killed, which the user can then look at.
    fn dead(&self, row: AgentRow, ancestors: Vec<AgentId>) -> Arc<Agent> {
        let agent = self.factory().make(AgentParts::of(&row, ancestors));
        agent.die();
        agent
    }
}
