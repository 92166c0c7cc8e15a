mod consent;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use patchbay_core::{
    Name,
    completion::{CompletionRequest, ThinkingLevel},
    text,
};
use patchbay_egress::{Binding, CredentialError, EgressError, Secrets};
use patchbay_sandbox::{Sandbox, adapter::ModelEntry};
use patchbay_store::{Store, StoreError};
use tokio::sync::broadcast;

use crate::{
    BundledAdapter, Choice, CompleteError, Completed, ExchangeLimits, ModelError, ProviderStatus, Selector, Settings,
    Sink,
    adapters::{self, Adapter, Asked, Found},
    choice,
    exchange::{self, World},
    registry::{Among, Entry, Known, Registry},
    route::{Route, RouteCredential},
    status::{self, State},
};

mod check;

pub use check::Checked;
use consent::Consents;

/// The model that answers until somebody chooses one.
const FALLBACK: &str = "demo-1";
/// Changes that a slow listener may lag behind.
const NOTICES: usize = 64;

/// Every provider of the process.
pub struct Providers {
    store: Store,
    world: World,
    bundled: BTreeMap<Name, Arc<Adapter>>,
    folder: PathBuf,
    settings: SettingsSource,
    current: RwLock<Option<Arc<Registry>>>,
    /// Held by who makes another registry.
    making: tokio::sync::Mutex<Option<Settings>>,
    notices: broadcast::Sender<String>,
}

/// Reads what `config.toml` says of providers; what is wrong with it, in words.
pub type SettingsSource = Box<dyn Fn() -> Result<Settings, String> + Send + Sync>;

/// What providers are made of.
pub struct Sources {
    /// The folder of dropped-in adapters.
    pub folder: PathBuf,
    /// The adapters of the binary.
    pub bundled: &'static [BundledAdapter],
    /// What `config.toml` says.
    pub settings: SettingsSource,
    /// What one completion may take.
    pub limits: ExchangeLimits,
}

/// The model of who has chosen none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultChoice {
    /// The model.
    pub choice: Choice,
    /// Whether `config.toml` names it; else nobody did.
    pub configured: bool,
}

/// What is known of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelInfo {
    /// The adapter that serves it, under its own name and that of the provider.
    pub adapter: String,
    /// Tokens that it can read.
    pub context_window: Option<u64>,
    /// Media types that a message to it may carry.
    pub input_media: Vec<String>,
}

impl Providers {
    /// Providers whose adapters run in `sandbox`, which is theirs alone, with keys out of `secrets`. Nothing is read yet.
    ///
    /// # Errors
    /// [`EgressError::Limit`] for a limit that cannot be meant.
    pub fn new(
        store: Store,
        sandbox: Arc<Sandbox>,
        secrets: Arc<Secrets>,
        sources: Sources,
    ) -> Result<Arc<Self>, EgressError> {
        let Sources { folder, bundled, settings, limits } = sources;
        let world = World { sandbox, egress: limits.egress()?, secrets, limits };
        let providers = Arc::new(Self {
            store,
            world,
            bundled: adapters::bundled(bundled),
            folder,
            settings,
            current: RwLock::default(),
            making: tokio::sync::Mutex::default(),
            notices: broadcast::Sender::new(NOTICES),
        });
        let weak = Arc::downgrade(&providers);
        providers.world.secrets.bind_with(Arc::new(move || {
            let weak = weak.clone();
            Box::pin(async move {
                if let Some(providers) = weak.upgrade() {
                    providers.bind_keys().await;
                }
            })
        }));
        Ok(providers)
    }

    /// Binds the key of each provider that may be asked to its origin, so that skills' answers from there are scrubbed of it, too.
    async fn bind_keys(&self) {
        let registry = self.registry().await;
        let consents = match self.consents().await {
            Ok(consents) => consents,
            Err(error) => return tracing::error!("which providers are ready cannot be read: {error}"),
        };
        let ready = registry.entries.iter().filter(|entry| consents.is_ready(entry));
        self.world.secrets.bind(ready.filter_map(|entry| {
            let (base, variable) = (entry.base.as_ref()?, entry.variable.as_ref()?);
            Some(Binding { name: entry.name.clone(), variable: variable.clone(), origin: base.origin.clone() })
        }));
    }

    /// What changes among the providers, each in a sentence for the person.
    pub fn notices(&self) -> broadcast::Receiver<String> {
        self.notices.subscribe()
    }

    /// The folder of dropped-in adapters, whose files are called `NAME.wasm`. It may not be there yet.
    pub fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    pub(crate) fn current(&self) -> Option<Arc<Registry>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The providers as they are. Read when they are first asked for.
    pub(crate) async fn registry(&self) -> Arc<Registry> {
        if let Some(registry) = self.current() {
            return registry;
        }
        let mut making = self.making.lock().await;
        match self.current() {
            Some(registry) => registry,
            None => self.make(&mut making).await,
        }
    }

    /// Looks at the folder and at `config.toml` again, and tells what has changed.
    pub(crate) async fn reload(&self) {
        let mut making = self.making.lock().await;
        let before = self.current();
        let after = self.make(&mut making).await;
        drop(making);
        if let Some(before) = before {
            let consents = self.consents().await;
            for notice in status::changes(&before, &after, &|entry| state(&consents, entry)) {
                tracing::info!("{notice}");
                self.tell(notice);
            }
        }
    }

    fn tell(&self, notice: String) {
        // Nobody need listen.
        let _ = self.notices.send(notice);
    }

    /// Builds a registry and puts it in the place of the one before. `last`: the settings that were good.
    async fn make(&self, last: &mut Option<Settings>) -> Arc<Registry> {
        let settings = match (self.settings)() {
            Ok(settings) => settings,
            Err(why) => {
                let kept = if last.is_some() { "what it said before holds" } else { "nothing of it is used" };
                let notice = format!("config.toml cannot be used, and {kept}: {why}");
                tracing::error!("{notice}");
                self.tell(notice);
                last.clone().unwrap_or_default()
            }
        };
        *last = Some(settings.clone());
        let before = self.current();
        let none = Found::default();
        let known = before.as_ref().map_or(&none, |registry| &registry.found);
        let asked = Asked { store: &self.store, sandbox: &self.world.sandbox };
        let found = adapters::files(&self.folder, known, &asked).await;
        let build = |found, known| Registry::build(&self.bundled, found, &settings, known, before.as_deref());
        let known = self.known().await;
        let mut registry = build(found, &known);
        if self.claim(&registry, &known).await {
            registry = build(registry.found, &self.known().await);
        }
        for (name, why) in &registry.missing {
            if before.as_ref().and_then(|before| before.missing.get(name)) != Some(why) {
                let notice = format!("Provider '{name}' cannot be used: {why}");
                tracing::error!("{notice}");
                self.tell(notice);
            }
        }
        let registry = Arc::new(registry);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&registry));
        registry
    }

    /// Finds what `[PROVIDER:]MODEL[/THINKING]` names.
    ///
    /// # Errors
    /// [`ModelError`], in the words of the commands' reference.
    pub async fn resolve(&self, text: &str) -> Result<Choice, ModelError> {
        let registry = self.registry().await;
        let consents = self.consents().await?;
        // Providers that may not be asked do not affect how a text is read.
        let ready = registry.among(|entry| consents.is_ready(entry));
        let choice::Asked { provider, model, level } = choice::read(text, &ready)?;
        let provider = match provider {
            Some(provider) => provider,
            None => owner(&registry, &consents, &ready, &model)?,
        };
        consents.ready(&registry, &provider)?;
        Ok(Choice { provider, model, level })
    }

    /// The model of who has chosen none: `default_model` of `config.toml`, until that is set `demo-1`.
    ///
    /// # Errors
    /// [`ModelError`], where `config.toml` names none that can be asked.
    pub async fn default_choice(&self) -> Result<DefaultChoice, ModelError> {
        let Some(model) = self.registry().await.default_model.clone() else {
            return Ok(DefaultChoice { choice: self.resolve(FALLBACK).await?, configured: false });
        };
        match self.resolve(&model).await {
            Ok(choice) => Ok(DefaultChoice { choice, configured: true }),
            Err(error) => Err(ModelError::Default { model, error: Box::new(error) }),
        }
    }

    /// What the person is told of a choice: provider and model, and what its thinking level comes to.
    ///
    /// # Errors
    /// [`ModelError`], where the adapter cannot say.
    pub async fn explain(&self, choice: &Choice) -> Result<String, ModelError> {
        let registry = self.registry().await;
        let entry = self.ready(&registry, &choice.provider).await?;
        let failed = |failure| ModelError::Adapter { provider: choice.provider.clone(), failure };
        let sandbox = &self.world.sandbox;
        let adapter = entry.adapter.loaded(sandbox).await.map_err(failed)?;
        // The contract gives `explain-thinking` no options: an option by which levels are not sent is judged here.
        let off = entry.thinking_off();
        let level = if off.is_some() { None } else { choice.level };
        let mut plan = sandbox.explain_thinking(&adapter, &choice.model, level).await.map_err(failed)?;
        if let (Some((option, value)), Some(_)) = (off, choice.level) {
            plan.warning =
                Some(format!("Thinking levels are not sent: option '{option}' of this provider is '{value}'"));
        }
        let label = entry.adapter.manifest.extra.iter().find(|(name, _)| name == "api-label");
        let label = label.map(|(_, label)| format!(" ({label})")).unwrap_or_default();
        let model = text::clean_line(&choice.model);
        let mut lines = vec![format!("✓ Switched to {} {model}{label}", status::display_name(&entry))];
        lines.extend(plan.warning.map(|warning| format!("  ⚠ {warning}")));
        lines.extend(plan.description.iter().map(|line| format!("  {line}")));
        Ok(lines.join("\n"))
    }

    /// Checks that `choice` can be asked now. Its key is not looked for.
    ///
    /// # Errors
    /// [`ModelError`], where its name is not a model name, or its provider is gone or not ready.
    pub async fn check_choice(&self, choice: &Choice) -> Result<(), ModelError> {
        choice.check()?;
        self.ready(&*self.registry().await, &choice.provider).await.map(drop)
    }

    /// What completes `/model`: each model of a catalogue, then its suggested levels.
    pub async fn suggestions(&self) -> Vec<String> {
        let consents = match self.consents().await {
            Ok(consents) => consents,
            Err(error) => {
                tracing::warn!("no completion of models: {error}");
                return Vec::new();
            }
        };
        let registry = self.current().unwrap_or_else(|| {
            // Nobody has asked for providers yet; those of the binary are known without a look at the disk.
            Arc::new(Registry::build(&self.bundled, Found::default(), &Settings::default(), &Known::default(), None))
        });
        let suggested = |model: &ModelEntry| {
            let level = |level: &ThinkingLevel| format!("{}/{}", model.id, level.as_str());
            std::iter::once(model.id.clone()).chain(model.suggested_levels.iter().map(level)).collect::<Vec<_>>()
        };
        let ready = registry.shown().into_iter().filter(|entry| consents.is_ready(entry));
        ready.flat_map(|entry| entry.models.iter().filter(|model| !model.deprecated).flat_map(suggested)).collect()
    }

    /// Every provider and where it stands.
    pub async fn list(&self) -> Vec<ProviderStatus> {
        self.statuses(&*self.registry().await).await
    }

    async fn statuses(&self, registry: &Registry) -> Vec<ProviderStatus> {
        let consents = self.consents().await;
        let credential = |entry: &Entry| {
            entry.variable.as_ref().map(|variable| match self.world.secrets.get(&entry.name, variable) {
                Ok(_) => Ok(true),
                Err(CredentialError::NoSecret { .. }) => Ok(false),
                Err(error) => Err(error.to_string()),
            })
        };
        status::list(registry, &|entry| state(&consents, entry), &credential)
    }

    /// The first model of the size that `selector` asks for, or the next best; none where there is no catalogue.
    pub async fn select(&self, provider: &Name, selector: Selector) -> Option<String> {
        let registry = self.registry().await;
        let models = &registry.get(provider.as_str())?.models;
        let of = |size| models.iter().find(|model| model.size == size);
        selector.sizes().into_iter().find_map(of).map(|model| model.id.clone())
    }

    /// What is known of a model; none where there is no such provider.
    pub async fn model(&self, provider: &Name, model: &str) -> Option<ModelInfo> {
        let registry = self.registry().await;
        let entry = registry.get(provider.as_str())?;
        let known = entry.model(model).or_else(|| {
            // A dated or otherwise longer name of a model that is known.
            let of = |known: &&ModelEntry| model.strip_prefix(&known.id).is_some_and(|rest| rest.starts_with('-'));
            entry.models.iter().filter(of).max_by_key(|known| known.id.len())
        });
        Some(ModelInfo {
            adapter: format!("{}:{}", entry.name, entry.adapter.manifest.name),
            context_window: known.and_then(|known| known.context_window).or(entry.context_window),
            input_media: known.map(|known| known.input_media.clone()).unwrap_or_default(),
        })
    }

    /// Asks a model. The adapter that begins is the one that ends it, whatever the folder becomes meanwhile.
    ///
    /// # Errors
    /// [`CompleteError`].
    pub async fn complete(
        &self,
        choice: &Choice,
        request: CompletionRequest,
        sink: &mut dyn Sink,
    ) -> Result<Completed, CompleteError> {
        choice.check()?;
        let registry = self.registry().await;
        let entry = self.ready(&registry, &choice.provider).await?;
        drop(registry);
        let failed = |failure| ModelError::Adapter { provider: choice.provider.clone(), failure };
        let hint = entry.adapter.manifest.credential.as_ref();
        let credential = entry.variable.clone().map(|variable| RouteCredential {
            id: hint.map_or_else(|| "api-key".to_owned(), |hint| hint.id.clone()),
            variable,
            // The page is for keys of the adapter's own API; a proxy or another server has keys of its own.
            obtain_url: hint.and_then(|hint| hint.obtain_url.clone()).filter(|_| entry.has_own_origin()),
        });
        let route = Route {
            provider: entry.name.clone(),
            adapter: entry.adapter.loaded(&self.world.sandbox).await.map_err(failed)?,
            base: entry.base.clone(),
            credential,
            options: entry.options.clone(),
        };
        drop(entry);
        Ok(exchange::complete(&self.world, &route, request, sink).await?)
    }
}

/// Returns where a provider stands; refused with the store's error if the store could not be read.
fn state(consents: &Result<Consents, StoreError>, entry: &Entry) -> State {
    match consents {
        Ok(consents) => consents.state(entry),
        Err(error) => State::Refused(error.to_string()),
    }
}

/// Returns the provider that owns `model`: by `[routes]`, then among the ready providers, the pending ones, and the refused
/// ones, so that the error names the one that is refused.
fn owner(registry: &Registry, consents: &Consents, ready: &Among<'_>, model: &str) -> Result<Name, ModelError> {
    if let Some(name) = registry.route(model) {
        return match registry.find(name) {
            Err(ModelError::Gone(provider)) => Err(ModelError::Route { model: model.to_owned(), provider }),
            _ => Ok(name.clone()),
        };
    }
    let waiting = || registry.among(|entry| entry.refused.is_none()).owner(model);
    if let Some(entry) = ready.owner(model).or_else(waiting) {
        return Ok(entry.name.clone());
    }
    if let Some(name) = registry.refused_owner(model) {
        return Ok(name.clone());
    }
    // `PROVIDER:` of one that may not be asked, which is told why.
    let named = model.split_once(':').and_then(|(name, _)| name.parse().ok());
    match named.filter(|name| !matches!(registry.find(name), Err(ModelError::Gone(_)))) {
        Some(name) => Ok(name),
        None => Err(ModelError::Unknown { model: model.to_owned(), supported: supported(registry, consents) }),
    }
}

/// Returns the models of the ready providers for an error: a line for each provider with a catalogue.
fn supported(registry: &Registry, consents: &Consents) -> String {
    let mut lines = Vec::new();
    for entry in registry.shown().into_iter().filter(|entry| !entry.models.is_empty()) {
        if consents.is_ready(entry) {
            let ids: Vec<_> = entry.models.iter().map(|model| model.id.as_str()).collect();
            lines.push((format!("{}:", status::display_name(entry)), ids.join(", ")));
        }
    }
    let width = lines.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    let lines: String = lines.iter().map(|(label, ids)| format!("\n  {label:width$} {ids}")).collect();
    if lines.is_empty() { lines } else { format!("\n\nSupported models:{lines}") }
}

#[cfg(test)]
mod tests;
