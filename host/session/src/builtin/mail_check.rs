//! `/mail-check`: lists the inbox of the agent in view.

use patchbay_command::{Argument, Completion, Spec};

use super::{BuiltIn, EffectFuture};
use crate::line::context::LineContext;

pub(crate) struct MailCheckCommand;

static SPEC: Spec = Spec {
    name: "mail-check",
    argument: Argument::None,
    summary: "List the inbox of the agent in view, unread mail first",
    completion: Completion::None,
};

impl BuiltIn for MailCheckCommand {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn run<'a>(&'a self, line: &'a LineContext, _: &'a str) -> EffectFuture<'a> {
        Box::pin(async move {
            let listed = line.session.list_mail(line.agent.id(), None).await;
            listed.map_or_else(|outcome| outcome, |(outcome, _)| outcome).into()
        })
    }
}
