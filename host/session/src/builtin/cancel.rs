//! `/cancel`: ends capturing. Captured lines stay visible and are not sent.

use patchbay_command::{Argument, Completion, Spec};

use super::{BuiltIn, Effect};

pub(super) static COMMAND: BuiltIn = BuiltIn::new(
    Spec {
        name: "cancel",
        argument: Argument::None,
        summary: "Stop capturing without creating a child",
        completion: Completion::None,
    },
    |line, _| Box::pin(async move { Effect::Prepare(line.session.change_capture(line.agent.id(), false)) }),
);
