//! Tests of the adapter through the interface that the host uses.

use patchbay_provider_sdk::{Block, BodyPiece, Event, Message, Part, ResponseHead, Role, ToolChoice};
use serde_json::{Value, json};

use super::*;

fn request(model: &str, thinking: Option<&str>) -> CompletionRequest {
    let hello = Part { block: Block::Text("Hello".to_owned()), opaque: None };
    CompletionRequest {
        model: model.to_owned(),
        system: Vec::new(),
        messages: vec![Message { role: Role::User, parts: vec![hello] }],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        thinking: thinking.map(str::to_owned),
        max_output_tokens: None,
        options: Vec::new(),
    }
}

fn body(request: CompletionRequest) -> Value {
    let (_, actions) = Anthropic::begin(request);
    let [Action::Send(sent)] = &actions[..] else { panic!("{actions:?}") };
    let [BodyPiece::Bytes(bytes)] = &sent.body[..] else { panic!("{:?}", sent.body) };
    serde_json::from_slice(bytes).expect("JSON")
}

#[test]
fn levels_are_sent() {
    let sent = body(request("claude-sonnet-4-5", Some("med")));
    assert_eq!(sent["thinking"], json!({"type": "enabled", "budget_tokens": 43_008}));
    assert_eq!(sent["max_tokens"], 47_104);
    let sent = body(request("claude-opus-4-6", Some("high")));
    assert_eq!(
        (&sent["thinking"], &sent["output_config"]),
        (&json!({"type": "adaptive", "display": "summarized"}), &json!({"effort": "high"}))
    );
    for level in [None, Some("none"), Some("maximum")] {
        let sent = body(request("claude-sonnet-4-5", level));
        assert_eq!((sent.get("thinking"), &sent["max_tokens"]), (None, &json!(32_000)), "{level:?}");
    }
    let short = CompletionRequest { max_output_tokens: Some(16), ..request("claude-sonnet-4-5", None) };
    assert_eq!(body(short)["max_tokens"], 16);
}

#[test]
fn answer_is_converted() {
    let (mut adapter, _) = Anthropic::begin(request("claude-haiku-4-5", None));
    assert_eq!(adapter.resume(Input::ResponseHead(ResponseHead { status: 200, headers: Vec::new() })), []);
    let start = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    let actions = adapter.resume(Input::BodyChunk(format!("data: {start}\n\n").into_bytes()));
    assert!(matches!(&actions[..], [Action::Emit(Event::BlockStart(start))] if start.index == 0), "{actions:?}");
    let actions = adapter.resume(Input::BodyEnd);
    assert!(matches!(&actions[..], [Action::Fail(failure)] if failure.kind == "network"), "{actions:?}");
}

#[test]
fn manifest_lists_the_models() {
    let manifest = Anthropic::describe();
    let models: Vec<_> = manifest
        .models
        .iter()
        .flat_map(|model| {
            let levels = model.suggested_levels.iter().map(|level| format!("{}/{level}", model.id));
            [model.id.clone()].into_iter().chain(levels).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(
        models,
        [
            "claude-sonnet-4-5",
            "claude-sonnet-4-5/none",
            "claude-sonnet-4-5/low",
            "claude-sonnet-4-5/med",
            "claude-sonnet-4-5/high",
            "claude-opus-4-5",
            "claude-haiku-4-5",
        ]
    );
    let sizes: Vec<_> = manifest.models.iter().map(|model| model.size.as_str()).collect();
    assert_eq!(sizes, ["normal", "large", "small"]);
    assert_eq!(manifest.credentials[0].env.as_deref(), Some("ANTHROPIC_API_KEY"));
    let plan = Anthropic::explain_thinking("claude-sonnet-4-5", Some("med"));
    assert_eq!(plan.description, ["Thinking: medium (43,008 tokens)"]);
}
