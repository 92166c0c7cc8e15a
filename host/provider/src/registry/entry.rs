//! One provider: its adapter's suggestions, and the operator's decisions. The registry builds it.

use std::{collections::BTreeMap, sync::Arc};

use patchbay_core::Name;
use patchbay_egress::{SecretLookup, SecretRef, Variables};
use patchbay_sandbox::adapter::ModelEntry;
use patchbay_store::Allowance;

use super::StoredClaims;
use crate::{
    ProviderConfig, Settings,
    adapters::Adapter,
    catalogue::OfferedCache,
    route::{Base, prefix},
};

/// Where a provider comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EntrySource {
    /// A bundled adapter, under its own name.
    Bundled,
    /// A table of `config.toml`: another instance of an adapter.
    Config,
    /// The adapter is a file in the providers folder.
    File,
}

/// Whether the operator must allow a provider before it may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consent {
    /// No: it is bundled, or `config.toml` names its origin.
    Given,
    /// Yes: by `patchbay provider allow`, which the store records.
    Required,
}

/// The order in which providers are judged. If two claim the same thing, the first one gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Bundled,
    /// Providers that the operator configured in `config.toml`.
    Table,
    /// A file whose request the operator allowed.
    Allowed,
    /// Files that are not allowed. They own nothing, not even against each other.
    Pending,
}

pub(crate) struct Entry {
    pub(crate) name: Name,
    pub(crate) source: EntrySource,
    pub(crate) adapter: Arc<Adapter>,
    /// The base URL as it was written.
    pub(crate) base_url: Option<String>,
    /// The base URL if it is valid.
    pub(crate) base: Option<Base>,
    /// How its key is found; `None` if it needs none.
    pub(crate) key: Option<SecretLookup>,
    /// Prefixes of the names of its models.
    pub(crate) prefixes: Vec<String>,
    /// The prefixes in `prefixes` that it owns only while no other provider claims them. The manifest of a bundled adapter names
    /// each in a pair `yielding-prefix`. Prefixes that the operator configures never yield.
    pub(crate) yielding: Vec<String>,
    /// The yielding prefixes that it lost because another provider claims them, each with that provider.
    pub(crate) yielded: Vec<(String, String)>,
    /// The models of the adapter's table, then the models that only `config.toml` names.
    pub(crate) models: Vec<ModelEntry>,
    /// The models that `config.toml` names, by id.
    pub(crate) configured: BTreeMap<String, ModelEntry>,
    /// The context window, in tokens, of models whose entry has no value.
    pub(crate) context_window: Option<u64>,
    /// The operator's options for the adapter.
    pub(crate) options: Vec<(String, String)>,
    pub(crate) consent: Consent,
    /// Why it cannot be used, or `None` if it can.
    pub(crate) refused: Option<String>,
    /// Whether it is refused only because the operator has to name its origin.
    pub(crate) needs_origin: bool,
    /// The last result of [`crate::catalogue::offered`].
    pub(crate) offered: OfferedCache,
}

/// Where the requests of a provider go.
struct ConfiguredOrigin<'a> {
    /// The base URL as it was written.
    base_url: Option<&'a str>,
    /// Whether `config.toml` names it.
    is_named: bool,
    allow_private: bool,
}

impl ConfiguredOrigin<'_> {
    /// Returns the base URL of its requests; `None` for an adapter that needs none.
    ///
    /// # Errors
    /// Why the provider cannot be used.
    fn base(&self, name: &Name, source: EntrySource, adapter: &Adapter) -> Result<Option<Base>, String> {
        let Some(url) = self.base_url else {
            let has_default = adapter.manifest.default_base_url.is_some();
            return match requires_origin(adapter) || (source == EntrySource::Config && has_default) {
                true => Err(format!(
                    "it needs an origin for its requests: set origin in [providers.{name}] of \
                        config.toml"
                )),
                false => Ok(None),
            };
        };
        Base::parse(url, self.allow_private).map(Some).map_err(|why| {
            let hint =
                if self.allow_private { "" } else { "; for a machine on your own network, set allow_private = true" };
            format!("its origin cannot be used: {why}{hint}")
        })
    }

    /// Returns why a file of the providers folder cannot be used, if the origin that it suggests is not on the
    /// internet.
    fn not_public(&self, name: &Name, source: EntrySource) -> Option<String> {
        let is_suggested = source == EntrySource::File && !self.is_named;
        (is_suggested && self.base_url.is_some_and(|url| !Base::is_public(url))).then(|| {
            format!(
                "it suggests an origin that is local or not https; to allow it, set origin in [providers.{name}] \
                 of config.toml"
            )
        })
    }
}

/// Returns the reason to refuse a provider that would use the key of a skill's credential.
fn key_of_skills(name: &Name, source: EntrySource) -> String {
    format!(
        "its key would be the entry '{name}' of credentials.json, which belongs to [credentials.{name}] of config.toml; give \
         that table and its entry another name{}",
        if source == EntrySource::Bundled { "" } else { ", or the provider" }
    )
}

impl Entry {
    /// Puts a provider together. It is refused if its origin or its key cannot be used.
    pub(super) fn new(name: &Name, source: EntrySource, adapter: &Arc<Adapter>, settings: &Settings) -> Self {
        let manifest = &adapter.manifest;
        let none = ProviderConfig::default();
        let config = settings.providers.get(name).unwrap_or(&none);
        // The adapter's suggestions are for the provider with its own name. Another instance that used them would conflict with
        // that provider.
        let suggests = source != EntrySource::Config;
        let own_origin = || manifest.default_base_url.clone().filter(|_| suggests);
        let base_url = config.origin.clone().or_else(own_origin);
        let named = config.origin.is_some();
        let own_variables = || {
            let hint = manifest.credential.as_ref();
            let hint = hint.filter(|_| source == EntrySource::Bundled || (source == EntrySource::File && !named));
            Variables::new(hint.into_iter().flat_map(|hint| hint.env.iter().chain(&hint.env_also)).cloned())
        };
        let key = match &config.key_command {
            Some(line) => Some(SecretLookup::Command(line.within(config.key_command_ms))),
            None => {
                let variables = config.env.clone().unwrap_or_else(own_variables);
                Some(variables).filter(|variables| !variables.is_empty()).map(SecretLookup::Stored)
            }
        };
        let yields = |prefix: &&String| {
            let mut marked = manifest.extra.iter().filter(|(name, _)| name == "yielding-prefix");
            source == EntrySource::Bundled && config.prefixes.is_none() && marked.any(|(_, marked)| marked == *prefix)
        };
        let own_prefixes = || if suggests { manifest.model_prefixes.clone() } else { Vec::new() };
        let mut models = if suggests { manifest.models.clone() } else { Vec::new() };
        for model in &config.models {
            if models.iter().all(|there| there.id != model.0.id) {
                models.push(model.0.clone());
            }
        }
        let origin =
            ConfiguredOrigin { base_url: base_url.as_deref(), is_named: named, allow_private: config.allow_private };
        let (base, refused) = match origin.base(name, source, adapter) {
            Ok(base) => (base, None),
            Err(why) => (None, Some(why)),
        };
        let needs_origin = base_url.is_none() && refused.is_some();
        let refused = refused.or_else(|| origin.not_public(name, source));
        // `credentials.json` contains keys by name, and the key of a skill's credential must not be sent to a provider.
        let is_stored = matches!(key, Some(SecretLookup::Stored(_)));
        let is_of_skills = is_stored && settings.credentials.contains(name);
        let refused = refused.or_else(|| is_of_skills.then(|| key_of_skills(name, source)));
        Self {
            name: name.clone(),
            source,
            adapter: Arc::clone(adapter),
            base_url,
            base,
            key,
            prefixes: config.prefixes.clone().unwrap_or_else(own_prefixes),
            yielding: manifest.model_prefixes.iter().filter(yields).cloned().collect(),
            yielded: Vec::new(),
            models,
            configured: config.models.iter().map(|model| (model.0.id.clone(), model.0.clone())).collect(),
            context_window: config.context_window,
            options: config.options.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            consent: if source == EntrySource::File && !named { Consent::Required } else { Consent::Given },
            refused,
            needs_origin,
            offered: OfferedCache::default(),
        }
    }

    /// Returns the model with exactly this id, from the adapter's table or `config.toml`.
    pub(crate) fn model(&self, id: &str) -> Option<&ModelEntry> {
        self.models.iter().find(|model| model.id == id)
    }

    /// Returns the prefixes that it keeps against every other provider, and that the store records.
    pub(crate) fn firm_prefixes(&self) -> impl Iterator<Item = &String> {
        self.prefixes.iter().filter(|prefix| !self.yielding.contains(prefix))
    }

    /// Whether it owns `model` only through a yielding prefix.
    pub(crate) fn only_yields(&self, model: &str) -> bool {
        self.model(model).is_none() && self.yielding.iter().any(|prefix| prefix::matches(prefix, model))
    }

    /// Returns the environment variables in which its key is looked up.
    pub(crate) fn variables(&self) -> &[String] {
        self.key.as_ref().map_or(&[], SecretLookup::variables)
    }

    /// Returns its key; `None` if it needs none.
    pub(crate) fn secret(&self) -> Option<SecretRef> {
        Some(SecretRef { name: self.name.clone(), lookup: self.key.clone()? })
    }

    /// Whether a command prints its key.
    pub(crate) fn has_key_command(&self) -> bool {
        matches!(self.key, Some(SecretLookup::Command(_)))
    }

    /// Whether `config.toml` names a model.
    pub(crate) fn is_configured(&self, id: &str) -> bool {
        self.configured.contains_key(id)
    }

    /// Whether requests go to the origin that the adapter suggests.
    pub(crate) fn has_own_origin(&self) -> bool {
        self.base_url == self.adapter.manifest.default_base_url
    }

    /// Returns the option, and its value, by which the operator has turned thinking levels off. The adapter's manifest names such
    /// options: `thinking-off-option`, `NAME=VALUE`.
    pub(crate) fn thinking_off(&self) -> Option<(&str, &str)> {
        let named = self.adapter.manifest.extra.iter().filter(|(name, _)| name == "thinking-off-option");
        let mut pairs = named.filter_map(|(_, pair)| pair.split_once('='));
        pairs.find(|(option, off)| self.options.iter().any(|(name, value)| name == option && value == off))
    }

    /// Returns the allowance that the operator would grant it.
    pub(crate) fn requested(&self) -> Allowance {
        Allowance { base_url: self.base_url.clone().unwrap_or_default(), variable: self.variables().join(" ") }
    }

    pub(super) fn rank(&self, stored: &StoredClaims) -> Rank {
        match (self.source, self.consent) {
            (EntrySource::Bundled, _) => Rank::Bundled,
            (_, Consent::Given) => Rank::Table,
            _ if stored.allowances.get(self.name.as_str()) == Some(&self.requested()) => Rank::Allowed,
            _ => Rank::Pending,
        }
    }
}

fn requires_origin(adapter: &Adapter) -> bool {
    adapter.manifest.extra.iter().any(|(name, _)| name == "requires-origin")
}
