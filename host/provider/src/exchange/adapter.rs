//! What an exchange wants of an adapter. The sandbox has it; tests have scripts.

use std::sync::{Arc, PoisonError};

use patchbay_core::{
    Name,
    completion::{Blob, CompletionRequest},
};
use patchbay_sandbox::{
    Failure, Level, LogSink, Sandbox,
    adapter::{Action, Budgets, Input, LoadedAdapter, Running},
};

use super::SharedScrub;

/// Where instances of an adapter come from.
pub(crate) trait Adapter: Sync {
    /// What serves one attempt.
    type Instance: Instance;

    /// A fresh instance, and its first actions.
    fn begin(
        &self,
        request: CompletionRequest,
    ) -> impl Future<Output = Result<(Self::Instance, Vec<Action>), Failure>> + Send;
}

/// What serves one attempt.
pub(crate) trait Instance: Send {
    /// Goes on with what came.
    fn resume(&mut self, input: Input) -> impl Future<Output = Result<Vec<Action>, Failure>> + Send;

    /// The bytes that it knows by `id`.
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

/// An adapter in the sandbox.
pub(crate) struct Sandboxed<'a> {
    pub(crate) sandbox: &'a Arc<Sandbox>,
    pub(crate) adapter: &'a LoadedAdapter,
    pub(crate) options: &'a [(String, String)],
    pub(crate) budgets: Budgets,
    pub(crate) log: Arc<Log>,
}

impl Adapter for Sandboxed<'_> {
    type Instance = Running;

    async fn begin(&self, request: CompletionRequest) -> Result<(Running, Vec<Action>), Failure> {
        self.sandbox.begin(self.adapter, request, self.options, &self.budgets, self.log.clone()).await
    }
}

/// Where an adapter's log goes: what it puts together again of an echo is scrubbed here.
pub(crate) struct Log {
    pub(crate) provider: Name,
    pub(crate) scrub: SharedScrub,
}

impl LogSink for Log {
    fn write(&self, level: Level, message: &str) {
        let provider = self.provider.as_str();
        let message = self.scrub.read().unwrap_or_else(PoisonError::into_inner).text(message);
        match level {
            Level::Debug => tracing::debug!(target: "plugin", provider, "{message}"),
            Level::Info => tracing::info!(target: "plugin", provider, "{message}"),
            Level::Warn => tracing::warn!(target: "plugin", provider, "{message}"),
            Level::Error => tracing::error!(target: "plugin", provider, "{message}"),
        }
    }
}
