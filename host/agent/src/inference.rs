//! The `inference` capability: one completion by the model of the agent that runs the tool.

use std::sync::Arc;

use patchbay_core::completion::{Block, CompletionRequest, Message, Role, ToolChoice};
use patchbay_sandbox::{BoxFuture, Fault, Inference};
use tokio_util::sync::CancellationToken;

use crate::{Agent, Chosen, Model, Spending, receive::Quiet};

/// Asks the model of one agent, and counts it as the session's.
pub struct AgentInference {
    model: Arc<dyn Model>,
    chosen: Chosen,
    spending: Arc<Spending>,
    cancel: CancellationToken,
}

impl AgentInference {
    /// For the tools that `agent` runs until `cancel`.
    pub fn new(agent: &Agent, cancel: CancellationToken) -> Self {
        let (model, spending) = (Arc::clone(&agent.model), Arc::clone(&agent.spending));
        Self { model, chosen: agent.chosen(), spending, cancel }
    }

    async fn ask(&self, system: &str, prompt: &str, tokens: u64) -> (Result<String, Fault>, u64) {
        let fault = |kind: &str, message: String| Err(Fault::Failed { kind: kind.to_owned(), message });
        if let Err(spent) = self.spending.check() {
            return (fault("quota", spent.to_string()), 0);
        }
        let choice = match self.chosen.effective(&*self.model).await {
            Ok(choice) => choice,
            Err(outcome) => return (fault("unavailable", outcome.message), 0),
        };
        let part = Block::Text(prompt.to_owned()).into();
        let request = CompletionRequest {
            model: choice.model.clone(),
            system: (!system.is_empty()).then(|| system.to_owned()).into_iter().collect(),
            messages: vec![Message { role: Role::User, parts: vec![part] }],
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            thinking: None,
            max_output_tokens: Some(u32::try_from(tokens).unwrap_or(u32::MAX).min(MOST)),
        };
        let mut quiet = Quiet::default();
        let completed = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return (fault("failed", "the turn was cancelled".to_owned()), 0),
            completed = self.model.complete(&choice, request, &mut quiet) => completed,
        };
        let used = quiet.0.usage.total();
        self.spending.spend(used);
        match completed {
            Ok(_) => (Ok(quiet.0.text()), used),
            Err(outcome) => (fault("failed", outcome.message), used),
        }
    }
}

/// Tokens of an answer at most: every model can give so many.
const MOST: u32 = 4_096;

impl Inference for AgentInference {
    fn complete<'a>(
        &'a self,
        system: &'a str,
        prompt: &'a str,
        tokens: u64,
    ) -> BoxFuture<'a, (Result<String, Fault>, u64)> {
        Box::pin(self.ask(system, prompt, tokens))
    }
}
