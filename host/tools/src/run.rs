use std::sync::Arc;

use patchbay_core::{Asker, CallId, Digest, SessionId, ToolSpec};
use patchbay_policy::Identity;
use patchbay_sandbox::{Budget, Call, Content, Inference, Progress, Usage};
use patchbay_skill::{Skill, Snapshot};
use serde_json::Value;

use crate::{
    Internal, ToolError, Tools, blocked, internal,
    journal::{Entry, Ran},
    ready::NotReady,
    side::Side,
};

/// One call of a tool, whoever asks.
pub struct Request<'a> {
    /// Which call it is.
    pub call: CallId,
    /// The call that made it, where a tool asks.
    pub parent: Option<CallId>,
    /// Who asks.
    pub asker: Asker,
    /// The session it belongs to.
    pub session: SessionId,
    /// The workspace's canonical path.
    pub workspace: &'a str,
    /// The skills that there are.
    pub snapshot: &'a Arc<Snapshot>,
    /// The tool's full name, `SKILL__TOOL`, or the bare one of a tool of the host's own.
    pub tool: &'a str,
    /// Its input.
    pub input: &'a Value,
    /// Media type and bytes of what goes along.
    pub attachments: Vec<(String, Vec<u8>)>,
    /// Who hears how it gets on.
    pub progress: Arc<dyn Progress>,
    /// What is left of the caller's budget, where a tool asks; else it has a whole one.
    pub budget: Option<Budget>,
    /// Who asks the model of the agent that has the tool called; where there is none, `inference` is unavailable.
    pub inference: Option<Arc<dyn Inference>>,
    /// Tools of the host's own that may be called besides, by their bare names.
    pub internal: &'a [Arc<dyn Internal>],
}

/// What a request is about, as the snapshot has it.
struct Target<'a> {
    skill: &'a Skill,
    tool: &'a ToolSpec,
    component: Digest,
}

impl Tools {
    /// Runs a tool: look-up among the host's own and in the snapshot, block list, schema check, permits of this moment, a fresh instance within its
    /// limits, and a row of the journal. Gives the answer, and what it took.
    ///
    /// # Errors
    /// [`ToolError`], each with a stable code.
    pub async fn run(self: &Arc<Self>, request: Request<'_>) -> (Result<Vec<Content>, ToolError>, Usage) {
        let internal = request.internal.iter().find(|tool| tool.spec().name.as_str() == request.tool);
        if let Some(tool) = internal {
            let entry = Entry::new(&self.store, &request, &request.input.to_string(), internal::ran(&**tool));
            let (answer, usage) = Box::pin(internal::run(&**tool, request.input)).await;
            entry.finish(&answer, &usage).await;
            return (answer, usage);
        }
        let found = request.snapshot.tool(request.tool);
        let target = found.and_then(|(skill, tool)| Some(Target { skill, tool, component: skill.component? }));
        let Some(target) = target else {
            return (Err(ToolError::NotFound(request.tool.to_owned())), Usage::default());
        };
        let Target { skill, tool, component } = target;
        let text = request.input.to_string();
        let ran = Ran { root: skill.root.as_str(), skill: skill.name.as_str(), tool: tool.name.as_str(), component };
        let entry = Entry::new(&self.store, &request, &text, ran);
        let attempt = self.attempt(request, text, &target).await;
        let (answer, usage) = attempt.unwrap_or_else(|error| (Err(error), Usage::default()));
        entry.finish(&answer, &usage).await;
        (answer, usage)
    }

    /// Everything between the look-up and the journal; `text` is the input as JSON. An error is of what comes before the
    /// guest runs.
    async fn attempt(
        self: &Arc<Self>,
        request: Request<'_>,
        text: String,
        target: &Target<'_>,
    ) -> Result<(Result<Vec<Content>, ToolError>, Usage), ToolError> {
        let Target { skill, tool, component } = *target;
        let Request {
            call,
            session,
            workspace,
            snapshot,
            tool: full_name,
            input,
            attachments,
            progress,
            budget,
            inference,
            ..
        } = request;
        let rules = self.store.rules().await?;
        if let Some(blocked) = blocked(&rules, skill) {
            return Err(blocked.into());
        }
        let failed = |failure| ToolError::Failure { tool: full_name.to_owned(), failure };
        let ready = self.ready(skill, component).await.map_err(|error| match error {
            NotReady::Store(error) => error.into(),
            NotReady::Failure(failure) => failed(failure),
        })?;
        let schema = ready.schema(&tool.name).ok_or_else(|| ToolError::NotFound(full_name.to_owned()))?;
        let schema = schema.as_ref().map_err(|error| ToolError::Schema(error.of_tool(full_name)))?;
        schema
            .check(input)
            .map_err(|error| ToolError::InvalidInput { tool: full_name.to_owned(), problem: error.to_string() })?;
        let permits = self.permits_under(&rules, skill, workspace).await?;
        let side = Side {
            tools: Arc::clone(self),
            owner: Identity::new(skill.root, workspace, skill.name.clone()),
            session,
            workspace: workspace.to_owned(),
            snapshot: Arc::clone(snapshot),
            tool: full_name.to_owned(),
            call,
            progress,
            inference,
        };
        let call = Call {
            tool: tool.name.to_string(),
            input: text,
            attachments,
            services: side.services(&permits),
            permits: Arc::new(permits),
            budget,
        };
        let (answer, usage) = self.sandbox.call(&ready.component, call).await;
        Ok((answer.map_err(failed), usage))
    }
}
