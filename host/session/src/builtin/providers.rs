//! `/providers`: what providers there are, and where each stands.

use std::sync::Arc;

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};
use serde_json::json;

use super::{BuiltIn, Run};
use crate::{Session, session::State};

pub(crate) struct Providers;

static SPEC: Spec = Spec {
    name: "providers",
    argument: Argument::None,
    summary: "List the model providers",
    completion: Completion::None,
};

impl BuiltIn for Providers {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn run<'a>(&'a self, session: &'a Arc<Session>, _: &'a State, _: &'a str) -> Run<'a> {
        Box::pin(async move {
            let providers = session.host.providers.list().await;
            let text = patchbay_provider::render(&providers);
            Outcome::ok(Code::ProvidersListed, text).with_data(json!({"providers": providers})).into()
        })
    }
}
