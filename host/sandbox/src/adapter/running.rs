//! A completion in progress: one adapter instance that is resumed step by step.

use std::sync::Arc;

use patchbay_core::completion::{Blob, CompletionRequest};
use tokio::sync::OwnedSemaphorePermit;
use wasmtime::Store;

use super::{
    Action, Budgets, Input, LoadedAdapter,
    budgets::RemainingBudgets,
    wire::{self, Deltas},
};
use crate::{
    Budget, Failure, LogSink, Sandbox,
    bindings::adapter::{ProviderPlugin, patchbay::provider::types as wit},
    budget::Spent,
    component::invalid,
    run::run_existing,
    state::GuestState,
};

/// The instance that serves one completion. It keeps its pool slots until it is dropped.
pub struct Running {
    /// `None` after a step failed or was cancelled: the instance must not be called again.
    guest: Option<ProviderPlugin>,
    store: Store<GuestState>,
    left: RemainingBudgets,
    deltas: Deltas,
    blobs: Vec<Blob>,
    /// Released after the store is dropped: fields are dropped in order.
    _slots: OwnedSemaphorePermit,
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
        let over = || Failure::Unavailable("this completion has failed before and does not go on".to_owned());
        let guest = self.guest.take().ok_or_else(over)?;
        let input = wit::Input::from(input);
        let fuel = open_step(&mut self.store, &self.left)?;
        let resume =
            async |store: &mut Store<GuestState>| guest.patchbay_provider_adapter().call_resume(store, &input).await;
        let actions = run_existing(&mut self.store, resume).await.map_err(|failure| self.left.name(failure))?;
        let actions = self.close_step(fuel, actions)?;
        self.guest = Some(guest);
        Ok(actions)
    }

    /// Counts the fuel of a step and reads its actions.
    fn close_step(&mut self, fuel: u64, actions: Vec<wit::Action>) -> Result<Vec<Action>, Failure> {
        self.left.use_fuel(fuel.saturating_sub(self.store.get_fuel().unwrap_or(0)));
        self.left.take_actions(actions.len())?;
        actions.into_iter().map(|action| wire::action(action, &mut self.deltas)).collect()
    }
}

/// Sets the limits of the next step. Returns its fuel.
fn open_step(store: &mut Store<GuestState>, left: &RemainingBudgets) -> Result<u64, Failure> {
    let fuel = left.step_fuel();
    store.set_fuel(fuel).map_err(invalid)?;
    // Ticks have passed since the previous step.
    store.set_epoch_deadline(1);
    let state = store.data_mut();
    state.spent = Spent::default();
    state.budget.fuel = fuel;
    state.budget.clock.restart(left.step_time());
    Ok(fuel)
}

impl Sandbox {
    /// Begins a completion in a fresh instance. Returns the instance and its first actions. `options` are the operator's
    /// settings; the adapter's log goes to `log`.
    ///
    /// # Errors
    /// A [`Failure`].
    pub async fn begin(
        &self,
        adapter: &LoadedAdapter,
        request: CompletionRequest,
        options: &[(String, String)],
        budgets: &Budgets,
        log: Arc<dyn LogSink>,
    ) -> Result<(Running, Vec<Action>), Failure> {
        let slots = self.slots(adapter.0.slots, 0).await?;
        let (request, blobs) = wire::request(request, options);
        let left = RemainingBudgets::new(budgets);
        let budget = Budget { output_bytes: budgets.step_bytes, ..Budget::whole(&self.limits) };
        let mut store = self.store(budget, log, None)?;
        let fuel = open_step(&mut store, &left)?;
        let begin = async |guest: ProviderPlugin, store: &mut Store<GuestState>| {
            let actions = guest.patchbay_provider_adapter().call_begin(store, &request).await?;
            Ok((guest, actions))
        };
        let (guest, actions) = self.run(&adapter.0, &mut store, begin).await.map_err(|failure| left.name(failure))?;
        let mut running = Running { guest: Some(guest), store, left, deltas: Deltas::default(), blobs, _slots: slots };
        let actions = running.close_step(fuel, actions)?;
        Ok((running, actions))
    }
}
