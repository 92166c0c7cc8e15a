use std::sync::Arc;

use patchbay_core::SessionId;
use patchbay_policy::Identity;
use patchbay_sandbox::{Call, Output, Progress, Services};
use patchbay_skill::Snapshot;
use serde_json::Value;

use crate::{ToolError, Tools, kv::SkillKv, log::SkillLog, ready::NotReady, schema};

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
        let ready = self.ready(skill, digest).await.map_err(|error| match error {
            NotReady::Store(error) => error.into(),
            NotReady::Failure(failure) => failed(failure),
        })?;
        let validator = ready.validator(&tool.name).ok_or_else(not_found)?;
        if !validator.is_valid(input) {
            let problem = schema::first_error(validator, input).unwrap_or_default();
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
        self.sandbox.call(&ready.component, call).await.map_err(failed)
    }
}
