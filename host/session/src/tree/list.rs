//! The list of agents: `/agents`, completion, and what fronts show.

use std::{collections::HashMap, sync::Arc};

use patchbay_agent::{Agent, Chosen};
use patchbay_core::{AgentId, text};
use patchbay_store::{AgentRow, StoreError};

use super::fork::shown_model;
use crate::Session;

/// Number of dead agents that are listed.
const DEAD: u32 = 10;

/// An agent as a front shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentInfo {
    /// Its UUID.
    pub id: AgentId,
    /// Its parent; `None` for the root.
    pub parent: Option<AgentId>,
    /// Levels below the root.
    pub depth: usize,
    /// Whether the user sees it and talks to it.
    pub in_view: bool,
    /// Whether it is alive.
    pub alive: bool,
    /// What it does.
    pub state: AgentState,
    /// Its model, as `PROVIDER/MODEL/LEVEL`.
    pub model: String,
    /// Number of unread mails.
    pub unread: u64,
    /// Tokens that its requests used.
    pub tokens: u64,
}

/// What an agent does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// Nothing.
    Idle,
    /// A turn.
    Working,
    /// A turn, which waits until fewer requests are under way.
    Waiting,
    /// A turn, which waits for a person's answer.
    Asking,
    /// Nothing, until the next message of a person.
    Held,
}

impl AgentState {
    /// Returns whether the agent runs a turn.
    pub fn is_turn(self) -> bool {
        matches!(self, Self::Working | Self::Waiting | Self::Asking)
    }

    /// Returns the word of `/agents`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Asking => "asking",
            Self::Held => "held",
        }
    }
}

/// The agents of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentTree {
    /// The living agents, children after their parents.
    pub living: Vec<AgentInfo>,
    /// The last agents that were killed, in the order of their creation.
    pub dead: Vec<AgentInfo>,
    /// Number of dead agents that are not in `dead`.
    pub more_dead: u64,
}

impl Session {
    /// Returns the agents of the session.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn agent_tree(&self) -> Result<AgentTree, StoreError> {
        let store = self.log().store();
        let unread: HashMap<AgentId, u64> = store.unread_mail(self.id()).await?.into_iter().collect();
        let (living, view) = {
            let agents = self.agents();
            (agents.living().cloned().collect::<Vec<_>>(), agents.in_view().id())
        };
        let mut tree = AgentTree::default();
        for agent in in_tree_order(&living) {
            tree.living.push(AgentInfo {
                id: agent.id(),
                parent: agent.parent(),
                depth: agent.ancestors().len(),
                in_view: agent.id() == view,
                alive: true,
                state: self.state_of(agent),
                model: self.shown_model_of(&agent.chosen()).await,
                unread: unread.get(&agent.id()).copied().unwrap_or_default(),
                tokens: agent.tokens(),
            });
        }
        let (dead, all) = store.dead_agents(self.id(), DEAD).await?;
        tree.more_dead = all.saturating_sub(dead.len() as u64);
        for AgentRow { id, parent, model, tokens, .. } in dead {
            tree.dead.push(AgentInfo {
                id,
                parent,
                depth: 0,
                in_view: id == view,
                alive: false,
                state: AgentState::Idle,
                model: self.shown_model_of(&Chosen::from_row(&model)).await,
                unread: unread.get(&id).copied().unwrap_or_default(),
                tokens,
            });
        }
        Ok(tree)
    }

    /// Returns the number of agents that run a turn.
    pub fn working_agents(&self) -> usize {
        self.agents().living().filter(|agent| agent.is_answering()).count()
    }

    fn state_of(&self, agent: &Agent) -> AgentState {
        let asks = || self.approvals.get().is_some_and(|approvals| approvals.is_asking(agent.id()));
        match agent.is_answering() {
            _ if asks() => AgentState::Asking,
            true if agent.waits_for_place() => AgentState::Waiting,
            true => AgentState::Working,
            false if self.queue.is_stopped(agent.id()) => AgentState::Held,
            false => AgentState::Idle,
        }
    }

    async fn shown_model_of(&self, chosen: &Chosen) -> String {
        match chosen.effective(self.host.providers.as_ref()).await {
            Ok(choice) => shown_model(&choice),
            Err(_) => "no model".to_owned(),
        }
    }
}

/// Returns the agents so that each is followed by its descendants; siblings are in the order of their creation.
fn in_tree_order(agents: &[Arc<Agent>]) -> Vec<&Arc<Agent>> {
    let mut children: HashMap<Option<AgentId>, Vec<&Arc<Agent>>> = HashMap::new();
    for agent in agents {
        children.entry(agent.parent()).or_default().push(agent);
    }
    let mut ordered = Vec::with_capacity(agents.len());
    let mut next: Vec<&Arc<Agent>> = children.remove(&None).unwrap_or_default();
    while let Some(agent) = next.pop() {
        ordered.push(agent);
        next.extend(children.remove(&Some(agent.id())).into_iter().flatten().rev());
    }
    ordered
}

impl AgentTree {
    /// Returns the lines of `/agents`.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |agent: &AgentInfo| {
            let AgentInfo { id, depth, in_view, alive, state, model, unread, tokens, .. } = agent;
            let indent = 2 * depth;
            let mark = if *in_view { '*' } else { ' ' };
            // A dead agent does nothing, so it has no state.
            let life = if *alive { format!("running {}", state.as_str()) } else { "dead".to_owned() };
            let (id, tokens) = (id.short(), text::with_commas(*tokens));
            format!("{:indent$}{mark} {id} {life} {model}, {unread} unread, {tokens} tokens", "")
        };
        let mut lines: Vec<String> = self.living.iter().chain(&self.dead).map(line).collect();
        match self.more_dead {
            0 => {}
            1 => lines.push("1 more is dead.".to_owned()),
            more => lines.push(format!("{} more are dead.", text::with_commas(more))),
        }
        lines
    }
}
