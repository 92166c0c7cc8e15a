//! The `inference` capability: one completion by the model of the agent that runs the tool. `sandbox` calls it for guests.

use std::sync::Arc;

use patchbay_core::{
    completion::{
        Block, CompletionRequest, Message, RequestHints, RequestPurpose, Role, Stop, ThinkingLevel, ToolChoice,
    },
    text,
};
use patchbay_events::{ReservedTokens, TokenBudget};
use patchbay_provider::Choice;
use patchbay_sandbox::{CompletionFuture, Fault, Inference, estimated_tokens};
use tokio_util::sync::CancellationToken;

use crate::{
    Agent, Chosen,
    agent::used_by,
    receive::{RetryNotice, SummarySink},
    requests::RequestRank,
    spending::{Sending, Spender, is_about_budget},
};

/// Sends prompts of skills to an agent's model. The tokens count for the session.
pub struct AgentInference {
    spender: Spender,
    chosen: Chosen,
    hints: RequestHints,
    on_retry: RetryNotice,
    cancel: CancellationToken,
}

impl AgentInference {
    /// Returns the capability for tools that `agent` runs until `cancel` is cancelled.
    pub fn new(agent: &Agent, cancel: CancellationToken) -> Self {
        let hints = agent.hints(RequestPurpose::Inference);
        let on_retry = agent.retry_notice();
        Self { spender: agent.spender(), chosen: agent.chosen(), hints, on_retry, cancel }
    }

    /// Sends a prompt for the tool with this full name.
    async fn ask(&self, tool: Option<&str>, system: &str, prompt: &str, tokens: u64) -> (Result<String, Fault>, u64) {
        let (model, budget) = (&*self.spender.model, self.spender.log.budget());
        let fault = |kind: &str, message: String| Err(Fault::Failed { kind: kind.to_owned(), message });
        if self.cancel.is_cancelled() {
            return (fault("failed", "the turn was cancelled".to_owned()), 0);
        }
        let estimate = estimated_tokens(system.len() + prompt.len());
        let reserved = match budget.reserve(estimate) {
            Ok(reserved) => reserved,
            Err(refused) => return (fault("quota", refused), 0),
        };
        let choice = match self.chosen.effective(model).await {
            Ok(choice) => choice,
            Err(outcome) => {
                reserved.settle(0);
                return (fault("unavailable", outcome.line().into_owned()), 0);
            }
        };
        let part = Block::Text(prompt.to_owned()).into();
        let request = CompletionRequest {
            model: choice.model.clone(),
            system: (!system.is_empty()).then(|| system.to_owned()).into_iter().collect(),
            messages: vec![Message { role: Role::User, parts: vec![part] }],
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            // The model's thinking counts against the limit of its answer.
            thinking: Some(ThinkingLevel::None),
            max_output_tokens: Some(answer_tokens(tokens.saturating_sub(estimate))),
            hints: self.hints.clone(),
        };
        // From here on the tokens count, even if this future is dropped.
        let mut sent = PromptGuard {
            sink: SummarySink::new(Arc::clone(&self.on_retry)),
            budget,
            choice: &choice,
            reserved: Some(reserved),
            estimate,
        };
        let about = model.about(&choice).await;
        let sending = Sending { choice: &choice, about: &about, rank: RequestRank::Person, notice: None, tool };
        let asked = self.spender.complete(sending, request, &mut sent.sink);
        let completed = tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            completed = asked => Some(completed),
        };
        match completed {
            Some(Ok(completed)) => {
                let text = sent.sink.received.text();
                let stop = completed.finish.stop;
                let used = sent.ended();
                let raw = text::excerpt(&completed.finish.raw, 80);
                if text.trim().is_empty() {
                    // Models that think may use up the limit before their text begins.
                    return (fault("failed", format!("the model returned no text; it ended with '{raw}'")), used);
                }
                if matches!(stop, Stop::MaxTokens | Stop::ContextWindow | Stop::Refusal | Stop::ContentFilter) {
                    return (fault("failed", format!("the model's answer was cut off; it ended with '{raw}'")), used);
                }
                (Ok(text), used)
            }
            Some(Err(outcome)) => {
                let kind = if is_about_budget(&outcome) { "quota" } else { "failed" };
                (fault(kind, outcome.line_for_models().into_owned()), sent.ended())
            }
            None => (fault("failed", "the turn was cancelled".to_owned()), sent.used()),
        }
    }
}

/// Limit of an answer's tokens. Every model supports this many.
const MOST: u32 = 4_096;

/// Returns the limit of an answer's tokens if `left` tokens may be used.
fn answer_tokens(left: u64) -> u32 {
    u32::try_from(left).unwrap_or(u32::MAX).clamp(1, MOST)
}

/// Tokens of a request that was sent. If dropped early, it counts the tokens reported so far, or the
/// estimate if none were reported.
struct PromptGuard<'a> {
    sink: SummarySink,
    budget: &'a TokenBudget,
    choice: &'a Choice,
    /// `None` once the tokens are counted.
    reserved: Option<ReservedTokens<'a>>,
    estimate: u64,
}

impl PromptGuard<'_> {
    /// Counts the tokens that the provider reported; returns them.
    fn ended(&mut self) -> u64 {
        self.count(0);
        self.sink.received.all_usage().total()
    }

    /// Counts the tokens for the session: those that the provider reported, or `unreported` if it reported none.
    fn count(&mut self, unreported: u64) {
        let Some(reserved) = self.reserved.take() else { return };
        let usage = self.sink.received.all_usage();
        self.budget.record(used_by(self.choice, usage));
        reserved.settle(if usage.total() == 0 { unreported } else { usage.uncached() });
    }

    /// Returns the tokens of a request that has not ended.
    fn used(&self) -> u64 {
        match self.sink.received.all_usage().total() {
            0 => self.estimate,
            used => used,
        }
    }
}

impl Drop for PromptGuard<'_> {
    fn drop(&mut self) {
        self.count(self.estimate);
    }
}

impl Inference for AgentInference {
    fn complete<'a>(&'a self, system: &'a str, prompt: &'a str, tokens: u64) -> CompletionFuture<'a> {
        Box::pin(self.ask(None, system, prompt, tokens))
    }

    fn complete_for<'a>(
        &'a self,
        tool: &'a str,
        system: &'a str,
        prompt: &'a str,
        tokens: u64,
    ) -> CompletionFuture<'a> {
        Box::pin(self.ask(Some(tool), system, prompt, tokens))
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::completion::TokenUsage;

    use super::*;
    use crate::{
        SessionLimits,
        turn::tests::{Reply, TestAgent},
    };

    struct Stage {
        agent: TestAgent,
        inference: AgentInference,
    }

    impl Stage {
        async fn asking(used: Option<TokenUsage>, ceiling: u64) -> Self {
            Self::replying(used, None, ceiling).await
        }

        async fn replying(used: Option<TokenUsage>, answer: Option<(&'static str, Stop)>, ceiling: u64) -> Self {
            let reply = [Reply::Ends(used, answer)];
            let agent = TestAgent::with_limits(reply, ceiling, 1_000_000, SessionLimits::default()).await;
            let inference = AgentInference::new(&agent.agent, CancellationToken::new());
            Self { agent, inference }
        }

        async fn ask(&self, system: &str, prompt: &str) -> (Result<String, Fault>, u64) {
            self.inference.ask(None, system, prompt, 100).await
        }

        /// Waits until the model has the request.
        async fn asked(&self) {
            while self.agent.requests().is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        }

        fn budget(&self) -> &TokenBudget {
            self.agent.log.budget()
        }
    }

    const SO_FAR: TokenUsage = TokenUsage { input: 40, output: 2, thinking: 0, cache_read: 0, cache_write: 0 };

    /// 90 bytes are estimated as 30 tokens.
    #[tokio::test]
    async fn dropped_request_counts_reported_or_estimated_tokens() {
        for (used, counted) in [(None, 30), (Some(SO_FAR), 42)] {
            let stage = Stage::asking(used, 1_000).await;
            let prompt = "p".repeat(80);
            tokio::select! {
                answer = stage.ask("0123456789", &prompt) => panic!("{answer:?}"),
                () = async {
                    stage.asked().await;
                    assert_eq!(stage.budget().take_unsaved(), 0);
                } => {}
            }
            assert_eq!(stage.budget().take_unsaved(), counted);
        }
    }

    #[tokio::test]
    async fn cancelled_request_counts_its_tokens() {
        for (used, counted) in [(None, 30), (Some(SO_FAR), 42)] {
            let stage = Stage::asking(used, 1_000).await;
            let prompt = "p".repeat(90);
            let (answer, ()) = tokio::join!(stage.ask("", &prompt), async {
                stage.asked().await;
                stage.inference.cancel.cancel();
            });
            assert!(matches!(answer, (Err(Fault::Failed { .. }), tokens) if tokens == counted), "{answer:?}");
            assert_eq!(stage.budget().take_unsaved(), counted);
            // After cancellation, nothing is sent or counted.
            assert!(matches!(stage.ask("", &prompt).await, (Err(_), 0)));
            assert_eq!(stage.budget().take_unsaved(), 0);
        }
    }

    #[tokio::test]
    async fn cut_or_empty_answer_is_an_error() {
        let (no_text, cut) = ("the model returned no text", "the model's answer was cut off");
        for (text, stop, problem) in [
            ("Yes.", Stop::EndTurn, None),
            ("", Stop::EndTurn, Some(no_text)),
            (" \n", Stop::MaxTokens, Some(no_text)),
            ("", Stop::Refusal, Some(no_text)),
            ("Half", Stop::MaxTokens, Some(cut)),
            ("Half", Stop::ContextWindow, Some(cut)),
            ("Half", Stop::Refusal, Some(cut)),
            ("Half", Stop::ContentFilter, Some(cut)),
        ] {
            let stage = Stage::replying(Some(SO_FAR), Some((text, stop)), 1_000).await;
            let (answer, used) = stage.ask("", &"p".repeat(90)).await;
            assert_eq!(stage.agent.requests()[0].max_output_tokens, Some(70));
            // The tokens were used in any case.
            assert_eq!((used, stage.budget().take_unsaved()), (42, 42), "{text:?} {stop:?}");
            let expected = match problem {
                None => Ok(text.to_owned()),
                Some(problem) => {
                    let message = format!("{problem}; it ended with 'raw'");
                    Err(Fault::Failed { kind: "failed".to_owned(), message })
                }
            };
            assert_eq!(answer, expected, "{text:?} {stop:?}");
        }
    }

    #[tokio::test]
    async fn cached_tokens_are_recorded_but_do_not_count() {
        let usage = TokenUsage { input: 40, output: 2, cache_read: 30, ..TokenUsage::default() };
        let stage = Stage::replying(Some(usage), Some(("Yes.", Stop::EndTurn)), 1_000).await;
        let (answer, used) = stage.ask("", &"p".repeat(90)).await;
        assert_eq!((answer, used, stage.budget().take_unsaved()), (Ok("Yes.".to_owned()), 42, 12));
        let recorded = stage.budget().take_unsaved_usage();
        let found: Vec<_> = recorded.iter().map(|of| (&*of.provider, &*of.model, of.usage)).collect();
        assert_eq!(found, [("demo", "demo-1", usage)]);
    }

    #[tokio::test]
    async fn prompt_over_the_remaining_budget_is_not_sent() {
        let stage = Stage::asking(None, 29).await;
        let (answer, used) = stage.ask("", &"p".repeat(90)).await;
        let Err(Fault::Failed { kind, message }) = answer else { panic!("{answer:?}") };
        assert_eq!((kind.as_str(), used), ("quota", 0));
        assert!(message.contains("has only 29 of its 29 tokens left (limits.session_tokens)"), "{message}");
        assert_eq!(stage.budget().take_unsaved(), 0);
    }
}
