//! Reload: reads the adapters and `config.toml` and replaces the registry.
//!
//! [`Providers::registry`] loads on the first use; `watch` and [`Providers::allow`] reload. One reload runs at a time.

use std::sync::Arc;

use super::{Providers, notices};
use crate::{
    Settings,
    adapters::{self, FoundAdapters, SandboxDescriber},
    registry::{EntrySource, Registry, StoredClaims},
};

impl Providers {
    /// Reads the folder and `config.toml` again, and sends a notice for each change.
    pub(crate) async fn reload(&self) {
        let mut settings = self.reload_lock.lock().await;
        let before = self.current();
        let after = self.load(&mut settings).await;
        drop(settings);
        if let Some(before) = before {
            let consents = self.consents().await;
            for notice in notices::changes(&before, &after, &consents) {
                tracing::info!("{notice}");
                self.notify(notice);
            }
        }
    }

    /// Builds a registry and puts it in force. The caller holds the reload lock; `last` are the last valid settings.
    ///
    /// The steps of a reload:
    /// 1. *Read* the settings, the files of the folder, and the store's claims: the operator's allowances,
    ///    and the owners of prefixes. An unchanged file keeps its adapter; a new one is described in the
    ///    sandbox, once for each digest.
    /// 2. *Build* ([`Registry::build`]): judge all providers in the order of their rank, and refuse each provider that claims
    ///    something that another one owns. If that refuses a new version of a file whose earlier version was good, the earlier
    ///    version takes its place, and all are judged once more.
    /// 3. *Claim* the prefixes of ready providers in the store, which lets them keep the prefixes when another
    ///    provider is added later. If another process claimed one of them after step 1, build once more with
    ///    the store's current claims.
    /// 4. *Publish* the registry. Running completions keep the adapter with which they began.
    pub(super) async fn load(&self, last: &mut Option<Settings>) -> Arc<Registry> {
        let settings = self.read_settings(last);
        let before = self.current();
        let none = FoundAdapters::default();
        let known = before.as_ref().map_or(&none, |registry| &registry.found);
        let describer = SandboxDescriber { store: &self.store, sandbox: &self.exchange.sandbox };
        let found = adapters::files(&self.folder, known, &describer).await;
        let build = |found, claims| Registry::build(&self.bundled, found, &settings, claims, before.as_deref());
        let claims = self.stored_claims().await;
        let mut registry = build(found, &claims);
        if self.claim_prefixes(&registry, &claims).await {
            registry = build(registry.found, &self.stored_claims().await);
        }
        self.report_missing(&registry, before.as_deref());
        let registry = Arc::new(registry);
        *self.current.write() = Some(Arc::clone(&registry));
        registry
    }

    /// Reads the settings into `last`. If `config.toml` is invalid, `last` stays in force, and a notice says so.
    fn read_settings(&self, last: &mut Option<Settings>) -> Settings {
        let settings = match (self.settings)() {
            Ok(settings) => settings,
            Err(why) => {
                let kept = if last.is_some() { "its previous version stays in effect" } else { "none of it is used" };
                let notice = format!("config.toml cannot be used, and {kept}: {why}");
                tracing::error!("{notice}");
                self.notify(notice);
                last.clone().unwrap_or_default()
            }
        };
        *last = Some(settings.clone());
        settings
    }

    /// Records the prefixes of ready providers in the store. Returns true if another process claimed one first; the
    /// registry must then be rebuilt.
    pub(super) async fn claim_prefixes(&self, registry: &Registry, claims: &StoredClaims) -> bool {
        let consents = match self.consents().await {
            Ok(consents) => consents,
            Err(error) => {
                tracing::error!("cannot read which providers are allowed: {error}");
                return false;
            }
        };
        let mut too_late = false;
        for entry in registry.entries.iter().filter(|entry| consents.is_ready(entry)) {
            let name = entry.name.to_string();
            let new = |prefix: &&String| !claims.prefixes.iter().any(|(own, owner)| own == *prefix && *owner == name);
            let prefixes: Vec<_> = entry.firm_prefixes().filter(new).cloned().collect();
            if prefixes.is_empty() {
                continue;
            }
            match self.store.claim_prefixes(name, prefixes).await {
                Ok(None) => {}
                // Bundled adapters own their prefixes, whatever the store contains.
                Ok(Some(_)) => too_late |= entry.source != EntrySource::Bundled,
                Err(error) => tracing::error!("cannot store the prefixes of '{}': {error}", entry.name),
            }
        }
        too_late
    }

    /// Sends a notice for each table of `config.toml` whose adapter is missing and was not missing before.
    fn report_missing(&self, registry: &Registry, before: Option<&Registry>) {
        for (name, why) in &registry.missing {
            if before.and_then(|before| before.missing.get(name)) != Some(why) {
                let notice = format!("Provider '{name}' cannot be used: {why}");
                tracing::error!("{notice}");
                self.notify(notice);
            }
        }
    }

    fn notify(&self, notice: String) {
        // An error only means that there is no receiver.
        let _ = self.notices.send(notice);
    }
}
