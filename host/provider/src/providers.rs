//! All providers of the process: which providers exist, which may be asked, and how they are asked.
//!
//! - `reload` reads the adapters and `config.toml` and replaces the [`Registry`].
//! - `consent` decides whether a provider may be asked, and records the operator's allowances.
//! - `ask` finds the provider of a model and sends completions to it.
//! - `refresh` asks the providers' APIs for their models.
//! - `check` examines an adapter file before it is added.
//! - `notices` describes the changes of a reload.

mod ask;
mod check;
mod consent;
mod models;
mod notices;
mod refresh;
mod reload;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::{Mutex, RwLock};
use patchbay_core::Name;
use patchbay_egress::{Binding, Secrets};
use patchbay_sandbox::Sandbox;
use patchbay_store::Store;
use tokio::sync::broadcast;

pub use self::{
    ask::{DefaultChoice, ModelInfo, MovedName},
    check::CheckedAdapter,
    models::{ModelOffer, ReadyModel, SuggestedModel},
    refresh::{RefreshedProvider, Refreshing},
};
use crate::{
    BundledAdapter, CatalogueSettings, ExchangeLimits, ProviderStatus, Settings,
    adapters::{self, Adapter},
    catalogue::Catalogue,
    exchange::ExchangeContext,
    registry::Registry,
    status,
};

/// How many notices a slow receiver may lag behind before it loses some.
const NOTICES: usize = 64;

/// All providers of the process.
pub struct Providers {
    store: Store,
    exchange: ExchangeContext,
    /// The bundled adapters, by name.
    bundled: BTreeMap<Name, Arc<Adapter>>,
    /// The folder of dropped-in adapters.
    folder: PathBuf,
    settings: SettingsSource,
    /// The registry in force; `None` until the first use.
    current: RwLock<Option<Arc<Registry>>>,
    /// Held during a reload. Contains the last valid settings; `None` until the first reload.
    reload_lock: tokio::sync::Mutex<Option<Settings>>,
    notices: broadcast::Sender<String>,
    /// The models that APIs have listed; `None` until the first use.
    catalogue: RwLock<Option<Arc<Catalogue>>>,
    /// Providers, with their base URLs, whose use this process has stored.
    noted: Mutex<BTreeSet<(Name, String)>>,
    /// Hours between two listings of a provider's models in the background; 0 for never.
    refresh_hours: u32,
}

/// Reads the providers' part of `config.toml`. The error describes the problem with the file.
pub type SettingsSource = Box<dyn Fn() -> Result<Settings, String> + Send + Sync>;

/// Where providers come from.
pub struct Sources {
    /// The folder of dropped-in adapters.
    pub folder: PathBuf,
    /// The adapters that are part of the binary.
    pub bundled: &'static [BundledAdapter],
    /// Reads `config.toml`; called on each reload.
    pub settings: SettingsSource,
    /// The limits of one completion.
    pub limits: ExchangeLimits,
    /// When the lists of models are refreshed.
    pub catalogue: CatalogueSettings,
}

impl Providers {
    /// Returns the providers of `sources`. Nothing is read before the first use. Adapters run in `sandbox`, which nothing else may
    /// use; keys are read from `secrets`.
    pub fn new(store: Store, sandbox: Arc<Sandbox>, secrets: Arc<Secrets>, sources: Sources) -> Arc<Self> {
        let Sources { folder, bundled, settings, limits, catalogue } = sources;
        let exchange = ExchangeContext { sandbox, egress: limits.egress(), secrets, limits };
        let providers = Arc::new(Self {
            store,
            exchange,
            bundled: adapters::bundled(bundled),
            folder,
            settings,
            current: RwLock::default(),
            reload_lock: tokio::sync::Mutex::default(),
            notices: broadcast::Sender::new(NOTICES),
            catalogue: RwLock::default(),
            noted: Mutex::default(),
            refresh_hours: catalogue.refresh_hours,
        });
        let weak = Arc::downgrade(&providers);
        providers.exchange.secrets.bind_with(Arc::new(move || {
            let weak = weak.clone();
            Box::pin(async move {
                if let Some(providers) = weak.upgrade() {
                    providers.bind_keys().await;
                }
            })
        }));
        providers
    }

    /// Binds the key of each ready provider to the provider's origin. The key is then also scrubbed from responses of
    /// this origin to skills.
    async fn bind_keys(&self) {
        let registry = self.registry().await;
        let consents = match self.consents().await {
            Ok(consents) => consents,
            Err(error) => return tracing::error!("cannot read which providers are allowed: {error}"),
        };
        let ready = registry.entries.iter().filter(|entry| consents.is_ready(entry));
        self.exchange.secrets.bind(ready.filter_map(|entry| {
            Some(Binding { secret: entry.secret()?, origin: entry.base.as_ref()?.origin.clone() })
        }));
    }

    /// Returns a receiver of the changes among the providers, each a sentence for the user.
    pub fn notices(&self) -> broadcast::Receiver<String> {
        self.notices.subscribe()
    }

    /// Returns the folder of dropped-in adapters, whose files are called `NAME.wasm`. It may not exist.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the registry in force; `None` before the first use.
    pub(crate) fn current(&self) -> Option<Arc<Registry>> {
        self.current.read().clone()
    }

    /// Returns the registry in force. The first call loads it.
    pub(crate) async fn registry(&self) -> Arc<Registry> {
        if let Some(registry) = self.current() {
            return registry;
        }
        let mut settings = self.reload_lock.lock().await;
        match self.current() {
            Some(registry) => registry,
            None => self.load(&mut settings).await,
        }
    }

    /// Returns the status of every provider.
    pub async fn list(&self) -> Vec<ProviderStatus> {
        self.statuses(&*self.registry().await).await
    }

    async fn statuses(&self, registry: &Registry) -> Vec<ProviderStatus> {
        let consents = self.consents().await;
        let catalogue = self.catalogue_or_empty().await;
        status::list(registry, &catalogue, &|entry| consent::readiness(&consents, entry), &|entry| self.find_key(entry))
    }
}
