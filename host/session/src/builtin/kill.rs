//! `/kill [UUID]`: ends an agent and its descendants.

use patchbay_command::{Argument, Completion, Spec};

use super::{BuiltIn, CommandKind, Effect, EffectFuture};
use crate::{line::context::LineContext, tree::kill::KilledBy};

pub(crate) struct KillCommand;

static SPEC: Spec = Spec {
    name: "kill",
    argument: Argument::Optional { usage: "[UUID]" },
    summary: "End an agent and its descendants; without a UUID, the agent in view",
    completion: Completion::Agents,
};

impl BuiltIn for KillCommand {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn kind(&self) -> CommandKind {
        CommandKind::Overtakes
    }

    fn run<'a>(&'a self, line: &'a LineContext, argument: &'a str) -> EffectFuture<'a> {
        Box::pin(async move {
            let own = line.agent.id().to_string();
            let uuid = if argument.is_empty() { &own } else { argument };
            match line.session.find_agent(uuid).await {
                Ok(target) => Effect::Prepare(line.session.kill(target, KilledBy::Person)),
                Err(outcome) => outcome.into(),
            }
        })
    }
}
