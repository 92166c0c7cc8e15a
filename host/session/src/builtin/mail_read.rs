//! `/mail-read N`: shows a mail of the agent in view and marks it as read.

use patchbay_command::{Argument, Completion, Spec};

use super::{BuiltIn, Effect};
use crate::mail::number;

pub(super) static COMMAND: BuiltIn = BuiltIn::new(
    Spec {
        name: "mail-read",
        argument: Argument::Required { usage: "N", what: "a message number" },
        summary: "Show a mail and mark it as read",
        completion: Completion::None,
    },
    |line, argument| {
        Box::pin(async move {
            match number(argument) {
                Ok(number) => Effect::Prepare(line.session.read_mail(line.agent.id(), number)),
                Err(outcome) => outcome.into(),
            }
        })
    },
);
