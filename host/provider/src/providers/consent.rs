//! Decides whether a provider may be used, from the operator's allowances and blocks.
//!
//! [`Consents::readiness`] is the only place where this is decided; `reload`, `ask`, `status` and `notices` use its
//! result.

use std::{collections::BTreeMap, sync::Arc};

use patchbay_core::Name;
use patchbay_store::{Allowance, Conflict, Rules, StoreError};

use super::Providers;
use crate::{
    ModelError,
    readiness::Readiness,
    registry::{Consent, Entry, Registry, StoredClaims, key_taken, prefix_taken},
};

/// The operator's decisions about all providers at one moment. Read again for each use, because another process may allow or
/// block a provider at any time.
pub(super) struct Consents {
    rules: Arc<Rules>,
    /// The operator's allowances, by provider.
    allowances: BTreeMap<String, Allowance>,
}

impl Consents {
    /// Returns whether a provider may be asked. The operator's block comes before any other reason.
    pub(super) fn readiness(&self, entry: &Entry) -> Readiness {
        if let Some(component) = self.rules.first_blocked([entry.adapter.digest]) {
            return Readiness::Blocked(component);
        }
        if let Some(why) = entry.refused.clone() {
            return if entry.needs_origin { Readiness::NeedsOrigin(why) } else { Readiness::Refused(why) };
        }
        if entry.consent == Consent::Given {
            return Readiness::Ready;
        }
        match self.allowances.get(entry.name.as_str()) {
            Some(allowed) if *allowed == entry.requested() => Readiness::Ready,
            Some(_) => Readiness::Pending("it now requests something that you have not allowed.".to_owned()),
            None => Readiness::Pending("you have not allowed it yet.".to_owned()),
        }
    }

    /// Whether a provider may be asked.
    pub(super) fn is_ready(&self, entry: &Entry) -> bool {
        self.readiness(entry) == Readiness::Ready
    }

    /// Returns the provider `name` if it may be asked.
    ///
    /// # Errors
    /// [`ModelError`], if the provider does not exist or may not be asked.
    pub(super) fn ready(&self, registry: &Registry, name: &Name) -> Result<Arc<Entry>, ModelError> {
        let entry = registry.find(name)?;
        self.readiness(entry).require(name)?;
        Ok(Arc::clone(entry))
    }

    /// Whether a provider is waiting to be allowed.
    ///
    /// # Errors
    /// [`ModelError`], if allowing it would not help.
    fn is_pending(&self, entry: &Entry) -> Result<bool, ModelError> {
        match self.readiness(entry) {
            Readiness::Pending(_) => Ok(true),
            readiness => readiness.require(&entry.name).map(|()| false),
        }
    }
}

/// Returns the readiness of `entry`; refused with the store's error if the store could not be read.
pub(super) fn readiness(consents: &Result<Consents, StoreError>, entry: &Entry) -> Readiness {
    match consents {
        Ok(consents) => consents.readiness(entry),
        Err(error) => Readiness::Refused(error.to_string()),
    }
}

impl Providers {
    /// Reads the operator's current decisions.
    pub(super) async fn consents(&self) -> Result<Consents, StoreError> {
        Ok(Consents { rules: self.store.rules().await?, allowances: self.store.allowances().await? })
    }

    /// Returns the provider `name` if it may be asked at this moment.
    ///
    /// # Errors
    /// [`ModelError`], if the provider does not exist or may not be asked.
    pub(super) async fn ready(&self, registry: &Registry, name: &Name) -> Result<Arc<Entry>, ModelError> {
        // Each completion runs this, so allowances are read only for a provider that needs one.
        let allowances = match registry.find(name)?.consent {
            Consent::Given => BTreeMap::new(),
            Consent::Required => self.store.allowances().await?,
        };
        Consents { rules: self.store.rules().await?, allowances }.ready(registry, name)
    }

    /// Reads the claims that a registry is built with. If the store cannot be read, no provider is allowed and no prefix is owned.
    pub(super) async fn stored_claims(&self) -> StoredClaims {
        let read = async {
            let prefixes = self.store.prefix_owners().await?;
            Ok::<_, StoreError>(StoredClaims { prefixes, allowances: self.store.allowances().await? })
        };
        read.await.unwrap_or_else(|error| {
            tracing::error!("cannot read the owners of model prefixes: {error}");
            StoredClaims::default()
        })
    }

    /// Returns the allowance that [`Providers::allow`] would grant `name`; `None` if there is nothing to allow.
    ///
    /// # Errors
    /// [`ModelError`], if the provider does not exist or cannot be used.
    pub async fn asks(&self, name: &Name) -> Result<Option<Allowance>, ModelError> {
        let registry = self.registry().await;
        let entry = registry.find(name)?;
        Ok(self.consents().await?.is_pending(entry)?.then(|| entry.requested()))
    }

    /// Allows the request of `name`, if it still equals `allowance`, and makes the provider the owner of its prefixes.
    ///
    /// # Errors
    /// [`ModelError`]; [`ModelError::Changed`] if it requests something else now.
    pub async fn allow(&self, name: &Name, allowance: Allowance) -> Result<(), ModelError> {
        // The file may have been replaced since the operator saw its request.
        self.reload().await;
        let registry = self.registry().await;
        let entry = registry.find(name)?;
        let is_pending = self.consents().await?.is_pending(entry)?;
        if entry.requested() != allowance {
            return Err(ModelError::Changed(name.clone()));
        }
        if !is_pending {
            return Ok(());
        }
        let why = match self.store.allow(name.to_string(), allowance, entry.prefixes.clone()).await? {
            None => {
                // An allowed provider has a higher rank than pending ones.
                self.reload().await;
                return Ok(());
            }
            Some(Conflict::Variable { variable, owner }) => key_taken(&variable, &owner, name),
            Some(Conflict::Prefix { own, theirs, owner }) => prefix_taken(&own, &theirs, &owner, name),
        };
        Err(ModelError::Refused { provider: name.clone(), why })
    }

    /// Withdraws the allowance of `name`, and frees its prefixes. Returns whether there was anything to withdraw.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn forget(&self, name: &Name) -> Result<bool, StoreError> {
        self.store.forget_provider(name.to_string()).await
    }
}
