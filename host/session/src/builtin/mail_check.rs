//! `/mail-check`: lists the inbox of the agent in view.

use patchbay_command::{Argument, Completion, Spec};

use super::BuiltIn;

pub(super) static COMMAND: BuiltIn = BuiltIn::new(
    Spec {
        name: "mail-check",
        argument: Argument::None,
        summary: "List the inbox of the agent in view, unread mail first",
        completion: Completion::None,
    },
    |line, _| {
        Box::pin(async move {
            let listed = line.session.list_mail(line.agent.id(), None).await;
            listed.map_or_else(|outcome| outcome, |(outcome, _)| outcome).into()
        })
    },
);
