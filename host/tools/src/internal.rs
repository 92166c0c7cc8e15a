//! Tools implemented by the host. A model calls them like skill tools; `agent` provides them.

use std::{sync::Arc, time::Instant};

use futures_util::future::BoxFuture;
use patchbay_core::{CallId, Code, Digest, ToolSpec};
use patchbay_sandbox::{Content, Finished, Usage};
use patchbay_schema::{PatternBudget, Schema};
use patchbay_store::{NewMessage, RecordedApproval};
use serde_json::Value;

use crate::{
    ProviderMove, Question, QuestionSubject, ToolError,
    approval::{QuestionPermits, StoredGrant},
    record::{CallRecord, JournalName},
};

/// A tool implemented by the host. It does not run in the sandbox and has a bare name.
pub trait Internal: Send + Sync {
    /// Returns the name, the description and the input schema.
    fn spec(&self) -> &ToolSpec;

    /// Returns whether a call has no effects. Other calls may then run in parallel.
    fn only_reads(&self) -> bool {
        false
    }

    /// Returns whether the agent may neither see nor call the tool. Its declaration still counts against the size
    /// limit, which keeps the other declarations the same as for agents that have the tool.
    fn is_hidden(&self) -> bool {
        false
    }

    /// Returns whether the turn ends after a successful call with this input, without another request to the model.
    fn ends_turn(&self, _input: &Value) -> bool {
        false
    }

    /// Runs the tool and returns its answer.
    fn run<'a>(&'a self, call: InternalCall<'a>) -> BoxFuture<'a, Result<InternalAnswer, InternalError>>;
}

/// The answer of a tool of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalAnswer {
    /// The answer, encoded as JSON.
    pub value: Value,
    /// Media type and bytes of binary content that follows it.
    pub blobs: Vec<(String, Vec<u8>)>,
}

impl From<Value> for InternalAnswer {
    fn from(value: Value) -> Self {
        Self { value, blobs: Vec::new() }
    }
}

/// A call of a tool of the host. Only [`Tools::run`](crate::Tools::run) creates one, so each call has its record:
///
/// ```compile_fail,E0639
/// use patchbay_core::CallId;
/// use patchbay_tools::{Internal, InternalCall, PersonAccess};
/// use serde_json::Value;
///
/// async fn run(tool: &dyn Internal, id: CallId, input: &Value, person: PersonAccess<'_>) {
///     let _ = tool.run(InternalCall { id, input, row: None, person }).await;
/// }
/// ```
#[non_exhaustive]
pub struct InternalCall<'a> {
    /// The id that identifies the call.
    pub id: CallId,
    /// The input, which satisfies the schema.
    pub input: &'a Value,
    /// Creates the row of the result, for a tool that changes the session.
    pub row: Option<Arc<dyn ResultRow>>,
    /// Gives the call access to the user.
    pub person: PersonAccess<'a>,
}

/// Lets a tool of the host ask the user.
#[derive(Clone, Copy)]
pub struct PersonAccess<'a> {
    pub(crate) record: &'a CallRecord,
    pub(crate) slots: &'a QuestionPermits,
}

impl PersonAccess<'_> {
    /// Asks whether an agent may move to another provider.
    ///
    /// # Errors
    /// The reason, as part of a sentence: the user cannot be asked, or has refused.
    pub async fn allow_move(&self, moved: ProviderMove) -> Result<(), String> {
        let Self { record, slots } = *self;
        let context = &record.context;
        let Some(approvals) = &context.approvals else {
            return Err("no user can be asked here".to_owned());
        };
        let question = Question {
            agent: context.agent,
            asker: context.asker.clone(),
            subject: QuestionSubject::Provider(moved),
            chain: record.chain(),
            workspace: context.workspace.clone(),
            reason: None,
            only_once: false,
            grant: None,
        };
        let shown = question.subject.shown_digest();
        let answer = record.ask(approvals, question, slots, StoredGrant::none()).await;
        let answer = answer.map_err(|no_room| no_room.to_string())?;
        if !answer.approval.is_yes() {
            let said = answer.said.map(|said| format!("; the user said: {said}")).unwrap_or_default();
            return Err(format!("the user did not allow it{said}"));
        }
        record.note_approval(RecordedApproval {
            capability: "provider".to_owned(),
            answer: answer.approval.as_str().to_owned(),
            shown: Some(shown),
            by: context.principal.to_string(),
            client: answer.client,
        });
        Ok(())
    }
}

/// Creates the conversation row of a call's result. A tool that changes the session commits the row together with its change:
/// either both are stored, or neither is.
pub trait ResultRow: Send + Sync {
    /// Returns the row for this result.
    fn row(&self, result: &Value) -> NewMessage;

    /// Notes that the row is committed. The caller does not commit it again.
    fn committed(&self);
}

/// Why a tool of the host failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalError {
    /// The stable code of the error.
    pub code: Code,
    /// The problem, with the value, and the next step.
    pub message: String,
}

/// Returns the tool's identity in the journal.
pub(crate) fn journal_name(tool: &dyn Internal) -> JournalName<'_> {
    JournalName { root: "internal", skill: "patchbay", tool: tool.spec().name.as_str(), component: Digest::of(b"") }
}

/// Runs a tool of the host after checking its input.
pub(crate) async fn run(tool: &dyn Internal, call: InternalCall<'_>) -> Finished<Vec<Content>, ToolError> {
    let start = Instant::now();
    let answer = answer(tool, call).await;
    let size = |content: &Content| match content {
        Content::Blob { data, .. } => data.len(),
        other => other.to_string().len(),
    };
    let output_bytes = answer.as_ref().map_or(0, |content| content.iter().map(size).sum());
    let usage = Usage { time: start.elapsed(), output_bytes, result_bytes: output_bytes, ..Usage::default() };
    Finished { result: answer, usage }
}

async fn answer(tool: &dyn Internal, call: InternalCall<'_>) -> Result<Vec<Content>, ToolError> {
    let name = &tool.spec().name;
    // Compiled for each call, because the model's request takes thousands of times as long anyway.
    let schema = Schema::compile(&tool.spec().input_schema, &mut PatternBudget::default());
    let schema =
        schema.map_err(|error| ToolError::Internal { code: Code::Internal, message: error.of_tool(name.as_str()) })?;
    schema
        .check(call.input)
        .map_err(|error| ToolError::InvalidInput { tool: name.to_string(), problem: error.to_string() })?;
    let internal = |InternalError { code, message }| ToolError::Internal { code, message };
    let InternalAnswer { value, blobs } = tool.run(call).await.map_err(internal)?;
    let blobs = blobs.into_iter().map(|(media_type, data)| Content::Blob { media_type, data });
    Ok([Content::from(value)].into_iter().chain(blobs).collect())
}
