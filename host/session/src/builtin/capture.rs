//! `/capture`: from here on, lines to the agent in view are kept for `/fork`, and not sent to a model.

use patchbay_command::{Argument, Completion, Spec};

use super::{BuiltIn, Effect};

pub(super) static COMMAND: BuiltIn = BuiltIn {
    needs_living_agent: true,
    ..BuiltIn::new(
        Spec {
            name: "capture",
            argument: Argument::None,
            summary: "Keep the next lines as the task of a child; /fork sends them, /cancel does not",
            completion: Completion::None,
        },
        |line, _| Box::pin(async move { Effect::Prepare(line.session.change_capture(line.agent.id(), true)) }),
    )
};
