//! The world of adapters: loading one, and asking it for its manifest and its thinking levels.

use std::sync::Arc;

use patchbay_core::{Digest, completion::ThinkingLevel};
use wasmtime::{
    Store,
    component::{HasSelf, InstancePre, Linker},
};

use super::{AdapterManifest, ThinkingPlan};
use crate::{
    Budget, Failure, Sandbox,
    bindings::{
        adapter::{ProviderPlugin, ProviderPluginPre, patchbay::provider},
        patchbay::host,
    },
    component::{LinkedComponent, PluginWorld},
    engine::EngineParts,
    inspect::ComponentShape,
    last_lines::DescribeLog,
    state::GuestState,
};

/// The world of adapters. Answers are stored by digest and world.
pub const WORLD: &str = "patchbay:provider@0.1";

/// A provider's adapter, compiled and checked, ready to be instantiated.
pub struct LoadedAdapter(pub(super) LinkedComponent<ProviderPluginPre<GuestState>>);

impl LoadedAdapter {
    /// Returns the digest of the adapter's bytes.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }
}

impl PluginWorld for ProviderPluginPre<GuestState> {
    type Guest = ProviderPlugin;

    fn check(shape: &ComponentShape) -> Result<(), Failure> {
        shape.check_adapter()
    }

    fn linker(parts: &EngineParts) -> &Linker<GuestState> {
        &parts.adapters
    }

    fn new(pre: InstancePre<GuestState>) -> wasmtime::Result<Self> {
        Self::new(pre)
    }

    fn instantiate(
        &self,
        store: &mut Store<GuestState>,
    ) -> impl Future<Output = wasmtime::Result<ProviderPlugin>> + Send {
        self.instantiate_async(store)
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
    /// Compiles an adapter, as [`Sandbox::load`] does a skill's component.
    ///
    /// # Errors
    /// Those of [`Sandbox::load`].
    pub async fn load_adapter(self: &Arc<Self>, digest: Digest, bytes: Vec<u8>) -> Result<Arc<LoadedAdapter>, Failure> {
        self.adapters.get(digest, async { Ok(LoadedAdapter(self.ready(digest, bytes.into()).await?)) }).await
    }

    /// Asks an adapter for its manifest, with a small budget.
    ///
    /// # Errors
    /// A [`Failure`]; [`Failure::InvalidOutput`] if the answer violates the contract.
    pub async fn describe_adapter(&self, adapter: &LoadedAdapter) -> Result<AdapterManifest, Failure> {
        let ask = async |guest: ProviderPlugin, store: &mut Store<GuestState>| {
            guest.patchbay_provider_adapter().call_describe(store).await
        };
        AdapterManifest::read(self.ask(adapter, ask).await?)
    }

    /// Asks an adapter for the effect of a thinking level on a model, in a fresh instance with a small budget.
    ///
    /// # Errors
    /// A [`Failure`]; [`Failure::InvalidOutput`] if the answer violates the contract.
    pub async fn explain_thinking(
        &self,
        adapter: &LoadedAdapter,
        model: &str,
        level: Option<ThinkingLevel>,
    ) -> Result<ThinkingPlan, Failure> {
        let level = level.map(ThinkingLevel::as_str);
        let ask = async |guest: ProviderPlugin, store: &mut Store<GuestState>| {
            guest.patchbay_provider_adapter().call_explain_thinking(store, model, level).await
        };
        ThinkingPlan::read(self.ask(adapter, ask).await?)
    }

    /// Calls a fresh instance with a small budget. Its output goes to the operator's log.
    async fn ask<T>(
        &self,
        adapter: &LoadedAdapter,
        ask: impl AsyncFnOnce(ProviderPlugin, &mut Store<GuestState>) -> wasmtime::Result<T>,
    ) -> Result<T, Failure> {
        let _slots = self.slots(adapter.0.slots, 0).await?;
        let budget = Budget { fuel: self.limits.describe_fuel, ..Budget::whole(&self.limits) };
        let log = Arc::new(DescribeLog::new(adapter.digest()));
        let mut store = self.store(budget, log, None)?;
        self.run(&adapter.0, &mut store, ask).await
    }
}
