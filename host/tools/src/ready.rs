//! Components that are ready to be called: loaded, with the schemas of their tools compiled. Made once a digest, as long as there is room.

use std::{collections::BTreeMap, sync::Arc};

use patchbay_core::{Digest, Name, ToolSpec};
use patchbay_sandbox::{Failure, Loaded};
use patchbay_schema::{PatternBudget, Schema, SchemaError};
use patchbay_skill::Skill;
use patchbay_store::StoreError;

use crate::Tools;

/// The schema of each tool, or why it is refused.
type Schemas = BTreeMap<Name, Result<Schema, SchemaError>>;

pub(crate) struct ReadyComponent {
    pub(crate) component: Arc<Loaded>,
    /// The schema of each tool. A snapshot of an older build may hold schemas that are refused now; that costs the tool, not
    /// the component.
    schemas: Schemas,
}

/// Why a component is not ready.
pub(crate) enum NotReady {
    Store(StoreError),
    Failure(Failure),
}

impl ReadyComponent {
    /// The schema of one of its tools, or why it cannot be used.
    pub(crate) fn schema(&self, tool: &Name) -> Option<&Result<Schema, SchemaError>> {
        self.schemas.get(tool)
    }
}

impl Tools {
    /// The component `digest` of `skill`.
    pub(crate) async fn ready(&self, skill: &Skill, digest: Digest) -> Result<Arc<ReadyComponent>, NotReady> {
        match self.ready_cache.get(&digest) {
            Some(ready) => Ok(ready),
            // In a box: what few calls need must not make the future of every call larger, which is moved several times.
            None => Box::pin(self.make_ready(skill, digest)).await,
        }
    }

    async fn make_ready(&self, skill: &Skill, digest: Digest) -> Result<Arc<ReadyComponent>, NotReady> {
        let bytes = self.store.component(&digest).await.map_err(NotReady::Store)?;
        let component = self.sandbox.load(digest, bytes).await.map_err(NotReady::Failure)?;
        let schemas = compile(Arc::clone(&skill.tools)).await;
        let ready = Arc::new(ReadyComponent { component, schemas });
        self.ready_cache.insert(digest, Arc::clone(&ready));
        Ok(ready)
    }
}

/// Compiles the schemas of a component's tools, on a thread for work that blocks: hostile ones take some 50 ms.
async fn compile(tools: Arc<[ToolSpec]>) -> Schemas {
    let compile = move || {
        let mut patterns = PatternBudget::default();
        tools.iter().map(|tool| (tool.name.clone(), Schema::compile(&tool.input_schema, &mut patterns))).collect()
    };
    // It neither panics nor is cancelled; without a schema a tool is not found.
    tokio::task::spawn_blocking(compile).await.unwrap_or_default()
}
