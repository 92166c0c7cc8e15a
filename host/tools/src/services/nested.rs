//! Calls that tools make to other tools. They run like all other calls, with the grants of the called skill, but within the rest of
//! the caller's budget.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchbay_core::text;
use patchbay_sandbox::{Budget, CallableTool, Failure, Fault, Finished, NestedCallFuture, ToolCaller};

use super::CallServices;
use crate::{OutsideError, ResolvedTool, ToolError, ToolInvocation};

impl ToolCaller for CallServices {
    fn call(self: Arc<Self>, tool: String, input: String, budget: Budget) -> NestedCallFuture {
        // Counted before anything runs and even if nothing does. Ids and the order of file changes then depend only on
        // the order in which calls are made.
        let id = self.record.next_nested();
        let place = self.nested_order.enter();
        Box::pin(async move {
            let input = match serde_json::from_str(&input) {
                Ok(input) => input,
                Err(error) => {
                    let message = format!("the input for '{}' is not valid JSON: {error}", text::excerpt(&tool, 80));
                    return Finished::failed(Fault::Failed { kind: "invalid".to_owned(), message });
                }
            };
            let context = &self.record.context;
            let tool = match ResolvedTool::find(&context.asker, &context.snapshot, &[], &context.outside, &tool) {
                Ok(tool) => tool,
                Err(error) => return Finished::failed(fault(error)),
            };
            place.turn(self.tools.may_change_files(context, &tool).await).await;
            let parent = Some((Arc::clone(&self.record), budget));
            let call = ToolInvocation { parent, ..ToolInvocation::new(id, tool, &input) };
            let Finished { result, usage } = self.tools.run(context, call).await;
            Finished { result: result.map_err(fault), usage }
        })
    }

    fn entries(&self, after: Option<&str>, limit: usize) -> Vec<CallableTool> {
        self.tools.callable_tools(&self.record.context, after, limit)
    }

    fn find<'a>(&'a self, query: &'a str, limit: usize) -> BoxFuture<'a, (Vec<CallableTool>, u64)> {
        Box::pin(async move { self.tools.find_callable_tools(&self.record.context, query, limit) })
    }
}

/// Converts an error for the calling guest. A denial of the called skill is an ordinary failure for the caller, because
/// it does not concern the caller's permits.
fn fault(error: ToolError) -> Fault {
    let kind = match &error {
        ToolError::NotFound(_) => "not-found".to_owned(),
        ToolError::InvalidInput { .. } => "invalid".to_owned(),
        ToolError::Failure { failure: Failure::Failed { kind, .. }, .. } => kind.clone(),
        ToolError::Failure { failure: Failure::Denied(_), .. } | ToolError::Blocked(_) | ToolError::NotForModels(_) => {
            "denied".to_owned()
        }
        ToolError::Failure { failure: Failure::Unavailable(_), .. }
        | ToolError::Outside { error: OutsideError::Unavailable(_), .. } => "unavailable".to_owned(),
        // Skills cannot call tools of the host.
        ToolError::Failure { .. }
        | ToolError::Outside { .. }
        | ToolError::Schema(_)
        | ToolError::Internal { .. }
        | ToolError::Store(_) => "failed".to_owned(),
    };
    Fault::Failed { kind, message: error.to_string() }
}
