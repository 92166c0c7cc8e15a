//! The rules of the Responses API for requests, as a checker (2026-11-23, developers.openai.com, "Reasoning" and "Function
//! calling"; `ResponseInputItem` of the Python SDK openai 3.54.0).

use proptest::prelude::*;
use serde_json::Value;

use super::{REASONING, sent, stream};
use crate::conversations::conversations;
use crate::openai::fixtures::{body, kept};
use crate::openai::text;
use crate::recording::{parts, play};

fn check(body: &Value) {
    let items = body["input"].as_array().expect("items");
    let mut open: Vec<&str> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let next = items.get(at + 1).unwrap_or(&Value::Null);
        match text(item, "type") {
            "reasoning" => {
                assert!(!text(item, "encrypted_content").is_empty(), "reasoning that the server does not know");
                let follows = match text(next, "type") {
                    "message" => text(next, "role") == "assistant",
                    kind => kind == "reasoning" || kind == "function_call",
                };
                assert!(follows, "reasoning without the item that it belongs to");
            }
            "message" => {
                let content = &item["content"];
                let texts = content.as_array().into_iter().flatten().map(|part| text(part, "text"));
                assert!(texts.chain(content.as_str()).all(|said| !said.is_empty()), "an empty text");
                assert!(content.is_string() || content.as_array().is_some_and(|list| !list.is_empty()));
                assert!(open.is_empty() || text(item, "role") == "assistant", "a call without its output");
            }
            "function_call" => {
                let id = text(item, "call_id");
                assert!(!id.is_empty() && id.len() <= 64 && !open.contains(&id), "{id}");
                assert!(serde_json::from_str::<Value>(text(item, "arguments")).is_ok_and(|input| input.is_object()));
                open.push(id);
            }
            "function_call_output" => {
                let at = open.iter().position(|id| *id == text(item, "call_id"));
                open.remove(at.expect("the call of an output"));
            }
            kind => panic!("an item '{kind}'"),
        }
    }
    assert!(open.is_empty(), "calls without their output: {open:?}");
    assert_eq!(items.last().map(|item| text(item, "role")).unwrap_or_default(), last_role(items));
}

/// Returns the role of the last item: the user's, unless it is an output.
fn last_role(items: &[Value]) -> &'static str {
    if items.last().is_some_and(|item| text(item, "type") == "function_call_output") { "" } else { "user" }
}

proptest! {
    #[test]
    fn every_conversation_keeps_the_rules(
        request in conversations(
            ["thinking", "thinking-hidden", "parallel-tool-calls", "refusal"]
                .into_iter()
                .flat_map(|name| kept(&play(&mut stream(), &parts("responses", name), &[])).parts)
                .collect(),
            vec![None],
        ),
    ) {
        check(&body(&sent(&request, REASONING)));
    }
}
