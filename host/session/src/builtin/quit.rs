//! `/quit`: asks the front to leave. Everything is already stored.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};

use super::{BuiltIn, EffectFuture};
use crate::lines::LineContext;

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

    fn run<'a>(&'a self, line: &'a LineContext, _: &'a str) -> EffectFuture<'a> {
        Box::pin(async {
            let (program, id) = (&line.session.host.program, line.session.id());
            Outcome::ok(Code::Quit, format!("The session is kept. To go on: {program} --session {id}")).into()
        })
    }
}
