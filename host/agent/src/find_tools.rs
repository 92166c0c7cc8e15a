//! The tool `find_tools`, which searches the tools that a model may call. `toolbox` offers it, and `shown` declares it if tools are
//! left out of the declarations.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchbay_core::{ToolSpec, completion::ToolDeclaration};
use patchbay_sandbox::CallableTool;
use patchbay_skill::Snapshot;
use patchbay_tools::{Internal, InternalAnswer, InternalCall, InternalError, OutsideTools, SearchedTools, Tools};
use serde_json::{Value, json};

use crate::found_tools::described;

pub(crate) const FIND_TOOLS: &str = "find_tools";
/// Maximum number of results of a search for tools or skills.
pub(crate) const FOUND: usize = 8;
/// Length limit of a query, in characters.
pub(crate) const QUERY_CHARS: usize = 1_000;

pub(crate) struct FindTools {
    spec: ToolSpec,
    tools: Arc<Tools>,
    /// The tools of the host that are not declared.
    host: Vec<Arc<dyn Internal>>,
    snapshot: Arc<Snapshot>,
    outside: OutsideTools,
}

impl FindTools {
    /// Returns the tool for a turn's tools. `host` contains the host's own tools that are not declared. Never `None`, because
    /// the name is valid.
    pub(crate) fn over(
        tools: &Arc<Tools>,
        host: Vec<Arc<dyn Internal>>,
        snapshot: &Arc<Snapshot>,
        outside: &OutsideTools,
    ) -> Option<Self> {
        let spec = ToolSpec {
            name: FIND_TOOLS.parse().ok()?,
            // `shown` adds the names.
            description: "Finds tools that are not declared here and returns their schemas. Call them with call_tool. \
                          Search before you say that there is no tool for something."
                .to_owned(),
            input_schema: query_schema("What the tool should do, or its name."),
            extra: Vec::new(),
        };
        let (tools, snapshot, outside) = (Arc::clone(tools), Arc::clone(snapshot), Arc::clone(outside));
        Some(Self { spec, tools, host, snapshot, outside })
    }
}

/// Returns the schema of an input whose only member is a query.
pub(crate) fn query_schema(description: &str) -> Value {
    json!({
        "type": "object",
        "properties": {"query": {"type": "string", "maxLength": QUERY_CHARS, "description": description}},
        "required": ["query"],
        "additionalProperties": false,
    })
}

/// Returns the query of a call whose input satisfies [`query_schema`].
pub(crate) fn query<'a>(call: &InternalCall<'a>) -> &'a str {
    call.input.get("query").and_then(Value::as_str).unwrap_or_default()
}

impl Internal for FindTools {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, call: InternalCall<'a>) -> BoxFuture<'a, Result<InternalAnswer, InternalError>> {
        Box::pin(async move {
            let set = SearchedTools { host: &self.host, snapshot: &self.snapshot, outside: &self.outside };
            let found = self.tools.find_tools(set, query(&call), FOUND);
            let found = found.into_iter().map(|CallableTool { name, description, input_schema, .. }| ToolDeclaration {
                name,
                description,
                input_schema,
            });
            Ok(json!({"tools": described(found)}).into())
        })
    }
}
