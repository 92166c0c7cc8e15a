//! Tools that a tool calls: by the same path, under the grants of their own skill, within what is left of their caller's
//! budget.

use patchbay_core::{Asker, CallId, text};
use patchbay_sandbox::{BoxFuture, Budget, Content, Failure, Fault, ToolCaller, Usage};

use crate::{Request, ToolError, side::Side};

impl ToolCaller for Side {
    fn call<'a>(
        &'a self,
        tool: &'a str,
        input: &'a str,
        budget: Budget,
    ) -> BoxFuture<'a, (Result<String, Fault>, Usage)> {
        Box::pin(async move {
            let input = match serde_json::from_str(input) {
                Ok(input) => input,
                Err(error) => {
                    let message = format!("the input for '{}' is no JSON: {error}", text::excerpt(tool, 80));
                    let fault = Fault::Failed { kind: "invalid".to_owned(), message };
                    return (Err(fault), Usage::default());
                }
            };
            let request = Request {
                call: CallId::random(),
                parent: Some(self.call),
                asker: Asker::Tool(self.tool.clone()),
                session: self.session,
                workspace: &self.workspace,
                snapshot: &self.snapshot,
                tool,
                input: &input,
                attachments: Vec::new(),
                progress: self.progress.clone(),
                budget: Some(budget),
                inference: self.inference.clone(),
                internal: &[],
            };
            let (answer, usage) = self.tools.run(request).await;
            (answer.map(|content| as_text(&content)).map_err(told), usage)
        })
    }
}

/// An answer as another tool reads it: one JSON value stands alone as its text.
fn as_text(content: &[Content]) -> String {
    let pieces: Vec<_> = content
        .iter()
        .map(|piece| match piece {
            Content::Json(value) => value.to_string(),
            other => other.to_string(),
        })
        .collect();
    pieces.join("\n")
}

/// What the caller is told. That something was denied to the other skill is the other skill's affair: the caller's own
/// failure is not told in those words.
fn told(error: ToolError) -> Fault {
    let kind = match &error {
        ToolError::NotFound(_) => "not-found".to_owned(),
        ToolError::InvalidInput { .. } => "invalid".to_owned(),
        ToolError::Failure { failure: Failure::Failed { kind, .. }, .. } => kind.clone(),
        ToolError::Failure { failure: Failure::Denied(_), .. } | ToolError::Blocked(_) => "denied".to_owned(),
        ToolError::Failure { failure: Failure::Unavailable(_), .. } => "unavailable".to_owned(),
        // No tool is given the host's own ones to call.
        ToolError::Failure { .. } | ToolError::Schema(_) | ToolError::Internal { .. } | ToolError::Store(_) => {
            "failed".to_owned()
        }
    };
    Fault::Failed { kind, message: error.to_string() }
}
