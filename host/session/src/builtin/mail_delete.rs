//! `/mail-delete N`: deletes a mail of the agent in view.

use patchbay_command::{Argument, Completion, Spec};

use super::{BuiltIn, Effect, EffectFuture};
use crate::{line::context::LineContext, mail::number};

pub(crate) struct MailDeleteCommand;

static SPEC: Spec = Spec {
    name: "mail-delete",
    argument: Argument::Required { usage: "N", what: "a message number" },
    summary: "Delete a mail",
    completion: Completion::None,
};

impl BuiltIn for MailDeleteCommand {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn run<'a>(&'a self, line: &'a LineContext, argument: &'a str) -> EffectFuture<'a> {
        Box::pin(async move {
            match number(argument) {
                Ok(number) => Effect::Prepare(line.session.delete_mail(line.agent.id(), number)),
                Err(outcome) => outcome.into(),
            }
        })
    }
}
