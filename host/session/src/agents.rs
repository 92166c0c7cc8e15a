//! The agents of a session. Currently there is only the root agent. A line belongs to the agent in view when it is
//! submitted.

use std::{collections::BTreeMap, sync::Arc};

use patchbay_agent::Agent;
use patchbay_core::AgentId;

/// The agents of a session by id, and the agent in view.
pub(crate) struct Agents {
    agents: BTreeMap<AgentId, Arc<Agent>>,
    view: Arc<Agent>,
}

impl Agents {
    /// Creates a session's agents with only the root, which is in view.
    pub(crate) fn new(root: Arc<Agent>) -> Self {
        Self { agents: BTreeMap::from([(root.id(), Arc::clone(&root))]), view: root }
    }

    /// Returns the agent that the user sees and talks to.
    pub(crate) fn in_view(&self) -> &Arc<Agent> {
        &self.view
    }

    /// Returns the agent `id`.
    pub(crate) fn get(&self, id: AgentId) -> Option<&Arc<Agent>> {
        self.agents.get(&id)
    }

    /// Returns all agents in the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Agent>> {
        self.agents.values()
    }
}
