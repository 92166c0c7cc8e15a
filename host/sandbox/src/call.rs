use std::{sync::Arc, time::Instant};

use patchbay_core::{ToolSpec, text};
use patchbay_policy::Permits;
use tokio::sync::SemaphorePermit;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline, component::ResourceTableError};
use wasmtime_wasi::I32Exit;

use crate::{
    Budget, Content, Failure, Limits, Loaded, Sandbox, Services, Usage,
    bindings::{SkillPlugin, patchbay::skill::types::Blob},
    component::invalid,
    output::{read_content, read_tools},
    state::{Reach, State},
};

/// One call of a tool.
pub struct Call {
    /// The tool's bare name.
    pub tool: String,
    /// A JSON object that satisfies the tool's schema; the caller has checked it.
    pub input: String,
    /// Media type and bytes of what goes along.
    pub attachments: Vec<(String, Vec<u8>)>,
    /// What the call may do.
    pub permits: Arc<Permits>,
    /// What it may reach.
    pub services: Services,
    /// What is left of its caller's budget, where another tool called; else it has a whole one.
    pub budget: Option<Budget>,
}

impl Sandbox {
    /// Asks a component for its tools, with nothing granted and a small budget.
    ///
    /// # Errors
    /// A [`Failure`]; [`Failure::InvalidOutput`] where the answer breaks the contract.
    pub async fn describe(&self, component: &Loaded) -> Result<Vec<ToolSpec>, Failure> {
        let _slots = self.slots(component, 0).await?;
        let budget = Budget { fuel: self.limits.describe_fuel, ..Budget::whole(&self.limits) };
        let mut store = self.store(budget, None)?;
        let tools =
            self.run(component, &mut store, async |skill, store| skill.patchbay_skill_skill().call_tools(store).await);
        read_tools(tools.await?)
    }

    /// Calls a tool in a fresh instance. Gives what it answered, or what stopped it, and what that took.
    pub async fn call(&self, component: &Loaded, call: Call) -> (Result<Vec<Content>, Failure>, Usage) {
        let depth = call.budget.as_ref().map_or(0, |budget| budget.depth);
        // Taken before the store is made, and so given back after it is gone.
        let slots = match (self.slots(component, depth), &call.budget) {
            (slots, None) => slots.await,
            (slots, Some(budget)) => match tokio::time::timeout(budget.time_left(), slots).await {
                Ok(slots) => slots,
                Err(_) => Err(Failure::Time { limit_ms: self.limits.time_ms }),
            },
        };
        let _slots = match slots {
            Ok(slots) => slots,
            Err(failure) => return (Err(failure), Usage::default()),
        };
        let start = Instant::now();
        let Call { tool, input, attachments, permits, services, budget } = call;
        let budget = budget.unwrap_or_else(|| Budget::whole(&self.limits));
        let fuel = budget.fuel;
        let mut store = match self.store(budget, Some(Reach::new(permits, services))) {
            Ok(store) => store,
            Err(failure) => return (Err(failure), Usage::default()),
        };
        let answer = self.answer(component, &mut store, &tool, &input, attachments).await;
        let left = store.get_fuel().unwrap_or(0);
        let state = store.data();
        let usage = Usage {
            fuel: fuel.saturating_sub(left),
            time: start.elapsed(),
            peak_memory: state.limiter.peak,
            host_calls: state.spent.host_calls,
            output_bytes: state.spent.output_bytes,
            capabilities: state.take_used(),
        };
        (answer, usage)
    }

    async fn answer(
        &self,
        component: &Loaded,
        store: &mut Store<State>,
        tool: &str,
        input: &str,
        attachments: Vec<(String, Vec<u8>)>,
    ) -> Result<Vec<Content>, Failure> {
        let size = attachments
            .iter()
            .fold(input.len(), |size, (media_type, data)| size.saturating_add(media_type.len() + data.len()));
        if size > self.limits.input_bytes {
            return Err(Failure::Input { size, limit: self.limits.input_bytes });
        }
        let blobs: Vec<Blob> = attachments.into_iter().map(|(media_type, data)| Blob { media_type, data }).collect();
        let answer = self.run(component, store, async |skill, store| {
            skill.patchbay_skill_skill().call_call(store, tool, input, &blobs).await
        });
        match answer.await? {
            Ok(content) => read_content(content, store.data_mut()),
            Err(failure) => {
                if let Some(denial) = store.data().take_denial() {
                    return Err(Failure::Denied(denial));
                }
                store.data_mut().count_output(failure.message.len())?;
                let message = text::clean(&failure.message).trim().to_owned();
                Err(Failure::Failed { kind: text::excerpt(&failure.kind, 64), message })
            }
        }
    }

    /// The component's places in the pool. Whoever drops them before the store finds the pool full for the next call.
    ///
    /// A nested call has places of its own depth, so that a call never waits for one that waits for it.
    async fn slots(&self, component: &Loaded, depth: u32) -> Result<SemaphorePermit<'_>, Failure> {
        let places = self.places.at(depth);
        let slots = component.slots.min(places.most);
        // The semaphore is never closed.
        places.free.acquire_many(slots).await.map_err(|error| Failure::Unavailable(error.to_string()))
    }

    /// A store for one call, with all its budgets but the wall clock's timer.
    fn store(&self, budget: Budget, reach: Option<Reach>) -> Result<Store<State>, Failure> {
        let Budget { fuel, output_bytes, deadline, .. } = budget;
        let mut store = Store::new(&self.machine()?.engine, State::new(Arc::clone(&self.limits), budget, reach));
        store.limiter(|state| &mut state.limiter);
        store.set_fuel(fuel).map_err(invalid)?;
        store.set_hostcall_fuel(output_bytes);
        store.set_max_component_handles(Limits::HANDLES);
        // At each tick a running guest lets others run, and is stopped when its time is over.
        let limit_ms = self.limits.time_ms;
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |store| {
            if Instant::now() >= deadline {
                return Err(Failure::Time { limit_ms }.into());
            }
            // Calls of `wasi:*` are counted where nothing can be refused, and so judged here.
            let state = store.data();
            state.spent.check_host_calls(&state.budget)?;
            Ok(UpdateDeadline::Yield(1))
        });
        Ok(store)
    }

    /// One fresh instance, used once, within all its budgets.
    async fn run<T>(
        &self,
        component: &Loaded,
        store: &mut Store<State>,
        guest: impl AsyncFnOnce(&SkillPlugin, &mut Store<State>) -> wasmtime::Result<T>,
    ) -> Result<T, Failure> {
        let (limits, fuel) = (&self.limits, store.data().budget.fuel);
        let time_left = store.data().budget.time_left();
        let work = async {
            let skill = match component.pre.instantiate_async(&mut *store).await {
                Ok(skill) => skill,
                Err(error) => return Err(classify(error, fuel, limits, invalid)),
            };
            let answer = guest(&skill, store).await;
            answer.map_err(|error| classify(error, fuel, limits, broken))
        };
        // Behind the epochs: a blocked host call sees no tick.
        let answer = tokio::time::timeout(time_left, work).await;
        let answer = answer.unwrap_or(Err(Failure::Time { limit_ms: limits.time_ms }));
        let state = store.data();
        state.spent.check_host_calls(&state.budget)?;
        answer
    }
}

/// Finds out by type what stopped a guest; `other` names what is left over.
fn classify(
    error: wasmtime::Error,
    fuel: u64,
    limits: &Limits,
    other: impl FnOnce(wasmtime::Error) -> Failure,
) -> Failure {
    if let Some(failure) = error.downcast_ref::<Failure>() {
        return failure.clone();
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => return Failure::Fuel { budget: fuel },
        Some(Trap::Interrupt) => return Failure::Time { limit_ms: limits.time_ms },
        Some(trap) => return Failure::Trap(trap.to_string()),
        None => {}
    }
    if let Some(I32Exit(code)) = error.downcast_ref() {
        return Failure::Trap(format!("it ended itself with exit code {code}"));
    }
    if let Some(ResourceTableError::Full) = error.downcast_ref() {
        return Failure::Trap(format!("it held more than {} things of wasi:* at once", Limits::WASI_RESOURCES));
    }
    if let Some(full) = error.downcast_ref::<PoolConcurrencyLimitError>() {
        return Failure::Unavailable(format!("{full}; try again, or lower limits.concurrent_calls"));
    }
    // The engine keeps this one type to itself; a hostile guest in the tests pins its words.
    if error.root_cause().to_string().starts_with(HOSTCALL_FUEL_EXHAUSTED) {
        return Failure::Output { limit: limits.output_bytes };
    }
    other(error)
}

/// What is left after a guest ran: it broke the canonical ABI, by bad UTF-8 or a pointer that leads nowhere.
fn broken(error: wasmtime::Error) -> Failure {
    Failure::InvalidOutput(text::excerpt(&error.root_cause().to_string(), 400))
}

const HOSTCALL_FUEL_EXHAUSTED: &str = "too much data is being copied between the host and the guest";
