//! Tests of the adapter through the interface that the host uses.

use patchbay_codecs::models::check_levels;
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
    let sent = body(request("claude-opus-5-5", Some("max")));
    assert_eq!(sent["output_config"], json!({"effort": "max"}));
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
    let first: Vec<_> = manifest.models[..3].iter().map(|model| (model.id.as_str(), model.size.as_str())).collect();
    assert_eq!(first, [("claude-sonnet-5-5", "normal"), ("claude-opus-5-5", "large"), ("claude-haiku-5-5", "small")]);
    let old = |id: &str| manifest.models.iter().find(|model| model.id == id).expect("listed").deprecated;
    assert_eq!(["claude-sonnet-4-5", "claude-opus-4-1"].map(old), [false, true]);
    assert_eq!(manifest.credentials[0].env.as_deref(), Some("ANTHROPIC_API_KEY"));
    let plan = Anthropic::explain_thinking("claude-sonnet-4-5", Some("med"));
    assert_eq!(plan.description, ["Thinking: medium (43,008 tokens)"]);
}

#[test]
fn table_has_the_levels_that_are_sent() {
    check_levels(&Anthropic::describe().models, Anthropic::explain_thinking);
}

#[test]
fn facts_of_the_host_decide_what_is_shown_and_sent() {
    let facts =
        json!({"thinking-types": ["adaptive", "disabled"], "efforts": ["low", "high"], "max-output-tokens": 9000});
    let options = vec![Pair { name: "host:model-facts".to_owned(), value: facts.to_string() }];
    for (options, level, type_, line, effective) in [
        (&options, Some("none"), "disabled", "Thinking: off", Some("none")),
        (&options, Some("max"), "adaptive", "Thinking: high effort", Some("high")),
        (&Vec::new(), Some("none"), "adaptive", "Thinking: low effort (minimum)", Some("low")),
        (&options, None, "adaptive", "Thinking: provider default", None),
    ] {
        let plan = <Anthropic as Thinking>::explain("claude-opus-7", level, options);
        assert_eq!((&plan.description[..], plan.effective.as_deref()), (&[line.to_owned()][..], effective));
        let sent = body(CompletionRequest { options: options.clone(), ..request("claude-opus-7", level) });
        assert_eq!(sent["thinking"]["type"], type_);
        assert!(options.is_empty() || sent["max_tokens"] == 9000, "{sent}");
    }
}

#[test]
fn unlisted_models_have_facts() {
    let facts =
        |model: &str| -> Value { serde_json::from_str(&<Anthropic as Models>::facts(model, &[])).expect("JSON") };
    assert_eq!(facts("claude-opus-5-5-20260922")["context-window"], 1_000_000);
    let newer = facts("claude-sonnet-7");
    assert!(newer["input-media"].as_array().expect("media").contains(&json!("image/png")));
    assert_eq!((newer.get("context-window"), newer["levels"].as_array().map(Vec::len)), (None, Some(6)));
}
