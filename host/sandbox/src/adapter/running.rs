use std::sync::Arc;

use patchbay_core::completion::{Blob, CompletionRequest};
use tokio::sync::OwnedSemaphorePermit;
use wasmtime::Store;

use super::{
    Action, Budgets, Input, LoadedAdapter,
    budgets::Left,
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

/// The instance that serves one completion. It holds its place in the pool until it is dropped.
pub struct Running {
    /// None once a step has failed, or was given up: what is left of the instance is not called again.
    guest: Option<ProviderPlugin>,
    store: Store<GuestState>,
    left: Left,
    deltas: Deltas,
    blobs: Vec<Blob>,
    /// Given back after the store is gone: fields are dropped in their order.
    _slots: OwnedSemaphorePermit,
}

impl Running {
    /// The bytes that the adapter knows by `id`.
    pub fn blob(&self, id: u32) -> Option<&Blob> {
        self.blobs.get(id as usize)
    }

    /// Goes on with what came.
    ///
    /// # Errors
    /// A [`Failure`]; the instance is of no use any more then, nor is one whose step was given up.
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

    /// Counts what a step took, and reads what it gave.
    fn close_step(&mut self, fuel: u64, actions: Vec<wit::Action>) -> Result<Vec<Action>, Failure> {
        self.left.use_fuel(fuel.saturating_sub(self.store.get_fuel().unwrap_or(0)));
        self.left.take_actions(actions.len())?;
        actions.into_iter().map(|action| wire::action(action, &mut self.deltas)).collect()
    }
}

/// Gives the store what the next step may use; gives the fuel of that.
fn open_step(store: &mut Store<GuestState>, left: &Left) -> Result<u64, Failure> {
    let fuel = left.step_fuel();
    store.set_fuel(fuel).map_err(invalid)?;
    // Ticks went by since the last step.
    store.set_epoch_deadline(1);
    let state = store.data_mut();
    state.spent = Spent::default();
    state.budget.fuel = fuel;
    state.budget.clock.restart(left.step_time());
    Ok(fuel)
}

impl Sandbox {
    /// Begins a completion in a fresh instance: what serves it, and its first actions. `options` are the operator's settings;
    /// what the adapter logs goes to `log`.
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
        let left = Left::new(budgets);
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
