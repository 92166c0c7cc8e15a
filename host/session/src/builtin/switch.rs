//! `/switch UUID|parent|root`: moves the view to another agent. No running agent is disturbed.

use patchbay_command::{Argument, Completion, Spec};

use super::{BuiltIn, CommandKind, Effect, EffectFuture};
use crate::line::context::LineContext;

pub(crate) struct SwitchCommand;

static SPEC: Spec = Spec {
    name: "switch",
    argument: Argument::Required { usage: "UUID|parent|root", what: "an agent" },
    summary: "Look at and talk to another agent",
    completion: Completion::Agents,
};

impl BuiltIn for SwitchCommand {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn moves_view(&self) -> bool {
        true
    }

    fn kind(&self) -> CommandKind {
        CommandKind::Overtakes
    }

    fn run<'a>(&'a self, line: &'a LineContext, argument: &'a str) -> EffectFuture<'a> {
        Box::pin(async move {
            match line.session.switch_target(&line.agent, argument).await {
                Ok(target) => Effect::Prepare(line.session.switch(target)),
                Err(outcome) => outcome.into(),
            }
        })
    }
}
