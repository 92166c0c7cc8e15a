//! `/cancel`: ends capturing. What was captured stays visible and is not sent.

use patchbay_command::{Argument, Completion, Spec};

use super::{BuiltIn, Effect, EffectFuture};
use crate::line::context::LineContext;

pub(crate) struct CancelCommand;

static SPEC: Spec = Spec {
    name: "cancel",
    argument: Argument::None,
    summary: "End capturing without a child",
    completion: Completion::None,
};

impl BuiltIn for CancelCommand {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn run<'a>(&'a self, line: &'a LineContext, _: &'a str) -> EffectFuture<'a> {
        Box::pin(async move { Effect::Prepare(line.session.change_capture(line.agent.id(), false)) })
    }
}
