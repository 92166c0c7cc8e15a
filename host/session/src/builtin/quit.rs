//! `/quit`: asks the front to leave. Everything is already stored.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};

use super::{BuiltIn, CommandKind, EffectFuture};
use crate::line::context::LineContext;

pub(crate) struct QuitCommand;

static SPEC: Spec = Spec {
    name: "quit",
    argument: Argument::None,
    summary: "Leave; the session is kept",
    completion: Completion::None,
};

impl BuiltIn for QuitCommand {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn kind(&self) -> CommandKind {
        CommandKind::Overtakes
    }

    fn run<'a>(&'a self, line: &'a LineContext, _: &'a str) -> EffectFuture<'a> {
        Box::pin(async {
            let (host, id) = (&line.session.host, line.session.id());
            // If the store cannot be read, the whole id does as well.
            let short = host.store.short_id(id).await.unwrap_or_else(|_| id.to_string());
            Outcome::ok(Code::Quit, format!("The session is kept. To go on: {} --session {short}", host.program)).into()
        })
    }
}
