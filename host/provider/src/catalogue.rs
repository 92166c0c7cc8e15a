//! The models of the providers. A [`Catalogue`] contains the models that APIs listed, and [`offered`] merges them with the tables:
//! the models that the adapters' manifests and `config.toml` name. Used by `ask` and `status`; filled by `providers::refresh`.
//!
//! The listed models are kept in the store, and in memory from the first use. If another process refreshes them, the store's
//! generation changes, and they are read again.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use parking_lot::Mutex;
use patchbay_core::{Digest, Name, completion::ThinkingLevel};
use patchbay_sandbox::adapter::{ModelEntry, ModelSize};
use patchbay_store::StoredCatalogue;

use crate::{
    facts::{LifecycleStatus, ModelFacts},
    model_name::name_problem,
    registry::{Entry, Registry},
};

/// The models that APIs list or have listed, at one moment.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    /// The store's generation that this was read from.
    pub(crate) generation: i64,
    providers: BTreeMap<String, ListedProvider>,
}

/// The models that the API of one provider lists or has listed.
#[derive(Debug)]
pub(crate) struct ListedProvider {
    base_url: String,
    /// When the last listing succeeded, in seconds since 1970.
    pub(crate) listed_at: Option<i64>,
    /// Why the last listing failed.
    pub(crate) problem: Option<String>,
    /// Number of models that the last listing left out as invalid.
    pub(crate) left_out: u64,
    /// The adapter that received a complete list, which means that no other models exist. This does not apply to
    /// another adapter, whose table may be newer.
    complete_for: Option<Digest>,
    models: BTreeMap<String, ModelFacts>,
    /// The last facts of models that have disappeared from the list.
    gone: BTreeMap<String, ModelFacts>,
    /// Ids that were listed at an earlier base URL.
    elsewhere: BTreeSet<String>,
}

impl ListedProvider {
    /// Whether the API of the provider lists `id`, or has listed it, at any base URL.
    fn claims(&self, id: &str) -> bool {
        self.models.contains_key(id) || self.gone.contains_key(id) || self.elsewhere.contains(id)
    }

    /// Whether the API lists `id`, or a version of it.
    fn has_version_of(&self, id: &str) -> bool {
        let from = self.models.range::<str, _>((Bound::Included(id), Bound::Unbounded)).map(|(listed, _)| listed);
        from.take_while(|listed| listed.starts_with(id)).any(|listed| listed == id || is_version(listed, id))
    }
}

/// A model of a provider, with everything that is known about it without running the adapter.
#[derive(Clone, Debug)]
pub(crate) struct OfferedModel {
    pub(crate) id: String,
    pub(crate) facts: ModelFacts,
    /// The thinking levels that tab completion offers.
    pub(crate) levels: Vec<ThinkingLevel>,
}

impl Catalogue {
    /// Reads the stored catalogues. Models whose id is not a model name, or whose facts are not a JSON object, are left
    /// out.
    pub(crate) fn read(generation: i64, stored: Vec<StoredCatalogue>) -> Self {
        let facts = |models: Vec<(String, String)>| {
            let valid = models.into_iter().filter(|(id, _)| name_problem(id).is_none());
            valid.filter_map(|(id, facts)| Some((id, ModelFacts::parse(&facts)?))).collect()
        };
        let providers = stored.into_iter().map(|of| {
            let listed = ListedProvider {
                base_url: of.base_url,
                listed_at: of.listed_at,
                problem: of.problem,
                left_out: of.left_out,
                complete_for: of.complete_for,
                models: facts(of.models),
                gone: facts(of.gone),
                elsewhere: of.elsewhere.into_iter().collect(),
            };
            (of.provider, listed)
        });
        Self { generation, providers: providers.collect() }
    }

    /// Returns the models that a provider's API listed, or `None` if the API was never asked at its present base URL.
    pub(crate) fn of(&self, entry: &Entry) -> Option<&ListedProvider> {
        let listed = self.providers.get(entry.name.as_str())?;
        (Some(&listed.base_url) == entry.base_url.as_ref()).then_some(listed)
    }

    /// Returns the facts that the API of a provider reported about a model, even if it no longer lists the model.
    pub(crate) fn facts(&self, entry: &Entry, id: &str) -> Option<&ModelFacts> {
        let listed = self.of(entry)?;
        listed.models.get(id).or_else(|| listed.gone.get(id))
    }

    /// Whether the API of a provider lists `id`.
    pub(crate) fn lists(&self, entry: &Entry, id: &str) -> bool {
        self.of(entry).is_some_and(|listed| listed.models.contains_key(id))
    }

    /// Returns the providers whose APIs list `id` or have listed it. They keep their claim, whatever happens to the
    /// model and to the provider, because a listing must never move a name to another provider.
    pub(crate) fn claimants(&self, id: &str) -> impl Iterator<Item = &str> {
        self.providers.iter().filter(move |(_, listed)| listed.claims(id)).map(|(name, _)| name.as_str())
    }

    /// Returns the only provider whose API lists `id` or has listed it; `None` if there is none or more than one, or if
    /// the API was at another base URL at the time.
    pub(crate) fn only_owner<'a>(&self, registry: &'a Registry, id: &str) -> Option<&'a Name> {
        let mut claimants = self.claimants(id);
        let owner = claimants.next().filter(|_| claimants.next().is_none())?;
        registry.get(owner).filter(|entry| self.facts(entry, id).is_some()).map(|entry| &entry.name)
    }
}

/// Returns `no longer lists` or `does not list` if the provider's complete list lacks the model. `None` if the list contains the
/// model or a version of it, or if `config.toml` names it.
pub(crate) fn absence(entry: &Entry, catalogue: &Catalogue, id: &str) -> Option<&'static str> {
    let listed = catalogue.of(entry).filter(|listed| listed.complete_for == Some(entry.adapter.digest))?;
    if entry.is_configured(id) || listed.has_version_of(id) {
        return None;
    }
    if listed.gone.contains_key(id) {
        return Some("no longer lists");
    }
    entry.model(id).is_some().then_some("does not list")
}

/// Whether the adapter need not be asked about a model, because the provider's table contains the model or the model that it is a
/// version of, or because the API lists or has listed it.
pub(crate) fn is_listed(entry: &Entry, catalogue: &Catalogue, id: &str) -> bool {
    in_table(entry, id).is_some() || catalogue.facts(entry, id).is_some()
}

/// Returns the known facts about a provider's model, without running the adapter: from its table, overlaid with the
/// API's list, overlaid with `config.toml`. `None` if nothing is known.
pub(crate) fn known_facts(entry: &Entry, catalogue: &Catalogue, id: &str) -> Option<ModelFacts> {
    let (table, listed, own) = (in_table(entry, id), catalogue.facts(entry, id), entry.configured.get(id));
    if table.is_none() && listed.is_none() && own.is_none() {
        return None;
    }
    let mut facts = table.map(ModelFacts::of_entry).unwrap_or_default();
    if let Some(listed) = listed {
        facts.overlay(listed);
    }
    // The operator's own settings win.
    if let Some(own) = own {
        facts.overlay(&ModelFacts::of_entry(own));
        facts.add_levels(&own.suggested_levels);
    }
    Some(facts)
}

/// Returns the table entry for a model, or for the model that it is a version of.
fn in_table<'a>(entry: &'a Entry, id: &str) -> Option<&'a ModelEntry> {
    let exactly = entry.model(id);
    let known = exactly.or_else(|| {
        let versions = entry.models.iter().filter(|known| is_version(id, &known.id));
        versions.max_by_key(|known| known.id.len())
    });
    // A model that only `config.toml` names is not in the table.
    known.filter(|known| entry.configured.get(&known.id) != Some(*known))
}

/// Whether `id` is `known` followed by a version, such as a date or `latest`. Other names that begin with a known name, such as
/// `NAME-pro` or `NAME-5`, are other models.
fn is_version(id: &str, known: &str) -> bool {
    let Some(rest) = id.strip_prefix(known).filter(|rest| rest.starts_with(['-', '@'])) else { return false };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_revision = |part: &str| is_number(part) || part.strip_prefix('v').is_some_and(is_number);
    let mut parts = rest[1..].split(['-', ':']);
    let first = parts.next().unwrap_or_default();
    // A short number, as in `NAME-5`, belongs to another model.
    let begins = first == "latest" || (is_revision(first) && !(is_number(first) && first.len() < 3));
    begins && parts.all(is_revision)
}

/// Returns the models of a provider for lists, tab completion and selectors: models for chat that can still be used.
/// The adapter's table adds models only until the API has listed all its models. Default models, configured models and
/// table entries without facts come first, in the order of the table; the others are sorted by release, the newest
/// first, then by id. The order depends only on the table, the listed models and `config.toml`.
pub(crate) fn offered(entry: &Entry, catalogue: &Catalogue) -> Arc<[OfferedModel]> {
    entry.offered.at(catalogue.generation, || merged(entry, catalogue))
}

/// Whether [`offered`] contains the model `id`.
pub(crate) fn offers(entry: &Entry, catalogue: &Catalogue, id: &str) -> bool {
    offered(entry, catalogue).iter().any(|model| model.id == id)
}

/// Caches the result of [`offered`] for one generation of the catalogue, because an API may list thousands of models,
/// and tab completion needs them at each keystroke.
#[derive(Default)]
pub(crate) struct OfferedCache(Mutex<Option<(i64, Arc<[OfferedModel]>)>>);

impl OfferedCache {
    fn at(&self, generation: i64, models: impl FnOnce() -> Vec<OfferedModel>) -> Arc<[OfferedModel]> {
        let mut kept = self.0.lock();
        match &*kept {
            Some((of, models)) if *of == generation => Arc::clone(models),
            _ => Arc::clone(&kept.insert((generation, models().into())).1),
        }
    }
}

fn merged(entry: &Entry, catalogue: &Catalogue) -> Vec<OfferedModel> {
    let table = entry.models.iter().map(|model| model.id.as_str());
    let listed = catalogue.of(entry);
    let others = listed.into_iter().flat_map(|listed| &listed.models);
    // A listed id counts if the API or a rule of the adapter says that it is a model for chat.
    let others =
        others.filter(|(id, facts)| facts.is_for_chat() && entry.model(id).is_none()).map(|(id, _)| id.as_str());
    // Default models, models of `config.toml`, and table entries without facts keep the order of the table.
    let heads = |id: &str, facts: &ModelFacts| {
        let place = entry.models.iter().position(|model| model.id == id);
        place.filter(|place| facts.is_default() || entry.is_configured(id) || entry.models[*place].facts.is_none())
    };
    let mut models: Vec<_> = table
        .chain(others)
        .filter_map(|id| {
            let facts = known_facts(entry, catalogue, id)?;
            let is_over = facts.lifecycle().status == LifecycleStatus::Retired
                || absence(entry, catalogue, id).is_some()
                || entry.model(id).is_some_and(|model| model.deprecated && !entry.is_configured(id));
            if is_over {
                return None;
            }
            let place = heads(id, &facts).unwrap_or(usize::MAX);
            let released = Reverse(facts.released_on().map(str::to_owned));
            let levels = suggested_levels(entry, id, &facts);
            Some((place, released, OfferedModel { id: id.to_owned(), facts, levels }))
        })
        .collect();
    models.sort_by(|(place, released, model), (other_place, other_released, other)| {
        (place, released, &model.id).cmp(&(other_place, other_released, &other.id))
    });
    models.into_iter().map(|(_, _, model)| model).collect()
}

/// Returns the levels that tab completion offers after a model's name.
fn suggested_levels(entry: &Entry, id: &str, facts: &ModelFacts) -> Vec<ThinkingLevel> {
    let own = entry.configured.get(id).filter(|model| !model.suggested_levels.is_empty());
    let suggested = own.or_else(|| entry.model(id)).map(|model| model.suggested_levels.clone()).unwrap_or_default();
    if suggested.is_empty() {
        return suggested;
    }
    // Levels that the first version of the contract lacks are only in the facts.
    let more = [ThinkingLevel::XHigh, ThinkingLevel::Max].into_iter().filter(|level| facts.has_level(*level));
    suggested.into_iter().chain(more).collect()
}

/// Returns the first model of the best available size. `sizes` are in order of preference.
pub(crate) fn select(models: &[OfferedModel], sizes: impl IntoIterator<Item = ModelSize>) -> Option<&OfferedModel> {
    sizes.into_iter().find_map(|size| models.iter().find(|model| model.facts.size() == size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_dates_and_numbers() {
        for id in ["m-4-20251101", "m-4-2025-08-07", "m-4-0709", "m-4-001", "m-4-latest", "m-4@20251101", "m-4-v1:0"] {
            assert!(is_version(id, "m-4"), "{id}");
        }
        for id in ["m-4", "m-4-", "m-4-5", "m-4-5-20251101", "m-4-pro", "m-4-mini-2025-08-07", "m-40", "m-4-latest-pro"]
        {
            assert!(!is_version(id, "m-4"), "{id}");
        }
    }
}
