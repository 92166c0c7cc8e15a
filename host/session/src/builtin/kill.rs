//! `/kill [UUID]`: ends an agent and its descendants.

use patchbay_command::{Argument, Completion, Spec};

use super::{BuiltIn, CommandKind, Effect};
use crate::tree::kill::KilledBy;

pub(super) static COMMAND: BuiltIn = BuiltIn {
    kind: CommandKind::Overtakes,
    ..BuiltIn::new(
        Spec {
            name: "kill",
            argument: Argument::Optional { usage: "[UUID]" },
            summary: "End an agent and its descendants; without a UUID, the agent in view",
            completion: Completion::Agents,
        },
        |line, argument| {
            Box::pin(async move {
                let own = line.agent.id().to_string();
                let uuid = if argument.is_empty() { &own } else { argument };
                match line.session.find_agent(uuid).await {
                    Ok(target) => Effect::Prepare(line.session.kill(target, KilledBy::Person)),
                    Err(outcome) => outcome.into(),
                }
            })
        },
    )
};
