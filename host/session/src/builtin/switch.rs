//! `/switch UUID|parent|root`: moves the view to another agent. No running agent is disturbed.

use patchbay_command::{Argument, Completion, Spec};

use super::{BuiltIn, CommandKind, Effect};

pub(super) static COMMAND: BuiltIn = BuiltIn {
    moves_view: true,
    kind: CommandKind::Overtakes,
    ..BuiltIn::new(
        Spec {
            name: "switch",
            argument: Argument::Required { usage: "UUID|parent|root", what: "an agent" },
            summary: "Look at and talk to another agent",
            completion: Completion::Agents,
        },
        |line, argument| {
            Box::pin(async move {
                match line.session.switch_target(&line.agent, argument).await {
                    Ok(target) => Effect::Prepare(line.session.switch(target)),
                    Err(outcome) => outcome.into(),
                }
            })
        },
    )
};
