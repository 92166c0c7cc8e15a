//! Finds the provider of a model, and sends completions to it.

use std::{collections::BTreeSet, sync::Arc};

use patchbay_core::{
    Name,
    completion::{CompletionRequest, FailureKind, ThinkingLevel},
    text,
};
use patchbay_store::StoreError;

use super::{Providers, consent::Consents, models::unlisted};
use crate::{
    Choice, CompleteError, Completed, ModelError, Selector, Sink,
    catalogue::{self, Catalogue, absence, is_listed, known_facts, offered, offers},
    choice::{self, ModelQuery},
    exchange,
    facts::{Lifecycle, LifecycleStatus, ModelFacts, Prices},
    registry::{Entry, Owners, Registry},
    route::{Base, Route, RouteCredential, prefix},
    status,
};

/// The default model if `config.toml` names none.
const FALLBACK: &str = "demo-1";

/// The model of an agent for which none was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultChoice {
    /// The provider, model and level.
    pub choice: Choice,
    /// Whether `default_model` of `config.toml` names it.
    pub configured: bool,
}

/// A name that resolves to another provider than in builds before the prefix `llama-` had an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedName {
    /// The model as those builds understood the name.
    pub from: Choice,
    /// The model to which the name resolves now.
    pub to: Choice,
}

/// The properties of a model that are known without asking it.
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
    /// Whether its provider runs on this machine, where requests cost nothing unless there are prices.
    pub is_local: bool,
    /// The largest number of tokens of an answer; `None` if unknown.
    pub max_output_tokens: Option<u64>,
    /// The thinking levels of the model, in ascending order. Empty if levels are not sent.
    pub levels: Vec<ThinkingLevel>,
}

/// The context of a completion besides its request.
struct PreparedRoute {
    entry: Arc<Entry>,
    route: Route,
    facts: ModelFacts,
    catalogue: Arc<Catalogue>,
}

impl Providers {
    /// Returns the model and the provider that `[PROVIDER:]MODEL[/THINKING]` names.
    ///
    /// # Errors
    /// [`ModelError`], with the messages of the command reference.
    pub async fn resolve(&self, text: &str) -> Result<Choice, ModelError> {
        let registry = self.registry().await;
        let consents = self.consents().await?;
        let owners = registry.owners(|entry| consents.is_ready(entry));
        let catalogue = self.catalogue().await?;
        let choice = match find(&owners, &catalogue, text) {
            Ok(choice) => choice,
            Err(error) => return Err(self.with_hints(error, &owners, &consents, &catalogue, text).await),
        };
        let entry = consents.ready(&registry, &choice.provider)?;
        self.check_level(&entry, &catalogue, &choice).await?;
        self.note_used(&entry).await;
        Ok(choice)
    }

    /// Returns how `text` resolved in builds before the prefix `llama-` had an owner, if it named another provider's model then;
    /// `None` if the provider is the same, or if the text named no model. Only uses the present tables, lists and settings.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn moved(&self, text: &str) -> Result<Option<MovedName>, StoreError> {
        let registry = self.registry().await;
        let consents = self.consents().await?;
        let owners = registry.owners(|entry| consents.is_ready(entry));
        let catalogue = self.catalogue().await?;
        Ok(moved(&owners, &catalogue, text))
    }

    /// Returns `default_model` of `config.toml`.
    pub async fn default_model(&self) -> Option<String> {
        self.registry().await.default_model.clone()
    }

    /// Checks that a model has the level of the choice.
    async fn check_level(&self, entry: &Entry, catalogue: &Catalogue, choice: &Choice) -> Result<(), ModelError> {
        let Some(level) = choice.level.filter(|level| !level.is_common()) else { return Ok(()) };
        let more = more_levels(&self.facts(entry, catalogue, &choice.model).await?);
        if more.contains(&level) {
            return Ok(());
        }
        Err(ModelError::Level { level: level.as_str().to_owned(), more })
    }

    /// Adds hints to an error: the model's levels to an invalid level, and the existing models to an unknown model.
    async fn with_hints(
        &self,
        error: ModelError,
        owners: &Owners<'_>,
        consents: &Consents,
        catalogue: &Catalogue,
        text: &str,
    ) -> ModelError {
        let (registry, ready) = (owners.registry, &owners.ready);
        if let ModelError::Unknown { model, .. } = error {
            let supported = shared(registry, catalogue, text)
                + &yielded(registry, text)
                + &supported(registry, consents, catalogue);
            return ModelError::Unknown { model, supported };
        }
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

    /// Returns everything that is known about a model of a provider, including facts from its adapter for an unlisted
    /// name.
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

    /// Returns the model of an agent for which none was chosen: `default_model` of `config.toml`, otherwise `demo-1`.
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

    /// Returns warnings about a choice for the user, shown before its first message, as sentences without their full
    /// stops: that the model was or will be shut down, and which other providers list it, unless `text` or
    /// `config.toml` names this one. `text` is the string that [`Providers::resolve`] resolved to the choice.
    ///
    /// # Errors
    /// [`ModelError`], if the provider may not be asked or its adapter failed.
    pub async fn cautions(&self, text: &str, choice: &Choice) -> Result<Vec<String>, ModelError> {
        let registry = self.registry().await;
        let consents = self.consents().await?;
        let entry = consents.ready(&registry, &choice.provider)?;
        let catalogue = self.catalogue().await?;
        let facts = self.facts(&entry, &catalogue, &choice.model).await?;
        let absent = absent(&entry, &catalogue, &choice.model);
        let end = describe_end(&facts.lifecycle(), absent, "ends");
        // There is no doubt about the provider if the user or the operator named it.
        let is_named = text.strip_prefix(choice.provider.as_str()).is_some_and(|rest| rest.starts_with(':'));
        let is_clear = is_named || entry.is_configured(&choice.model) || registry.route(&choice.model).is_some();
        let others = if is_clear { Vec::new() } else { also_listed(&registry, &consents, &catalogue, choice) };
        Ok(end.into_iter().chain(others).collect())
    }

    /// Returns the message for the user about a choice: provider, model, cautions, and the effect of the thinking
    /// level. `text` is the string that [`Providers::resolve`] resolved to the choice.
    ///
    /// # Errors
    /// [`ModelError`], if the provider may not be asked or its adapter failed.
    pub async fn explain(&self, text: &str, choice: &Choice) -> Result<String, ModelError> {
        let registry = self.registry().await;
        let entry = self.ready(&registry, &choice.provider).await?;
        let failed = |failure| ModelError::Adapter { provider: choice.provider.clone(), failure };
        let sandbox = &self.exchange.sandbox;
        let adapter = entry.adapter.loaded(sandbox).await.map_err(failed)?;
        // `explain-thinking` in the first version of the contract has no options, so an option that turns levels off is
        // evaluated here.
        let off = entry.thinking_off();
        let level = if off.is_some() { None } else { choice.level };
        let catalogue = self.catalogue().await?;
        let facts = self.facts(&entry, &catalogue, &choice.model).await?;
        // As in a request, the levels of a model may be known only from its facts.
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
        let mut cautions = self.cautions(text, choice).await?;
        // If there is a caution, the name is known somewhere.
        cautions.extend(unlisted(&entry, &catalogue, &choice.model).filter(|_| cautions.is_empty()));
        cautions.extend(self.missing_key(&entry));
        lines.extend(cautions.iter().map(|caution| format!("  ⚠ {caution}")));
        lines.extend(plan.warning.map(|warning| format!("  ⚠ {warning}")));
        lines.extend(plan.description.iter().map(|line| format!("  {line}")));
        Ok(lines.join("\n"))
    }

    /// Checks that the provider of `choice` may be asked now. Does not look for its key.
    ///
    /// # Errors
    /// [`ModelError`], if the model has an invalid name, or its provider is gone or not ready.
    pub async fn check_choice(&self, choice: &Choice) -> Result<(), ModelError> {
        choice.check()?;
        self.ready(&*self.registry().await, &choice.provider).await.map(drop)
    }

    /// Returns the first model in the provider's catalogue that has the size of `selector`, or the next best size.
    /// `None` without a catalogue.
    pub async fn select(&self, provider: &Name, selector: Selector) -> Option<String> {
        let registry = self.registry().await;
        let entry = registry.get(provider.as_str())?;
        let models = offered(entry, &*self.catalogue_or_empty().await);
        catalogue::select(&models, selector.sizes()).map(|model| model.id.clone())
    }

    /// Returns the known properties of a model, or `None` if the provider does not exist.
    pub async fn model(&self, provider: &Name, model: &str) -> Option<ModelInfo> {
        let registry = self.registry().await;
        let entry = registry.get(provider.as_str())?;
        let catalogue = self.catalogue_or_empty().await;
        let is_ready = self.consents().await.is_ok_and(|consents| consents.is_ready(entry));
        let facts = if is_ready {
            self.facts(entry, &catalogue, model).await.unwrap_or_else(|error| {
                tracing::warn!("cannot ask the adapter about the model '{model}': {error}");
                ModelFacts::default()
            })
        } else {
            // An adapter that the operator has not allowed, or has blocked, is not run.
            known_facts(entry, &catalogue, model).unwrap_or_default()
        };
        Some(ModelInfo {
            adapter: format!("{}:{}", entry.name, entry.adapter.manifest.name),
            context_window: facts.context_window().or(entry.context_window),
            input_media: facts.input_media().unwrap_or_default(),
            prices: facts.prices(),
            is_local: entry.base.as_ref().map_or(entry.base_url.is_none(), Base::is_local),
            max_output_tokens: facts.max_output_tokens(),
            levels: if entry.thinking_off().is_some() { Vec::new() } else { facts.thinking_levels() },
        })
    }

    /// Requests a completion and forwards it to `sink` as it arrives. A reload does not affect a running completion.
    ///
    /// # Errors
    /// Every failure is reported as [`CompleteError`].
    pub async fn complete(
        &self,
        choice: &Choice,
        request: CompletionRequest,
        sink: &mut dyn Sink,
    ) -> Result<Completed, CompleteError> {
        let prepared = self.prepare(choice).await;
        let PreparedRoute { entry, route, facts, catalogue } = prepared.inspect_err(|_| sink.failed_free())?;
        exchange::complete(&self.exchange, &route, request, sink).await.map_err(|error| {
            if error.kind() != FailureKind::NotFound {
                return error.into();
            }
            // The model may have ended since its facts were stored. A server at another origin may have another reason,
            // so its message is shown, too.
            let absent = absent(&entry, &catalogue, &choice.model);
            match describe_end(&facts.lifecycle(), absent, "is scheduled to be shut down") {
                Some(end) => ModelError::Ended { failure: error.to_string(), end }.into(),
                None => error.into(),
            }
        })
    }

    /// Returns the parts that a completion needs in addition to its request.
    async fn prepare(&self, choice: &Choice) -> Result<PreparedRoute, ModelError> {
        choice.check()?;
        let entry = self.ready(&*self.registry().await, &choice.provider).await?;
        let mut route = self.route_of(&entry).await?;
        let catalogue = self.catalogue().await?;
        let facts = self.facts(&entry, &catalogue, &choice.model).await?;
        route.model_facts = facts.to_json();
        self.note_used(&entry).await;
        Ok(PreparedRoute { entry, route, facts, catalogue })
    }

    /// Whether the key of a provider was found, or none is needed. The key is not read.
    pub(super) fn has_key(&self, entry: &Entry) -> bool {
        entry.secret().is_none_or(|secret| self.exchange.secrets.locate(&secret).is_ok())
    }

    /// Returns the route for requests to a provider, which must be ready.
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

/// Returns the model that `text` names. Its provider may not be ready.
///
/// # Errors
/// [`ModelError`], without the hints of [`Providers::with_hints`].
fn find(owners: &Owners<'_>, catalogue: &Catalogue, text: &str) -> Result<Choice, ModelError> {
    let found = choice::parse(text, &owners.ready).and_then(|ModelQuery { provider, model, level }| {
        let provider = match provider {
            Some(provider) => provider,
            None => owner(owners, &model)?,
        };
        Ok(Choice { provider, model, level })
    });
    // Listed ids come last: a name that resolved before a listing must still resolve to the same model.
    found.or_else(|error| listed(owners, catalogue, text, |id| owners.of(id))?.ok_or(error))
}

/// Returns both models if a name that a provider now owns only through a yielding prefix belonged to another provider
/// before the prefix had an owner. At that time, the APIs' listings decided.
fn moved(owners: &Owners<'_>, catalogue: &Catalogue, text: &str) -> Option<MovedName> {
    let ModelQuery { provider: None, model, .. } = choice::parse(text, &owners.ready).ok()? else { return None };
    let to = find(owners, catalogue, text).ok()?;
    let entry = owners.registry.get(to.provider.as_str())?;
    if !entry.only_yields(&model) || owners.registry.route(&model).is_some() {
        return None;
    }
    let from = listed(owners, catalogue, text, |_| Ok(None)).ok()??;
    (from.provider != to.provider).then_some(MovedName { from, to })
}

/// Returns the provider that owns `model`, regardless of the models that APIs list.
fn owner(owners: &Owners<'_>, model: &str) -> Result<Name, ModelError> {
    if let Some(name) = owners.of(model)? {
        return Ok(name.clone());
    }
    // `PROVIDER:MODEL` of a provider that may not be asked: the error then says why.
    let named = model.split_once(':').and_then(|(name, _)| name.parse().ok());
    match named.filter(|name| !matches!(owners.registry.find(name), Err(ModelError::Gone(_)))) {
        Some(name) => Ok(name),
        None => Err(ModelError::Unknown { model: model.to_owned(), supported: String::new() }),
    }
}

/// Returns the ways to read a text: as an id, and as an id followed by a level.
fn readings(text: &str) -> impl Iterator<Item = (&str, Option<ThinkingLevel>)> {
    let before_level = text.rsplit_once('/').and_then(|(id, level)| Some((id, Some(ThinkingLevel::from_word(level)?))));
    [(text, None)].into_iter().chain(before_level)
}

/// Returns the model that a text names by an id that an API lists or has listed. An id that belongs to a provider by a
/// route, a table or a prefix stays with that provider, which `owner` returns. Any other id belongs to the only
/// provider whose API has listed it. If a text can be read in two ways, both must lead to the same provider: what one
/// provider lists never moves a name from another. Returns `None` if no API has listed the id.
///
/// # Errors
/// [`ModelError::Unknown`] if several providers have it; errors of `owner`.
fn listed<'a>(
    owners: &Owners<'a>,
    catalogue: &Catalogue,
    text: &str,
    owner: impl Fn(&str) -> Result<Option<&'a Name>, ModelError>,
) -> Result<Option<Choice>, ModelError> {
    let mut found: Option<Choice> = None;
    for (id, level) in readings(text).filter(|(id, _)| catalogue.claimants(id).next().is_some()) {
        let owner = owner(id)?.or_else(|| catalogue.only_owner(owners.registry, id));
        match (owner, &found) {
            (Some(owner), None) => found = Some(Choice { provider: owner.clone(), model: id.to_owned(), level }),
            (Some(owner), Some(found)) if found.provider == *owner => {}
            _ => return Err(ModelError::Unknown { model: text.to_owned(), supported: String::new() }),
        }
    }
    Ok(found)
}

/// Returns how to name a provider whose API lists a model or has listed it, for [`ModelError::Unknown`]: a blank line, then the
/// line. Empty for other models.
fn shared(registry: &Registry, catalogue: &Catalogue, text: &str) -> String {
    let claimants: BTreeSet<_> = readings(text).flat_map(|(id, _)| catalogue.claimants(id)).collect();
    let model = text::excerpt(text, 80);
    if claimants.len() < 2 {
        let moved = |name: &&str| {
            let entry = registry.get(name);
            entry.is_some_and(|entry| readings(text).all(|(id, _)| catalogue.facts(entry, id).is_none()))
        };
        let hint = |name| format!("\n\n'{name}' listed this name at another origin. To choose it: {name}:{model}");
        return claimants.into_iter().find(moved).map(hint).unwrap_or_default();
    }
    let exists = |name: &Name| !matches!(registry.find(name), Err(ModelError::Gone(_)));
    let (existing, removed): (Vec<&str>, Vec<&str>) =
        claimants.iter().copied().partition(|name| name.parse().is_ok_and(|name| exists(&name)));
    // Providers that have dropped the model are named only if no provider lists it.
    let lists =
        |name: &&str| registry.get(name).is_some_and(|entry| readings(text).any(|(id, _)| catalogue.lists(entry, id)));
    let listing: Vec<_> = existing.iter().copied().filter(lists).collect();
    let offered = if listing.is_empty() { existing } else { listing };
    let names = claimants.into_iter().collect::<Vec<_>>().join(", ");
    let mut line = format!("\n\nSeveral providers list this name or have listed it: {names}.");
    if !offered.is_empty() {
        let choices: Vec<_> = offered.iter().map(|name| format!("{name}:{model}")).collect();
        line += &format!(" Name one: {}.", choices.join(" or "));
    }
    for name in removed {
        line += &format!(" '{name}' is no longer a provider. To free its names: patchbay provider forget {name}");
    }
    line
}

/// Returns why a model has no provider although a bundled provider declares its prefix, for [`ModelError::Unknown`]: a blank line,
/// then the line. Empty if that is not the reason.
fn yielded(registry: &Registry, text: &str) -> String {
    let model = text::excerpt(text, 80);
    let mut all = registry.entries.iter().flat_map(|entry| entry.yielded.iter().map(move |yielded| (entry, yielded)));
    let found = all.find(|(_, (own, _))| readings(text).any(|(id, _)| prefix::matches(own, id)));
    let Some((entry, (own, owner))) = found else { return String::new() };
    let name = format!("To name a provider: {}:{model}", entry.name);
    match owner.parse().is_ok_and(|owner| matches!(registry.find(&owner), Err(ModelError::Gone(_)))) {
        false => format!("\n\nThe prefix '{own}' belongs to provider '{owner}'. {name}"),
        true => format!(
            "\n\nThe prefix '{own}' belongs to '{owner}', which is no longer a provider. {name}. To free the \
             prefix: patchbay \
             provider forget {owner}"
        ),
    }
}

/// Returns a hint for each other ready provider that lists the model: how to name the model there.
fn also_listed(registry: &Registry, consents: &Consents, catalogue: &Catalogue, choice: &Choice) -> Vec<String> {
    let Choice { provider, model, .. } = choice;
    let shown = registry.shown().into_iter().filter(|entry| entry.name != *provider && consents.is_ready(entry));
    let listing = shown.filter(|entry| catalogue.lists(entry, model) || offers(entry, catalogue, model));
    listing.take(ALSO_LISTED).map(|entry| format!("'{0}' lists it too: {0}:{model}", entry.name)).collect()
}

/// Maximum number of other providers that are named because they list the same model.
const ALSO_LISTED: usize = 3;

/// Returns the levels that a model has besides the common ones.
fn more_levels(facts: &ModelFacts) -> Vec<ThinkingLevel> {
    ThinkingLevel::ALL.into_iter().filter(|level| !level.is_common() && facts.has_level(*level)).collect()
}

/// Returns a sentence, without its full stop, if a complete list of a provider's API lacks a model.
fn absent(entry: &Entry, catalogue: &Catalogue, model: &str) -> Option<String> {
    let words = absence(entry, catalogue, model)?;
    Some(format!("{} {words} this model", status::display_name(entry)))
}

/// Returns sentences about the end of a model, the last one without its full stop: whether it is `absent` from the
/// provider's list, the day, and the successor. `None` if the provider lists it and has announced no end. `ends` is the
/// phrase between `This model` and an announced day.
fn describe_end(lifecycle: &Lifecycle, absent: Option<String>, ends: &str) -> Option<String> {
    let Lifecycle { status, retires_on, successor } = lifecycle;
    let subject = if absent.is_some() { "It" } else { "This model" };
    let on = retires_on.as_ref().map(|date| format!(" on {date}")).unwrap_or_default();
    let announced = match (status, &absent) {
        (LifecycleStatus::Retired, _) => Some(format!("{subject} was shut down{on}")),
        (LifecycleStatus::Active, None) => return None,
        (LifecycleStatus::Active, Some(_)) if on.is_empty() => None,
        (LifecycleStatus::Deprecated, None) if on.is_empty() => Some(format!("{subject} is deprecated")),
        (LifecycleStatus::Deprecated, None) => Some(format!("{subject} {ends}{on}")),
        (_, Some(_)) => Some(format!("{subject} is scheduled to be shut down{on}")),
    };
    let successor = successor.as_ref().map(|successor| format!("Its successor is {successor}"));
    Some([absent, announced, successor].into_iter().flatten().collect::<Vec<_>>().join(". "))
}

/// Maximum number of models of one provider in [`ModelError::Unknown`]. The tables of the bundled adapters are shorter;
/// an API may list thousands.
const LISTED_MODELS: usize = 40;

/// Returns the models of the ready providers for [`ModelError::Unknown`]: a blank line, then a line for each provider with a
/// catalogue. Models that were shut down are left out. A last line names the providers that have more models than are shown.
fn supported(registry: &Registry, consents: &Consents, catalogue: &Catalogue) -> String {
    let ready = registry.shown().into_iter().filter(|entry| consents.is_ready(entry));
    let listed = ready.map(|entry| (entry, offered(entry, catalogue))).filter(|(_, models)| !models.is_empty());
    let mut more = Vec::new();
    let lines: Vec<_> = listed
        .map(|(entry, models)| {
            let name = status::display_name(entry);
            if let Some(hidden) = models.len().checked_sub(LISTED_MODELS).filter(|hidden| *hidden > 0) {
                more.push(format!("{} of {name}", text::with_commas(hidden as u64)));
            }
            let ids: Vec<_> = models.iter().take(LISTED_MODELS).map(|model| model.id.as_str()).collect();
            (format!("{name}:"), ids.join(", "))
        })
        .collect();
    let width = lines.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let lines: String = lines.iter().map(|(label, ids)| format!("\n  {label:width$} {ids}")).collect();
    let more = match more.is_empty() {
        true => String::new(),
        false => format!("\n\nNot shown: {}. 'patchbay provider list --json' has all.", more.join(", ")),
    };
    if lines.is_empty() { lines } else { format!("\n\nSupported models:{lines}{more}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_a_model_is_described() {
        use LifecycleStatus::{Active, Deprecated, Retired};
        let lifecycle = |status, date: Option<&str>, successor: Option<&str>| Lifecycle {
            status,
            retires_on: date.map(str::to_owned),
            successor: successor.map(str::to_owned),
        };
        let all = lifecycle(Deprecated, Some("2026-11-30"), Some("new-1"));
        let gone = "Zed no longer lists this model";
        for (lifecycle, is_gone, expected) in [
            (all.clone(), false, "This model ends on 2026-11-30. Its successor is new-1"),
            (lifecycle(Deprecated, None, None), false, "This model is deprecated"),
            (all, true, ". It is scheduled to be shut down on 2026-11-30. Its successor is new-1"),
            (lifecycle(Active, Some("2026-11-30"), None), true, ". It is scheduled to be shut down on 2026-11-30"),
            (lifecycle(Deprecated, None, None), true, ". It is scheduled to be shut down"),
            (lifecycle(Active, None, Some("new-1")), true, ". Its successor is new-1"),
            (lifecycle(Active, None, None), true, ""),
            (
                lifecycle(Retired, Some("2026-10-23"), Some("new-1")),
                false,
                "This model was shut down on 2026-10-23. Its successor is new-1",
            ),
            (lifecycle(Retired, None, None), false, "This model was shut down"),
            (lifecycle(Retired, Some("2026-10-23"), None), true, ". It was shut down on 2026-10-23"),
            // An end announced for a model that is listed and active is only reported once the model is deprecated.
            (lifecycle(Active, Some("2026-11-30"), None), false, ""),
        ] {
            let absent = is_gone.then(|| gone.to_owned());
            let expected = Some(absent.clone().unwrap_or_default() + expected).filter(|words| !words.is_empty());
            assert_eq!(describe_end(&lifecycle, absent, "ends"), expected, "{lifecycle:?}");
        }
    }
}
