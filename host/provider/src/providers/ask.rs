//! Finds the provider of a model, and sends completions to it.

use patchbay_core::{
    Name,
    completion::{CompletionRequest, FailureKind, ThinkingLevel},
    text,
};

use super::{Providers, consent::Consents};
use crate::{
    Choice, CompleteError, Completed, ModelError, Selector, Sink,
    catalogue::{self, Catalogue, is_listed, known_facts, offered},
    choice::{self, ModelQuery},
    exchange,
    facts::{Lifecycle, LifecycleStatus, ModelFacts, Prices},
    registry::{Entry, Registry, RegistryView},
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

/// What is known of a model before it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelInfo {
    /// The adapter that answers, as `PROVIDER:ADAPTER`. Opaque parts of an answer belong to it.
    pub adapter: String,
    /// Tokens that the model can read; `None` if unknown.
    pub context_window: Option<u64>,
    /// Media types that a message to the model may contain.
    pub input_media: Vec<String>,
    /// Prices of its tokens, if known.
    pub prices: Option<Prices>,
    /// The thinking levels that it has, in ascending order. Empty if none is sent.
    pub levels: Vec<ThinkingLevel>,
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
        let catalogue = self.catalogue().await?;
        let found = choice::parse(text, &ready).and_then(|ModelQuery { provider, model, level }| {
            let provider = match provider {
                Some(provider) => provider,
                None => owner(&registry, &consents, &ready, &catalogue, &model)?,
            };
            Ok(Choice { provider, model, level })
        });
        // Listed ids come last, so that a text that named a model before still names the same one.
        let choice = match found {
            Ok(choice) => choice,
            Err(error) => match listed(&ready, &catalogue, text) {
                Some(choice) => choice,
                None => return Err(self.with_levels(error, &registry, &ready, &catalogue, text).await),
            },
        };
        let entry = consents.ready(&registry, &choice.provider)?;
        self.check_facts(&entry, &catalogue, &choice).await?;
        self.note_used(&entry).await;
        Ok(choice)
    }

    /// Checks that a model was not shut down, and that it has the level of the choice.
    async fn check_facts(&self, entry: &Entry, catalogue: &Catalogue, choice: &Choice) -> Result<(), ModelError> {
        let known = known_facts(entry, catalogue, &choice.model);
        let Lifecycle { status, retires_on, successor } = known.as_ref().map(ModelFacts::lifecycle).unwrap_or_default();
        if status == LifecycleStatus::Retired {
            return Err(ModelError::Retired { model: choice.model.clone(), on: retires_on, successor });
        }
        let Some(level) = choice.level.filter(|level| !level.is_common()) else { return Ok(()) };
        let more = more_levels(&self.facts(entry, catalogue, &choice.model).await?);
        if more.contains(&level) {
            return Ok(());
        }
        Err(ModelError::Level { level: level.as_str().to_owned(), more })
    }

    /// Adds the levels that the model has to an error for an invalid level.
    async fn with_levels(
        &self,
        error: ModelError,
        registry: &Registry,
        ready: &RegistryView<'_>,
        catalogue: &Catalogue,
        text: &str,
    ) -> ModelError {
        let ModelError::Level { level, .. } = error else { return error };
        let model = text.rsplit_once('/').map_or(text, |(model, _)| model);
        let query = choice::parse(model, ready).ok();
        let entry = query.as_ref().and_then(|ModelQuery { provider, model, .. }| match provider {
            Some(provider) => registry.get(provider.as_str()),
            None => ready.owner(model),
        });
        let more = match (entry, query) {
            (Some(entry), Some(query)) => self.facts(entry, catalogue, &query.model).await,
            _ => return ModelError::Level { level, more: Vec::new() },
        };
        ModelError::Level { level, more: more.map(|facts| more_levels(&facts)).unwrap_or_default() }
    }

    /// Returns everything that is known of a model of a provider, also by its adapter for a name that is in no list.
    async fn facts(&self, entry: &Entry, catalogue: &Catalogue, model: &str) -> Result<ModelFacts, ModelError> {
        if is_listed(entry, catalogue, model) {
            return Ok(known_facts(entry, catalogue, model).unwrap_or_default());
        }
        let failed = |failure| ModelError::Adapter { provider: entry.name.clone(), failure };
        let sandbox = &self.exchange.sandbox;
        let loaded = entry.adapter.loaded(sandbox).await.map_err(failed)?;
        let facts = entry.adapter.facts(sandbox, &loaded, model, &entry.options).await.map_err(failed)?;
        let mut facts = facts.as_deref().and_then(ModelFacts::parse).unwrap_or_default();
        facts.overlay(&known_facts(entry, catalogue, model).unwrap_or_default());
        Ok(facts)
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
        let facts = self.facts(&entry, &*self.catalogue().await?, &choice.model).await?;
        // The levels of a model may be known from these alone, as in a request.
        let options = exchange::with_facts(&entry.options, facts.to_json());
        let mut plan = sandbox.explain_thinking(&adapter, &choice.model, level, &options).await.map_err(failed)?;
        if let (Some((option, value)), Some(_)) = (off, choice.level) {
            plan.warning =
                Some(format!("Thinking levels are not sent: option '{option}' of this provider is '{value}'"));
        }
        let label = entry.adapter.manifest.extra.iter().find(|(name, _)| name == "api-label");
        let label = label.map(|(_, label)| format!(" ({label})")).unwrap_or_default();
        let model = text::clean_line(&choice.model);
        let mut lines = vec![format!("✓ Switched to {} {model}{label}", status::display_name(&entry))];
        lines.extend(ending(&facts.lifecycle()).map(|warning| format!("  ⚠ {warning}")));
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

    /// Returns the first model in the provider's catalogue of the size of `selector`, or of the next best size. `None` without a
    /// catalogue.
    pub async fn select(&self, provider: &Name, selector: Selector) -> Option<String> {
        let registry = self.registry().await;
        let entry = registry.get(provider.as_str())?;
        let models = offered(entry, &*self.catalogue_or_empty().await);
        catalogue::select(&models, selector.sizes()).map(|model| model.id.clone())
    }

    /// Returns what is known of a model; `None` if there is no such provider.
    pub async fn model(&self, provider: &Name, model: &str) -> Option<ModelInfo> {
        let registry = self.registry().await;
        let entry = registry.get(provider.as_str())?;
        let facts = self.facts(entry, &*self.catalogue_or_empty().await, model).await.unwrap_or_else(|error| {
            tracing::warn!("what is known of the model '{model}' could not be asked: {error}");
            ModelFacts::default()
        });
        Some(ModelInfo {
            adapter: format!("{}:{}", entry.name, entry.adapter.manifest.name),
            context_window: facts.context_window().or(entry.context_window),
            input_media: facts.input_media().unwrap_or_default(),
            prices: facts.prices(),
            levels: if entry.thinking_off().is_some() { Vec::new() } else { facts.thinking_levels() },
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
        choice.check()?;
        let registry = self.registry().await;
        let entry = self.ready(&registry, &choice.provider).await?;
        drop(registry);
        let mut route = self.route_of(&entry).await?;
        let catalogue = self.catalogue().await.map_err(ModelError::from)?;
        let facts = self.facts(&entry, &catalogue, &choice.model).await?;
        route.model_facts = facts.to_json();
        self.note_used(&entry).await;
        exchange::complete(&self.exchange, &route, request, sink).await.map_err(|error| match facts.lifecycle() {
            Lifecycle { status: LifecycleStatus::Retired, retires_on, successor }
                if error.kind() == FailureKind::NotFound =>
            {
                ModelError::Retired { model: choice.model.clone(), on: retires_on, successor }.into()
            }
            // It may have ended since its end was stored. Another origin may have another reason, which is shown.
            Lifecycle { status: LifecycleStatus::Deprecated, retires_on, successor }
                if error.kind() == FailureKind::NotFound =>
            {
                ModelError::Ended { failure: error.to_string(), on: retires_on, successor }.into()
            }
            _ => error.into(),
        })
    }

    /// Whether the key of a provider was found, or none is needed. The key is not read.
    pub(super) fn has_key(&self, entry: &Entry) -> bool {
        entry.secret().is_none_or(|secret| self.exchange.secrets.locate(&secret).is_ok())
    }

    /// Returns what a request to a provider needs. The provider may be asked.
    pub(super) async fn route_of(&self, entry: &Entry) -> Result<Route, ModelError> {
        let failed = |failure| ModelError::Adapter { provider: entry.name.clone(), failure };
        let hint = entry.adapter.manifest.credential.as_ref();
        let credential = entry.secret().map(|secret| RouteCredential {
            id: hint.map_or_else(|| "api-key".to_owned(), |hint| hint.id.clone()),
            secret,
            // The page has keys of the adapter's own API; a proxy or another server has other keys.
            obtain_url: hint.and_then(|hint| hint.obtain_url.clone()).filter(|_| entry.has_own_origin()),
        });
        Ok(Route {
            provider: entry.name.clone(),
            adapter: entry.adapter.loaded(&self.exchange.sandbox).await.map_err(failed)?,
            base: entry.base.clone(),
            credential,
            options: entry.options.clone(),
            model_facts: None,
        })
    }
}

/// Returns the provider that owns `model`: by `[routes]`, then among the ready providers, the pending ones, and the refused ones,
/// so that the error names the refused one.
fn owner(
    registry: &Registry,
    consents: &Consents,
    ready: &RegistryView<'_>,
    catalogue: &Catalogue,
    model: &str,
) -> Result<Name, ModelError> {
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
        None => {
            Err(ModelError::Unknown { model: model.to_owned(), supported: supported(registry, consents, catalogue) })
        }
    }
}

/// Returns the model that a text names by an id that only one ready provider's API lists, and that no table and no prefix
/// knows: the whole text, or the text before a level.
fn listed(ready: &RegistryView<'_>, catalogue: &Catalogue, text: &str) -> Option<Choice> {
    let named = |model: &str, level| {
        let is_known = ready.owner(model).is_some();
        let owner = catalogue.only_owner(ready.entries(), model).filter(|_| !is_known)?;
        Some(Choice { provider: owner.clone(), model: model.to_owned(), level })
    };
    named(text, None).or_else(|| {
        let (model, level) = text.rsplit_once('/')?;
        named(model, Some(ThinkingLevel::from_word(level)?))
    })
}

/// Returns the levels that a model has besides the common ones.
fn more_levels(facts: &ModelFacts) -> Vec<ThinkingLevel> {
    ThinkingLevel::ALL.into_iter().filter(|level| !level.is_common() && facts.has_level(*level)).collect()
}

/// Returns the warning about a model that its provider is going to shut down.
fn ending(lifecycle: &Lifecycle) -> Option<String> {
    let Lifecycle { status: LifecycleStatus::Deprecated, retires_on, successor } = lifecycle else { return None };
    let mut warning = match retires_on {
        Some(date) => format!("This model ends on {date}"),
        None => "This model is deprecated".to_owned(),
    };
    if let Some(successor) = successor {
        warning += &format!(". Its successor is {successor}");
    }
    Some(warning)
}

/// The most models of one provider in [`ModelError::Unknown`].
const LISTED_MODELS: usize = 12;

/// Returns the models of the ready providers for [`ModelError::Unknown`]: a blank line, then a line for each provider with a
/// catalogue. Models that were shut down are left out.
fn supported(registry: &Registry, consents: &Consents, catalogue: &Catalogue) -> String {
    let ready = registry.shown().into_iter().filter(|entry| consents.is_ready(entry));
    let listed = ready.map(|entry| (entry, offered(entry, catalogue))).filter(|(_, models)| !models.is_empty());
    let lines: Vec<_> = listed
        .map(|(entry, models)| {
            let mut ids: Vec<_> = models.iter().map(|model| model.id.as_str()).collect();
            let more = ids.len().saturating_sub(LISTED_MODELS);
            ids.truncate(LISTED_MODELS);
            let more =
                if more > 0 { format!(", … and {} more", text::with_commas(more as u64)) } else { String::new() };
            (format!("{}:", status::display_name(entry)), ids.join(", ") + &more)
        })
        .collect();
    let width = lines.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let lines: String = lines.iter().map(|(label, ids)| format!("\n  {label:width$} {ids}")).collect();
    if lines.is_empty() { lines } else { format!("\n\nSupported models:{lines}") }
}
