//! Which providers may be asked, and the operator's consent.

use std::{collections::BTreeMap, sync::Arc};

use patchbay_core::Name;
use patchbay_store::{Allowance, Rules, StoreError, Taken};

use super::Providers;
use crate::{
    ModelError,
    registry::{Consent, Entry, Known, Registry, Source, key_taken, prefix_taken},
    status::State,
};

/// What the store says about every provider at one moment. It is read for each use, because another process may allow or
/// block a provider at any time.
pub(super) struct Consents {
    rules: Arc<Rules>,
    /// What the operator has allowed, by provider.
    allowances: BTreeMap<String, Allowance>,
}

impl Consents {
    /// Returns whether a provider may be asked, apart from its key.
    pub(super) fn state(&self, entry: &Entry) -> State {
        if let Some(why) = &entry.refused {
            let why = why.clone();
            return if entry.needs_origin { State::NeedsOrigin(why) } else { State::Refused(why) };
        }
        if let Some(blocked) = self.blocked(entry) {
            return State::Refused(blocked.to_string());
        }
        if entry.consent == Consent::Given {
            return State::Ready;
        }
        match self.allowances.get(entry.name.as_str()) {
            Some(given) if *given == entry.wanted() => State::Ready,
            Some(_) => State::Pending("it asks for something else than it was allowed.".to_owned()),
            None => State::Pending("you have not allowed it yet.".to_owned()),
        }
    }

    pub(super) fn is_ready(&self, entry: &Entry) -> bool {
        self.state(entry) == State::Ready
    }

    fn blocked(&self, entry: &Entry) -> Option<ModelError> {
        let component = self.rules.first_blocked([entry.adapter.digest])?;
        Some(ModelError::Blocked { provider: entry.name.clone(), component })
    }

    /// Returns the provider `name`, if it may be asked.
    pub(super) fn ready(&self, registry: &Registry, name: &Name) -> Result<Arc<Entry>, ModelError> {
        let entry = registry.find(name)?;
        match self.standing(entry)? {
            None => Ok(Arc::clone(entry)),
            Some(why) => Err(ModelError::Pending { provider: name.clone(), why }),
        }
    }

    /// Returns what a provider waits for; `None` if it may be asked.
    fn standing(&self, entry: &Entry) -> Result<Option<String>, ModelError> {
        if let Some(blocked) = self.blocked(entry) {
            return Err(blocked);
        }
        match self.state(entry) {
            State::Ready => Ok(None),
            State::Pending(why) => Ok(Some(why)),
            State::NeedsOrigin(why) | State::Refused(why) => {
                Err(ModelError::Refused { provider: entry.name.clone(), why })
            }
        }
    }
}

impl Providers {
    /// Reads what the store says about every provider at this moment.
    pub(super) async fn consents(&self) -> Result<Consents, StoreError> {
        Ok(Consents { rules: self.store.rules().await?, allowances: self.store.allowances().await? })
    }

    /// Returns the provider `name`, if it may be asked at this moment.
    pub(super) async fn ready(&self, registry: &Registry, name: &Name) -> Result<Arc<Entry>, ModelError> {
        self.consents().await?.ready(registry, name)
    }

    /// Reads what a registry is built by. Without a readable store, no provider owns a prefix and none is allowed.
    pub(super) async fn known(&self) -> Known {
        let read = async {
            let prefixes = self.store.prefix_owners().await?;
            Ok::<_, StoreError>(Known { prefixes, allowances: self.store.allowances().await? })
        };
        read.await.unwrap_or_else(|error| {
            tracing::error!("who has which model prefix cannot be read: {error}");
            Known::default()
        })
    }

    /// Keeps that prefixes belong to those who are ready. Whether another process was first with one of them, so that
    /// everybody is to be judged again.
    pub(super) async fn claim(&self, registry: &Registry, known: &Known) -> bool {
        let mut late = false;
        let consents = match self.consents().await {
            Ok(consents) => consents,
            Err(error) => {
                tracing::error!("which providers are ready cannot be read: {error}");
                return late;
            }
        };
        for entry in registry.entries.iter().filter(|entry| consents.is_ready(entry)) {
            let name = entry.name.to_string();
            let new = |prefix: &&String| !known.prefixes.iter().any(|(own, owner)| own == *prefix && *owner == name);
            let prefixes: Vec<_> = entry.prefixes.iter().filter(new).cloned().collect();
            if prefixes.is_empty() {
                continue;
            }
            match self.store.claim_prefixes(name, prefixes).await {
                Ok(None) => {}
                // Those of the binary have theirs whatever the store says.
                Ok(Some(_)) => late |= entry.source != Source::Bundled,
                Err(error) => tracing::error!("the prefixes of '{}' could not be kept: {error}", entry.name),
            }
        }
        late
    }

    /// What allowing `name` would allow it; `None`: there is nothing to allow.
    ///
    /// # Errors
    /// [`ModelError`] where there is no such provider, or it cannot be used.
    pub async fn asks(&self, name: &Name) -> Result<Option<Allowance>, ModelError> {
        let registry = self.registry().await;
        let entry = registry.find(name)?;
        Ok(self.consents().await?.standing(entry)?.map(|_| entry.wanted()))
    }

    /// Allows `name` what it asks for at this moment, if that is still `allowance`, and makes its prefixes its own.
    ///
    /// # Errors
    /// [`ModelError`]; [`ModelError::Changed`] where it asks for something else by now.
    pub async fn allow(&self, name: &Name, allowance: Allowance) -> Result<(), ModelError> {
        // The file may be another one than that which was looked at.
        self.reload().await;
        let registry = self.registry().await;
        let entry = registry.find(name)?;
        let waits = self.consents().await?.standing(entry)?.is_some();
        if entry.wanted() != allowance {
            return Err(ModelError::Changed(name.clone()));
        }
        if !waits {
            return Ok(());
        }
        let why = match self.store.allow(name.to_string(), allowance, entry.prefixes.clone()).await? {
            None => {
                // Now it goes before those who wait.
                self.reload().await;
                return Ok(());
            }
            Some(Taken::Variable { variable, owner }) => key_taken(&variable, &owner, name),
            Some(Taken::Prefix { own, theirs, owner }) => prefix_taken(&own, &theirs, &owner, name),
        };
        Err(ModelError::Refused { provider: name.clone(), why })
    }

    /// Takes back what `name` was allowed, and its prefixes. Whether there was anything.
    ///
    /// # Errors
    /// The database.
    pub async fn forget(&self, name: &Name) -> Result<bool, StoreError> {
        self.store.forget_provider(name.to_string()).await
    }
}
