//! The rules of the Messages API for requests, as a checker (2026-11-23, platform.claude.com, "Messages", "Tool use",
//! "Thinking", "Prompt caching"; tailcallhq/forgecode#3071).

use patchbay_provider_sdk::{Action, Block, CompletionRequest, Tool};
use proptest::prelude::*;
use serde_json::Value;

use super::{body, recorded, settings};
use crate::conversations::conversations;
use crate::messages::{Messages, Settings, Thinking};

fn check(body: &Value) {
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let messages = list(&body["messages"]);
    assert_eq!((&messages[0]["role"], &messages[messages.len() - 1]["role"]), (&"user".into(), &"user".into()));
    let mut open: Vec<String> = Vec::new();
    let mut points = list(&body["system"]).iter().filter(|block| block.get("cache_control").is_some()).count();
    for message in &messages {
        let content = list(&message["content"]);
        let last = content.last().expect("a message is not empty");
        let mut answered = Vec::new();
        let mut others = 0;
        let mut called = Vec::new();
        for block in &content {
            let word = |key: &str| block[key].as_str().unwrap_or_default();
            points += usize::from(block.get("cache_control").is_some());
            match word("type") {
                "text" => assert!(!word("text").trim().is_empty(), "a blank text"),
                "thinking" => assert!(!word("signature").is_empty(), "thinking without a signature"),
                "tool_use" => called.push(word("id").to_owned()),
                "tool_result" => {
                    assert_eq!(others, 0, "a result after other blocks");
                    assert!(block.get("content").is_some() || block["is_error"] != true, "an error without content");
                    answered.push(word("tool_use_id").to_owned());
                    continue;
                }
                _ => {}
            }
            others += 1;
            let thinks = ["thinking", "redacted_thinking"].contains(&word("type"));
            assert!(!thinks || block.get("cache_control").is_none(), "a cache point on thinking");
            assert!(!thinks || message["role"] == "assistant");
        }
        let ends_in_thinking = ["thinking", "redacted_thinking"].contains(&last["type"].as_str().unwrap_or_default());
        assert!(!ends_in_thinking, "the final block cannot be thinking");
        assert_eq!(answered, open, "each call has its result in the next message");
        let fits = |id: &String| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        assert!(called.iter().all(|id| !id.is_empty() && id.len() <= 64 && fits(id)), "{called:?}");
        open = called;
    }
    assert!(open.is_empty() && points <= 4, "{points} cache points");
    for tool in list(&body["tools"]) {
        assert_eq!(tool["eager_input_streaming"], true, "a long input of a call is silent");
        assert!(tool["input_schema"].is_object() && tool.get("cache_control").is_none());
    }
}

/// Returns the body of the request.
fn body_of(request: &CompletionRequest, settings: Settings) -> Value {
    let (_, actions) = Messages::begin(request, settings);
    let [Action::Send(sent)] = &actions[..] else { panic!("{actions:?}") };
    body(sent)
}

/// Returns the request as if no answer before `host:bound-from` had thinking, and without the option.
fn without_thinking_bound_elsewhere(mut request: CompletionRequest) -> CompletionRequest {
    let at = request.options.iter().position(|option| option.name == "host:bound-from");
    let bound_from = at.map_or(0, |at| request.options.remove(at).value.parse().expect("an index"));
    let answers = request.messages.iter_mut().take(bound_from);
    // No other part of these conversations has data.
    answers.flat_map(|message| &mut message.parts).for_each(|part| {
        if matches!(part.block, Block::Thinking(_) | Block::Opaque(_)) {
            part.opaque = None;
        }
    });
    request
}

proptest! {
    #[test]
    fn every_conversation_keeps_the_rules(
        request in conversations(
            ["thinking", "redacted_thinking", "omitted_thinking"]
                .into_iter()
                .flat_map(|name| recorded(name).parts)
                .collect(),
            vec![None],
        ),
    ) {
        let tools = ["a__b", "c"].map(|name| Tool {
            name: name.to_owned(),
            description: String::new(),
            input_schema: r#"{"type": "object"}"#.to_owned(),
        });
        let request = CompletionRequest { tools: tools.to_vec(), ..request };
        for thinking in [Thinking::Unsaid, Thinking::Adaptive(None), Thinking::Budget(2000)] {
            let bound_thinking = thinking == Thinking::Adaptive(None);
            let settings = Settings { bound_thinking, ..settings(thinking) };
            let sent = body_of(&request, settings);
            check(&sent);
            if bound_thinking {
                let expected = body_of(&without_thinking_bound_elsewhere(request.clone()), settings);
                assert_eq!(sent, expected, "thinking is sent only of answers that were made with the same beginning");
            }
        }
    }
}
