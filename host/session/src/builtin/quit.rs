//! `/quit`: asks the front to leave. Everything is already stored.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};

use super::{BuiltIn, CommandKind};

pub(super) static COMMAND: BuiltIn = BuiltIn {
    kind: CommandKind::Overtakes,
    ..BuiltIn::new(
        Spec {
            name: "quit",
            argument: Argument::None,
            summary: "Leave; the session is kept",
            completion: Completion::None,
        },
        |line, _| {
            Box::pin(async {
                let (host, id) = (&line.session.host, line.session.id());
                // If the store cannot be read, the whole id is used instead.
                let short = host.store.short_id(id).await.unwrap_or_else(|_| id.to_string());
                Outcome::ok(Code::Quit, format!("The session is kept. To continue: {} --session {short}", host.program))
                    .into()
            })
        },
    )
};
