//! The beginning of a request, before the conversation: the system context and the tools.
//! Called by `turn` and `summarise`.

use patchbay_core::{
    Outcome,
    completion::{CompletionRequest, RequestHints, ToolChoice},
};
use patchbay_provider::{Choice, ModelInfo};
use patchbay_store::{AgentWindow, SessionChange};

use crate::{
    Agent,
    turn::{Round, store_failed},
};

impl Agent {
    /// Returns a request of a turn without its messages and hints. The system context and the tools are the same for all agents
    /// of a session, and stay the same in a conversation until its snapshot or tools change.
    pub(crate) async fn bare_request(
        &self,
        Round { turn, toolbox, choice, about, .. }: &Round<'_>,
    ) -> Result<CompletionRequest, Outcome> {
        let shown = toolbox.shown(&self.settings.context, self.window(choice, about).await?);
        let persona = turn.persona.iter().filter(|text| !text.trim().is_empty()).cloned();
        Ok(CompletionRequest {
            model: choice.model.clone(),
            system: persona.chain(shown.listing.clone()).collect(),
            messages: Vec::new(),
            tools: shown.tools.clone(),
            tool_choice: ToolChoice::Auto,
            thinking: choice.level,
            max_output_tokens: None,
            hints: RequestHints::default(),
        })
    }

    /// Returns the context window of a model, in tokens. The value at the agent's first request to the model is stored and used
    /// from then on.
    async fn window(&self, choice: &Choice, about: &ModelInfo) -> Result<u64, Outcome> {
        let (agent, provider, model) = (self.place.agent, choice.provider.to_string(), choice.model.clone());
        let kept = self.log.store().agent_window(agent, &provider, &model).await.map_err(store_failed)?;
        if let Some(tokens) = kept {
            return Ok(tokens);
        }
        let tokens = about.context_window.unwrap_or(self.settings.compaction.context_window);
        let window = Some(AgentWindow { agent, provider, model, tokens });
        self.commit(SessionChange { window, ..SessionChange::default() }).await?;
        Ok(tokens)
    }
}
