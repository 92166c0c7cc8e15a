//! Loads components for calls: compiles them and the schemas of their tools, once for each digest while the cache keeps
//! them.

use std::{collections::BTreeMap, sync::Arc};

use patchbay_core::{Digest, Name, ToolSpec};
use patchbay_sandbox::{Failure, Loaded};
use patchbay_schema::{PatternBudget, Schema, SchemaError};
use patchbay_skill::Skill;
use patchbay_store::StoreError;

use crate::Tools;

/// The compiled schema of each tool, or why it was rejected.
type Schemas = BTreeMap<Name, Result<Schema, SchemaError>>;

pub(crate) struct ReadyComponent {
    pub(crate) component: Arc<Loaded>,
    /// The schema of each tool. A snapshot of an older build can contain schemas that are rejected now;
    /// then only that tool is unusable.
    schemas: Schemas,
}

/// Why a component is not ready.
pub(crate) enum LoadError {
    Store(StoreError),
    Failure(Failure),
}

impl ReadyComponent {
    /// Returns the compiled schema of a tool, or why it was rejected; `None` for an unknown tool.
    pub(crate) fn schema(&self, tool: &Name) -> Option<&Result<Schema, SchemaError>> {
        self.schemas.get(tool)
    }
}

impl Tools {
    /// Returns the component `digest` of `skill`, ready to be called.
    pub(crate) async fn ready(&self, skill: &Skill, digest: Digest) -> Result<Arc<ReadyComponent>, LoadError> {
        match self.ready_cache.get(&digest) {
            Some(ready) => Ok(ready),
            // Boxed: it is rare, and must not enlarge the future of every call.
            None => Box::pin(self.make_ready(skill, digest)).await,
        }
    }

    async fn make_ready(&self, skill: &Skill, digest: Digest) -> Result<Arc<ReadyComponent>, LoadError> {
        let bytes = self.store.component(&digest).await.map_err(LoadError::Store)?;
        let component = self.sandbox.load(digest, bytes).await.map_err(LoadError::Failure)?;
        let schemas = compile(Arc::clone(&skill.tools)).await;
        let ready = Arc::new(ReadyComponent { component, schemas });
        self.ready_cache.insert(digest, Arc::clone(&ready));
        Ok(ready)
    }
}

/// Compiles the schemas of a component's tools on a thread for blocking work: hostile ones take about 50 ms.
async fn compile(tools: Arc<[ToolSpec]>) -> Schemas {
    let compile = move || {
        let mut patterns = PatternBudget::default();
        tools.iter().map(|tool| (tool.name.clone(), Schema::compile(&tool.input_schema, &mut patterns))).collect()
    };
    // The task neither panics nor is cancelled. Without a schema, a tool counts as not found.
    tokio::task::spawn_blocking(compile).await.unwrap_or_default()
}
