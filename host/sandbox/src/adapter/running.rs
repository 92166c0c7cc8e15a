//! A completion in progress: one adapter instance that is resumed step by step.

use std::sync::Arc;

use patchbay_core::completion::{Blob, CompletionRequest};
use wasmtime::Store;

use super::{
    Action, Budgets, Input, LoadedAdapter,
    stepped::SteppedInstance,
    wire::{self, Deltas},
};
use crate::{
    Failure, LogSink, Sandbox,
    bindings::adapter::{ProviderPlugin, patchbay::provider::types as wit},
    state::GuestState,
};

/// The instance that serves one completion. It keeps its pool slots until it is dropped.
pub struct Running {
    stepped: SteppedInstance<ProviderPlugin>,
    deltas: Deltas,
    blobs: Vec<Blob>,
}

impl Running {
    /// Returns the blob that the adapter refers to by `id`.
    pub fn blob(&self, id: u32) -> Option<&Blob> {
        self.blobs.get(id as usize)
    }

    /// Resumes the adapter with `input`. Returns its next actions.
    ///
    /// # Errors
    /// A [`Failure`]. The instance cannot be used again after a failed or cancelled step.
    pub async fn resume(&mut self, input: Input) -> Result<Vec<Action>, Failure> {
        let input = wit::Input::from(input);
        let resume = async |guest: &ProviderPlugin, store: &mut Store<GuestState>| {
            guest.patchbay_provider_adapter().call_resume(store, &input).await
        };
        let actions = self.stepped.step(resume).await?;
        self.read(actions)
    }

    fn read(&mut self, actions: Vec<wit::Action>) -> Result<Vec<Action>, Failure> {
        actions.into_iter().map(|action| wire::action(action, &mut self.deltas)).collect()
    }
}

impl Sandbox {
    /// Begins a completion in a fresh instance. Returns the instance and its first actions. `options` are the operator's
    /// settings; the adapter's log goes to `log`.
    ///
    /// # Errors
    /// Every error is reported as a [`Failure`].
    pub async fn begin(
        &self,
        adapter: &LoadedAdapter,
        request: CompletionRequest,
        options: &[(String, String)],
        budgets: &Budgets,
        log: Arc<dyn LogSink>,
    ) -> Result<(Running, Vec<Action>), Failure> {
        let (request, blobs) = wire::request(request, options);
        let begin = async |_: &_, guest: super::world::AdapterGuest, store: &mut Store<GuestState>| {
            let actions = guest.base.patchbay_provider_adapter().call_begin(store, &request).await?;
            Ok((guest.base, actions))
        };
        let (stepped, actions) = SteppedInstance::begin(self, adapter, budgets, log, begin).await?;
        let mut running = Running { stepped, deltas: Deltas::default(), blobs };
        let actions = running.read(actions)?;
        Ok((running, actions))
    }
}
