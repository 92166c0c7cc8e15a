//! Tools of the host's own, which a model calls like those of skills.

use std::time::Instant;

use patchbay_core::{Code, Digest, ToolSpec};
use patchbay_sandbox::{BoxFuture, Content, Finished, Usage};
use patchbay_schema::{PatternBudget, Schema};
use serde_json::Value;

use crate::{ToolError, record::JournalName};

/// A tool of the host's own. It runs in no sandbox, and is told by its name alone.
pub trait Internal: Send + Sync {
    /// Its name, what it does, and the schema of its input.
    fn spec(&self) -> &ToolSpec;

    /// Runs it on an input that satisfies its schema.
    fn run<'a>(&'a self, input: &'a Value) -> BoxFuture<'a, Result<Value, InternalError>>;
}

/// Why a tool of the host's own gave no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InternalError {
    /// The stable code.
    pub code: Code,
    /// What is wrong, with what value, and what to do next.
    pub message: String,
}

/// Returns its name in the journal: the host stands in place of a skill, and there is no component.
pub(crate) fn journal_name(tool: &dyn Internal) -> JournalName<'_> {
    JournalName { root: "internal", skill: "patchbay", tool: tool.spec().name.as_str(), component: Digest::of(b"") }
}

/// Runs a tool of the host's own.
pub(crate) async fn run(tool: &dyn Internal, input: &Value) -> Finished<Vec<Content>, ToolError> {
    let start = Instant::now();
    let answer = answer(tool, input).await;
    let output_bytes = answer.as_ref().map_or(0, |content| content.to_string().len());
    let usage = Usage { time: start.elapsed(), output_bytes, ..Usage::default() };
    Finished { result: answer.map(|content| vec![content]), usage }
}

async fn answer(tool: &dyn Internal, input: &Value) -> Result<Content, ToolError> {
    let name = &tool.spec().name;
    // Compiled when it is needed: the model that called takes thousands of times as long.
    let schema = Schema::compile(&tool.spec().input_schema, &mut PatternBudget::default());
    let schema =
        schema.map_err(|error| ToolError::Internal { code: Code::Internal, message: error.of_tool(name.as_str()) })?;
    schema
        .check(input)
        .map_err(|error| ToolError::InvalidInput { tool: name.to_string(), problem: error.to_string() })?;
    let internal = |InternalError { code, message }| ToolError::Internal { code, message };
    tool.run(input).await.map(Content::from).map_err(internal)
}
