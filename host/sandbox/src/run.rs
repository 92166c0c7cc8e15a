//! Runs a guest of either world: waits for pool slots, creates the store, enforces the budgets, and classifies errors that stopped
//! the guest.

use std::sync::Arc;

use patchbay_core::{Digest, text};
use tokio::sync::OwnedSemaphorePermit;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline, WasmBacktrace, component::ResourceTableError};
use wasmtime_wasi::I32Exit;

use crate::{
    Budget, Failure, Limits, LogSink, Sandbox,
    component::{LinkedComponent, PluginWorld, invalid},
    state::{CallAccess, GuestState},
};

impl Sandbox {
    /// Waits for the pool slots that a component needs. The permit must outlive the store; otherwise the
    /// next call can find the pool full.
    ///
    /// A nested call uses slots of its own depth. Otherwise a call and its nested call could wait for each other.
    pub(crate) async fn slots(&self, slots: u32, depth: u32) -> Result<OwnedSemaphorePermit, Failure> {
        let pool = self.slot_pools.at(depth);
        let free = Arc::clone(&pool.free).acquire_many_owned(slots.min(pool.most));
        // The semaphore is never closed.
        free.await.map_err(|error| Failure::Unavailable(error.to_string()))
    }

    /// Returns a store for one call with all budgets except the clock. The guest's log and output go to `log`.
    pub(crate) fn store(
        &self,
        budget: Budget,
        log: Arc<dyn LogSink>,
        access: Option<Arc<CallAccess>>,
    ) -> Result<Store<GuestState>, Failure> {
        let Budget { fuel, host_call_bytes, .. } = budget;
        let mut store =
            Store::new(&self.parts()?.engine, GuestState::new(Arc::clone(&self.limits), budget, log, access));
        store.limiter(|state| &mut state.limiter);
        store.set_fuel(fuel).map_err(invalid)?;
        store.set_hostcall_fuel(host_call_bytes);
        store.set_max_component_handles(Limits::HANDLES);
        // At each tick a running guest yields, and is stopped if its time is over.
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |store| {
            let state = store.data();
            if state.budget.clock.time_left().is_zero() {
                return Err(state.budget.late().into());
            }
            // Calls of `wasi:*` are counted where no error can be returned, so they are checked here.
            state.spent.check_host_calls(&state.budget)?;
            Ok(UpdateDeadline::Yield(1))
        });
        Ok(store)
    }

    /// Runs `work` on a fresh instance, within all budgets of the store.
    pub(crate) async fn run<W: PluginWorld, T>(
        &self,
        component: &LinkedComponent<W>,
        store: &mut Store<GuestState>,
        work: impl AsyncFnOnce(W::Guest, &mut Store<GuestState>) -> wasmtime::Result<T>,
    ) -> Result<T, Failure> {
        let run = async |store: &mut Store<GuestState>| match component.pre.instantiate(store).await {
            Ok(guest) => work(guest, store).await.map_err(|error| {
                let places = self.places(&component.digest, &error);
                let failure = classify(error, store.data(), broken).at(places);
                match &self.symbols {
                    Some(symbols) => failure.with_printed(|lines| symbols.translated(&component.digest, lines)),
                    None => failure,
                }
            }),
            Err(error) => Err(classify(error, store.data(), invalid)),
        };
        within(store, run).await
    }
}

impl Sandbox {
    /// Returns where in its author's source a component trapped, if that is known.
    fn places(&self, component: &Digest, error: &wasmtime::Error) -> Vec<String> {
        match (&self.symbols, error.downcast_ref::<Trap>(), error.downcast_ref::<WasmBacktrace>()) {
            (Some(symbols), Some(_), Some(backtrace)) => symbols.places(component, backtrace),
            _ => Vec::new(),
        }
    }
}

/// Runs `work` on an existing instance, within all budgets of the store.
pub(crate) async fn run_existing<T>(
    store: &mut Store<GuestState>,
    work: impl AsyncFnOnce(&mut Store<GuestState>) -> wasmtime::Result<T>,
) -> Result<T, Failure> {
    let run =
        async |store: &mut Store<GuestState>| work(store).await.map_err(|error| classify(error, store.data(), broken));
    within(store, run).await
}

/// Runs `work` within the clock and the host calls of the store's budget.
async fn within<T>(
    store: &mut Store<GuestState>,
    work: impl AsyncFnOnce(&mut Store<GuestState>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let clock = store.data().budget.clock.clone();
    // Epoch ticks do not stop a guest that waits in a host call.
    let answer = clock.limit(work(store)).await;
    let state = store.data();
    state.spent.check_host_calls(&state.budget)?;
    answer.unwrap_or_else(|| Err(state.budget.late()))
}

/// Finds the failure that stopped a guest by the type of the error; `other` converts unknown errors.
fn classify(error: wasmtime::Error, state: &GuestState, other: impl FnOnce(wasmtime::Error) -> Failure) -> Failure {
    let budget = &state.budget;
    let trap = |reason: String| Failure::Trap { reason, places: Vec::new(), printed: state.last_lines() };
    match error.downcast_ref::<Failure>() {
        Some(failure @ Failure::Memory { .. }) => return budget.exceeded(failure.clone()),
        Some(failure) => return failure.clone(),
        None => {}
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => return budget.exceeded(Failure::Fuel { budget: budget.fuel }),
        Some(Trap::Interrupt) => return budget.late(),
        Some(cause) => return trap(cause.to_string()),
        None => {}
    }
    if let Some(I32Exit(code)) = error.downcast_ref() {
        return trap(format!("it exited with code {code}"));
    }
    if let Some(ResourceTableError::Full) = error.downcast_ref() {
        return trap(format!("it had more than {} wasi:* resources open at once", Limits::WASI_RESOURCES));
    }
    if let Some(full) = error.downcast_ref::<PoolConcurrencyLimitError>() {
        return Failure::Unavailable(format!("{full}; try again, or lower limits.concurrent_calls"));
    }
    // The type is private to the engine, so the text is compared. A test in `tests/hostile` pins it.
    if error.root_cause().to_string().starts_with(HOSTCALL_FUEL_EXHAUSTED) {
        return Failure::Output { limit: budget.host_call_bytes };
    }
    other(error)
}

/// Returns the failure for other errors: the guest violated the canonical ABI, for example with invalid UTF-8 or a bad pointer.
fn broken(error: wasmtime::Error) -> Failure {
    Failure::InvalidOutput(text::excerpt(&error.root_cause().to_string(), 400))
}

const HOSTCALL_FUEL_EXHAUSTED: &str = "too much data is being copied between the host and the guest";
