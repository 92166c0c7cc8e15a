use std::sync::Arc;

use patchbay_core::{
    Digest,
    completion::{Blob, CompletionRequest, ThinkingLevel},
};

use super::{Action, AdapterManifest, Input, ThinkingPlan};
use crate::{Failure, LogSink, Sandbox};

/// A compiled and checked adapter, ready to be instantiated.
pub struct LoadedAdapter {
    digest: Digest,
}

impl LoadedAdapter {
    /// The digest of its bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }
}

/// The instance that serves one completion.
pub struct Running {
    blobs: Vec<Blob>,
}

impl Running {
    /// The bytes that the adapter knows by `id`.
    pub fn blob(&self, id: u32) -> Option<&Blob> {
        self.blobs.get(id as usize)
    }

    /// Goes on with what came.
    ///
    /// # Errors
    /// A [`Failure`]; the instance is of no use any more then.
    pub async fn resume(&mut self, _input: Input) -> Result<Vec<Action>, Failure> {
        unimplemented!()
    }
}

impl Sandbox {
    /// Compiles an adapter, as [`Sandbox::load`] does a skill's component.
    ///
    /// # Errors
    /// Those of [`Sandbox::load`].
    pub async fn load_adapter(self: &Arc<Self>, _digest: Digest, _bytes: Vec<u8>) -> Result<Arc<LoadedAdapter>, Failure> {
        unimplemented!()
    }

    /// Asks an adapter what it is, with a small budget.
    ///
    /// # Errors
    /// A [`Failure`]; [`Failure::InvalidOutput`] where the answer breaks the contract.
    pub async fn describe_adapter(&self, _adapter: &LoadedAdapter) -> Result<AdapterManifest, Failure> {
        unimplemented!()
    }

    /// Asks an adapter what a thinking level comes to for a model, in a fresh instance with a small budget.
    ///
    /// # Errors
    /// A [`Failure`].
    pub async fn explain_thinking(
        &self,
        _adapter: &LoadedAdapter,
        _model: &str,
        _level: Option<ThinkingLevel>,
    ) -> Result<ThinkingPlan, Failure> {
        unimplemented!()
    }

    /// Begins a completion in a fresh instance: what serves it, and its first actions. `options` are the operator's settings;
    /// what the adapter logs goes to `log`.
    ///
    /// # Errors
    /// A [`Failure`].
    pub async fn begin(
        self: &Arc<Self>,
        _adapter: &LoadedAdapter,
        _request: CompletionRequest,
        _options: &[(String, String)],
        _log: Arc<dyn LogSink>,
    ) -> Result<(Running, Vec<Action>), Failure> {
        unimplemented!()
    }
}
