//! Which providers there are, what the operator decided for each, and whose a model is. Never changes: a change of the folder
//! or of `config.toml` makes another one.

mod claims;
mod entry;

use std::{collections::BTreeMap, sync::Arc};

use patchbay_core::Name;
use patchbay_sandbox::adapter::ModelEntry;
use patchbay_store::Allowance;

pub(crate) use self::claims::{key_taken, prefix_taken};
use self::{claims::Claims, entry::entry};
use crate::{
    ModelError, Settings,
    adapters::{Adapter, Found},
    choice::Names,
    prefix,
    route::Base,
};

/// Where a provider comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// An adapter of the binary under its own name.
    Bundled,
    /// A table of `config.toml` that makes another instance of an adapter.
    Config,
    /// A file of the folder.
    File,
}

/// Whose yes a provider has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    /// The binary's, or that of `config.toml`.
    Given,
    /// It needs a row of the store.
    Asked,
}

/// Who is judged first, and so has what two claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Those of the binary.
    Bundled,
    /// What the operator wrote in `config.toml`.
    Table,
    /// Files that were allowed what they ask for.
    Allowed,
    /// Files that nobody allowed: they take nothing from anybody, not even from each other.
    Waiting,
}

/// One provider.
pub(crate) struct Entry {
    pub(crate) name: Name,
    pub(crate) source: Source,
    pub(crate) adapter: Arc<Adapter>,
    /// As it was written.
    pub(crate) base_url: Option<String>,
    pub(crate) base: Option<Base>,
    /// The environment variable of its key.
    pub(crate) variable: Option<String>,
    pub(crate) prefixes: Vec<String>,
    pub(crate) models: Vec<ModelEntry>,
    pub(crate) context_window: Option<u64>,
    pub(crate) options: Vec<(String, String)>,
    pub(crate) consent: Consent,
    /// Why it cannot be used.
    pub(crate) refused: Option<String>,
    /// Whether `refused` is only the lack of an origin, which the operator has to name.
    pub(crate) needs_origin: bool,
}

impl Entry {
    pub(crate) fn model(&self, id: &str) -> Option<&ModelEntry> {
        self.models.iter().find(|model| model.id == id)
    }

    /// Whether its requests go where its adapter suggests, and not to an origin that the operator named instead.
    pub(crate) fn has_own_origin(&self) -> bool {
        self.base_url == self.adapter.manifest.default_base_url
    }

    /// The option, and its value, that the operator has set and by which the adapter sends no thinking level. The adapter names it in
    /// its manifest: `thinking-off-option`, `NAME=VALUE`.
    pub(crate) fn thinking_off(&self) -> Option<(&str, &str)> {
        let named = self.adapter.manifest.extra.iter().filter(|(name, _)| name == "thinking-off-option");
        let mut pairs = named.filter_map(|(_, pair)| pair.split_once('='));
        pairs.find(|(option, off)| self.options.iter().any(|(name, value)| name == option && value == off))
    }

    /// What it asks for.
    pub(crate) fn wanted(&self) -> Allowance {
        Allowance {
            base_url: self.base_url.clone().unwrap_or_default(),
            variable: self.variable.clone().unwrap_or_default(),
        }
    }

    fn rank(&self, known: &Known) -> Rank {
        match (self.source, self.consent) {
            (Source::Bundled, _) => Rank::Bundled,
            (_, Consent::Given) => Rank::Table,
            _ if known.allowances.get(self.name.as_str()) == Some(&self.wanted()) => Rank::Allowed,
            _ => Rank::Waiting,
        }
    }
}

/// All of them.
pub(crate) struct Registry {
    /// The first to have a say come first: by rank, then by name.
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) found: Found,
    /// Tables of `config.toml` whose adapter is not there, and in words which.
    pub(crate) missing: BTreeMap<Name, String>,
    /// What these tables would have: a prefix of models or a model's id, and the table.
    claimed_by_missing: Vec<(String, Name)>,
    routes: BTreeMap<String, Name>,
    pub(crate) default_model: Option<String>,
}

/// What the store knows that a registry is built by.
#[derive(Default)]
pub(crate) struct Known {
    /// Each prefix and who had it first.
    pub(crate) prefixes: Vec<(String, String)>,
    /// What was allowed, by provider.
    pub(crate) allowances: BTreeMap<String, Allowance>,
}

impl Registry {
    /// Builds one of what was found: `bundled` adapters, and those of files. A bad file changes nothing: where a new version
    /// cannot be used, the one that was good `before` stays.
    pub(crate) fn build(
        bundled: &BTreeMap<Name, Arc<Adapter>>,
        found: Found,
        settings: &Settings,
        known: &Known,
        before: Option<&Self>,
    ) -> Self {
        let registry = Self::judge(bundled, found, settings, known);
        let Some(before) = before else { return registry };
        let good = |name: &Name| before.get(name.as_str()).filter(|old| old.refused.is_none());
        let earlier = |entry: &Arc<Entry>| {
            let why = entry.refused.clone()?;
            let old = good(&entry.name).filter(|old| old.source == Source::File && entry.source == Source::File)?;
            let newer = old.adapter.digest != entry.adapter.digest;
            newer.then(|| (entry.name.clone(), Arc::clone(&old.adapter), why))
        };
        let earlier: Vec<_> = registry.entries.iter().filter_map(earlier).collect();
        if earlier.is_empty() {
            return registry;
        }
        let mut found = registry.found;
        for (name, adapter, why) in earlier {
            found.bad.insert(format!("{name}.wasm"), why);
            found.adapters.insert(name, adapter);
        }
        Self::judge(bundled, found, settings, known)
    }

    fn judge(bundled: &BTreeMap<Name, Arc<Adapter>>, mut found: Found, settings: &Settings, known: &Known) -> Self {
        let mut entries: Vec<Entry> = Vec::new();
        let mut missing = BTreeMap::new();
        let mut claimed_by_missing = Vec::new();
        for (name, adapter) in bundled {
            let other = settings.providers.get(name).and_then(|config| config.adapter.as_ref());
            if other.is_none_or(|other| other == name) {
                entries.push(entry(name, Source::Bundled, adapter, settings));
            }
        }
        for (name, config) in &settings.providers {
            let wanted = config.adapter.as_ref().unwrap_or(name);
            // A table that is called as its adapter is configures that.
            if wanted == name && (bundled.contains_key(name) || found.adapters.contains_key(name)) {
                continue;
            }
            match bundled.get(wanted).or_else(|| found.adapters.get(wanted)) {
                Some(adapter) => entries.push(entry(name, Source::Config, adapter, settings)),
                None => {
                    let why = format!(
                        "there is no adapter '{wanted}', which [providers.{name}] of config.toml asks for; put \
                         {wanted}.wasm into the providers folder, or name another one (adapter = \"…\")"
                    );
                    missing.insert(name.clone(), why);
                    let models = config.models.iter().map(|model| &model.0.id);
                    let claims = config.prefixes.iter().flatten().chain(models);
                    claimed_by_missing.extend(claims.map(|claim| (claim.clone(), name.clone())));
                }
            }
        }
        for (name, adapter) in &found.adapters {
            if missing.contains_key(name) || entries.iter().any(|there| there.name == *name) {
                let why =
                    format!("there is a provider '{name}' already, which keeps its name; give the file another one");
                found.bad.insert(format!("{name}.wasm"), why);
                continue;
            }
            entries.push(entry(name, Source::File, adapter, settings));
        }
        let there = entries.iter().map(|entry| &entry.name).chain(missing.keys()).cloned().collect();
        let mut claims = Claims::new(known, there);
        entries.sort_by_key(|entry| entry.rank(known));
        for entry in &mut entries {
            let rank = entry.rank(known);
            if entry.refused.is_none() {
                entry.refused = claims.conflict(entry, rank);
            }
            if entry.refused.is_none() && rank < Rank::Waiting {
                claims.add(entry);
            }
        }
        let entries = entries.into_iter().map(Arc::new).collect();
        let Settings { routes, default_model, .. } = settings.clone();
        Self { entries, found, missing, claimed_by_missing, routes, default_model }
    }

    /// The provider `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.entries.iter().find(|entry| entry.name.as_str() == name)
    }

    /// The provider `name`, or why there is none.
    ///
    /// # Errors
    /// [`ModelError::Refused`] where only its adapter is missing, [`ModelError::Gone`].
    pub(crate) fn find(&self, name: &Name) -> Result<&Arc<Entry>, ModelError> {
        self.get(name.as_str()).ok_or_else(|| match self.missing.get(name) {
            Some(why) => ModelError::Refused { provider: name.clone(), why: why.clone() },
            None => ModelError::Gone(name.clone()),
        })
    }

    /// Where `[routes]` sends `model`: by its id, else by the longest prefix.
    pub(crate) fn route(&self, model: &str) -> Option<&Name> {
        self.routes.get(model).or_else(|| {
            let routes = self.routes.iter().filter(|(prefix, _)| prefix::matches(prefix, model));
            routes.max_by_key(|(prefix, _)| prefix.len()).map(|(_, name)| name)
        })
    }

    /// The table of `config.toml` that would have `model` if its provider could be used: the provider is refused, or has no
    /// adapter. What a refused file claims does not count.
    pub(crate) fn refused_owner(&self, model: &str) -> Option<&Name> {
        let refused = self
            .among(|entry| entry.refused.is_some() && entry.source != Source::File)
            .owner(model)
            .map(|entry| &entry.name);
        let mut claims = self.claimed_by_missing.iter();
        refused.or_else(|| claims.find(|(claim, _)| prefix::matches(claim, model)).map(|(_, name)| name))
    }

    /// Those of them that `may` have a say.
    pub(crate) fn among(&self, may: impl Fn(&Entry) -> bool) -> Among<'_> {
        Among { registry: self, entries: self.entries.iter().filter(|entry| may(entry)).collect() }
    }

    /// All of them in the order in which people are shown them.
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

/// Some of the providers, and all the routes.
pub(crate) struct Among<'a> {
    registry: &'a Registry,
    entries: Vec<&'a Arc<Entry>>,
}

impl<'a> Among<'a> {
    /// Whose `model` is, routes apart: who has exactly this id, else who has the prefix.
    pub(crate) fn owner(&self, model: &str) -> Option<&'a Arc<Entry>> {
        let exactly = self.entries.iter().find(|entry| entry.model(model).is_some());
        let has = |entry: &Entry| entry.prefixes.iter().any(|prefix| prefix::matches(prefix, model));
        exactly.or_else(|| self.entries.iter().find(|entry| has(entry))).copied()
    }
}

impl Names for Among<'_> {
    fn is_provider(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name.as_str() == name)
    }

    fn is_model(&self, provider: Option<&Name>, id: &str) -> bool {
        let mut asked = self.entries.iter().filter(|entry| provider.is_none_or(|name| entry.name == *name));
        (provider.is_none() && self.registry.routes.contains_key(id)) || asked.any(|entry| entry.model(id).is_some())
    }
}

#[cfg(test)]
pub(crate) mod tests;
