//! The world of adapters: loads an adapter, and requests its manifest, its thinking levels and the facts of a model.

use std::sync::Arc;

use patchbay_core::{Digest, completion::ThinkingLevel};
use wasmtime::{
    Store,
    component::{HasSelf, Instance, InstancePre, Linker},
    error::Context as _,
};

use super::{AdapterManifest, FACTS_BYTES, ThinkingPlan, wire};
use crate::{
    Budget, Failure, Sandbox,
    bindings::{
        adapter::{ProviderPlugin, ProviderPluginIndices, patchbay::provider},
        optional::exports::patchbay::provider::{catalogue, models, thinking},
        patchbay::host,
    },
    component::{LinkedComponent, PluginWorld},
    engine::EngineParts,
    inspect::ComponentShape,
    last_lines::DescribeLog,
    state::GuestState,
};

/// The WIT world of adapters. Their answers are stored by digest and this world.
pub const WORLD: &str = "patchbay:provider@0.1";

/// A provider's adapter, compiled and checked, ready to be instantiated.
pub struct LoadedAdapter(pub(super) LinkedComponent<AdapterPre>);

/// An adapter that can be instantiated, and the indices of its exports.
pub(crate) struct AdapterPre {
    pre: InstancePre<GuestState>,
    base: ProviderPluginIndices,
    catalogue: Option<catalogue::GuestIndices>,
    models: Option<models::GuestIndices>,
    thinking: Option<thinking::GuestIndices>,
}

/// An instance of an adapter.
pub(crate) struct AdapterGuest {
    /// The exports of every adapter.
    pub(super) base: ProviderPlugin,
    instance: Instance,
}

impl AdapterPre {
    /// Returns the interface `catalogue` of an instance of this adapter.
    ///
    /// # Errors
    /// If the adapter lacks it, or exports it with other types.
    pub(super) fn catalogue(
        &self,
        guest: &AdapterGuest,
        store: &mut Store<GuestState>,
    ) -> wasmtime::Result<catalogue::Guest> {
        let indices = self.catalogue.as_ref().context("the adapter exports no catalogue")?;
        indices.load(store, &guest.instance)
    }

    /// Checks the types of the optional interfaces, because creating the indices compared only their names.
    fn check_optional(&self, guest: &AdapterGuest, store: &mut Store<GuestState>) -> wasmtime::Result<()> {
        self.catalogue.as_ref().map(|indices| indices.load(&mut *store, &guest.instance)).transpose()?;
        self.models.as_ref().map(|indices| indices.load(&mut *store, &guest.instance)).transpose()?;
        self.thinking.as_ref().map(|indices| indices.load(&mut *store, &guest.instance)).transpose()?;
        Ok(())
    }
}

impl LoadedAdapter {
    /// Returns the digest of the adapter's bytes.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// Returns whether the adapter can list the models of its API.
    pub fn lists_models(&self) -> bool {
        self.0.pre.catalogue.is_some()
    }
}

impl PluginWorld for AdapterPre {
    type Guest = AdapterGuest;

    fn check(shape: &ComponentShape) -> Result<(), Failure> {
        shape.check_adapter()
    }

    fn linker(parts: &EngineParts) -> &Linker<GuestState> {
        &parts.adapters
    }

    fn new(pre: InstancePre<GuestState>) -> wasmtime::Result<Self> {
        let exports = |interface: &str| {
            // The engine also finds other versions, 0.1.N.
            pre.component().get_export_index(None, format!("patchbay:provider/{interface}@0.1.2")).is_some()
        };
        Ok(Self {
            base: ProviderPluginIndices::new(&pre)?,
            catalogue: exports("catalogue").then(|| catalogue::GuestIndices::new(&pre)).transpose()?,
            models: exports("models").then(|| models::GuestIndices::new(&pre)).transpose()?,
            thinking: exports("thinking").then(|| thinking::GuestIndices::new(&pre)).transpose()?,
            pre,
        })
    }

    async fn instantiate(&self, store: &mut Store<GuestState>) -> wasmtime::Result<AdapterGuest> {
        let instance = self.pre.instantiate_async(&mut *store).await?;
        Ok(AdapterGuest { base: self.base.load(&mut *store, &instance)?, instance })
    }
}

// The interface contains only types.
impl provider::types::Host for GuestState {}

/// Links the imports of the contract that adapters may use.
pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    fn own(state: &mut GuestState) -> &mut GuestState {
        state
    }
    host::types::add_to_linker::<_, HasSelf<_>>(linker, own)?;
    host::log::add_to_linker::<_, HasSelf<_>>(linker, own)?;
    provider::types::add_to_linker::<_, HasSelf<_>>(linker, own)
}

impl Sandbox {
    /// Compiles an adapter, like [`Sandbox::load`] compiles a skill's component.
    ///
    /// # Errors
    /// The same as [`Sandbox::load`].
    pub async fn load_adapter(self: &Arc<Self>, digest: Digest, bytes: Vec<u8>) -> Result<Arc<LoadedAdapter>, Failure> {
        self.adapters.get(digest, async { Ok(LoadedAdapter(self.ready(digest, bytes.into()).await?)) }).await
    }

    /// Asks an adapter for its manifest, with a small budget.
    ///
    /// # Errors
    /// A [`Failure`]; [`Failure::InvalidOutput`] if the answer violates the contract.
    pub async fn describe_adapter(&self, adapter: &LoadedAdapter) -> Result<AdapterManifest, Failure> {
        let ask = async |guest: AdapterGuest, store: &mut Store<GuestState>| {
            adapter.0.pre.check_optional(&guest, store)?;
            guest.base.patchbay_provider_adapter().call_describe(store).await
        };
        AdapterManifest::read(self.ask(adapter, ask).await?)
    }

    /// Asks an adapter for the effect of a thinking level on a model, in a fresh instance with a small budget.
    /// `options` are completion options. Adapters that do not export the interface `thinking` never see them.
    ///
    /// # Errors
    /// A [`Failure`]; [`Failure::InvalidOutput`] if the answer violates the contract.
    pub async fn explain_thinking(
        &self,
        adapter: &LoadedAdapter,
        model: &str,
        level: Option<ThinkingLevel>,
        options: &[(String, String)],
    ) -> Result<ThinkingPlan, Failure> {
        let level = level.map(ThinkingLevel::as_str);
        let pre = &adapter.0.pre;
        let ask = async |guest: AdapterGuest, store: &mut Store<GuestState>| {
            let Some(indices) = &pre.thinking else {
                let plan = guest.base.patchbay_provider_adapter().call_explain_thinking(store, model, level).await?;
                return Ok((plan.description, plan.warning));
            };
            let thinking = indices.load(&mut *store, &guest.instance)?;
            let plan = thinking.call_explain(store, model, level, &wire::pairs(options)).await?;
            Ok((plan.description, plan.warning))
        };
        let (description, warning) = self.ask(adapter, ask).await?;
        ThinkingPlan::read(&description, warning.as_deref())
    }

    /// Asks an adapter for the facts of a model that is not in its catalogue. They should be a JSON object, but are not parsed yet.
    /// `None` if the adapter does not export the interface `models`.
    ///
    /// # Errors
    /// A [`Failure`]; [`Failure::InvalidOutput`] for an answer of more than [`FACTS_BYTES`].
    pub async fn model_facts(
        &self,
        adapter: &LoadedAdapter,
        model: &str,
        options: &[(String, String)],
    ) -> Result<Option<String>, Failure> {
        let Some(indices) = &adapter.0.pre.models else { return Ok(None) };
        let ask = async |guest: AdapterGuest, store: &mut Store<GuestState>| {
            let models = indices.load(&mut *store, &guest.instance)?;
            models.call_facts(store, model, &wire::pairs(options)).await
        };
        let facts = self.ask(adapter, ask).await?;
        if facts.len() > FACTS_BYTES {
            let message = format!("{} bytes of facts about a model; the limit is {FACTS_BYTES}", facts.len());
            return Err(Failure::InvalidOutput(message));
        }
        Ok(Some(facts))
    }

    /// Calls a fresh instance with a small budget. Its output is written to the operator's log.
    async fn ask<T>(
        &self,
        adapter: &LoadedAdapter,
        ask: impl AsyncFnOnce(AdapterGuest, &mut Store<GuestState>) -> wasmtime::Result<T>,
    ) -> Result<T, Failure> {
        let _slots = self.slots(adapter.0.slots, 0).await?;
        let budget = Budget { fuel: self.limits.describe_fuel, ..Budget::whole(&self.limits) };
        let log = Arc::new(DescribeLog::new(adapter.digest()));
        let mut store = self.store(budget, log, None)?;
        self.run(&adapter.0, &mut store, ask).await
    }
}
