//! Who may be asked, and the operator's yes.

use std::sync::Arc;

use patchbay_core::Name;
use patchbay_store::{Allowance, StoreError, Taken};

use super::Providers;
use crate::{
    ModelError,
    registry::{Consent, Entry, Known, Registry, Source, key_taken, prefix_taken},
    status::State,
};

impl Providers {
    /// Where a provider stands at this moment: another process may have allowed or blocked it meanwhile.
    pub(crate) fn state(&self, entry: &Entry) -> Result<State, StoreError> {
        if let Some(why) = &entry.refused {
            let why = why.clone();
            return Ok(if entry.needs_origin { State::NeedsOrigin(why) } else { State::Refused(why) });
        }
        if let Some(blocked) = self.blocked(entry)? {
            return Ok(State::Refused(blocked.to_string()));
        }
        if entry.consent == Consent::Given {
            return Ok(State::Ready);
        }
        Ok(match self.store.allowance(entry.name.as_str())? {
            Some(given) if given == entry.wanted() => State::Ready,
            Some(_) => State::Pending("it asks for something else than it was allowed.".to_owned()),
            None => State::Pending("you have not allowed it yet.".to_owned()),
        })
    }

    pub(super) fn is_ready(&self, entry: &Entry) -> bool {
        matches!(self.state(entry), Ok(State::Ready))
    }

    fn blocked(&self, entry: &Entry) -> Result<Option<ModelError>, StoreError> {
        let component = entry.adapter.digest;
        let blocked = self.store.is_blocked(&component)?;
        Ok(blocked.then(|| ModelError::Blocked { provider: entry.name.clone(), component }))
    }

    /// The provider `name`, if it may be asked.
    pub(super) fn ready(&self, registry: &Registry, name: &Name) -> Result<Arc<Entry>, ModelError> {
        let entry = registry.find(name)?;
        match self.standing(entry)? {
            None => Ok(Arc::clone(entry)),
            Some(why) => Err(ModelError::Pending { provider: name.clone(), why }),
        }
    }

    /// What the provider waits for; `None`: nothing.
    fn standing(&self, entry: &Entry) -> Result<Option<String>, ModelError> {
        if let Some(blocked) = self.blocked(entry)? {
            return Err(blocked);
        }
        match self.state(entry)? {
            State::Ready => Ok(None),
            State::Pending(why) => Ok(Some(why)),
            State::NeedsOrigin(why) | State::Refused(why) => {
                Err(ModelError::Refused { provider: entry.name.clone(), why })
            }
        }
    }

    /// What the store knows.
    pub(super) fn known(&self) -> Known {
        let read = || {
            Ok::<_, StoreError>(Known { prefixes: self.store.prefix_owners()?, allowances: self.store.allowances()? })
        };
        read().unwrap_or_else(|error| {
            tracing::error!("who has which model prefix cannot be read: {error}");
            Known::default()
        })
    }

    /// Keeps that prefixes belong to those who are ready. Whether another process was first with one of them, so that
    /// everybody is to be judged again.
    pub(super) async fn claim(&self, registry: &Registry, known: &Known) -> bool {
        let mut late = false;
        for entry in registry.entries.iter().filter(|entry| self.is_ready(entry)) {
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
        Ok(self.standing(entry)?.map(|_| entry.wanted()))
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
        let waits = self.standing(entry)?.is_some();
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
