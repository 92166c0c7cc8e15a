//! `/agents`: lists the agents of the session.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};
use serde_json::json;

use super::{BuiltIn, CommandKind};
use crate::tree::list::AgentInfo;

pub(super) static COMMAND: BuiltIn = BuiltIn {
    kind: CommandKind::Shows,
    ..BuiltIn::new(
        Spec {
            name: "agents",
            argument: Argument::None,
            summary: "List the agents, what they do, their models, mail and tokens",
            completion: Completion::None,
        },
        |line, _| {
            Box::pin(async move {
                match line.session.agent_tree().await {
                    Ok(tree) => {
                        let agents: Vec<_> = tree.living.iter().chain(&tree.dead).map(data).collect();
                        let data = json!({"agents": agents, "more_dead": tree.more_dead});
                        Outcome::ok(Code::AgentsListed, tree.lines().join("\n")).with_data(data).into()
                    }
                    Err(error) => Outcome::error(error.code(), format_args!("{error}.")).into(),
                }
            })
        },
    )
};

fn data(agent: &AgentInfo) -> serde_json::Value {
    let AgentInfo { id, parent, depth: _, in_view, alive, state, age, task, action, model, unread, tokens } = agent;
    json!({
        "agent": id, "parent": parent, "in_view": in_view, "alive": alive, "state": alive.then(|| state.as_str()),
        "age_s": age.map(|age| age.as_secs()), "task": task, "action": action, "model": model, "unread": unread, "tokens": tokens,
    })
}
