//! Tests of the manifest, of the levels, and of one completion.

use patchbay_codecs::models::check_levels;
use patchbay_provider_sdk::{
    Block, BlockKind, BodyPiece, Event, Finish, Message, Part, Placement, ResponseHead, Role, ToolChoice,
};

use super::*;

fn request(model: &str, level: Option<&str>) -> CompletionRequest {
    let parts = vec![Part { block: Block::Text("Hello".to_owned()), opaque: None }];
    CompletionRequest {
        model: model.to_owned(),
        system: Vec::new(),
        messages: vec![Message { role: Role::User, parts }],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        thinking: level.map(str::to_owned),
        max_output_tokens: None,
        options: Vec::new(),
    }
}

/// Returns the body of the first request.
fn body(request: CompletionRequest) -> String {
    let (_, actions) = Google::begin(request);
    let [Action::Send(sent)] = actions.as_slice() else { panic!("one request, not {actions:?}") };
    let [BodyPiece::Bytes(body)] = sent.body.as_slice() else { panic!("one piece") };
    String::from_utf8(body.clone()).expect("UTF-8")
}

#[test]
fn manifest_lists_the_models() {
    let manifest = Google::describe();
    assert_eq!((manifest.name.as_str(), manifest.display_name.as_str()), ("google", "Google"));
    assert_eq!(manifest.model_prefixes, ["gemini-"]);
    assert_eq!(manifest.default_base_url.as_deref(), Some("https://generativelanguage.googleapis.com"));
    let [credential] = manifest.credentials.as_slice() else { panic!("one credential") };
    assert_eq!(credential.env.as_deref(), Some("GOOGLE_API_KEY"));
    let also: Vec<_> = credential.extra.iter().map(|pair| (&*pair.name, &*pair.value)).collect();
    assert_eq!(also, [("env-also", "GEMINI_API_KEY")]);
    assert_eq!(credential.obtain_url.as_deref(), Some("https://aistudio.google.com/app/apikey"));
    let first: Vec<_> = manifest.models[..3].iter().map(|model| (&*model.id, &*model.size)).collect();
    assert_eq!(first, [("gemini-4-argon", "normal"), ("gemini-4-carbon", "large"), ("gemini-3.8-flash", "small")]);
    let old = |id: &str| manifest.models.iter().find(|model| model.id == id).expect("listed").deprecated;
    assert_eq!(["gemini-2.5-pro", "gemini-3-pro-preview"].map(old), [false, true]);
}

#[test]
fn table_has_the_levels_that_are_sent() {
    check_levels(&Google::describe().models, Google::explain_thinking);
}

#[test]
fn shown_setting_equals_sent_setting() {
    let cannot_stop = Some("This model does not support disabling thinking");
    let cannot_think = Some("This model does not support thinking");
    let no_xhigh = Some("This model has no level xhigh; high is sent instead");
    let no_max = Some("This model has no level max; xhigh is sent instead");
    let budget = |tokens: u32| match tokens {
        0 => r#""thinkingConfig":{"thinkingBudget":0}"#.to_owned(),
        tokens => format!(r#""thinkingConfig":{{"thinkingBudget":{tokens},"includeThoughts":true}}"#),
    };
    let level = |name: &str| format!(r#""thinkingConfig":{{"thinkingLevel":"{name}","includeThoughts":true}}"#);
    let nothing = String::new;
    let pro = "gemini-2.5-pro";
    let (flash, lite) = ("gemini-2.5-flash", "gemini-2.5-flash-lite-preview-09-2025");
    let (three, next, two) = ("gemini-3-pro-preview", "gemini-flash-latest", "gemini-2.0-flash");
    for (model, asked, line, warning, sent) in [
        (pro, Some("none"), "Thinking: none (128 tokens, minimum)", cannot_stop, budget(128)),
        (pro, Some("low"), "Thinking: low (11,008 tokens)", None, budget(11_008)),
        (pro, Some("med"), "Thinking: medium (21,888 tokens)", None, budget(21_888)),
        (pro, Some("high"), "Thinking: high (32,768 tokens)", None, budget(32_768)),
        (pro, None, "Thinking: provider default", None, nothing()),
        ("gemini-2.5-pro-preview-06-05", Some("med"), "Thinking: medium (21,888 tokens)", None, budget(21_888)),
        (flash, Some("none"), "Thinking: off", None, budget(0)),
        (flash, Some("low"), "Thinking: low (8,192 tokens)", None, budget(8_192)),
        (flash, Some("med"), "Thinking: medium (16,384 tokens)", None, budget(16_384)),
        (flash, Some("high"), "Thinking: high (24,576 tokens)", None, budget(24_576)),
        (lite, Some("none"), "Thinking: none (512 tokens, minimum)", cannot_stop, budget(512)),
        (lite, Some("low"), "Thinking: low (8,533 tokens)", None, budget(8_533)),
        (lite, Some("med"), "Thinking: medium (16,554 tokens)", None, budget(16_554)),
        (three, Some("none"), "Thinking: LOW level (minimum)", cannot_stop, level("LOW")),
        (three, Some("low"), "Thinking: LOW level", None, level("LOW")),
        (three, Some("med"), "Thinking: HIGH level", None, level("HIGH")),
        (three, Some("high"), "Thinking: HIGH level", None, level("HIGH")),
        (three, None, "Thinking: provider default", None, nothing()),
        (next, Some("none"), "Thinking: LOW level (minimum)", cannot_stop, level("LOW")),
        (next, Some("med"), "Thinking: MEDIUM level", None, level("MEDIUM")),
        (next, Some("high"), "Thinking: HIGH level", None, level("HIGH")),
        ("gemini-3.8-flash", Some("none"), "Thinking: LOW level (minimum)", cannot_stop, level("LOW")),
        ("gemini-3.8-flash", Some("med"), "Thinking: MEDIUM level", None, level("MEDIUM")),
        ("gemini-3.1-pro-preview", Some("med"), "Thinking: MEDIUM level", None, level("MEDIUM")),
        ("gemini-3.5-flash-lite", Some("none"), "Thinking: MINIMAL level (minimum)", cannot_stop, level("MINIMAL")),
        ("gemini-3.5-flash-lite", Some("low"), "Thinking: LOW level", None, level("LOW")),
        ("gemini-4-hydrogen", Some("xhigh"), "Thinking: XHIGH level", None, level("XHIGH")),
        ("gemini-4-carbon", Some("xhigh"), "Thinking: HIGH level", no_xhigh, level("HIGH")),
        ("gemini-4-hydrogen", Some("max"), "Thinking: XHIGH level", no_max, level("XHIGH")),
        (pro, Some("xhigh"), "Thinking: high (32,768 tokens)", no_xhigh, budget(32_768)),
        (two, Some("none"), "Thinking: off", None, nothing()),
        (two, Some("med"), "Thinking: off", cannot_think, nothing()),
        (two, None, "Thinking: off", None, nothing()),
    ] {
        let plan = Google::explain_thinking(model, asked);
        assert_eq!(plan.description, [line], "{model} {asked:?}");
        assert_eq!(plan.warning.as_deref(), warning, "{model} {asked:?}");
        let contents = r#""contents":[{"role":"user","parts":[{"text":"Hello"}]}]"#;
        let config = if sent.is_empty() { sent } else { format!(r#","generationConfig":{{{sent}}}"#) };
        assert_eq!(body(request(model, asked)), format!("{{{contents}{config}}}"), "{model} {asked:?}");
    }
}

#[test]
fn only_models_that_require_signatures_get_the_substitute() {
    let call =
        patchbay_provider_sdk::ToolCall { id: "toolu_1".to_owned(), name: "a".to_owned(), input: "{}".to_owned() };
    for (model, told) in [("gemini-3-pro-preview", true), ("gemini-2.5-pro", false)] {
        let mut request = request(model, None);
        let parts = vec![Part { block: Block::ToolCall(call.clone()), opaque: None }];
        request.messages.push(Message { role: Role::Assistant, parts });
        assert_eq!(body(request).contains("skip_thought_signature_validator"), told, "{model}");
    }
}

#[test]
fn completion_from_request_to_end() {
    let (mut google, actions) = Google::begin(request("gemini-2.5-flash", None));
    let [Action::Send(sent)] = actions.as_slice() else { panic!("one request, not {actions:?}") };
    assert_eq!(sent.path_and_query, "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse");
    let [auth] = sent.auth.as_slice() else { panic!("one credential") };
    assert_eq!(auth.credential, Google::describe().credentials[0].id);
    assert!(matches!(&auth.placement, Placement::Header(header) if header.name == "x-goog-api-key"));

    assert_eq!(google.resume(Input::ResponseHead(ResponseHead { status: 200, headers: Vec::new() })), []);
    let event = br#"data: {"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}"#;
    let mut actions = google.resume(Input::BodyChunk([event, &b"\r\n\r\n"[..]].concat()));
    actions.extend(google.resume(Input::BodyEnd));
    assert!(matches!(&actions[1], Action::Emit(Event::BlockStart(start)) if start.kind == BlockKind::Text));
    let end = Action::Finish(Finish { stop: "end-turn".to_owned(), raw: "STOP".to_owned() });
    assert_eq!(actions.last(), Some(&end));
}

#[test]
fn facts_of_the_host_decide_what_is_shown_and_sent() {
    let options = vec![Pair {
        name: "host:model-facts".to_owned(),
        value: r#"{"capabilities": {"thinking": false}}"#.to_owned(),
    }];
    let plan = <Google as Thinking>::explain("gemini-5-plain", Some("high"), &options);
    assert_eq!((&plan.description[..], plan.effective.as_deref()), (&["Thinking: off".to_owned()][..], Some("none")));
    assert!(!body(CompletionRequest { options, ..request("gemini-5-plain", Some("high")) }).contains("thinking"));
    let plan = <Google as Thinking>::explain("gemini-5-plain", Some("max"), &[]);
    assert_eq!(plan.effective.as_deref(), Some("high"));
}
