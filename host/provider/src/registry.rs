//! The registry: the providers, the operator's decisions about each, and which one owns a model.
//!
//! A registry is immutable. A reload builds another one from the adapters that were found, the settings, and the store's claims
//! (see [`Providers::load`](crate::Providers)).
//!
//! - `entry`: puts one provider together from its adapter and its settings.
//! - `claims`: refuses a provider that claims something that another one owns, and removes yielding prefixes from bundled
//!   providers.

mod claims;
mod entry;

use std::{collections::BTreeMap, sync::Arc};

use patchbay_core::Name;
use patchbay_store::Allowance;

use self::{claims::Claims, entry::Rank};
pub(crate) use self::{
    claims::{key_taken, prefix_taken},
    entry::{Consent, Entry, EntrySource},
};
use crate::{
    ModelError, Settings,
    adapters::{Adapter, FoundAdapters},
    choice::Names,
    route::prefix,
};

/// The providers at one moment.
pub(crate) struct Registry {
    /// All providers, sorted by rank, then by name.
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) found: FoundAdapters,
    /// Tables of `config.toml` whose adapter does not exist, each with a message that names it.
    pub(crate) missing: BTreeMap<Name, String>,
    /// The claims of the tables in `missing`: a prefix or a model's id, and the table.
    claimed_by_missing: Vec<(String, Name)>,
    routes: BTreeMap<String, Name>,
    pub(crate) default_model: Option<String>,
}

/// The store's data about providers when a registry is built.
#[derive(Default)]
pub(crate) struct StoredClaims {
    /// Each claimed prefix and its owner.
    pub(crate) prefixes: Vec<(String, String)>,
    /// The operator's allowances, by provider.
    pub(crate) allowances: BTreeMap<String, Allowance>,
}

impl Registry {
    /// Builds a registry from the `bundled` adapters and the `found` files. If a new version of a file is refused, and the version
    /// in the registry `before` was good, the earlier version stays in force.
    pub(crate) fn build(
        bundled: &BTreeMap<Name, Arc<Adapter>>,
        found: FoundAdapters,
        settings: &Settings,
        stored: &StoredClaims,
        before: Option<&Self>,
    ) -> Self {
        let registry = Self::judge(bundled, found, settings, stored);
        let earlier = before.map(|before| registry.good_earlier_versions(before)).unwrap_or_default();
        if earlier.is_empty() {
            return registry;
        }
        let mut found = registry.found;
        for (name, adapter, why) in earlier {
            found.invalid.insert(format!("{name}.wasm"), why);
            found.adapters.insert(name, adapter);
        }
        Self::judge(bundled, found, settings, stored)
    }

    /// Returns the files whose new version is refused and whose version in `before` was good: the provider, the earlier adapter,
    /// and why the new version is refused.
    fn good_earlier_versions(&self, before: &Self) -> Vec<(Name, Arc<Adapter>, String)> {
        let is_good_file = |entry: &&Arc<Entry>| entry.refused.is_none() && entry.source == EntrySource::File;
        let files = self.entries.iter().filter(|entry| entry.source == EntrySource::File);
        let earlier = files.filter_map(|entry| {
            let why = entry.refused.clone()?;
            let old = before.get(entry.name.as_str()).filter(is_good_file)?;
            let is_new = old.adapter.digest != entry.adapter.digest;
            is_new.then(|| (entry.name.clone(), Arc::clone(&old.adapter), why))
        });
        earlier.collect()
    }

    /// Builds the entries and refuses conflicting ones, in the order of their rank.
    fn judge(
        bundled: &BTreeMap<Name, Arc<Adapter>>,
        mut found: FoundAdapters,
        settings: &Settings,
        stored: &StoredClaims,
    ) -> Self {
        let mut entries: Vec<Entry> = Vec::new();
        let mut missing = BTreeMap::new();
        let mut claimed_by_missing = Vec::new();
        for (name, adapter) in bundled {
            let other = settings.providers.get(name).and_then(|config| config.adapter.as_ref());
            if other.is_none_or(|other| other == name) {
                entries.push(Entry::new(name, EntrySource::Bundled, adapter, settings));
            }
        }
        for (name, config) in &settings.providers {
            let wanted = config.adapter.as_ref().unwrap_or(name);
            // A table with the name of its adapter configures that adapter's own provider.
            if wanted == name && (bundled.contains_key(name) || found.adapters.contains_key(name)) {
                continue;
            }
            match bundled.get(wanted).or_else(|| found.adapters.get(wanted)) {
                Some(adapter) => entries.push(Entry::new(name, EntrySource::Config, adapter, settings)),
                None => {
                    let why = format!(
                        "adapter '{wanted}' of [providers.{name}] in config.toml not found; put {wanted}.wasm into \
                         the providers folder, or name another adapter (adapter = \"…\")"
                    );
                    missing.insert(name.clone(), why);
                    let models = config.models.iter().map(|model| &model.0.id);
                    let claims = config.prefixes.iter().flatten().chain(models);
                    claimed_by_missing.extend(claims.map(|claim| (claim.clone(), name.clone())));
                }
            }
        }
        for (name, adapter) in &found.adapters {
            if missing.contains_key(name) || entries.iter().any(|entry| entry.name == *name) {
                let why = format!("provider '{name}' already exists; give the file another name");
                found.invalid.insert(format!("{name}.wasm"), why);
                continue;
            }
            entries.push(Entry::new(name, EntrySource::File, adapter, settings));
        }
        let existing = entries.iter().map(|entry| &entry.name).chain(missing.keys()).cloned().collect();
        entries.iter_mut().for_each(|entry| claims::yield_prefixes(entry, settings, stored));
        let mut claims = Claims::new(stored, existing);
        entries.sort_by_key(|entry| entry.rank(stored));
        for entry in &mut entries {
            let rank = entry.rank(stored);
            if entry.refused.is_none() {
                entry.refused = claims.conflict(entry, rank);
            }
            if entry.refused.is_none() && rank < Rank::Pending {
                claims.add(entry);
            }
        }
        let entries = entries.into_iter().map(Arc::new).collect();
        let Settings { routes, default_model, .. } = settings.clone();
        Self { entries, found, missing, claimed_by_missing, routes, default_model }
    }

    /// Returns the provider `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.entries.iter().find(|entry| entry.name.as_str() == name)
    }

    /// Returns the provider `name`.
    ///
    /// # Errors
    /// [`ModelError::Refused`] for a table of `config.toml` whose adapter is missing, otherwise [`ModelError::Gone`].
    pub(crate) fn find(&self, name: &Name) -> Result<&Arc<Entry>, ModelError> {
        self.get(name.as_str()).ok_or_else(|| match self.missing.get(name) {
            Some(why) => ModelError::Refused { provider: name.clone(), why: why.clone() },
            None => ModelError::Gone(name.clone()),
        })
    }

    /// Returns the provider that `[routes]` names for `model`: by its id, otherwise by the longest prefix.
    pub(crate) fn route(&self, model: &str) -> Option<&Name> {
        self.routes.get(model).or_else(|| {
            let routes = self.routes.iter().filter(|(prefix, _)| prefix::matches(prefix, model));
            routes.max_by_key(|(prefix, _)| prefix.len()).map(|(_, name)| name)
        })
    }

    /// Returns the owners of names, for the providers that may be asked.
    pub(crate) fn owners(&self, is_ready: impl Fn(&Entry) -> bool) -> Owners<'_> {
        let ready = self.view(&is_ready);
        let pending = self.view(|entry| entry.refused.is_none() && !is_ready(entry));
        // A refused file owns nothing.
        let refused = self.view(|entry| entry.refused.is_some() && entry.source != EntrySource::File);
        Owners { registry: self, ready, pending, refused }
    }

    /// Returns a view that contains the providers for which `filter` returns true.
    pub(crate) fn view(&self, filter: impl Fn(&Entry) -> bool) -> RegistryView<'_> {
        RegistryView { registry: self, entries: self.entries.iter().filter(|entry| filter(entry)).collect() }
    }

    /// Returns all providers in the order in which users see them: the well-known ones, then by name, `demo` last.
    pub(crate) fn shown(&self) -> Vec<&Arc<Entry>> {
        const FIRST: [&str; 5] = ["anthropic", "openai", "google", "xai", "meta"];
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_by_key(|entry| {
            let name = entry.name.as_str();
            let place = FIRST.iter().position(|first| *first == name).unwrap_or(FIRST.len());
            (if name == "demo" { FIRST.len() + 1 } else { place }, name.to_owned())
        });
        entries
    }
}

/// The owners of names at one moment, regardless of the models that APIs list.
pub(crate) struct Owners<'a> {
    pub(crate) registry: &'a Registry,
    /// The providers that may be asked. They alone affect how a text is parsed.
    pub(crate) ready: RegistryView<'a>,
    pending: RegistryView<'a>,
    refused: RegistryView<'a>,
}

impl<'a> Owners<'a> {
    /// Returns the provider that owns `model`: by `[routes]`, then among the ready providers, then among the pending
    /// ones, then among the tables of `config.toml` that are refused or have no adapter, because errors should name
    /// these. Such a table also comes before a yielding prefix. `None` if no route, table or prefix matches.
    ///
    /// # Errors
    /// Only [`ModelError::Route`], if the route's provider does not exist.
    pub(crate) fn of(&self, model: &str) -> Result<Option<&'a Name>, ModelError> {
        if let Some(name) = self.registry.route(model) {
            return match self.registry.find(name) {
                Err(ModelError::Gone(provider)) => Err(ModelError::Route { model: model.to_owned(), provider }),
                _ => Ok(Some(name)),
            };
        }
        let unusable_table = || {
            let mut missing = self.registry.claimed_by_missing.iter();
            let refused = self.refused.owner(model).map(|entry| &entry.name);
            refused.or_else(|| missing.find(|(claim, _)| prefix::matches(claim, model)).map(|(_, name)| name))
        };
        Ok(match self.ready.owner(model) {
            // A table that names the model owns it, even while the table cannot be used.
            Some(entry) if entry.only_yields(model) => unusable_table().or(Some(&entry.name)),
            Some(entry) => Some(&entry.name),
            None => self.pending.owner(model).map(|entry| &entry.name).or_else(unusable_table),
        })
    }
}

/// Some of the providers of a registry, with all its routes.
pub(crate) struct RegistryView<'a> {
    registry: &'a Registry,
    entries: Vec<&'a Arc<Entry>>,
}

impl<'a> RegistryView<'a> {
    /// Returns the provider that owns `model`, ignoring `[routes]`: first the one for which `config.toml` names exactly this id,
    /// then the one whose table has the id, then by prefix. A list from an API never changes the owner.
    pub(crate) fn owner(&self, model: &str) -> Option<&'a Arc<Entry>> {
        let configured = self.entries.iter().find(|entry| entry.is_configured(model));
        let exactly = configured.or_else(|| self.entries.iter().find(|entry| entry.model(model).is_some()));
        let has = |entry: &Entry| entry.prefixes.iter().any(|prefix| prefix::matches(prefix, model));
        exactly.or_else(|| self.entries.iter().find(|entry| has(entry))).copied()
    }
}

impl Names for RegistryView<'_> {
    fn is_provider(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name.as_str() == name)
    }

    fn is_model(&self, provider: Option<&Name>, id: &str) -> bool {
        let mut entries = self.entries.iter().filter(|entry| provider.is_none_or(|name| entry.name == *name));
        (provider.is_none() && self.registry.routes.contains_key(id)) || entries.any(|entry| entry.model(id).is_some())
    }
}

#[cfg(test)]
pub(crate) mod tests;
