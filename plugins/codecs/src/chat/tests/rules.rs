//! A checker for the rules of Chat Completions requests: OpenAI's rules, and the stricter rules of Mistral, DeepSeek
//! and Kimi (2026-11-23; [`crate::chat`] names the sources).

use patchbay_provider_sdk::Part;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{sent, stream};
use crate::chat::{History, Settings};
use crate::conversations::conversations;
use crate::openai::fixtures::{body, kept, thought};
use crate::openai::text;
use crate::recording::{parts, play};

fn check(body: &Value, model: &str) {
    let messages = body["messages"].as_array().expect("messages");
    let mut open: Vec<&str> = Vec::new();
    let mut before = "";
    for message in messages {
        let role = text(message, "role");
        assert!(open.is_empty() || role == "tool", "a call without its result before '{role}'");
        let content = &message["content"];
        match role {
            "system" => assert_eq!(before, ""),
            "user" => {
                assert!(content.as_str().is_none_or(|said| !said.trim().is_empty()), "an empty text");
                assert!(before != "tool" || !model.contains("mistral"), "a user after a tool");
                assert_ne!(before, "user");
            }
            "assistant" => {
                open = message["tool_calls"].as_array().into_iter().flatten().map(|call| text(call, "id")).collect();
                let empty = content.is_null() || content.as_str().is_some_and(|said| said.trim().is_empty());
                assert!(!empty || !open.is_empty(), "an empty answer");
                assert!(message.get("tool_calls").is_none_or(|calls| *calls != json!([])));
                let fits = |id: &&str| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
                assert!(!model.contains("mistral") || open.iter().all(fits), "{open:?}");
                assert!(open.iter().all(|id| !id.is_empty() && id.len() <= 64));
                let reasoning = ["reasoning_content", "reasoning", "reasoning_details"];
                let fields = reasoning.into_iter().filter(|field| message.get(field).is_some()).count();
                assert!(fields <= 1, "thinking in more than one field");
                assert!(!model.starts_with("deepseek-") || fields == 1, "no thinking for DeepSeek");
                let last = content.as_array().and_then(|list| list.last());
                assert!(last.is_none_or(|last| last["type"] == "text" || !open.is_empty()), "it ends in thinking");
            }
            "tool" => {
                let at = open.iter().position(|id| *id == text(message, "tool_call_id"));
                open.remove(at.expect("the call of a result"));
                assert!(content.is_string());
            }
            role => panic!("a role '{role}'"),
        }
        before = role;
    }
    assert!(open.is_empty() && ["user", "tool"].contains(&before), "it ends with '{before}'");
}

proptest! {
    #[test]
    fn every_conversation_keeps_the_rules(
        request in conversations(
            ["thinking", "thinking-reasoning", "tool-call"]
                .into_iter()
                .flat_map(|name| kept(&play(&mut stream(), &parts("chat", name), &[])).parts)
                .chain([
                    json!({"reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}),
                    json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
                ]
                .map(|data| Part { block: thought("hm"), opaque: Some(data.to_string()) }))
                .collect(),
            vec![None, Some(json!({"extra_content": {"google": {}}}).to_string()), Some("no data of ours".to_owned())],
        ),
    ) {
        for model in ["model-1", "mistral-large-latest", "deepseek-v4-pro"] {
            let mut request = request.clone();
            request.model = model.to_owned();
            check(&body(&sent(&request, Settings::default())), model);
        }
        check(&body(&sent(&request, Settings { history: History::Drop, ..Settings::default() })), "model-1");
    }
}
