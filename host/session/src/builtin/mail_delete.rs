//! `/mail-delete N`: deletes a mail of the agent in view.

use patchbay_command::{Argument, Completion, Spec};

use super::{BuiltIn, Effect};
use crate::mail::number;

pub(super) static COMMAND: BuiltIn = BuiltIn::new(
    Spec {
        name: "mail-delete",
        argument: Argument::Required { usage: "N", what: "a message number" },
        summary: "Delete a mail",
        completion: Completion::None,
    },
    |line, argument| {
        Box::pin(async move {
            match number(argument) {
                Ok(number) => Effect::Prepare(line.session.delete_mail(line.agent.id(), number)),
                Err(outcome) => outcome.into(),
            }
        })
    },
);
