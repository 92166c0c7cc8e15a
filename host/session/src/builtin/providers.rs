//! `/providers`: lists the providers and their states.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};
use serde_json::json;

use super::{BuiltIn, EffectFuture};
use crate::lines::LineContext;

pub(crate) struct ProvidersCommand;

static SPEC: Spec = Spec {
    name: "providers",
    argument: Argument::None,
    summary: "List the model providers",
    completion: Completion::None,
};

impl BuiltIn for ProvidersCommand {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn run<'a>(&'a self, line: &'a LineContext, _: &'a str) -> EffectFuture<'a> {
        Box::pin(async move {
            let mut providers = line.session.host.providers.list().await;
            // If no model can be used, no provider is marked as in use.
            if let Ok(choice) = line.session.model_of(&line.agent).await
                && let Some(provider) = providers.iter_mut().find(|provider| provider.name == choice.provider.as_str())
            {
                provider.in_use = Some(choice.as_argument());
            }
            let text = patchbay_provider::render(&providers);
            Outcome::ok(Code::ProvidersListed, text).with_data(json!({"providers": providers})).into()
        })
    }
}
