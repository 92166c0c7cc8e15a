//! `patchbay:host/inference`: one completion by the model of the agent that runs the tool.

use futures_util::future::BoxFuture;
use patchbay_core::text;
use patchbay_policy::Capability;

use crate::{
    Fault, GuestEffect,
    bindings::patchbay::host::{inference as wit, types::Error as WitError},
    budget::Time,
    state::GuestState,
};

/// Returns the estimated tokens of a request of `bytes` bytes, before it is sent. A token has three to four bytes of text. The
/// lower number avoids an estimate that is too small.
pub fn estimated_tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(3)
}

/// The answer of a model, and the tokens used.
pub type CompletionFuture<'a> = BoxFuture<'a, (Result<String, Fault>, u64)>;

/// Runs completions with the model of the agent that runs the tool.
pub trait Inference: Send + Sync {
    /// Completes `prompt` with at most `tokens` for the prompt and the answer together; `tokens` is at least the
    /// [`estimated_tokens`] of the prompt. Returns the answer, and the tokens used even on failure. Dropping the future cancels the
    /// request; its tokens are still counted.
    fn complete<'a>(&'a self, system: &'a str, prompt: &'a str, tokens: u64) -> CompletionFuture<'a>;

    /// Like [`Inference::complete`]. The cost is booked to the tool with this full name.
    fn complete_for<'a>(
        &'a self,
        _tool: &'a str,
        system: &'a str,
        prompt: &'a str,
        tokens: u64,
    ) -> CompletionFuture<'a> {
        self.complete(system, prompt, tokens)
    }
}

impl wit::Host for GuestState {
    async fn complete(&mut self, system: String, prompt: String) -> wasmtime::Result<Result<String, WitError>> {
        self.count_host_call()?;
        let effect = GuestEffect::Complete { system: &system, prompt: &prompt };
        let access = or_return!(self.permit(&Capability::Inference, effect).await);
        if self.budget.depth == 0 && matches!(self.budget.time, Time::Plain(_)) {
            // The user said yes during the call, which began with the time of a call without models.
            self.budget = self.budget.clone().with_inference(&self.limits);
        }
        let Some(inference) = &access.services.inference else {
            return Ok(Err(guest_error("unavailable", "no model is available to this call".to_owned())));
        };
        let most = self.budget.host_call_bytes;
        if system.len().saturating_add(prompt.len()) > most {
            return Ok(Err(too_large("prompt", most)));
        }
        let (left, limit) = (self.inference_tokens_left(), self.limits.inference_tokens);
        let estimate = estimated_tokens(system.len() + prompt.len());
        if left == 0 {
            let message = format!("the call has used up its {limit} tokens (limits.inference_tokens)");
            return Ok(Err(guest_error("quota", message)));
        }
        if estimate > left {
            let message = format!(
                "the prompt has about {estimate} tokens, but the call has only {left} of its {limit} tokens left \
                 (limits.inference_tokens); send a shorter prompt"
            );
            return Ok(Err(guest_error("quota", message)));
        }
        // Counted before the request, because a call that is stopped during the request has used tokens, too.
        let before = self.spent.inference_tokens;
        self.spent.inference_tokens = before.saturating_add(estimate);
        let (answer, used) = inference.complete(&system, &prompt, left).await;
        self.spent.inference_tokens = before.saturating_add(used);
        Ok(match answer {
            Ok(answer) if answer.len() > most => Err(too_large("answer", most)),
            Ok(answer) => Ok(text::clean(&answer)),
            Err(fault) => Err(access.guest_error(fault)),
        })
    }
}

impl GuestState {
    /// Returns the tokens that the call may still use.
    pub(crate) fn inference_tokens_left(&self) -> u64 {
        self.budget.inference_tokens.saturating_sub(self.spent.inference_tokens)
    }
}

fn too_large(what: &str, most: usize) -> WitError {
    guest_error("too-large", format!("the {what} has more than {most} bytes (limits.output_bytes)"))
}

fn guest_error(kind: &str, message: String) -> WitError {
    WitError { kind: kind.to_owned(), message }
}
