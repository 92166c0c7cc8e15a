use std::{sync::Arc, time::Instant};

use patchbay_core::{ToolSpec, text};
use patchbay_policy::{Capability, Denial, Permits};
use tokio::sync::SemaphorePermit;
use wasmtime::{PoolConcurrencyLimitError, Store, Trap, UpdateDeadline};

use crate::{
    Failure, Kv, Limits, Loaded, LogSink, Output, Progress, Sandbox,
    bindings::{
        SkillPlugin,
        patchbay::{host::types::Error as WitError, skill::types::Blob},
    },
    component::invalid,
    limiter::Limiter,
    output::{read_content, read_tools},
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
}

/// The host's side of what a guest may call.
#[derive(Clone)]
pub struct Services {
    /// The skill's store, bound to skill, session and workspace.
    pub kv: Arc<dyn Kv>,
    /// Who hears how it gets on.
    pub progress: Arc<dyn Progress>,
    /// Where its log goes.
    pub log: Arc<dyn LogSink>,
}

/// What one call may do, and the host's side of it.
pub(crate) struct Reach {
    pub(crate) permits: Arc<Permits>,
    pub(crate) services: Services,
}

/// What a store carries: the budgets of one call and what it may reach.
pub(crate) struct State {
    pub(crate) limits: Arc<Limits>,
    pub(crate) log_lines: u32,
    pub(crate) log_bytes: usize,
    limiter: Limiter,
    /// None while a component is asked for its tools: then nothing is granted, and nobody listens.
    reach: Option<Reach>,
    denied: Option<Denial>,
    host_calls: u32,
    output_bytes: usize,
}

impl State {
    pub(crate) fn new(limits: Arc<Limits>, reach: Option<Reach>) -> Self {
        Self {
            limiter: Limiter::new(&limits),
            limits,
            log_lines: 0,
            log_bytes: 0,
            reach,
            denied: None,
            host_calls: 0,
            output_bytes: 0,
        }
    }

    /// Counts one host call; over the limit the guest is stopped.
    pub(crate) fn count_host_call(&mut self) -> wasmtime::Result<()> {
        self.host_calls += 1;
        if self.host_calls > self.limits.host_calls {
            return Err(Failure::HostCalls { limit: self.limits.host_calls }.into());
        }
        Ok(())
    }

    /// Counts bytes that go out; over the limit the guest is stopped.
    pub(crate) fn count_output(&mut self, bytes: usize) -> Result<(), Failure> {
        self.output_bytes = self.output_bytes.saturating_add(bytes);
        if self.output_bytes > self.limits.output_bytes {
            return Err(Failure::Output { limit: self.limits.output_bytes });
        }
        Ok(())
    }

    /// The host's side, where somebody listens.
    pub(crate) fn services(&self) -> Option<&Services> {
        self.reach.as_ref().map(|reach| &reach.services)
    }

    /// The host's side, if the call may use `capability`; else what the guest is told. A denial is remembered: should the
    /// skill fail, the host's own words about it are shown, not the skill's.
    pub(crate) fn permit(&mut self, capability: &Capability) -> Result<&Services, WitError> {
        let denied = |message: String| WitError { kind: "denied".to_owned(), message };
        let Some(reach) = &self.reach else {
            return Err(denied("nothing is granted while a component is asked for its tools".to_owned()));
        };
        match reach.permits.check(capability) {
            Ok(()) => Ok(&reach.services),
            Err(denial) => {
                let message = denial.to_string();
                self.denied.get_or_insert(denial);
                Err(denied(message))
            }
        }
    }
}

impl Sandbox {
    /// Asks a component for its tools, with nothing granted and a small budget.
    ///
    /// # Errors
    /// A [`Failure`]; [`Failure::InvalidOutput`] where the answer breaks the contract.
    pub async fn describe(&self, component: &Loaded) -> Result<Vec<ToolSpec>, Failure> {
        let state = State::new(Arc::clone(&self.limits), None);
        let slots = self.slots(component).await?;
        let (tools, _) = self
            .run(&slots, component, state, self.limits.describe_fuel, async |skill, store| {
                skill.patchbay_skill_skill().call_tools(store).await
            })
            .await?;
        read_tools(tools)
    }

    /// Calls a tool in a fresh instance.
    ///
    /// # Errors
    /// A [`Failure`]: the skill's own, or what stopped it.
    pub async fn call(&self, component: &Loaded, call: Call) -> Result<Output, Failure> {
        let Call { tool, input, attachments, permits, services } = call;
        let size = attachments
            .iter()
            .fold(input.len(), |size, (media_type, data)| size.saturating_add(media_type.len() + data.len()));
        if size > self.limits.input_bytes {
            return Err(Failure::Input { size, limit: self.limits.input_bytes });
        }
        let blobs: Vec<Blob> = attachments.into_iter().map(|(media_type, data)| Blob { media_type, data }).collect();
        let state = State::new(Arc::clone(&self.limits), Some(Reach { permits, services }));
        let fuel = self.limits.fuel;
        // Taken before the store is made, and so given back after it is gone.
        let slots = self.slots(component).await?;
        let (answer, mut store) = self
            .run(&slots, component, state, fuel, async |skill, store| {
                skill.patchbay_skill_skill().call_call(store, &tool, &input, &blobs).await
            })
            .await?;
        let content = match answer {
            Ok(content) => read_content(content, store.data_mut())?,
            Err(failure) => {
                if let Some(denial) = store.data_mut().denied.take() {
                    return Err(Failure::Denied(denial));
                }
                store.data_mut().count_output(failure.message.len())?;
                let message = text::clean(&failure.message).trim().to_owned();
                return Err(Failure::Failed { kind: text::excerpt(&failure.kind, 64), message });
            }
        };
        let left = store.get_fuel().unwrap_or(0);
        let state = store.data();
        Ok(Output {
            content,
            fuel: fuel.saturating_sub(left),
            host_calls: state.host_calls,
            peak_memory: state.limiter.peak,
        })
    }

    /// The component's places in the pool. Whoever drops them before the store finds the pool full for the next call.
    async fn slots(&self, component: &Loaded) -> Result<SemaphorePermit<'_>, Failure> {
        let slots = component.slots.min(self.limits.concurrent_calls.max(1));
        // The semaphore is never closed.
        self.slots.acquire_many(slots).await.map_err(|error| Failure::Unavailable(error.to_string()))
    }

    /// One fresh instance, used once, within all its budgets, in the places of `_slots`.
    async fn run<T>(
        &self,
        _slots: &SemaphorePermit<'_>,
        component: &Loaded,
        state: State,
        fuel: u64,
        guest: impl AsyncFnOnce(&SkillPlugin, &mut Store<State>) -> wasmtime::Result<T>,
    ) -> Result<(T, Store<State>), Failure> {
        let limits = &self.limits;
        let mut store = Store::new(&self.machine()?.engine, state);
        store.limiter(|state| &mut state.limiter);
        store.set_fuel(fuel).map_err(invalid)?;
        store.set_hostcall_fuel(limits.output_bytes);
        store.set_max_component_handles(Limits::HANDLES);
        // At each tick a running guest lets others run, and is stopped when its time is over.
        let deadline = Instant::now() + limits.time();
        let limit_ms = limits.time_ms;
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |_| {
            if Instant::now() >= deadline {
                return Err(Failure::Time { limit_ms }.into());
            }
            Ok(UpdateDeadline::Yield(1))
        });

        let work = async {
            let skill = match component.pre.instantiate_async(&mut store).await {
                Ok(skill) => skill,
                Err(error) => return Err(classify(error, fuel, limits, invalid)),
            };
            let answer = guest(&skill, &mut store).await;
            answer.map_err(|error| classify(error, fuel, limits, broken))
        };
        // Behind the epochs: a blocked host call sees no tick.
        let answer = tokio::time::timeout(limits.time(), work).await.map_err(|_| Failure::Time { limit_ms })??;
        Ok((answer, store))
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
