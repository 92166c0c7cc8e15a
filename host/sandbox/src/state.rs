//! The data of a store for one call: its budget, permits, services and usage.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use futures_util::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use patchbay_policy::{Capability, Denial, Permits};

use crate::{
    Budget, CallClock, CallIdentity, Failure, Fault, Http, Inference, Kv, Limits, LogSink, ProgressSink,
    SkillFileReader, ToolCaller, WorkspaceFiles, bindings::patchbay::host::types::Error as WitError, budget::Spent,
    capability::NestedCalls, effect::GuestEffect, last_lines::LastLines, limiter::Limiter, wasi::Wasi,
};

/// The host services that a guest can call.
#[derive(Clone)]
pub struct Services {
    /// The skill's key-value store, scoped to skill, session and workspace.
    pub kv: Arc<dyn Kv>,
    /// Sends the HTTP requests of the guest.
    pub http: Arc<dyn Http>,
    /// The identity of the call.
    pub call: Arc<dyn CallIdentity>,
    /// Runs the tools that the guest calls.
    pub tools: Arc<dyn ToolCaller>,
    /// Runs completions of the agent's model; `None` if the call has no agent.
    pub inference: Option<Arc<dyn Inference>>,
    /// The files of the skill; `None` makes them unavailable.
    pub skill_files: Option<Arc<dyn SkillFileReader>>,
    /// The files of the workspace.
    pub workspace: Arc<dyn WorkspaceFiles>,
    /// Bytes that the skill has written to the workspace in this session, counted against `limits.write_bytes`.
    pub written: Arc<AtomicU64>,
    /// Asks the user for missing capabilities; `None` if the user cannot be asked.
    pub permit_source: Option<Arc<dyn PermitSource>>,
    /// Denies effects regardless of any grants; `None` denies nothing.
    pub gate: Option<Arc<dyn EffectGate>>,
    /// Replaces the clock and randomness of a call that must be the same in every run. `None` uses the system's.
    pub fixed: Option<FixedInputs>,
    /// Receives the partial output of the call.
    pub progress: Arc<dyn ProgressSink>,
    /// Receives the guest's log.
    pub log: Arc<dyn LogSink>,
}

/// Clock and randomness of a call that must be the same in every run, such as a test. They only replace granted ones: without a
/// grant for `clock` or `random`, every call has the same virtual ones anyway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedInputs {
    /// Where the granted clock starts, as the time since 1970. It only advances when it is read or slept on.
    pub start: Duration,
    /// The seed of the granted randomness.
    pub seed: u64,
    /// The remaining time that the call sees, regardless of its real remaining time.
    pub time_left: Duration,
}

/// Asks the user for a capability that a call lacks.
pub trait PermitSource: Send + Sync {
    /// Asks whether the call may use `capability` for `effect`, and returns how far the answer reaches. A refusal is remembered
    /// here, not by the caller. The clock of the call is paused until the answer.
    ///
    /// # Errors
    /// The reason why the effect cannot happen, regardless of the user's answer. The guest receives it instead of the denial.
    fn request<'a>(
        &'a self,
        capability: &'a Capability,
        effect: GuestEffect<'a>,
    ) -> BoxFuture<'a, Result<Permission, Fault>>;
}

/// Denies effects of a call regardless of its grants. Checked before each effect, and again after the user has answered a question.
pub trait EffectGate: Send + Sync {
    /// Returns the denial of `effect` at this moment.
    fn denial(&self, effect: GuestEffect<'_>) -> Option<Denial>;
}

/// How far the user's answer reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// The effect is refused, with the user's reason if one was given.
    Refused(Option<String>),
    /// The effect is permitted. The next one needs another answer.
    ThisEffect,
    /// The capability, or the part of it that the effect needs, is permitted for the rest of this call.
    ThisCall(Capability),
}

/// The permits and services of one call, and their use. Shared with tasks that run in parallel to the guest.
pub(crate) struct CallAccess {
    /// The permits when the call began.
    pub(crate) permits: Arc<Permits>,
    pub(crate) services: Services,
    clock: CallClock,
    account: Mutex<Account>,
}

#[derive(Default)]
struct Account {
    /// The first denial. If the skill fails, this is shown instead of the skill's message.
    denied: Option<Denial>,
    used: BTreeSet<Capability>,
    /// The permits including each [`Permission::ThisCall`] of this call; `None` if there was none.
    extended: Option<Arc<Permits>>,
}

impl CallAccess {
    pub(crate) fn new(permits: Arc<Permits>, services: Services, clock: CallClock) -> Self {
        Self { permits, services, clock, account: Mutex::default() }
    }

    /// Returns the denial by the gate, which no grant can lift.
    pub(crate) fn gate_denial(&self, effect: GuestEffect<'_>) -> Option<Denial> {
        self.services.gate.as_ref()?.denial(effect)
    }

    /// Returns the permits that apply to every effect from now on.
    pub(crate) fn permits(&self) -> Arc<Permits> {
        Arc::clone(self.account().extended.as_ref().unwrap_or(&self.permits))
    }

    /// Checks that the call may use `capability` for `effect`, and records its use. May ask the user.
    pub(crate) async fn permit(&self, capability: &Capability, effect: GuestEffect<'_>) -> Result<(), WitError> {
        if let Some(denial) = self.gate_denial(effect) {
            return Err(self.deny(denial));
        }
        if self.permits.check(capability).is_err() {
            // Boxed: a denial is rare, and must not enlarge the future of every host call.
            let permitted = Box::pin(self.permitted(effect, |permits| Ok(permits.check(capability)?)));
            permitted.await.map_err(|fault| self.guest_error(fault))?;
        }
        self.note_use(capability);
        Ok(())
    }

    /// Runs `check` with the current permits. Asks the user for each missing grant, if possible, and checks again.
    /// Returns the permits for `effect`, which are valid only for it.
    pub(crate) async fn permitted(
        &self,
        effect: GuestEffect<'_>,
        check: impl Fn(&Permits) -> Result<(), Fault>,
    ) -> Result<Arc<Permits>, Fault> {
        let mut permits = self.permits();
        loop {
            // Checked before a question, and again after an answer that may have taken a long time.
            if let Some(denial) = self.gate_denial(effect) {
                return Err(denial.into());
            }
            let denial = match check(&permits) {
                Ok(()) => return Ok(permits),
                Err(Fault::Denied(denial)) => denial,
                Err(failed) => return Err(failed),
            };
            match self.ask(&denial, effect, &permits).await? {
                Some(granted) => permits = granted,
                None => return Err(denial.into()),
            }
        }
    }

    /// Asks for the capability that the denied effect lacks. Returns `permits` with that capability, or `None` if the user refused.
    async fn ask(
        &self,
        denial: &Denial,
        effect: GuestEffect<'_>,
        permits: &Permits,
    ) -> Result<Option<Arc<Permits>>, Fault> {
        let (Some(source), Some(capability)) = (&self.services.permit_source, denial.grantable()) else {
            return Ok(None);
        };
        // Do not ask if a yes would not lift the denial.
        let Some(granted) = permits.granting(capability) else { return Ok(None) };
        let pause = self.clock.pause();
        let permission = source.request(capability, effect).await;
        drop(pause);
        Ok(match permission? {
            Permission::Refused(None) => None,
            Permission::Refused(said) => return Err(denial.clone().with_reason(said).into()),
            Permission::ThisEffect => Some(Arc::new(granted)),
            Permission::ThisCall(part) => {
                let mut account = self.account();
                let extended = account.extended.as_ref().unwrap_or(&self.permits).granting(&part);
                account.extended = extended.map(Arc::new).or(account.extended.take());
                permits.granting(&part).map(Arc::new)
            }
        })
    }

    pub(crate) fn note_use(&self, capability: &Capability) {
        let mut account = self.account();
        if !account.used.contains(capability) {
            account.used.insert(capability.clone());
        }
    }

    /// Records a denial and returns it for the guest.
    pub(crate) fn deny(&self, denial: Denial) -> WitError {
        let message = denial.to_string();
        self.account().denied.get_or_insert(denial);
        denied(message)
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock()
    }
}

fn denied(message: String) -> WitError {
    WitError { kind: "denied".to_owned(), message }
}

/// The data of a store: the budget of one call, its permits and its services.
pub(crate) struct GuestState {
    pub(crate) limits: Arc<Limits>,
    pub(crate) budget: Budget,
    pub(crate) spent: Spent,
    pub(crate) limiter: Limiter,
    pub(crate) log_lines: u32,
    pub(crate) log_bytes: usize,
    /// The end of the guest's progress reports.
    pub(crate) reported: String,
    /// The guest's log, standard output and standard error.
    pub(crate) log: Arc<LastLines>,
    /// `None` while a component is asked for its tools, and for an adapter; then no capability is granted.
    pub(crate) access: Option<Arc<CallAccess>>,
    /// The nested calls that run in parallel to the guest.
    pub(crate) nested: NestedCalls,
    /// Created at first use, because most components do not use WASI.
    pub(crate) wasi: Option<Box<Wasi>>,
}

impl GuestState {
    pub(crate) fn new(
        limits: Arc<Limits>,
        budget: Budget,
        log: Arc<dyn LogSink>,
        access: Option<Arc<CallAccess>>,
    ) -> Self {
        Self {
            limiter: Limiter::new(budget.memory_bytes),
            limits,
            budget,
            spent: Spent::default(),
            log_lines: 0,
            log_bytes: 0,
            reported: String::new(),
            log: LastLines::new(log),
            access,
            nested: NestedCalls::default(),
            wasi: None,
        }
    }

    /// Returns the last lines that the guest printed, including an unfinished one, and clears them.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        if let Some(wasi) = &self.wasi {
            wasi.end_lines();
        }
        self.log.take()
    }

    /// Bytes that are kept of the guest's progress reports.
    const REPORTED_BYTES: usize = 4 << 10;

    /// Appends to the guest's progress reports, keeping the end. `text` must be clean.
    pub(crate) fn keep_reported(&mut self, text: &str) {
        self.reported.push_str(text);
        let over = self.reported.len().saturating_sub(Self::REPORTED_BYTES);
        self.reported.drain(..self.reported.ceil_char_boundary(over));
    }

    /// Counts one host call. Over the limit, the guest is stopped.
    pub(crate) fn count_host_call(&mut self) -> wasmtime::Result<()> {
        self.spent.host_calls = self.spent.host_calls.saturating_add(1);
        Ok(self.spent.check_host_calls(&self.budget)?)
    }

    /// Counts output bytes. Over the limit, the guest is stopped.
    pub(crate) fn count_output(&mut self, bytes: usize) -> Result<(), Failure> {
        self.spent.output(bytes, &self.budget)
    }

    /// Counts bytes of the result, which are output. Over the limit, the call fails.
    pub(crate) fn count_result(&mut self, bytes: usize) -> Result<(), Failure> {
        self.spent.result_bytes = self.spent.result_bytes.saturating_add(bytes);
        self.count_output(bytes)
    }

    /// Returns the host services; `None` while a component is asked for its tools, and for an adapter.
    pub(crate) fn services(&self) -> Option<&Services> {
        self.access.as_ref().map(|access| &access.services)
    }

    /// Returns the replacement for clock and randomness, if any.
    pub(crate) fn fixed(&self) -> Option<FixedInputs> {
        self.services()?.fixed
    }

    /// Returns permits and services, or the error for the guest.
    pub(crate) fn access(&self) -> Result<&Arc<CallAccess>, WitError> {
        let nothing = || denied("not available to adapters, or while a component is being described".to_owned());
        self.access.as_ref().ok_or_else(nothing)
    }

    /// Returns permits and services if the call may use `capability` for `effect`, otherwise the error
    /// for the guest. May ask the user.
    pub(crate) fn permit<'a>(
        &self,
        capability: &'a Capability,
        effect: GuestEffect<'a>,
    ) -> impl Future<Output = Result<Arc<CallAccess>, WitError>> + Send + use<'a> {
        let access = self.access().cloned();
        async move {
            let access = access?;
            access.permit(capability, effect).await?;
            Ok(access)
        }
    }

    /// Returns the first denial of the call.
    pub(crate) fn take_denial(&self) -> Option<Denial> {
        self.access.as_ref()?.account().denied.take()
    }

    /// Returns the capabilities that the call used.
    pub(crate) fn take_used(&self) -> BTreeSet<Capability> {
        self.access.as_ref().map(|access| std::mem::take(&mut access.account().used)).unwrap_or_default()
    }
}
