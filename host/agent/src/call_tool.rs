//! The tool `call_tool`, which lets a model call tools that are not declared. It never runs itself: an answer
//! is stored as if the model had called the tool by its own name, and the journal, policy and fronts see that
//! tool. Only the model sees `call_tool` when the conversation is sent again. `toolbox` offers it; `turn`
//! unwraps the calls of an answer.

use futures_util::future::BoxFuture;
use patchbay_core::{AssistantPart, Code, ToolSpec};
use patchbay_tools::{Internal, InternalAnswer, InternalCall, InternalError};
use serde_json::{Map, Value, json};

pub(crate) const CALL_TOOL: &str = "call_tool";

pub(crate) struct CallTool {
    spec: ToolSpec,
}

impl CallTool {
    /// Returns the tool. Never `None`, because the name is valid.
    pub(crate) fn new() -> Option<Self> {
        let spec = ToolSpec {
            name: CALL_TOOL.parse().ok()?,
            description: "Calls a tool that is not declared here, by its full name.".to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string", "minLength": 1},
                    "input": {"type": "object", "description": "As the tool's own schema requires."},
                },
                "required": ["name", "input"],
                "additionalProperties": false,
            }),
            extra: Vec::new(),
        };
        Some(Self { spec })
    }
}

impl Internal for CallTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Only reached when the model uses `call_tool` to call `call_tool`, which satisfies the schema but cannot be unwrapped.
    fn run<'a>(&'a self, _: InternalCall<'a>) -> BoxFuture<'a, Result<InternalAnswer, InternalError>> {
        let message = format!("'{CALL_TOOL}' cannot call itself; give the name of another tool.");
        Box::pin(async move { Err(InternalError { code: Code::InvalidInput, message }) })
    }
}

/// Replaces the calls of `call_tool` in a complete answer with calls of the tools that they name. Calls that the schema
/// does not accept stay as they are.
pub(crate) fn unwrapped(parts: &[AssistantPart]) -> Vec<AssistantPart> {
    let unwrap = |part: &AssistantPart| match part {
        AssistantPart::ToolCall { id, name, input, opaque, call_tool: None } if name == CALL_TOOL => {
            let (tool, own_input) = target(input)?;
            Some(AssistantPart::ToolCall {
                id: id.clone(),
                name: tool,
                input: own_input,
                opaque: opaque.clone(),
                call_tool: Some(input.clone()),
            })
        }
        _ => None,
    };
    parts.iter().map(|part| unwrap(part).unwrap_or_else(|| part.clone())).collect()
}

/// Returns the name and the input of the tool that a call of `call_tool` names.
fn target(input: &str) -> Option<(String, String)> {
    let mut input: Map<String, Value> = serde_json::from_str(input).ok()?;
    match (input.remove("name"), input.remove("input")) {
        (Some(Value::String(name)), Some(own_input @ Value::Object(_)))
            if input.is_empty() && !name.is_empty() && name != CALL_TOOL =>
        {
            Some((name, own_input.to_string()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, input: &str) -> AssistantPart {
        let (name, input) = (name.to_owned(), input.to_owned());
        AssistantPart::ToolCall { id: "c".to_owned(), name, input, opaque: Some("signed".to_owned()), call_tool: None }
    }

    #[test]
    fn answer_has_the_tool_itself_and_keeps_what_was_sent() {
        let sent = r#"{"input": {"b": 1, "a": 2},  "name": "x__y"}"#;
        let [part] = &unwrapped(&[call(CALL_TOOL, sent)])[..] else { panic!() };
        let AssistantPart::ToolCall { name, input, opaque, call_tool, .. } = part else { panic!("{part:?}") };
        let input: Value = serde_json::from_str(input).unwrap();
        assert_eq!((name.as_str(), input), ("x__y", json!({"a": 2, "b": 1})));
        assert_eq!((opaque.as_deref(), call_tool.as_deref()), (Some("signed"), Some(sent)));
        assert_eq!(unwrapped(std::slice::from_ref(part)), std::slice::from_ref(part));
    }

    #[test]
    fn other_calls_stay_as_they_are() {
        let parts = [
            call("x__y", r#"{"name": "a__b", "input": {}}"#),
            call(CALL_TOOL, ""),
            call(CALL_TOOL, r#"{"name": "x__y"}"#),
            call(CALL_TOOL, r#"{"name": "x__y", "input": "text"}"#),
            call(CALL_TOOL, r#"{"name": "x__y", "input": {}, "more": 1}"#),
            call(CALL_TOOL, r#"{"name": "call_tool", "input": {}}"#),
            AssistantPart::Text { text: "call_tool".to_owned(), opaque: None },
        ];
        assert_eq!(unwrapped(&parts), parts);
    }
}
