use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
};

use patchbay_policy::{Capability, Denial, Permits};
use patchbay_workspace::{Workspace, WorkspaceAccess};

use crate::{
    Budget, Failure, Http, Inference, Kv, Limits, LogSink, Progress, ToolCaller,
    bindings::patchbay::host::types::Error as WitError, budget::Spent, last_lines::LastLines, limiter::Limiter,
    wasi::Wasi,
};

/// The host's side of what a guest may call.
#[derive(Clone)]
pub struct Services {
    /// The skill's store, bound to skill, session and workspace.
    pub kv: Arc<dyn Kv>,
    /// Who sends its requests.
    pub http: Arc<dyn Http>,
    /// Who runs the tools that it calls.
    pub tools: Arc<dyn ToolCaller>,
    /// Who asks the model of the agent that runs it; none where no agent does.
    pub inference: Option<Arc<dyn Inference>>,
    /// The workspace, and what the call may do in it.
    pub workspace: Arc<WorkspaceAccess>,
    /// Bytes that the skill has written to the workspace in this session, counted against `limits.write_bytes`.
    pub written: Arc<AtomicU64>,
    /// Who hears how it gets on.
    pub progress: Arc<dyn Progress>,
    /// Where its log goes.
    pub log: Arc<dyn LogSink>,
}

/// What one call may do, the host's side of it, and what it made of both. Shared with what goes on beside the guest.
#[derive(Clone)]
pub(crate) struct Reach {
    pub(crate) permits: Arc<Permits>,
    pub(crate) services: Services,
    account: Arc<Mutex<Account>>,
}

#[derive(Default)]
struct Account {
    /// The first thing that was denied: should the skill fail, the host's own words about it are shown, not the skill's.
    denied: Option<Denial>,
    used: BTreeSet<Capability>,
}

impl Reach {
    pub(crate) fn new(permits: Arc<Permits>, services: Services) -> Self {
        Self { permits, services, account: Arc::default() }
    }

    /// The host's side, if the call may use `capability`; else what the guest is told.
    pub(crate) fn permit(&self, capability: &Capability) -> Result<&Services, WitError> {
        match self.permits.check(capability) {
            Ok(()) => {
                self.note_use(capability);
                Ok(&self.services)
            }
            Err(denial) => Err(self.deny(denial)),
        }
    }

    pub(crate) fn note_use(&self, capability: &Capability) {
        let mut account = self.account();
        if !account.used.contains(capability) {
            account.used.insert(capability.clone());
        }
    }

    /// Remembers a denial; gives what the guest is told.
    pub(crate) fn deny(&self, denial: Denial) -> WitError {
        let message = denial.to_string();
        self.account().denied.get_or_insert(denial);
        denied(message)
    }

    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn denied(message: String) -> WitError {
    WitError { kind: "denied".to_owned(), message }
}

/// What a store carries: the budget of one call and what it may reach.
pub(crate) struct State {
    pub(crate) limits: Arc<Limits>,
    pub(crate) budget: Budget,
    pub(crate) spent: Spent,
    pub(crate) limiter: Limiter,
    pub(crate) log_lines: u32,
    pub(crate) log_bytes: usize,
    /// Log, standard output and standard error of the guest.
    pub(crate) log: Arc<LastLines>,
    /// None while a component is asked what it is, and for an adapter: then nothing is granted.
    pub(crate) reach: Option<Reach>,
    /// Opened when first used.
    pub(crate) workspace: Option<Workspace>,
    /// Made when first used: most components do without.
    pub(crate) wasi: Option<Box<Wasi>>,
}

impl State {
    pub(crate) fn new(limits: Arc<Limits>, budget: Budget, log: Arc<dyn LogSink>, reach: Option<Reach>) -> Self {
        Self {
            limiter: Limiter::new(budget.memory_bytes),
            limits,
            budget,
            spent: Spent::default(),
            log_lines: 0,
            log_bytes: 0,
            log: LastLines::new(log),
            reach,
            workspace: None,
            wasi: None,
        }
    }

    /// Returns the last lines that the guest printed, also one that it did not end, and forgets them.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        if let Some(wasi) = &self.wasi {
            wasi.end_lines();
        }
        self.log.take()
    }

    /// Counts one host call; over the limit the guest is stopped.
    pub(crate) fn count_host_call(&mut self) -> wasmtime::Result<()> {
        self.spent.host_calls = self.spent.host_calls.saturating_add(1);
        Ok(self.spent.check_host_calls(&self.budget)?)
    }

    /// Counts bytes that go out; over the limit the guest is stopped.
    pub(crate) fn count_output(&mut self, bytes: usize) -> Result<(), Failure> {
        self.spent.output(bytes, &self.budget)
    }

    /// The host's side, where somebody listens.
    pub(crate) fn services(&self) -> Option<&Services> {
        self.reach.as_ref().map(|reach| &reach.services)
    }

    /// What the call may do and reach; else what the guest is told.
    pub(crate) fn reach(&self) -> Result<&Reach, WitError> {
        let nothing =
            || denied("nothing is granted to an adapter, nor while a component is asked what it is".to_owned());
        self.reach.as_ref().ok_or_else(nothing)
    }

    /// The host's side, if the call may use `capability`; else what the guest is told.
    pub(crate) fn permit(&self, capability: &Capability) -> Result<&Services, WitError> {
        self.reach()?.permit(capability)
    }

    /// The first thing that was denied to the call.
    pub(crate) fn take_denial(&self) -> Option<Denial> {
        self.reach.as_ref()?.account().denied.take()
    }

    /// The capabilities that the call used.
    pub(crate) fn take_used(&self) -> BTreeSet<Capability> {
        self.reach.as_ref().map(|reach| std::mem::take(&mut reach.account().used)).unwrap_or_default()
    }
}
