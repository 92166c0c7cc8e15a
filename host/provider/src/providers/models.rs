//! Lists the models of the ready providers, for tab completion, for the menus of fronts, and for the greeting at the first start.
//! Also warns about a missing key or an unlisted model before the first message fails.

use std::sync::Arc;

use patchbay_core::{Name, completion::ThinkingLevel, text};
use patchbay_egress::CredentialError;

use super::Providers;
use crate::{
    Selector, Settings,
    adapters::FoundAdapters,
    catalogue::{Catalogue, is_listed, offered},
    registry::{Entry, Registry, StoredClaims},
    status,
};

/// A model of a ready provider. A ready provider has been allowed, but its key may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyModel {
    /// The provider whose catalogue has the model.
    pub provider: Name,
    /// The model's id, as the provider spells it.
    pub id: String,
    /// The model as `/model` accepts it: the id, or `PROVIDER:ID` if the id belongs to another provider.
    pub name: String,
    /// The thinking levels that tab completion suggests.
    pub suggested_levels: Vec<ThinkingLevel>,
    /// Whether the provider's key is missing or cannot be used.
    pub needs_key: bool,
}

/// A tab completion of `/model`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuggestedModel {
    /// The provider whose catalogue has the model.
    pub provider: Name,
    /// The model as `/model` accepts it, `MODEL[/THINKING]`.
    pub model: String,
    /// Whether the provider's key is missing or cannot be used.
    pub needs_key: bool,
}

/// A model that could answer, because its provider has a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelOffer {
    /// The provider's display name.
    pub provider: String,
    /// The model, as `/model` accepts it.
    pub model: String,
}

impl Providers {
    /// Returns whether the provider's key exists, or the problem with it; `None` if it needs none. A key command is not
    /// run: it is assumed to print a key.
    pub(super) fn find_key(&self, entry: &Entry) -> Option<Result<bool, String>> {
        entry.secret().map(|secret| match self.exchange.secrets.peek(&secret) {
            Ok(_) => Ok(true),
            Err(CredentialError::NoSecret { .. }) => Ok(false),
            Err(error) => Err(error.to_string()),
        })
    }

    /// Returns a warning about a missing or unusable key, without a full stop; `None` if the key was found or none is needed.
    pub(super) fn missing_key(&self, entry: &Entry) -> Option<String> {
        let name = &entry.name;
        match (self.find_key(entry)?, entry.variables()) {
            (Ok(true), _) => None,
            (Ok(false), []) => Some(format!("There is no key for {name} yet: add it to credentials.json")),
            (Ok(false), [variable, ..]) => {
                Some(format!("There is no key for {name} yet: set {variable} or add it to credentials.json"))
            }
            (Err(why), _) => Some(format!("The key for {name} cannot be used: {}", why.trim_end_matches('.'))),
        }
    }

    /// Returns a model of each provider whose key was found, at most three. No API is queried.
    pub async fn offers(&self) -> Vec<ModelOffer> {
        /// Maximum number of models that the greeting suggests.
        const OFFERS: usize = 3;

        let registry = self.registry().await;
        let Ok(consents) = self.consents().await else { return Vec::new() };
        let with_key: Vec<(Name, String)> = registry
            .shown()
            .into_iter()
            .filter(|entry| consents.is_ready(entry) && self.find_key(entry) == Some(Ok(true)))
            .map(|entry| (entry.name.clone(), status::display_name(entry)))
            .collect();
        let mut offers = Vec::new();
        for (name, provider) in with_key {
            let Some(model) = self.select(&name, Selector::Normal).await else { continue };
            // If another provider owns the bare name, it needs this provider's name as a prefix.
            let is_own = self.resolve(&model).await.is_ok_and(|choice| choice.provider == name);
            let model = if is_own { model } else { format!("{name}:{model}") };
            offers.push(ModelOffer { provider, model });
            if offers.len() == OFFERS {
                break;
            }
        }
        offers
    }

    /// Returns the models of the ready providers' catalogues, provider by provider. Until the providers are first used, only
    /// models of bundled adapters are listed.
    pub async fn ready_models(&self) -> Vec<ReadyModel> {
        let consents = match self.consents().await {
            Ok(consents) => consents,
            Err(error) => {
                tracing::warn!("cannot list models: {error}");
                return Vec::new();
            }
        };
        let registry = self.current().unwrap_or_else(|| {
            let (found, claims) = (FoundAdapters::default(), StoredClaims::default());
            Arc::new(Registry::build(&self.bundled, found, &Settings::default(), &claims, None))
        });
        let catalogue = self.catalogue_or_empty().await;
        let owners = registry.owners(|entry| consents.is_ready(entry));
        let reaches = |entry: &Entry, id: &str| {
            let owner = owners.of(id).map(|owner| owner.or_else(|| catalogue.only_owner(&registry, id)));
            owner.is_ok_and(|owner| owner == Some(&entry.name))
        };
        let mut models = Vec::new();
        for entry in registry.shown().into_iter().filter(|entry| consents.is_ready(entry)) {
            let needs_key = !self.has_key(entry);
            models.extend(offered(entry, &catalogue).iter().map(|model| ReadyModel {
                provider: entry.name.clone(),
                id: model.id.clone(),
                // The bare name may belong to another provider.
                name: match reaches(entry, &model.id) {
                    true => model.id.clone(),
                    false => format!("{}:{}", entry.name, model.id),
                },
                suggested_levels: model.levels.clone(),
                needs_key,
            }));
        }
        models
    }

    /// Returns the tab completions of `/model`: each model of [`Providers::ready_models`], followed by its suggested levels.
    pub async fn suggestions(&self) -> Vec<SuggestedModel> {
        let suggested = |model: ReadyModel| {
            let ReadyModel { provider, name, suggested_levels, needs_key, .. } = model;
            let levels: Vec<_> = suggested_levels.iter().map(|level| format!("{name}/{}", level.as_str())).collect();
            let names = std::iter::once(name).chain(levels);
            names.map(move |model| SuggestedModel { provider: provider.clone(), model, needs_key })
        };
        self.ready_models().await.into_iter().flat_map(suggested).collect()
    }
}

/// Returns a warning if the provider has a list of models, but neither the list nor `config.toml` contains
/// this one. It has no full stop.
pub(super) fn unlisted(entry: &Entry, catalogue: &Catalogue, model: &str) -> Option<String> {
    if offered(entry, catalogue).is_empty() || is_listed(entry, catalogue, model) || entry.is_configured(model) {
        return None;
    }
    let (name, model) = (status::display_name(entry), text::excerpt(model, 80));
    Some(format!(
        "{name} does not list a model '{model}'. Check its name; to look for newer models: /providers refresh"
    ))
}
