//! Completions by the model of the agent that runs the tool. A completion is an effect: it costs tokens.
use patchbay_sandbox::{CompletionFuture, Fault, Inference};

use super::{CallServices, NOT_RECORDED};

impl Inference for CallServices {
    fn complete<'a>(&'a self, system: &'a str, prompt: &'a str, tokens: u64) -> CompletionFuture<'a> {
        Box::pin(async move {
            let fault =
                |kind: &str, message: &str| Fault::Failed { kind: kind.to_owned(), message: message.to_owned() };
            let Some(inference) = &self.record.context.inference else {
                return (Err(fault("unavailable", "no model is available to this call")), 0);
            };
            if !self.begin_effect().await {
                return (Err(fault("failed", NOT_RECORDED)), 0);
            }
            inference.complete_for(&self.record.tool, system, prompt, tokens).await
        })
    }
}
