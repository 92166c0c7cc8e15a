//! `/mail-read N`: shows a mail of the agent in view and marks it as read.

use patchbay_command::{Argument, Completion, Spec};

use super::{BuiltIn, Effect, EffectFuture};
use crate::{line::context::LineContext, mail::number};

pub(crate) struct MailReadCommand;

static SPEC: Spec = Spec {
    name: "mail-read",
    argument: Argument::Required { usage: "N", what: "a message number" },
    summary: "Show a mail and mark it as read",
    completion: Completion::None,
};

impl BuiltIn for MailReadCommand {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn run<'a>(&'a self, line: &'a LineContext, argument: &'a str) -> EffectFuture<'a> {
        Box::pin(async move {
            match number(argument) {
                Ok(number) => Effect::Prepare(line.session.read_mail(line.agent.id(), number)),
                Err(outcome) => outcome.into(),
            }
        })
    }
}
