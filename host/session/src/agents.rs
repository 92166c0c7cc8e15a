//! The agents of a session. There is one today, the root; a line belongs to the agent in view when it is submitted.

use std::{collections::BTreeMap, sync::Arc};

use patchbay_agent::Agent;
use patchbay_core::AgentId;

/// The agents of one session by their ids, and the one in view.
pub(crate) struct Agents {
    agents: BTreeMap<AgentId, Arc<Agent>>,
    view: Arc<Agent>,
}

impl Agents {
    /// A session with its root alone, which is in view.
    pub(crate) fn new(root: Arc<Agent>) -> Self {
        Self { agents: BTreeMap::from([(root.id(), Arc::clone(&root))]), view: root }
    }

    /// The agent that the person sees and speaks to.
    pub(crate) fn in_view(&self) -> &Arc<Agent> {
        &self.view
    }

    /// All agents, in the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Agent>> {
        self.agents.values()
    }
}
