//! The list of agents, for `/agents`, completion and fronts.

use std::{collections::HashMap, sync::Arc, time::Duration};

use patchbay_agent::{Agent, Chosen};
use patchbay_core::{AgentId, text};
use patchbay_store::{AgentRow, AgentWork, StoreError};
use patchbay_tools::Asked;

use super::fork::shown_model;
use crate::{Session, recap};

/// Maximum number of dead agents that are listed.
const DEAD: u32 = 10;
/// Length limits, in characters, of a task and of an agent's last action.
const TASK: usize = 40;
const ACTION: usize = 60;

/// An agent as a front shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentInfo {
    /// The UUID that identifies the agent.
    pub id: AgentId,
    /// Its parent; `None` for the root.
    pub parent: Option<AgentId>,
    /// Number of levels below the root.
    pub depth: usize,
    /// Whether the user sees it and talks to it.
    pub in_view: bool,
    /// Whether the agent is alive or was killed.
    pub alive: bool,
    /// The current activity of the agent.
    pub state: AgentState,
    /// The time since its turn began, since its question was asked, or since its last message was stored, depending on `state`.
    /// `None` if it has no message, and for a dead agent.
    pub age: Option<Duration>,
    /// The beginning of the last message from the user or from the agent that forked it; `None` before the first message.
    pub task: Option<String>,
    /// The tool that it last called for its task, or its question that waits for an answer; `None` if there is neither.
    pub action: Option<String>,
    /// Its model, as `PROVIDER/MODEL/LEVEL`.
    pub model: String,
    /// Number of unread messages in its inbox.
    pub unread: u64,
    /// Tokens that its requests used.
    pub tokens: u64,
}

/// The current activity of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum AgentState {
    /// The agent is not doing anything.
    Idle,
    /// The agent is running a turn.
    Working,
    /// The agent's turn waits until fewer requests are under way.
    Waiting,
    /// The agent's turn waits for the user's answer.
    Asking,
    /// The agent begins no turn until the user's next message.
    Held,
}

impl AgentState {
    /// Returns whether the agent runs a turn.
    pub fn is_turn(self) -> bool {
        matches!(self, Self::Working | Self::Waiting | Self::Asking)
    }

    /// Returns the word that `/agents` shows.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The tree of agents of a session.
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
    /// The store could not be read or written.
    pub async fn agent_tree(&self) -> Result<AgentTree, StoreError> {
        let store = self.log().store();
        let unread: HashMap<AgentId, u64> = store.unread_mail(self.id()).await?.into_iter().collect();
        let (living, view) = {
            let agents = self.agents();
            (agents.living().cloned().collect::<Vec<_>>(), agents.in_view().id())
        };
        let mut tree = AgentTree::default();
        for agent in in_tree_order(&living) {
            let work = store.agent_work(self.id(), agent.id()).await?;
            let asked = self.asked_by(agent.id());
            let (age, action) = match &asked {
                Some(asked) => (Some(asked.since.elapsed()), Some(text::excerpt(&asked.title, ACTION))),
                None => (work.age_s.map(Duration::from_secs), last_action(&work)),
            };
            tree.living.push(AgentInfo {
                id: agent.id(),
                parent: agent.parent(),
                depth: agent.ancestors().len(),
                in_view: agent.id() == view,
                alive: true,
                state: self.state_of(agent, asked.is_some()),
                age,
                task: task(&work),
                action,
                model: self.shown_model_of(&agent.chosen()).await,
                unread: unread.get(&agent.id()).copied().unwrap_or_default(),
                tokens: agent.tokens(),
            });
        }
        let (dead, all) = store.dead_agents(self.id(), DEAD).await?;
        tree.more_dead = all.saturating_sub(dead.len() as u64);
        for AgentRow { id, parent, model, tokens, .. } in dead {
            let work = store.agent_work(self.id(), id).await?;
            tree.dead.push(AgentInfo {
                id,
                parent,
                depth: 0,
                in_view: id == view,
                alive: false,
                state: AgentState::Idle,
                age: None,
                task: task(&work),
                action: last_action(&work),
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

    fn asked_by(&self, agent: AgentId) -> Option<Asked> {
        self.approvals.get()?.asked_by(agent)
    }

    fn state_of(&self, agent: &Agent, is_asking: bool) -> AgentState {
        match agent.is_answering() {
            _ if is_asking => AgentState::Asking,
            true if agent.waits_for_permit() => AgentState::Waiting,
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

/// Returns the agents in tree order: each is followed by its descendants, and siblings are sorted by creation.
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

fn task(work: &AgentWork) -> Option<String> {
    work.task.as_ref().map(|task| recap::first_words(task, TASK)).filter(|task| !task.is_empty())
}

fn last_action(work: &AgentWork) -> Option<String> {
    work.last_tool.as_ref().map(|tool| text::excerpt(tool, ACTION))
}

impl AgentInfo {
    /// Returns the line of `/agents`, such as
    /// `* a1b2c3d4 working 12 s "Read the logs" → grep__search, demo/demo-1/default, 0 unread, 9 tokens`.
    fn line(&self) -> String {
        let Self { id, depth, in_view, alive, state, age, task, action, model, unread, tokens, .. } = self;
        let indent = 2 * depth;
        let mark = if *in_view { '*' } else { ' ' };
        // A dead agent does nothing.
        let mut work = if *alive { state.as_str() } else { "dead" }.to_owned();
        // The time is only interesting during a turn, or after a minute.
        let is_shown = |age: &Duration| state.is_turn() || *age >= Duration::from_secs(60);
        work.extend(age.filter(is_shown).map(|age| format!(" {}", shown_age(age))));
        work.extend(task.as_ref().map(|task| format!(" \"{task}\"")));
        work.extend(action.as_ref().map(|action| format!(" → {action}")));
        let (id, tokens) = (id.short(), text::with_commas(*tokens));
        format!("{:indent$}{mark} {id} {work}, {model}, {unread} unread, {tokens} tokens", "")
    }
}

/// Formats a duration in its largest unit.
fn shown_age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h", seconds / 3_600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

impl AgentTree {
    /// Returns the lines of `/agents`.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.living.iter().chain(&self.dead).map(AgentInfo::line).collect();
        match self.more_dead {
            0 => {}
            1 => lines.push("1 more is dead.".to_owned()),
            more => lines.push(format!("{} more are dead.", text::with_commas(more))),
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(state: AgentState) -> AgentInfo {
        AgentInfo {
            id: AgentId::from_bytes([0xa1; 16]),
            parent: None,
            depth: 1,
            in_view: false,
            alive: true,
            state,
            age: Some(Duration::from_secs(12)),
            task: Some("Read the logs".to_owned()),
            action: Some("grep__search".to_owned()),
            model: "demo/demo-1/default".to_owned(),
            unread: 2,
            tokens: 1_234,
        }
    }

    #[test]
    fn line_has_one_state_the_task_and_the_last_action() {
        let rest = "demo/demo-1/default, 2 unread, 1,234 tokens";
        let did = "\"Read the logs\" → grep__search";
        let line = agent(AgentState::Working).line();
        assert_eq!(line, format!("    a1a1a1a1 working 12 s {did}, {rest}"));
        assert_eq!(agent(AgentState::Idle).line(), format!("    a1a1a1a1 idle {did}, {rest}"));
        let old = AgentInfo { age: Some(Duration::from_secs(7_300)), ..agent(AgentState::Held) };
        assert_eq!(old.line(), format!("    a1a1a1a1 held 2 h {did}, {rest}"));
        let asking = AgentInfo { action: Some("Delete a: −3?".to_owned()), ..agent(AgentState::Asking) };
        assert_eq!(asking.line(), format!("    a1a1a1a1 asking 12 s \"Read the logs\" → Delete a: −3?, {rest}"));
        let dead = AgentInfo { alive: false, age: None, ..agent(AgentState::Idle) };
        assert_eq!(dead.line(), format!("    a1a1a1a1 dead {did}, {rest}"));
        let new = AgentInfo { age: None, task: None, action: None, depth: 0, in_view: true, ..agent(AgentState::Idle) };
        assert_eq!(new.line(), format!("* a1a1a1a1 idle, {rest}"));
    }

    #[test]
    fn ages_have_one_unit() {
        let shown = [0, 59, 60, 3_599, 3_600, 86_399, 90_000].map(|seconds| shown_age(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0 s", "59 s", "1 min", "59 min", "1 h", "23 h", "1 d"]);
    }
}
