//! `/quit`: the front leaves. Everything is stored already.

use std::sync::Arc;

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};

use super::{BuiltIn, Run};
use crate::{Session, session::State};

pub(crate) struct Quit;

static SPEC: Spec = Spec {
    name: "quit",
    argument: Argument::None,
    summary: "Leave; the session is kept",
    completion: Completion::None,
};

impl BuiltIn for Quit {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn run<'a>(&'a self, session: &'a Arc<Session>, _: &'a State, _: &'a str) -> Run<'a> {
        Box::pin(async {
            let (program, id) = (&session.host.program, session.id());
            Outcome::ok(Code::Quit, format!("The session is kept. To go on: {program} --session {id}")).into()
        })
    }
}
