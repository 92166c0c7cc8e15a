//! Lists the models that the ready providers offer: for completion, and for the menus of fronts.

use std::sync::Arc;

use patchbay_core::{Name, completion::ThinkingLevel};

use super::Providers;
use crate::{
    Settings,
    adapters::FoundAdapters,
    catalogue::offered,
    registry::{Entry, Registry, StoredClaims},
};

/// A model that a ready provider offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyModel {
    /// The provider whose catalogue has the model.
    pub provider: Name,
    /// The model's id.
    pub id: String,
    /// The model as `/model` takes it: the id, or `PROVIDER:ID` if the id belongs to another provider.
    pub name: String,
    /// Levels that completion suggests.
    pub suggested_levels: Vec<ThinkingLevel>,
    /// Whether the provider's key is missing or cannot be used.
    pub needs_key: bool,
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

impl Providers {
    /// Returns the models of the ready providers' catalogues, provider by provider. Before the first use of the providers, these
    /// are the models of bundled adapters.
    pub async fn ready_models(&self) -> Vec<ReadyModel> {
        let consents = match self.consents().await {
            Ok(consents) => consents,
            Err(error) => {
                tracing::warn!("no models are listed: {error}");
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

    /// Returns the completions of `/model`: each model of [`Providers::ready_models`], followed by its suggested levels.
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
