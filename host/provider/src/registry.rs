//! Which providers there are, what the operator decided for each, and whose a model is. Never changes: a change of the folder
//! or of `config.toml` makes another one.

use std::{collections::BTreeMap, sync::Arc};

use patchbay_core::Name;
use patchbay_sandbox::adapter::ModelEntry;

use crate::{
    ProviderConfig, Settings,
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
}

impl Entry {
    pub(crate) fn model(&self, id: &str) -> Option<&ModelEntry> {
        self.models.iter().find(|model| model.id == id)
    }
}

/// All of them.
pub(crate) struct Registry {
    /// The first to have a say come first: those of the binary, those of `config.toml`, files; each sorted by name.
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) found: Found,
    routes: BTreeMap<String, Name>,
    pub(crate) default_model: Option<String>,
}

/// What the store knows that a registry is built by.
#[derive(Default)]
pub(crate) struct Known {
    /// Each prefix and who had it first.
    pub(crate) prefixes: Vec<(String, String)>,
    /// Who was allowed which variable.
    pub(crate) variables: Vec<(String, String)>,
}

impl Registry {
    /// Builds one of what was found: `bundled` adapters, and those of files.
    pub(crate) fn build(
        bundled: &BTreeMap<Name, Arc<Adapter>>,
        mut found: Found,
        settings: &Settings,
        known: &Known,
    ) -> Self {
        let mut entries: Vec<Entry> = Vec::new();
        for (name, adapter) in bundled {
            entries.push(entry(name, Source::Bundled, adapter, settings.providers.get(name)));
        }
        for (name, config) in settings.providers.iter().filter(|(name, _)| !bundled.contains_key(*name)) {
            let wanted = config.adapter.as_ref().unwrap_or(name);
            // A table that is called as a file is configures the file.
            if wanted == name && found.adapters.contains_key(name) {
                continue;
            }
            if let Some(adapter) = bundled.get(wanted).or_else(|| found.adapters.get(wanted)) {
                entries.push(entry(name, Source::Config, adapter, Some(config)));
            }
        }
        for (name, adapter) in &found.adapters {
            if entries.iter().any(|there| there.name == *name) {
                let why =
                    format!("there is a provider '{name}' already, which keeps its name; give the file another one");
                found.bad.insert(format!("{name}.wasm"), why);
                continue;
            }
            entries.push(entry(name, Source::File, adapter, settings.providers.get(name)));
        }
        for at in 0..entries.len() {
            let (before, rest) = entries.split_at_mut(at);
            if let Some(entry) = rest.first_mut().filter(|entry| entry.refused.is_none()) {
                entry.refused = conflict(entry, before, known);
            }
        }
        let entries = entries.into_iter().map(Arc::new).collect();
        let Settings { routes, default_model, .. } = settings.clone();
        Self { entries, found, routes, default_model }
    }

    /// The provider `name`.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Entry>> {
        self.entries.iter().find(|entry| entry.name.as_str() == name)
    }

    /// Tables of `config.toml` whose adapter is not there, and its name.
    pub(crate) fn missing<'a>(&self, settings: &'a Settings) -> impl Iterator<Item = (&'a Name, &'a Name)> {
        let all = settings.providers.iter().map(|(name, config)| (name, config.adapter.as_ref().unwrap_or(name)));
        all.filter(|(name, _)| self.get(name.as_str()).is_none())
    }

    /// Whose `model` is: as `[routes]` says, else who has exactly this id, else who has the prefix.
    pub(crate) fn owner(&self, model: &str) -> Option<&Arc<Entry>> {
        let route = self.routes.get(model).or_else(|| {
            let mut routes = self.routes.iter().filter(|(prefix, _)| prefix::matches(prefix, model));
            let longest = routes.by_ref().max_by_key(|(prefix, _)| prefix.len())?;
            Some(longest.1)
        });
        if let Some(name) = route {
            return self.get(name.as_str());
        }
        let useful = || self.entries.iter().filter(|entry| entry.refused.is_none());
        useful()
            .find(|entry| entry.model(model).is_some())
            .or_else(|| useful().find(|entry| entry.prefixes.iter().any(|prefix| prefix::matches(prefix, model))))
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

impl Names for Registry {
    fn is_provider(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    fn is_model(&self, provider: Option<&Name>, id: &str) -> bool {
        match provider {
            Some(provider) => self.get(provider.as_str()).is_some_and(|entry| entry.model(id).is_some()),
            None => self.routes.contains_key(id) || self.entries.iter().any(|entry| entry.model(id).is_some()),
        }
    }
}

/// A provider as its adapter suggests and the operator decided.
fn entry(name: &Name, source: Source, adapter: &Arc<Adapter>, config: Option<&ProviderConfig>) -> Entry {
    let manifest = &adapter.manifest;
    let none = ProviderConfig::default();
    let config = config.unwrap_or(&none);
    // What the adapter suggests counts for the provider that is called as it is; another instance would collide with it.
    let suggests = source != Source::Config;
    let own_origin = || manifest.default_base_url.clone().filter(|_| suggests);
    let base_url = config.origin.clone().or_else(own_origin);
    let named = config.origin.is_some();
    let own_variable = || {
        let hint = manifest.credential.as_ref()?.env.clone();
        hint.filter(|_| source == Source::Bundled || (source == Source::File && !named))
    };
    let variable = config.env.clone().or_else(own_variable).filter(|variable| !variable.is_empty());
    let own_prefixes = || if suggests { manifest.model_prefixes.clone() } else { Vec::new() };
    let mut models = if suggests { manifest.models.clone() } else { Vec::new() };
    for model in &config.models {
        models.retain(|there| there.id != model.0.id);
        models.push(model.0.clone());
    }
    let (base, refused) = match base_url.as_deref().map(|url| Base::parse(url, config.allow_private)) {
        None if requires_origin(adapter) || (source == Source::Config && manifest.default_base_url.is_some()) => {
            (None, Some(format!("it needs to know where its requests go: origin in [providers.{name}] of config.toml")))
        }
        None => (None, None),
        Some(Ok(base)) => (Some(base), None),
        Some(Err(why)) => {
            let hint =
                if config.allow_private { "" } else { "; for a machine of your own network, allow_private = true" };
            (None, Some(format!("its origin cannot be used: {why}{hint}")))
        }
    };
    let suggested_here =
        source == Source::File && !named && base_url.as_deref().is_some_and(|url| !Base::is_public(url));
    let refused = refused.or_else(|| {
        suggested_here.then(|| {
            format!(
                "it suggests an origin that is none of the internet; to allow that, name it in [providers.{name}] of \
                 config.toml"
            )
        })
    });
    Entry {
        name: name.clone(),
        source,
        adapter: Arc::clone(adapter),
        base_url,
        base,
        variable,
        prefixes: config.prefixes.clone().unwrap_or_else(own_prefixes),
        models,
        context_window: config.context_window,
        options: config.options.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        consent: if source == Source::File && !named { Consent::Asked } else { Consent::Given },
        refused,
    }
}

fn requires_origin(adapter: &Adapter) -> bool {
    adapter.manifest.extra.iter().any(|(name, _)| name == "requires-origin")
}

/// What `entry` claims that is another one's.
fn conflict(entry: &Entry, before: &[Entry], known: &Known) -> Option<String> {
    let name = entry.name.as_str();
    let before = || before.iter().filter(|other| other.refused.is_none());
    if let Some(variable) = &entry.variable {
        let there = before().find(|other| other.variable.as_ref() == Some(variable)).map(|other| other.name.as_str());
        let allowed = known.variables.iter().find(|(other, of)| other != name && of == variable);
        let allowed = allowed.filter(|_| entry.source == Source::File).map(|(other, _)| other.as_str());
        if let Some(owner) = there.or(allowed) {
            return Some(format!(
                "the key {variable} belongs to provider '{owner}', and to no other; name another variable (env in \
                 [providers.{name}] of config.toml)"
            ));
        }
    }
    for own in &entry.prefixes {
        for other in before() {
            if let Some(theirs) = other.prefixes.iter().find(|theirs| prefix::overlap(own, theirs)) {
                return Some(taken("prefix", own, theirs, other.name.as_str(), name));
            }
        }
        // Those of the binary have theirs whatever the store says.
        let first = known.prefixes.iter().find(|(theirs, owner)| owner != name && prefix::overlap(own, theirs));
        if let Some((theirs, owner)) = first.filter(|_| entry.source != Source::Bundled) {
            return Some(format!(
                "{} To free it: patchbay provider remove {owner}",
                taken("prefix", own, theirs, owner, name)
            ));
        }
    }
    if entry.source != Source::File {
        return None;
    }
    for model in &entry.models {
        for other in before() {
            if other.model(&model.id).is_some() {
                return Some(taken("model", &model.id, &model.id, other.name.as_str(), name));
            }
            if let Some(theirs) = other.prefixes.iter().find(|theirs| prefix::matches(theirs, &model.id)) {
                return Some(taken("model", &model.id, theirs, other.name.as_str(), name));
            }
        }
    }
    None
}

fn taken(what: &str, own: &str, theirs: &str, owner: &str, name: &str) -> String {
    let by = if own == theirs { String::new() } else { format!(" by '{theirs}'") };
    format!(
        "its {what} '{own}' belongs{by} to provider '{owner}', who had it first; other prefixes can be given in \
         [providers.{name}] of config.toml."
    )
}

#[cfg(test)]
mod tests;
