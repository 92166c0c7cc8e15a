//! Who answers an agent.

use patchbay_core::{
    Outcome,
    completion::{CompletionRequest, ThinkingLevel},
};
use patchbay_provider::{Choice, Completed, ModelInfo, Providers, Selector, Sink};
use patchbay_sandbox::BoxFuture;
use patchbay_store::AgentModel;
use serde::{Deserialize, Serialize};

/// Who answers: the providers of the host, or a script in a test.
pub trait Model: Send + Sync {
    /// The model of who has chosen none.
    fn default_choice(&self) -> BoxFuture<'_, Result<Choice, Outcome>>;

    /// The model of a size among the models of a provider; none where it has no catalogue.
    fn select<'a>(&'a self, provider: &'a Choice, size: Selector) -> BoxFuture<'a, Option<String>>;

    /// The provider and the model that `text` names.
    fn resolve<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Choice, Outcome>>;

    /// What is known of a model.
    fn about<'a>(&'a self, choice: &'a Choice) -> BoxFuture<'a, ModelInfo>;

    /// Asks a model. What comes goes to `sink`; an error is what the person is told.
    fn complete<'a>(
        &'a self,
        choice: &'a Choice,
        request: CompletionRequest,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<Completed, Outcome>>;
}

impl Model for Providers {
    fn default_choice(&self) -> BoxFuture<'_, Result<Choice, Outcome>> {
        Box::pin(async { Ok(Providers::default_choice(self).await?.choice) })
    }

    fn select<'a>(&'a self, choice: &'a Choice, size: Selector) -> BoxFuture<'a, Option<String>> {
        Box::pin(Providers::select(self, &choice.provider, size))
    }

    fn resolve<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Choice, Outcome>> {
        Box::pin(async move { Ok(Providers::resolve(self, text).await?) })
    }

    fn about<'a>(&'a self, choice: &'a Choice) -> BoxFuture<'a, ModelInfo> {
        Box::pin(async { Providers::model(self, &choice.provider, &choice.model).await.unwrap_or_default() })
    }

    fn complete<'a>(
        &'a self,
        choice: &'a Choice,
        request: CompletionRequest,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<Completed, Outcome>> {
        Box::pin(async move { Ok(Providers::complete(self, choice, request, sink).await?) })
    }
}

/// What takes the place of an agent's model until `/model` names another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "lowercase")]
pub enum ModelOverride {
    /// A model of this size, of the agent's own provider.
    Selector(Selector),
    /// This model, of whichever provider owns it.
    Model(String),
}

/// The model of an agent, as it was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// What `/model` named; none: the default of `config.toml`.
    pub model: Option<Choice>,
    /// What takes its place.
    pub model_override: Option<ModelOverride>,
}

impl Chosen {
    /// What the store has of it. What this version cannot read was chosen by nobody.
    pub fn from_row(row: &AgentModel) -> Self {
        let model = || {
            let level = row.thinking_level.as_deref().and_then(ThinkingLevel::from_word);
            Some(Choice { provider: row.provider.as_deref()?.parse().ok()?, model: row.model.clone()?, level })
        };
        let model_override = row.model_override.as_deref().and_then(|json| serde_json::from_str(json).ok());
        Self { model: model(), model_override }
    }

    /// As the store keeps it.
    pub fn to_row(&self) -> AgentModel {
        let model = self.model.as_ref();
        AgentModel {
            provider: model.map(|choice| choice.provider.to_string()),
            model: model.map(|choice| choice.model.clone()),
            thinking_level: model.and_then(|choice| choice.level).map(|level| level.as_str().to_owned()),
            // A text in an enum: there is nothing that JSON could not hold.
            model_override: self.model_override.as_ref().and_then(|chosen| serde_json::to_string(chosen).ok()),
        }
    }

    /// The model that the next request goes to.
    ///
    /// # Errors
    /// What the person is told where there is none.
    pub async fn effective(&self, models: &dyn Model) -> Result<Choice, Outcome> {
        let own = match &self.model {
            Some(choice) => choice.clone(),
            None => models.default_choice().await?,
        };
        match &self.model_override {
            None => Ok(own),
            // Where there is no catalogue the override changes nothing.
            Some(ModelOverride::Selector(size)) => {
                let model = models.select(&own, *size).await;
                Ok(Choice { model: model.unwrap_or_else(|| own.model.clone()), ..own })
            }
            Some(ModelOverride::Model(name)) => {
                let named = models.resolve(name).await?;
                Ok(Choice { level: own.level, ..named })
            }
        }
    }
}
