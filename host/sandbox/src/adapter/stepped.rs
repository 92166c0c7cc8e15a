//! An instance of an adapter that is called step by step, within its budgets. Completions and listings use it.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use wasmtime::Store;

use super::{
    Budgets, LoadedAdapter,
    budgets::RemainingBudgets,
    world::{AdapterGuest, AdapterPre},
};
use crate::{
    Budget, Failure, LogSink, Sandbox, budget::Spent, component::invalid, run::run_existing, state::GuestState,
};

/// An instance between two steps. It keeps its pool slots until it is dropped.
pub(super) struct SteppedInstance<G> {
    /// The interface that is called. `None` after a failed or cancelled step, because the instance must not be called again.
    guest: Option<G>,
    store: Store<GuestState>,
    left: RemainingBudgets,
    /// Declared last, which releases it after the store is dropped.
    _permit: OwnedSemaphorePermit,
}

impl<G> SteppedInstance<G> {
    /// Instantiates an adapter and runs the first step: `begin` loads the interface and calls it.
    pub(super) async fn begin<A>(
        sandbox: &Sandbox,
        adapter: &LoadedAdapter,
        budgets: &Budgets,
        log: Arc<dyn LogSink>,
        begin: impl AsyncFnOnce(&AdapterPre, AdapterGuest, &mut Store<GuestState>) -> wasmtime::Result<(G, Vec<A>)>,
    ) -> Result<(Self, Vec<A>), Failure> {
        let permit = sandbox.slots(adapter.0.slots, 0).await?;
        let mut left = RemainingBudgets::new(budgets);
        let bytes = budgets.step_bytes;
        let budget = Budget { output_bytes: bytes, host_call_bytes: bytes, ..Budget::whole(&sandbox.limits) };
        let mut store = sandbox.store(budget, log, None)?;
        let fuel = open_step(&mut store, &left)?;
        let work = async |guest, store: &mut Store<GuestState>| begin(&adapter.0.pre, guest, store).await;
        let begun = sandbox.run(&adapter.0, &mut store, work).await;
        let (guest, actions) = begun.map_err(|failure| left.name(failure))?;
        close_step(&store, &mut left, fuel, actions.len())?;
        Ok((Self { guest: Some(guest), store, left, _permit: permit }, actions))
    }

    /// Runs the next step, which is `call`.
    ///
    /// # Errors
    /// A [`Failure`]. The instance cannot be used again after a failed or cancelled step.
    pub(super) async fn step<A>(
        &mut self,
        call: impl AsyncFnOnce(&G, &mut Store<GuestState>) -> wasmtime::Result<Vec<A>>,
    ) -> Result<Vec<A>, Failure> {
        let over = || Failure::Unavailable("this instance has already failed and cannot continue".to_owned());
        let guest = self.guest.take().ok_or_else(over)?;
        let fuel = open_step(&mut self.store, &self.left)?;
        let work = async |store: &mut Store<GuestState>| call(&guest, store).await;
        let actions = run_existing(&mut self.store, work).await.map_err(|failure| self.left.name(failure))?;
        close_step(&self.store, &mut self.left, fuel, actions.len())?;
        self.guest = Some(guest);
        Ok(actions)
    }
}

/// Sets the limits of the next step. Returns its fuel.
fn open_step(store: &mut Store<GuestState>, left: &RemainingBudgets) -> Result<u64, Failure> {
    let fuel = left.step_fuel();
    store.set_fuel(fuel).map_err(invalid)?;
    // Epoch ticks have passed since the previous step.
    store.set_epoch_deadline(1);
    let state = store.data_mut();
    state.spent = Spent::default();
    state.budget.fuel = fuel;
    state.budget.clock.restart(left.step_time());
    Ok(fuel)
}

/// Counts the fuel and the actions of a step.
fn close_step(
    store: &Store<GuestState>,
    left: &mut RemainingBudgets,
    fuel: u64,
    actions: usize,
) -> Result<(), Failure> {
    left.use_fuel(fuel.saturating_sub(store.get_fuel().unwrap_or(0)));
    left.take_actions(actions)
}
