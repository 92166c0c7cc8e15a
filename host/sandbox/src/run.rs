//! How a guest runs, of whichever world: its places in the pool, its store, its budgets, and what it is called that stops it.

use std::sync::Arc;

use patchbay_core::text;
use tokio::sync::OwnedSemaphorePermit;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline, component::ResourceTableError};
use wasmtime_wasi::I32Exit;

use crate::{
    Budget, Failure, Limits, LogSink, Sandbox,
    component::{LinkedComponent, PluginWorld, invalid},
    state::{CallAccess, GuestState},
};

impl Sandbox {
    /// As many places in the pool as a component takes. Whoever drops them before the store finds the pool full for the next call.
    ///
    /// A nested call has places of its own depth, so that a call never waits for one that waits for it.
    pub(crate) async fn slots(&self, slots: u32, depth: u32) -> Result<OwnedSemaphorePermit, Failure> {
        let places = self.slot_pools.at(depth);
        let free = Arc::clone(&places.free).acquire_many_owned(slots.min(places.most));
        // The semaphore is never closed.
        free.await.map_err(|error| Failure::Unavailable(error.to_string()))
    }

    /// A store for one call, with all its budgets but the wall clock's timer. What the guest logs and prints goes to `log`.
    pub(crate) fn store(
        &self,
        budget: Budget,
        log: Arc<dyn LogSink>,
        access: Option<Arc<CallAccess>>,
    ) -> Result<Store<GuestState>, Failure> {
        let Budget { fuel, output_bytes, .. } = budget;
        let mut store =
            Store::new(&self.parts()?.engine, GuestState::new(Arc::clone(&self.limits), budget, log, access));
        store.limiter(|state| &mut state.limiter);
        store.set_fuel(fuel).map_err(invalid)?;
        store.set_hostcall_fuel(output_bytes);
        store.set_max_component_handles(Limits::HANDLES);
        // At each tick a running guest lets others run, and is stopped when its time is over.
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |store| {
            let state = store.data();
            if state.budget.clock.time_left().is_zero() {
                return Err(state.budget.late().into());
            }
            // Calls of `wasi:*` are counted where nothing can be refused, and so judged here.
            state.spent.check_host_calls(&state.budget)?;
            Ok(UpdateDeadline::Yield(1))
        });
        Ok(store)
    }

    /// One fresh instance, and what `work` makes of it, within all the store's budgets.
    pub(crate) async fn run<W: PluginWorld, T>(
        &self,
        component: &LinkedComponent<W>,
        store: &mut Store<GuestState>,
        work: impl AsyncFnOnce(W::Guest, &mut Store<GuestState>) -> wasmtime::Result<T>,
    ) -> Result<T, Failure> {
        let run = async |store: &mut Store<GuestState>| match component.pre.instantiate(store).await {
            Ok(guest) => work(guest, store).await.map_err(|error| classify(error, store.data(), broken)),
            Err(error) => Err(classify(error, store.data(), invalid)),
        };
        within(store, run).await
    }
}

/// A function of an instance that there is already, within all the store's budgets.
pub(crate) async fn run_existing<T>(
    store: &mut Store<GuestState>,
    work: impl AsyncFnOnce(&mut Store<GuestState>) -> wasmtime::Result<T>,
) -> Result<T, Failure> {
    let run =
        async |store: &mut Store<GuestState>| work(store).await.map_err(|error| classify(error, store.data(), broken));
    within(store, run).await
}

/// `work`, within the wall clock and the host calls of the store's budget.
async fn within<T>(
    store: &mut Store<GuestState>,
    work: impl AsyncFnOnce(&mut Store<GuestState>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let clock = store.data().budget.clock.clone();
    // Behind the epochs: a blocked host call sees no tick.
    let answer = clock.limit(work(store)).await;
    let state = store.data();
    state.spent.check_host_calls(&state.budget)?;
    answer.unwrap_or_else(|| Err(state.budget.late()))
}

/// Finds out by type what stopped a guest; `other` names what is left over.
fn classify(error: wasmtime::Error, state: &GuestState, other: impl FnOnce(wasmtime::Error) -> Failure) -> Failure {
    let budget = &state.budget;
    let trap = |reason: String| Failure::Trap { reason, printed: state.last_lines() };
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.clone();
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => return Failure::Fuel { budget: budget.fuel },
        Some(Trap::Interrupt) => return budget.late(),
        Some(cause) => return trap(cause.to_string()),
        None => {}
    }
    if let Some(I32Exit(code)) = error.downcast_ref() {
        return trap(format!("it ended itself with exit code {code}"));
    }
    if let Some(ResourceTableError::Full) = error.downcast_ref() {
        return trap(format!("it held more than {} things of wasi:* at once", Limits::WASI_RESOURCES));
    }
    if let Some(full) = error.downcast_ref::<PoolConcurrencyLimitError>() {
        return Failure::Unavailable(format!("{full}; try again, or lower limits.concurrent_calls"));
    }
    // The engine keeps this one type to itself; a hostile guest in the tests pins its words.
    if error.root_cause().to_string().starts_with(HOSTCALL_FUEL_EXHAUSTED) {
        return Failure::Output { limit: budget.output_bytes };
    }
    other(error)
}

/// What is left after a guest ran: it broke the canonical ABI, by bad UTF-8 or a pointer that leads nowhere.
fn broken(error: wasmtime::Error) -> Failure {
    Failure::InvalidOutput(text::excerpt(&error.root_cause().to_string(), 400))
}

const HOSTCALL_FUEL_EXHAUSTED: &str = "too much data is being copied between the host and the guest";
