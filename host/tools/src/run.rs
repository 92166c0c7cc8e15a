use std::sync::{Arc, PoisonError};

use jsonschema::Validator;
use patchbay_core::{Digest, SessionId, ToolSpec};
use patchbay_policy::Identity;
use patchbay_sandbox::{Call, Failure, Loaded, Output, Progress, Services};
use patchbay_skill::Snapshot;
use serde_json::Value;

use crate::{ToolError, Tools, kv::SkillKv, log::SkillLog, schema};

/// One call of a tool, whoever asks.
pub struct Request<'a> {
    /// The session it belongs to.
    pub session: SessionId,
    /// The workspace's canonical path.
    pub workspace: &'a str,
    /// The skills that there are.
    pub snapshot: &'a Snapshot,
    /// The tool's full name, `SKILL__TOOL`.
    pub tool: &'a str,
    /// Its input.
    pub input: &'a Value,
    /// Media type and bytes of what goes along.
    pub attachments: Vec<(String, Vec<u8>)>,
    /// Who hears how it gets on.
    pub progress: Arc<dyn Progress>,
}

impl Tools {
    /// Runs a tool: look-up in the snapshot, schema check, permits of this moment, a fresh instance within its limits.
    ///
    /// # Errors
    /// [`ToolError`], each with a stable code.
    pub async fn run(&self, request: Request<'_>) -> Result<Output, ToolError> {
        let Request { session, workspace, snapshot, tool: full_name, input, attachments, progress } = request;
        let not_found = || ToolError::NotFound(full_name.to_owned());
        let (skill, tool) = snapshot.tool(full_name).ok_or_else(not_found)?;
        let digest = skill.component.ok_or_else(not_found)?;
        let failed = |failure| ToolError::Failure { tool: full_name.to_owned(), failure };
        let validator = self.validator(digest, tool).map_err(failed)?;
        if !validator.is_valid(input) {
            let problem = schema::first_error(&validator, input).unwrap_or_default();
            return Err(ToolError::InvalidInput { tool: full_name.to_owned(), problem });
        }
        let permits = self.permits(skill, workspace)?;
        let kv = SkillKv {
            store: self.kv.clone(),
            owner: Identity::new(skill.root, workspace, skill.name.clone()),
            session,
            workspace: workspace.to_owned(),
        };
        let call = Call {
            tool: tool.name.to_string(),
            input: input.to_string(),
            attachments,
            permits: Arc::new(permits),
            services: Services { kv: Arc::new(kv), progress, log: Arc::new(SkillLog { skill: skill.name.clone() }) },
        };
        let component = self.component(digest).await.map_err(|error| match error {
            LoadError::Store(error) => error.into(),
            LoadError::Failure(failure) => failed(failure),
        })?;
        self.sandbox.call(&component, call).await.map_err(failed)
    }

    async fn component(&self, digest: Digest) -> Result<Arc<Loaded>, LoadError> {
        if let Some(loaded) = self.sandbox.loaded(&digest) {
            return Ok(loaded);
        }
        let bytes = self.store.component(&digest).map_err(LoadError::Store)?;
        self.sandbox.load(digest, bytes).await.map_err(LoadError::Failure)
    }

    /// The compiled schema of a tool; compiled once a component.
    fn validator(&self, digest: Digest, tool: &ToolSpec) -> Result<Arc<Validator>, Failure> {
        let key = (digest, tool.name.to_string());
        let mut validators = self.validators.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(validator) = validators.get(&key) {
            return Ok(Arc::clone(validator));
        }
        let validator = Arc::new(schema::compile(&tool.input_schema).map_err(Failure::InvalidComponent)?);
        validators.insert(key, Arc::clone(&validator));
        Ok(validator)
    }
}

enum LoadError {
    Store(patchbay_store::StoreError),
    Failure(Failure),
}
