//! Finds the provider of a model, and sends completions to it.

use std::sync::Arc;

use patchbay_core::{
    Name,
    completion::{CompletionRequest, ThinkingLevel},
    text,
};
use patchbay_sandbox::adapter::ModelEntry;

use super::{Providers, consent::Consents};
use crate::{
    Choice, CompleteError, Completed, ModelError, Selector, Settings, Sink,
    adapters::FoundAdapters,
    choice::{self, ModelQuery},
    exchange,
    registry::{Entry, Registry, RegistryView, StoredClaims},
    route::{Route, RouteCredential},
    status,
};

/// The default model if `config.toml` names none.
const FALLBACK: &str = "demo-1";

/// The model of an agent for which none was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultChoice {
    /// The model.
    pub choice: Choice,
    /// Whether `default_model` of `config.toml` names it.
    pub configured: bool,
}

/// A completion of `/model`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuggestedModel {
    /// The provider whose catalogue has the model.
    pub provider: Name,
    /// The model as `/model` takes it, `MODEL[/THINKING]`.
    pub model: String,
    /// Whether the provider's key is missing or cannot be used.
    pub needs_key: bool,
}

/// What is known of a model before it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelInfo {
    /// The adapter that answers, as `PROVIDER:ADAPTER`. Opaque parts of an answer belong to it.
    pub adapter: String,
    /// Tokens that the model can read; `None` if unknown.
    pub context_window: Option<u64>,
    /// Media types that a message to the model may contain.
    pub input_media: Vec<String>,
}

impl Providers {
    /// Returns the model and the provider that `[PROVIDER:]MODEL[/THINKING]` names.
    ///
    /// # Errors
    /// [`ModelError`], in the words of the commands' reference.
    pub async fn resolve(&self, text: &str) -> Result<Choice, ModelError> {
        let registry = self.registry().await;
        let consents = self.consents().await?;
        // Providers that may not be asked do not affect how a text is parsed.
        let ready = registry.view(|entry| consents.is_ready(entry));
        let ModelQuery { provider, model, level } = choice::parse(text, &ready)?;
        let provider = match provider {
            Some(provider) => provider,
            None => owner(&registry, &consents, &ready, &model)?,
        };
        consents.ready(&registry, &provider)?;
        Ok(Choice { provider, model, level })
    }

    /// Returns the model of an agent for which none was chosen: `default_model` of `config.toml`, else `demo-1`.
    ///
    /// # Errors
    /// [`ModelError`], if that model cannot be used.
    pub async fn default_choice(&self) -> Result<DefaultChoice, ModelError> {
        let Some(model) = self.registry().await.default_model.clone() else {
            return Ok(DefaultChoice { choice: self.resolve(FALLBACK).await?, configured: false });
        };
        match self.resolve(&model).await {
            Ok(choice) => Ok(DefaultChoice { choice, configured: true }),
            Err(error) => Err(ModelError::Default { model, error: Box::new(error) }),
        }
    }

    /// Returns the message for the person about a choice: provider, model, and the effect of the thinking level.
    ///
    /// # Errors
    /// [`ModelError`], if the provider may not be asked or its adapter failed.
    pub async fn explain(&self, choice: &Choice) -> Result<String, ModelError> {
        let registry = self.registry().await;
        let entry = self.ready(&registry, &choice.provider).await?;
        let failed = |failure| ModelError::Adapter { provider: choice.provider.clone(), failure };
        let sandbox = &self.exchange.sandbox;
        let adapter = entry.adapter.loaded(sandbox).await.map_err(failed)?;
        // `explain-thinking` of the contract gets no options, so an option that turns levels off is evaluated here.
        let off = entry.thinking_off();
        let level = if off.is_some() { None } else { choice.level };
        let mut plan = sandbox.explain_thinking(&adapter, &choice.model, level).await.map_err(failed)?;
        if let (Some((option, value)), Some(_)) = (off, choice.level) {
            plan.warning =
                Some(format!("Thinking levels are not sent: option '{option}' of this provider is '{value}'"));
        }
        let label = entry.adapter.manifest.extra.iter().find(|(name, _)| name == "api-label");
        let label = label.map(|(_, label)| format!(" ({label})")).unwrap_or_default();
        let model = text::clean_line(&choice.model);
        let mut lines = vec![format!("✓ Switched to {} {model}{label}", status::display_name(&entry))];
        lines.extend(plan.warning.map(|warning| format!("  ⚠ {warning}")));
        lines.extend(plan.description.iter().map(|line| format!("  {line}")));
        Ok(lines.join("\n"))
    }

    /// Checks that the provider of `choice` may be asked now. Its key is not looked for.
    ///
    /// # Errors
    /// [`ModelError`], if the model has an invalid name, or its provider is gone or not ready.
    pub async fn check_choice(&self, choice: &Choice) -> Result<(), ModelError> {
        choice.check()?;
        self.ready(&*self.registry().await, &choice.provider).await.map(drop)
    }

    /// Returns the completions of `/model`: each model of the ready providers' catalogues, followed by its suggested levels.
    /// Before the first use of the providers, these are the models of bundled adapters.
    pub async fn suggestions(&self) -> Vec<SuggestedModel> {
        let consents = match self.consents().await {
            Ok(consents) => consents,
            Err(error) => {
                tracing::warn!("no models are suggested: {error}");
                return Vec::new();
            }
        };
        let registry = self.current().unwrap_or_else(|| {
            let (found, claims) = (FoundAdapters::default(), StoredClaims::default());
            Arc::new(Registry::build(&self.bundled, found, &Settings::default(), &claims, None))
        });
        let suggested = |entry: &Entry, needs_key: bool| {
            let shown = entry.models.iter().filter(|model| !model.deprecated);
            let names = shown.flat_map(|model| {
                let level = |level: &ThinkingLevel| format!("{}/{}", model.id, level.as_str());
                std::iter::once(model.id.clone()).chain(model.suggested_levels.iter().map(level))
            });
            names.map(|model| SuggestedModel { provider: entry.name.clone(), model, needs_key }).collect::<Vec<_>>()
        };
        let has_key = |entry: &Entry| {
            let variable = entry.variable.as_ref();
            variable.is_none_or(|variable| self.exchange.secrets.locate(&entry.name, variable).is_ok())
        };
        let ready = registry.shown().into_iter().filter(|entry| consents.is_ready(entry));
        ready.flat_map(|entry| suggested(entry, !has_key(entry))).collect()
    }

    /// Returns the first model in the provider's catalogue of the size of `selector`, or of the next best size. `None` without a
    /// catalogue.
    pub async fn select(&self, provider: &Name, selector: Selector) -> Option<String> {
        let registry = self.registry().await;
        let models = &registry.get(provider.as_str())?.models;
        let of = |size| models.iter().find(|model| model.size == size);
        selector.sizes().into_iter().find_map(of).map(|model| model.id.clone())
    }

    /// Returns what is known of a model; `None` if there is no such provider.
    pub async fn model(&self, provider: &Name, model: &str) -> Option<ModelInfo> {
        let registry = self.registry().await;
        let entry = registry.get(provider.as_str())?;
        let known = entry.model(model).or_else(|| {
            // A name that continues that of a known model, with a date for example.
            let of = |known: &&ModelEntry| model.strip_prefix(&known.id).is_some_and(|rest| rest.starts_with('-'));
            entry.models.iter().filter(of).max_by_key(|known| known.id.len())
        });
        Some(ModelInfo {
            adapter: format!("{}:{}", entry.name, entry.adapter.manifest.name),
            context_window: known.and_then(|known| known.context_window).or(entry.context_window),
            input_media: known.map(|known| known.input_media.clone()).unwrap_or_default(),
        })
    }

    /// Requests a completion and forwards it to `sink` as it arrives. A reload does not affect a completion that runs.
    ///
    /// # Errors
    /// [`CompleteError`].
    pub async fn complete(
        &self,
        choice: &Choice,
        request: CompletionRequest,
        sink: &mut dyn Sink,
    ) -> Result<Completed, CompleteError> {
        let route = self.route(choice).await?;
        Ok(exchange::complete(&self.exchange, &route, request, sink).await?)
    }

    /// Returns what a completion needs of the provider of `choice`, if it may be asked.
    async fn route(&self, choice: &Choice) -> Result<Route, ModelError> {
        choice.check()?;
        let registry = self.registry().await;
        let entry = self.ready(&registry, &choice.provider).await?;
        drop(registry);
        let failed = |failure| ModelError::Adapter { provider: choice.provider.clone(), failure };
        let hint = entry.adapter.manifest.credential.as_ref();
        let credential = entry.variable.clone().map(|variable| RouteCredential {
            id: hint.map_or_else(|| "api-key".to_owned(), |hint| hint.id.clone()),
            variable,
            // The page has keys of the adapter's own API; a proxy or another server has other keys.
            obtain_url: hint.and_then(|hint| hint.obtain_url.clone()).filter(|_| entry.has_own_origin()),
        });
        Ok(Route {
            provider: entry.name.clone(),
            adapter: entry.adapter.loaded(&self.exchange.sandbox).await.map_err(failed)?,
            base: entry.base.clone(),
            credential,
            options: entry.options.clone(),
        })
    }
}

/// Returns the provider that owns `model`: by `[routes]`, then among the ready providers, the pending ones, and the refused ones,
/// so that the error names the refused one.
fn owner(registry: &Registry, consents: &Consents, ready: &RegistryView<'_>, model: &str) -> Result<Name, ModelError> {
    if let Some(name) = registry.route(model) {
        return match registry.find(name) {
            Err(ModelError::Gone(provider)) => Err(ModelError::Route { model: model.to_owned(), provider }),
            _ => Ok(name.clone()),
        };
    }
    let pending = || registry.view(|entry| entry.refused.is_none()).owner(model);
    if let Some(entry) = ready.owner(model).or_else(pending) {
        return Ok(entry.name.clone());
    }
    if let Some(name) = registry.refused_owner(model) {
        return Ok(name.clone());
    }
    // `PROVIDER:MODEL` of a provider that may not be asked: the error then says why.
    let named = model.split_once(':').and_then(|(name, _)| name.parse().ok());
    match named.filter(|name| !matches!(registry.find(name), Err(ModelError::Gone(_)))) {
        Some(name) => Ok(name),
        None => Err(ModelError::Unknown { model: model.to_owned(), supported: supported(registry, consents) }),
    }
}

/// Returns the models of the ready providers for [`ModelError::Unknown`]: a blank line, then a line for each provider with a
/// catalogue.
fn supported(registry: &Registry, consents: &Consents) -> String {
    let listed = registry.shown().into_iter().filter(|entry| !entry.models.is_empty() && consents.is_ready(entry));
    let lines: Vec<_> = listed
        .map(|entry| {
            let ids: Vec<_> = entry.models.iter().map(|model| model.id.as_str()).collect();
            (format!("{}:", status::display_name(entry)), ids.join(", "))
        })
        .collect();
    let width = lines.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let lines: String = lines.iter().map(|(label, ids)| format!("\n  {label:width$} {ids}")).collect();
    if lines.is_empty() { lines } else { format!("\n\nSupported models:{lines}") }
}
