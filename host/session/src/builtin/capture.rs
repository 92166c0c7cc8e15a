//! `/capture`: from here on, lines to the agent in view are kept for `/fork`, and not sent to a model.

use patchbay_command::{Argument, Completion, Spec};

use super::{BuiltIn, Effect, EffectFuture};
use crate::line::context::LineContext;

pub(crate) struct CaptureCommand;

static SPEC: Spec = Spec {
    name: "capture",
    argument: Argument::None,
    summary: "Keep the next lines as the task of a child; /fork sends them, /cancel does not",
    completion: Completion::None,
};

impl BuiltIn for CaptureCommand {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn needs_living_agent(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, line: &'a LineContext, _: &'a str) -> EffectFuture<'a> {
        Box::pin(async move { Effect::Prepare(line.session.change_capture(line.agent.id(), true)) })
    }
}
