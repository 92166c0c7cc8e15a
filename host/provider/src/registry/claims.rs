//! Ownership of keys, prefixes and models. The provider with the higher rank wins.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_core::Name;
use patchbay_store::Allowance;

use super::{Entry, EntrySource, StoredClaims, entry::Rank};
use crate::{Settings, route::prefix};

/// The claims of the providers that were judged so far, and those in the store.
pub(super) struct Claims<'a> {
    stored: &'a StoredClaims,
    /// All providers of the registry, refused ones included.
    existing: BTreeSet<Name>,
    keys: BTreeMap<String, Name>,
    prefixes: Vec<(String, Name)>,
    /// Prefixes that their owners give up for the next provider that the operator allows or configures.
    yielding: Vec<(String, Name)>,
    models: BTreeMap<String, Name>,
}

impl<'a> Claims<'a> {
    /// Returns the claims before any provider is judged, which are only those in the store.
    pub(super) fn new(stored: &'a StoredClaims, existing: BTreeSet<Name>) -> Self {
        let (prefixes, yielding) = (Vec::new(), Vec::new());
        Self { stored, existing, keys: BTreeMap::new(), prefixes, yielding, models: BTreeMap::new() }
    }

    /// Makes `entry` the owner of its claimed names and prefixes.
    pub(super) fn add(&mut self, entry: &Entry) {
        let name = &entry.name;
        self.keys.extend(entry.variables().iter().map(|variable| (variable.clone(), name.clone())));
        self.prefixes.extend(entry.firm_prefixes().map(|prefix| (prefix.clone(), name.clone())));
        self.yielding.extend(entry.yielding.iter().map(|prefix| (prefix.clone(), name.clone())));
        for model in &entry.models {
            self.models.entry(model.id.clone()).or_insert_with(|| name.clone());
        }
    }

    /// Returns a message if `entry` claims something that another provider owns.
    pub(super) fn conflict(&self, entry: &Entry, rank: Rank) -> Option<String> {
        self.key(entry, rank).or_else(|| self.prefix(entry, rank)).or_else(|| self.model(entry))
    }

    fn key(&self, entry: &Entry, rank: Rank) -> Option<String> {
        entry.variables().iter().find_map(|variable| {
            if let Some(owner) = self.keys.get(variable) {
                return Some(key_taken(variable, owner.as_str(), &entry.name));
            }
            // A table of the operator may take the key from an allowed file.
            let mut stored = self.stored.allowances.iter().filter(|_| rank > Rank::Table);
            let is_taken = |of: &Allowance| of.variables().any(|of| of == variable);
            let (owner, _) = stored.find(|(owner, of)| *owner != entry.name.as_str() && is_taken(of))?;
            Some(key_taken(variable, owner, &entry.name) + &self.freed(owner))
        })
    }

    fn prefix(&self, entry: &Entry, rank: Rank) -> Option<String> {
        entry.prefixes.iter().find_map(|own| {
            let words = |theirs: &str, owner: &str| prefix_taken(own, theirs, owner, &entry.name);
            // A file that was allowed earlier cannot claim another prefix until it is allowed again.
            let yielding = self.yielding.iter().filter(|_| rank == Rank::Allowed);
            let mut owned = self.prefixes.iter().chain(yielding);
            if let Some((theirs, owner)) = owned.find(|(theirs, _)| prefix::overlap(own, theirs)) {
                return Some(words(theirs, owner.as_str()));
            }
            // Bundled adapters own their prefixes, whatever the store contains.
            let mut stored = self.prefixes_of_others(entry).filter(|_| rank > Rank::Bundled);
            let (theirs, owner) = stored.find(|(theirs, _)| prefix::overlap(own, theirs))?;
            Some(words(theirs, owner) + &self.freed(owner))
        })
    }

    /// Only a file is refused for a model of another provider; the operator's tables may name any model.
    fn model(&self, entry: &Entry) -> Option<String> {
        let models = entry.models.iter().filter(|_| entry.source == EntrySource::File);
        models.map(|model| &model.id).find_map(|id| {
            if let Some(owner) = self.models.get(id) {
                return Some(taken("model", id, id, owner.as_str()));
            }
            if let Some((theirs, owner)) = self.prefixes.iter().find(|(theirs, _)| prefix::matches(theirs, id)) {
                return Some(taken("model", id, theirs, owner.as_str()));
            }
            let (theirs, owner) = self.prefixes_of_others(entry).find(|(theirs, _)| prefix::matches(theirs, id))?;
            Some(taken("model", id, theirs, owner) + &self.freed(owner))
        })
    }

    /// Returns the prefixes of other providers in the store.
    fn prefixes_of_others(&self, entry: &Entry) -> impl Iterator<Item = &'a (String, String)> {
        let name = entry.name.clone();
        self.stored.prefixes.iter().filter(move |(_, owner)| *owner != name.as_str())
    }

    /// Returns how to free a claim of a provider that does not exist any more.
    fn freed(&self, owner: &str) -> String {
        if self.existing.iter().any(|name| name.as_str() == owner) {
            return String::new();
        }
        format!(" To free it: patchbay provider forget {owner}")
    }
}

/// Removes from `entry` the yielding prefixes that another provider owns: through its table in `config.toml`, even if
/// that provider cannot be used, or through a claim in the store. A removed provider keeps its claim; otherwise its
/// models would move to another provider.
pub(super) fn yield_prefixes(entry: &mut Entry, settings: &Settings, stored: &StoredClaims) {
    let in_tables = settings.providers.iter().flat_map(|(name, config)| {
        config.prefixes.iter().flatten().map(move |prefix| (prefix.as_str(), name.as_str()))
    });
    let in_store = stored.prefixes.iter().map(|(prefix, owner)| (prefix.as_str(), owner.as_str()));
    let held: Vec<_> = in_tables.chain(in_store).filter(|(_, owner)| *owner != entry.name.as_str()).collect();
    for own in std::mem::take(&mut entry.yielding) {
        match held.iter().find(|(theirs, _)| prefix::overlap(&own, theirs)) {
            None => entry.yielding.push(own),
            Some((_, owner)) => {
                entry.prefixes.retain(|prefix| *prefix != own);
                entry.yielded.push((own, (*owner).to_owned()));
            }
        }
    }
}

/// Returns the message for `name` that a key belongs to `owner`.
pub(crate) fn key_taken(variable: &str, owner: &str, name: &Name) -> String {
    format!(
        "the variable {variable} belongs to provider '{owner}'; name another one (env in [providers.{name}] of \
         config.toml)."
    )
}

/// Returns the message for `name` that a prefix belongs to `owner`.
pub(crate) fn prefix_taken(own: &str, theirs: &str, owner: &str, name: &Name) -> String {
    taken("prefix", own, theirs, owner) + &format!(" Other prefixes can be given in [providers.{name}] of config.toml.")
}

/// Returns the message that `own` belongs to `owner`, which has the same name or the prefix `theirs`.
fn taken(what: &str, own: &str, theirs: &str, owner: &str) -> String {
    if own == theirs {
        return format!("its {what} '{own}' belongs to provider '{owner}', which claimed it first.");
    }
    format!(
        "its {what} '{own}' is refused, because the prefix '{theirs}' belongs to provider '{owner}', which claimed \
         it first."
    )
}
