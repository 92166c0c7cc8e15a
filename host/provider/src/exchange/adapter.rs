//! The interface that an exchange requires of an adapter. The sandbox implements it; tests implement it with scripts.

use std::sync::Arc;

use patchbay_core::{
    Name,
    completion::{Blob, CompletionRequest},
};
use patchbay_sandbox::{
    Failure, LogLevel, LogSink, PluginLog, Sandbox,
    adapter::{Action, Budgets, Input, LoadedAdapter, Running},
    log_plugin_line,
};

use super::{SharedScrub, host_options};

/// Starts instances of an adapter.
pub(crate) trait StartAdapter: Sync {
    /// The instance that serves one attempt.
    type Instance: Instance;

    /// Starts the instance of the attempt with this number, from 1. Returns it with its first actions.
    fn begin(
        &self,
        request: CompletionRequest,
        attempt: u32,
    ) -> impl Future<Output = Result<(Self::Instance, Vec<Action>), Failure>> + Send;
}

/// An instance of an adapter, which serves one attempt.
pub(crate) trait Instance: Send {
    /// Resumes the instance with `input`. Returns its next actions.
    fn resume(&mut self, input: Input) -> impl Future<Output = Result<Vec<Action>, Failure>> + Send;

    /// Returns the blob of the request that the instance knows by `id`.
    fn blob(&self, id: u32) -> Option<&Blob>;
}

impl Instance for Running {
    fn resume(&mut self, input: Input) -> impl Future<Output = Result<Vec<Action>, Failure>> + Send {
        Running::resume(self, input)
    }

    fn blob(&self, id: u32) -> Option<&Blob> {
        Running::blob(self, id)
    }
}

/// An adapter that runs in the sandbox.
pub(crate) struct Sandboxed<'a> {
    pub(crate) sandbox: &'a Arc<Sandbox>,
    pub(crate) adapter: &'a LoadedAdapter,
    pub(crate) options: &'a [(String, String)],
    /// The known facts about the model, as JSON.
    pub(crate) model_facts: Option<&'a str>,
    pub(crate) budgets: Budgets,
    pub(crate) log: Arc<AdapterLog>,
}

impl StartAdapter for Sandboxed<'_> {
    type Instance = Running;

    async fn begin(&self, request: CompletionRequest, attempt: u32) -> Result<(Running, Vec<Action>), Failure> {
        let options = host_options::behind(self.options, &request.hints, self.model_facts, attempt);
        self.sandbox.begin(self.adapter, request, &options, &self.budgets, self.log.clone()).await
    }
}

/// Writes an adapter's log lines to the operator's log, without secrets that the adapter copied from an answer.
pub(crate) struct AdapterLog {
    pub(crate) provider: Name,
    pub(crate) scrub: SharedScrub,
}

impl LogSink for AdapterLog {
    fn write(&self, level: LogLevel, message: &str) {
        let message = self.scrub.read().text(message);
        log_plugin_line(PluginLog::Provider(self.provider.as_str()), level, &message);
    }
}
