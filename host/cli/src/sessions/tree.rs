//! `patchbay sessions show --tree`: the agents of a stored session, children under their parents.

use std::collections::{BTreeMap, HashMap};

use patchbay_core::{AgentId, SessionId, text};
use patchbay_store::{AgentCounts, AgentModel, AgentRow, Store};
use serde_json::{Value, json};

use super::count;
use crate::{CliError, out::print_line};

/// Prints a line for each agent. `view` is the agent in view.
pub(super) async fn print(store: &Store, session: SessionId, view: AgentId, json: bool) -> Result<(), CliError> {
    let mut agents = store.agents(session).await?;
    agents.extend(store.dead_agents(session, u32::MAX).await?.0);
    agents.sort_by_key(|agent| agent.ordinal);
    let counts: HashMap<AgentId, AgentCounts> = store.agent_counts(session).await?.into_iter().collect();
    for (depth, agent) in in_tree_order(&agents) {
        let counts = counts.get(&agent.id).copied().unwrap_or_default();
        let in_view = agent.id == view;
        let shown = if json { object(agent, counts, in_view).to_string() } else { line(depth, agent, counts, in_view) };
        if !print_line(format_args!("{shown}")) {
            break;
        }
    }
    Ok(())
}

/// Returns the agents with their depths, each followed by its descendants. `agents` are in the order of their creation.
fn in_tree_order(agents: &[AgentRow]) -> Vec<(usize, &AgentRow)> {
    let mut children: BTreeMap<Option<AgentId>, Vec<&AgentRow>> = BTreeMap::new();
    for agent in agents {
        children.entry(agent.parent).or_default().push(agent);
    }
    let roots = children.remove(&None).unwrap_or_default();
    let mut next: Vec<(usize, &AgentRow)> = roots.into_iter().rev().map(|agent| (0, agent)).collect();
    let mut ordered = Vec::with_capacity(agents.len());
    while let Some((depth, agent)) = next.pop() {
        ordered.push((depth, agent));
        let below = children.remove(&Some(agent.id)).unwrap_or_default();
        next.extend(below.into_iter().rev().map(|child| (depth + 1, child)));
    }
    ordered
}

/// Returns the line of an agent: `* a1b2c3d4 running demo/demo-1/default, 1,234 tokens, 3 turns, 2 mail messages (1
/// unread)`.
fn line(depth: usize, agent: &AgentRow, counts: AgentCounts, in_view: bool) -> String {
    let (indent, mark) = (2 * depth, if in_view { '*' } else { ' ' });
    let unread = if counts.unread > 0 { format!(" ({} unread)", counts.unread) } else { String::new() };
    format!(
        "{:indent$}{mark} {} {} {}, {} tokens, {}, {}{unread}",
        "",
        agent.id.short(),
        status(agent),
        model(&agent.model).unwrap_or_else(|| "default model".to_owned()),
        text::with_commas(agent.tokens),
        count(usize::try_from(counts.turns).unwrap_or(usize::MAX), "turn"),
        count(usize::try_from(counts.mails).unwrap_or(usize::MAX), "mail message"),
    )
}

fn object(agent: &AgentRow, counts: AgentCounts, in_view: bool) -> Value {
    json!({
        "agent": agent.id,
        "parent": agent.parent,
        "rewound": agent.rewound,
        "fork_point": agent.fork_point,
        "status": status(agent),
        "foreground": agent.foreground,
        "in_view": in_view,
        "model": model(&agent.model),
        "tokens": agent.tokens,
        "turns": counts.turns,
        "mails": counts.mails,
        "unread": counts.unread,
    })
}

fn status(agent: &AgentRow) -> &'static str {
    if agent.alive { "running" } else { "dead" }
}

/// Returns the chosen model as `PROVIDER/MODEL/LEVEL`, with a model that replaces it; `None` if there is neither.
fn model(chosen: &AgentModel) -> Option<String> {
    let AgentModel { provider, model, thinking_level, model_override } = chosen;
    let level = thinking_level.as_deref().unwrap_or("default");
    let own = provider.as_ref().zip(model.as_ref()).map(|(provider, model)| format!("{provider}/{model}/{level}"));
    let replaced = model_override.as_deref().and_then(|json| serde_json::from_str::<Value>(json).ok());
    let replaced = replaced.and_then(|replaced| Some(replaced.get("value")?.as_str()?.to_owned()));
    let shown = match (own, replaced) {
        (own, None) => own?,
        (Some(own), Some(replaced)) => format!("{own} (now {replaced})"),
        (None, Some(replaced)) => format!("default model (now {replaced})"),
    };
    Some(text::clean_line(&shown))
}
