//! The choice of an agent's model, and the trait through which agents send requests.
//!
//! Several types describe a model, from the user's text to the request:
//!
//! - A *model argument* is text that a user typed, such as `claude-sonnet-5-5/high`. [`Model::resolve`] turns it into a choice.
//! - [`Choice`] names a provider, a model id and a thinking level.
//! - [`ModelOverride`] replaces the choice until the next `/model`; a [`Selector`] in it names a size, such as `small`.
//! - [`Chosen`] is an agent's choice with its override. [`AgentModel`] is the same as a row of the store.
//! - [`ModelInfo`] has a model's properties from the catalogue, such as its context window. It chooses nothing.

use futures_util::future::BoxFuture;
use patchbay_core::{
    Outcome,
    completion::{CompletionRequest, ThinkingLevel},
};
use patchbay_provider::{Choice, Completed, ModelInfo, Providers, Selector, Sink};
use patchbay_store::AgentModel;
use serde::{Deserialize, Serialize};

/// Completes requests of agents. The providers of the host implement it; tests use scripts.
pub trait Model: Send + Sync {
    /// Returns the default model (`default_model`), for agents without a choice.
    fn default_choice(&self) -> BoxFuture<'_, Result<Choice, Outcome>>;

    /// Returns the provider's model of a given size; `None` if its catalogue has none.
    fn select<'a>(&'a self, provider: &'a Choice, size: Selector) -> BoxFuture<'a, Option<String>>;

    /// Resolves a model name to a provider and a model.
    fn resolve<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Choice, Outcome>>;

    /// Returns the known properties of a model, such as its context window.
    fn about<'a>(&'a self, choice: &'a Choice) -> BoxFuture<'a, ModelInfo>;

    /// Sends a request. Events go to `sink`; an error is an outcome for the user.
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

/// Replaces an agent's model until the next `/model`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "value", rename_all = "lowercase")]
pub enum ModelOverride {
    /// A model of this size from the agent's own provider.
    Selector(Selector),
    /// The model with this name, from the provider that owns it.
    Model(String),
}

/// The chosen model of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// The model chosen by `/model`; `None` for the default of `config.toml`.
    pub model: Option<Choice>,
    /// A temporary replacement of the model.
    pub model_override: Option<ModelOverride>,
}

impl Chosen {
    /// Returns the selector that selects the model; `None` if the model is chosen by its name.
    pub(crate) fn selector(&self) -> Option<Selector> {
        match self.model_override {
            Some(ModelOverride::Selector(selector)) => Some(selector),
            _ => None,
        }
    }

    /// Parses a stored choice. Values that this version cannot parse count as not chosen.
    pub fn from_row(row: &AgentModel) -> Self {
        let model = || {
            let level = row.thinking_level.as_deref().and_then(ThinkingLevel::from_word);
            Some(Choice { provider: row.provider.as_deref()?.parse().ok()?, model: row.model.clone()?, level })
        };
        let model_override = row.model_override.as_deref().and_then(|json| serde_json::from_str(json).ok());
        Self { model: model(), model_override }
    }

    /// Returns the choice as a store row.
    pub fn to_row(&self) -> AgentModel {
        let model = self.model.as_ref();
        AgentModel {
            provider: model.map(|choice| choice.provider.to_string()),
            model: model.map(|choice| choice.model.clone()),
            thinking_level: model.and_then(|choice| choice.level).map(|level| level.as_str().to_owned()),
            // This cannot fail, because JSON can represent the value.
            model_override: self.model_override.as_ref().and_then(|chosen| serde_json::to_string(chosen).ok()),
        }
    }

    /// Returns the model without the override.
    ///
    /// # Errors
    /// An outcome for the user if no model can be used.
    pub async fn own(&self, models: &dyn Model) -> Result<Choice, Outcome> {
        match &self.model {
            Some(choice) => Ok(choice.clone()),
            None => models.default_choice().await,
        }
    }

    /// Returns the model for the next request.
    ///
    /// # Errors
    /// An outcome for the user if no model can be used.
    pub async fn effective(&self, models: &dyn Model) -> Result<Choice, Outcome> {
        let own = self.own(models).await?;
        match &self.model_override {
            None => Ok(own),
            // Without a catalogue the override has no effect.
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
