//! What is whose: keys, prefixes and models. Who is judged first has it.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_core::Name;

use super::{Entry, Known, Rank, Source};
use crate::prefix;

/// What was claimed by those who were judged so far, and by whom the store has.
pub(super) struct Claims<'a> {
    known: &'a Known,
    /// Who is there, whatever becomes of them.
    there: BTreeSet<Name>,
    keys: BTreeMap<String, Name>,
    prefixes: Vec<(String, Name)>,
    models: BTreeMap<String, Name>,
}

impl<'a> Claims<'a> {
    /// None yet but those of the store.
    pub(super) fn new(known: &'a Known, there: BTreeSet<Name>) -> Self {
        Self { known, there, keys: BTreeMap::new(), prefixes: Vec::new(), models: BTreeMap::new() }
    }

    /// Makes what `entry` claims its own.
    pub(super) fn add(&mut self, entry: &Entry) {
        let name = &entry.name;
        self.keys.extend(entry.variable.iter().map(|variable| (variable.clone(), name.clone())));
        self.prefixes.extend(entry.prefixes.iter().map(|prefix| (prefix.clone(), name.clone())));
        for model in &entry.models {
            self.models.entry(model.id.clone()).or_insert_with(|| name.clone());
        }
    }

    /// What `entry` claims that is another one's, in words.
    pub(super) fn conflict(&self, entry: &Entry, rank: Rank) -> Option<String> {
        self.key(entry, rank).or_else(|| self.prefix(entry, rank)).or_else(|| self.model(entry))
    }

    fn key(&self, entry: &Entry, rank: Rank) -> Option<String> {
        let variable = entry.variable.as_ref()?;
        if let Some(owner) = self.keys.get(variable) {
            return Some(key_taken(variable, owner.as_str(), &entry.name));
        }
        // The operator's own tables may take it from a file that was allowed it.
        let mut stored = self.known.allowances.iter().filter(|_| rank > Rank::Table);
        let (owner, _) = stored.find(|(owner, of)| *owner != entry.name.as_str() && of.variable == *variable)?;
        Some(key_taken(variable, owner, &entry.name) + &self.freed(owner))
    }

    fn prefix(&self, entry: &Entry, rank: Rank) -> Option<String> {
        entry.prefixes.iter().find_map(|own| {
            let words = |theirs: &str, owner: &str| prefix_taken(own, theirs, owner, &entry.name);
            if let Some((theirs, owner)) = self.prefixes.iter().find(|(theirs, _)| prefix::overlap(own, theirs)) {
                return Some(words(theirs, owner.as_str()));
            }
            // Those of the binary have theirs whatever the store says.
            let mut stored = self.stored(entry).filter(|_| rank > Rank::Bundled);
            let (theirs, owner) = stored.find(|(theirs, _)| prefix::overlap(own, theirs))?;
            Some(words(theirs, owner) + &self.freed(owner))
        })
    }

    /// The operator's tables may name models of others; what a file brings along may not.
    fn model(&self, entry: &Entry) -> Option<String> {
        let models = entry.models.iter().filter(|_| entry.source == Source::File);
        models.map(|model| &model.id).find_map(|id| {
            if let Some(owner) = self.models.get(id) {
                return Some(taken("model", id, id, owner.as_str()));
            }
            if let Some((theirs, owner)) = self.prefixes.iter().find(|(theirs, _)| prefix::matches(theirs, id)) {
                return Some(taken("model", id, theirs, owner.as_str()));
            }
            let (theirs, owner) = self.stored(entry).find(|(theirs, _)| prefix::matches(theirs, id))?;
            Some(taken("model", id, theirs, owner) + &self.freed(owner))
        })
    }

    /// The prefixes of others that the store has.
    fn stored(&self, entry: &Entry) -> impl Iterator<Item = &'a (String, String)> {
        let name = entry.name.clone();
        self.known.prefixes.iter().filter(move |(_, owner)| *owner != name.as_str())
    }

    /// How one gets what belongs to somebody who is not there any more.
    fn freed(&self, owner: &str) -> String {
        if self.there.iter().any(|name| name.as_str() == owner) {
            return String::new();
        }
        format!(" To free it: patchbay provider remove {owner}")
    }
}

/// That a key is the `owner`'s, to `name`.
pub(crate) fn key_taken(variable: &str, owner: &str, name: &Name) -> String {
    format!(
        "the key {variable} belongs to provider '{owner}', and to no other; name another variable (env in \
         [providers.{name}] of config.toml)."
    )
}

/// That a prefix is the `owner`'s, to `name`.
pub(crate) fn prefix_taken(own: &str, theirs: &str, owner: &str, name: &Name) -> String {
    taken("prefix", own, theirs, owner) + &format!(" Other prefixes can be given in [providers.{name}] of config.toml.")
}

fn taken(what: &str, own: &str, theirs: &str, owner: &str) -> String {
    let by = if own == theirs { String::new() } else { format!(" by '{theirs}'") };
    format!("its {what} '{own}' belongs{by} to provider '{owner}', who had it first.")
}
