//! Runs every tool call. Called by `session`, `agent` and nested calls.

use std::sync::Arc;

use patchbay_sandbox::{Call, Content, Finished};
use tracing::Instrument as _;

use crate::{
    BegunCall, CallContext, InternalCall, PersonAccess, ResolvedTool, ToolError, ToolInvocation, Tools, blocked,
    call::SkillTool,
    internal,
    ready::LoadError,
    record::{CallRecord, RunningCall},
    services::CallServices,
};

impl Tools {
    /// Runs a tool: checks the block list, the schema and the current permits, runs a fresh instance within its limits, and writes
    /// a row to the journal. Returns the answer or a [`ToolError`], which has a stable code.
    pub async fn run(
        self: &Arc<Self>,
        context: &Arc<CallContext>,
        call: ToolInvocation<'_>,
    ) -> Finished<Vec<Content>, ToolError> {
        let (id, tool) = (call.id, call.tool.full_name());
        let input = call.input.to_string();
        let record = CallRecord::new(&self.store, context, &call, &input);
        let span = tracing::info_span!("call", %id, tool, asker = %record.asker());
        let run = async {
            let running = RunningCall::new(record);
            let finished = match call.tool {
                ResolvedTool::Internal(tool) => {
                    let person = PersonAccess { record: running.record(), slots: &self.question_permits };
                    let call = InternalCall { id, input: call.input, row: call.row, person };
                    Box::pin(internal::run(tool, call)).await
                }
                ResolvedTool::Outside(tool) => Box::pin(self.run_outside(running.record(), tool, call, &input)).await,
                ResolvedTool::Skill(tool) => {
                    self.run_skill(running.record(), tool, call, input).await.unwrap_or_else(Finished::failed)
                }
            };
            running.finish(&finished).await;
            if let Some(interposer) = &self.interposer {
                interposer.finished(&finished);
            }
            finished
        };
        run.instrument(span).await
    }

    /// Runs a skill's tool with `input` as JSON. The outer error is a failure before the guest runs.
    async fn run_skill(
        self: &Arc<Self>,
        record: &Arc<CallRecord>,
        tool: SkillTool<'_>,
        call: ToolInvocation<'_>,
        input: String,
    ) -> Result<Finished<Vec<Content>, ToolError>, ToolError> {
        let SkillTool { full_name, skill, spec, component } = tool;
        let rules = self.store.rules().await?;
        if let Some(blocked) = blocked(&rules, skill) {
            return Err(blocked.into());
        }
        let failed = |failure| ToolError::Failure { tool: full_name.to_owned(), failure };
        let ready = self.ready(skill, component).await.map_err(|error| match error {
            LoadError::Store(error) => error.into(),
            LoadError::Failure(failure) => failed(failure),
        })?;
        let schema = ready.schema(&spec.name).ok_or_else(|| ToolError::NotFound(full_name.to_owned()))?;
        let schema = schema.as_ref().map_err(|error| ToolError::Schema(error.of_tool(full_name)))?;
        schema
            .check(call.input)
            .map_err(|error| ToolError::InvalidInput { tool: full_name.to_owned(), problem: error.to_string() })?;
        let permits = self.permits_under(&rules, skill, &record.context.workspace).await?;
        let permits = if spec.is_read_only() { permits.only_reading(full_name.to_owned()) } else { permits };
        let permits = Arc::new(permits);
        let services = CallServices::of(self, record, skill, &permits);
        let services = match &self.interposer {
            Some(interposer) => {
                let begun = BegunCall {
                    id: record.id,
                    session: record.context.hold.session(),
                    skill: skill.name.as_str(),
                    tool: spec.name.as_str(),
                    component,
                    input: &input,
                    attachments: &call.attachments,
                    permits: &permits,
                    limits: self.sandbox.limits(),
                    budget: call.parent.as_ref().map(|(_, budget)| budget),
                    unix_ms: self.store.source().unix_ms(),
                };
                let (services, tape) = interposer.services(&begun, services);
                if let Some(tape) = tape {
                    record.set_tape(tape);
                }
                services
            }
            None => services,
        };
        let call = Call {
            tool: spec.name.to_string(),
            input,
            attachments: call.attachments,
            services,
            permits,
            budget: call.parent.map(|(_, budget)| budget),
        };
        let Finished { result, usage } = self.sandbox.call(&ready.component, call).await;
        Ok(Finished { result: result.map_err(|failure| failed(record.explained(failure))), usage })
    }
}
