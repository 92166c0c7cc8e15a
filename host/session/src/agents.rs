//! The agents of a session: the tree of living agents, and the agent in view. A submitted line belongs to the agent that is in
//! view at that moment.

use std::{collections::BTreeMap, sync::Arc};

use patchbay_agent::{Agent, AgentContext, AgentSettings, Chosen, Model, Requests, ResultRoom};
use patchbay_core::{AgentId, PrincipalId};
use patchbay_events::EventLog;
use patchbay_store::{AgentRow, Hold};
use patchbay_tools::{ApprovalSlot, Tools};

/// The living agents of a session by id, their order, and the agent in view.
pub(crate) struct Agents {
    living: BTreeMap<AgentId, Arc<Agent>>,
    /// The living agents in the order of their creation; the root is first.
    order: Vec<AgentId>,
    /// The agent in view, which may be dead.
    view: Arc<Agent>,
}

impl Agents {
    /// Returns the agents of a session whose root is in view.
    pub(crate) fn new(root: Arc<Agent>) -> Self {
        let mut agents = Self { living: BTreeMap::new(), order: Vec::new(), view: Arc::clone(&root) };
        agents.add(root);
        agents
    }

    /// Adds an agent that was created after all others.
    pub(crate) fn add(&mut self, agent: Arc<Agent>) {
        self.order.push(agent.id());
        self.living.insert(agent.id(), agent);
    }

    /// Removes an agent that was killed. It may stay in view.
    pub(crate) fn remove(&mut self, id: AgentId) -> Option<Arc<Agent>> {
        self.order.retain(|other| *other != id);
        self.living.remove(&id)
    }

    /// Returns the agent that the user sees and talks to.
    pub(crate) fn in_view(&self) -> &Arc<Agent> {
        &self.view
    }

    /// Changes the agent in view.
    pub(crate) fn set_view(&mut self, agent: Arc<Agent>) {
        self.view = agent;
    }

    pub(crate) fn root(&self) -> &Arc<Agent> {
        // The root is never removed.
        self.order.first().and_then(|root| self.living.get(root)).unwrap_or(&self.view)
    }

    /// Returns the living agent `id`, or the agent in view if it has that id.
    pub(crate) fn get(&self, id: AgentId) -> Option<&Arc<Agent>> {
        self.living.get(&id).or_else(|| (self.view.id() == id).then_some(&self.view))
    }

    /// Returns the living agents in the order of their creation.
    pub(crate) fn living(&self) -> impl ExactSizeIterator<Item = &Arc<Agent>> {
        // Both collections have the same agents.
        self.order.iter().map(|id| self.living.get(id).unwrap_or(&self.view))
    }

    /// Returns the agent `id` and its living descendants: the agent first, then the others in the order of their creation.
    pub(crate) fn with_descendants(&self, id: AgentId) -> Vec<Arc<Agent>> {
        let below = self.living().filter(|agent| agent.ancestors().contains(&id));
        self.living.get(&id).into_iter().chain(below).cloned().collect()
    }
}

/// Makes the agents of one session.
pub(crate) struct AgentFactory {
    pub(crate) hold: Hold,
    pub(crate) workspace: String,
    pub(crate) principal: PrincipalId,
    pub(crate) approvals: ApprovalSlot,
    pub(crate) requests: Arc<Requests>,
    pub(crate) results: Arc<ResultRoom>,
    pub(crate) log: Arc<EventLog>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) settings: AgentSettings,
}

/// The properties of one agent, as opposed to its session.
pub(crate) struct AgentParts {
    pub(crate) id: AgentId,
    /// The agent's parent, grandparent, and so on up to the root.
    pub(crate) ancestors: Vec<AgentId>,
    /// The agent's depth below the root, as limits count it.
    pub(crate) depth: u64,
    pub(crate) is_rewound: bool,
    pub(crate) foreground: bool,
    pub(crate) chosen: Chosen,
    /// Number of tokens that the agent has used.
    pub(crate) tokens: u64,
}

impl AgentParts {
    /// Returns the properties of a stored agent.
    pub(crate) fn of(row: &AgentRow, ancestors: Vec<AgentId>) -> Self {
        let AgentRow { id, depth, foreground, tokens, .. } = *row;
        let (is_rewound, chosen) = (row.rewound.is_some(), Chosen::from_row(&row.model));
        Self { id, ancestors, depth, is_rewound, foreground, chosen, tokens }
    }
}

impl AgentFactory {
    pub(crate) fn make(&self, parts: AgentParts) -> Arc<Agent> {
        let AgentParts { id, ancestors, depth, is_rewound, foreground, chosen, tokens } = parts;
        let place = AgentContext {
            hold: self.hold.clone(),
            agent: id,
            ancestors,
            depth,
            is_rewound,
            foreground,
            requests: Arc::clone(&self.requests),
            results: Arc::clone(&self.results),
            workspace: self.workspace.clone(),
            principal: self.principal.clone(),
            approvals: self.approvals.clone(),
        };
        let (log, model, tools) = (Arc::clone(&self.log), Arc::clone(&self.model), Arc::clone(&self.tools));
        Agent::new(place, log, model, tools, self.settings.clone(), chosen, tokens)
    }
}
