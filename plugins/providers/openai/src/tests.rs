//! Tests of the manifest, of the levels, and of requests.

use patchbay_codecs::models::check_levels;
use patchbay_provider_sdk::{BodyPiece, Message, Part, Role, ToolChoice};

use super::*;

/// Returns the lines that `/model` shows, the warning first.
fn shown(model: &str, level: Option<&str>) -> Vec<String> {
    let plan = Openai::explain_thinking(model, level);
    plan.warning.map(|warning| format!("⚠ {warning}")).into_iter().chain(plan.description).collect()
}

/// Returns the body of the request for a level.
fn sent(model: &str, level: Option<&str>) -> String {
    sent_with(model, level, &[])
}

/// Returns the body of the request for a level and the operator's options.
fn sent_with(model: &str, level: Option<&str>, options: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| Pair { name: (*name).to_owned(), value: (*value).to_owned() };
    let part = Part { block: patchbay_provider_sdk::Block::Text("hi".to_owned()), opaque: None };
    let request = CompletionRequest {
        model: model.to_owned(),
        system: Vec::new(),
        messages: vec![Message { role: Role::User, parts: vec![part] }],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        thinking: level.map(str::to_owned),
        max_output_tokens: None,
        options: options.iter().map(pair).collect(),
    };
    let (_, actions) = Openai::begin(request);
    let [Action::Send(request)] = actions.as_slice() else { panic!("{actions:?}") };
    let [BodyPiece::Bytes(bytes)] = request.body.as_slice() else { panic!("{request:?}") };
    String::from_utf8(bytes.clone()).expect("UTF-8")
}

#[test]
fn manifest_lists_the_models() {
    let manifest = Openai::describe();
    assert_eq!(manifest, Openai::describe());
    let first: Vec<_> = manifest.models[..3].iter().map(|model| (model.id.as_str(), model.size.as_str())).collect();
    assert_eq!(first, [("gpt-6.2-sol", "normal"), ("gpt-6.2-astra", "large"), ("gpt-6-luna", "small")]);
    let old = |id: &str| manifest.models.iter().find(|model| model.id == id).expect("listed").deprecated;
    assert_eq!(["gpt-4o", "o3", "o3-mini"].map(old), [false, false, true]);
    assert_eq!(manifest.model_prefixes, ["gpt-", "o1", "o3", "o4"]);
    assert_eq!(manifest.default_base_url.as_deref(), Some("https://api.openai.com/v1"));
    assert_eq!(manifest.credentials.len(), 1);
    assert_eq!(manifest.credentials[0].env.as_deref(), Some("OPENAI_API_KEY"));
    assert_eq!(manifest.extra, [Pair { name: "api-label".to_owned(), value: "Responses API".to_owned() }]);
}

#[test]
fn table_has_the_levels_that_are_sent() {
    check_levels(&Openai::describe().models, Openai::explain_thinking);
}

#[test]
fn shown_setting_equals_sent_setting() {
    let always = "⚠ This model does not support disabling thinking";
    let never = "⚠ This model does not support thinking";
    let series = ["o1", "o3", "o3-mini", "o4-mini-2025-04-16"];
    let newer =
        ["gpt-5.1", "gpt-5.2-chat-latest", "gpt-5.4-mini", "gpt-5.6-sol", "gpt-6-sol", "gpt-6-luna", "gpt-6.1-terra"];

    let lasting =
        ["gpt-5-codex", "gpt-5.1-codex-mini", "gpt-6-astra", "gpt-6.1-sol", "gpt-6.2-astra", "gpt-5.10", "gpt-10"];
    let plain = [
        "gpt-4o",
        "gpt-4.1",
        "gpt-4o-mini",
        "gpt-4",
        "gpt-3.5-turbo",
        "gpt-35-turbo",
        "chatgpt-4o-latest",
        "gpt-5-chat-latest",
        "ft:gpt-4.1-2025-04-14:org::id",
    ];
    let unknown = ["my-deployment", "gpt-oss-20b", "o30", "o3x", "gpt5-prod", ""];
    let cannot = "⚠ Whether this model can stop thinking is unknown, so nothing is sent";
    for (models, level, lines, effort) in [
        (&series[..], Some("none"), vec![always, "Thinking: medium effort (default)"], None),
        (&series, Some("low"), vec!["Thinking: low effort"], Some("low")),
        (&series, Some("med"), vec!["Thinking: medium effort"], Some("medium")),
        (&series, Some("high"), vec!["Thinking: high effort"], Some("high")),
        (&series, None, vec!["Thinking: provider default"], None),
        (
            &["gpt-5", "gpt-5-mini", "gpt-5-2025-08-07", "gpt-5.0"],
            Some("none"),
            vec![always, "Thinking: minimal effort (minimum)"],
            Some("minimal"),
        ),
        (&["gpt-5", "gpt-5-nano"], Some("med"), vec!["Thinking: medium effort"], Some("medium")),
        (&["gpt-5"], None, vec!["Thinking: provider default"], None),
        (&newer, Some("none"), vec!["Thinking: off"], Some("none")),
        (&lasting, Some("none"), vec![always, "Thinking: low effort (minimum)"], Some("low")),
        (&lasting, Some("med"), vec!["Thinking: medium effort"], Some("medium")),
        (&["gpt-5-pro"], Some("none"), vec![always, "Thinking: high effort (minimum)"], Some("high")),
        (
            &["gpt-5-pro"],
            Some("low"),
            vec!["⚠ This model has no level low; high is sent instead", "Thinking: high effort"],
            Some("high"),
        ),
        (&["gpt-5-pro"], Some("high"), vec!["Thinking: high effort"], Some("high")),
        (
            &["gpt-5.2-pro"],
            Some("low"),
            vec!["⚠ This model has no level low; med is sent instead", "Thinking: medium effort"],
            Some("medium"),
        ),
        (
            &["gpt-5.1", "o3", "gpt-5-codex"],
            Some("xhigh"),
            vec!["⚠ This model has no level xhigh; high is sent instead", "Thinking: high effort"],
            Some("high"),
        ),
        (&["gpt-5.2", "gpt-5.1-codex-max", "gpt-6-luna"], Some("xhigh"), vec!["Thinking: xhigh effort"], Some("xhigh")),
        (
            &["gpt-5.5", "gpt-5.5-pro"],
            Some("max"),
            vec!["⚠ This model has no level max; xhigh is sent instead", "Thinking: xhigh effort"],
            Some("xhigh"),
        ),
        (&["gpt-5.6-sol", "gpt-6.2-astra", "gpt-7"], Some("max"), vec!["Thinking: max effort"], Some("max")),
        (&newer, Some("high"), vec!["Thinking: high effort"], Some("high")),
        (&newer, None, vec!["Thinking: provider default"], None),
        (&plain, Some("none"), vec!["Thinking: off"], None),
        (&plain, Some("low"), vec![never, "Thinking: off"], None),
        (&plain, Some("med"), vec![never, "Thinking: off"], None),
        (&plain, Some("high"), vec![never, "Thinking: off"], None),
        (&plain, None, vec!["Thinking: off"], None),
        (&["ft:o4-mini-2025-04-16:org::id"], Some("high"), vec!["Thinking: high effort"], Some("high")),
        (&unknown, Some("none"), vec![cannot, "Thinking: provider default"], None),
        (&unknown, Some("low"), vec!["Thinking: low effort"], Some("low")),
        (&unknown, Some("med"), vec!["Thinking: medium effort"], Some("medium")),
        (&unknown, Some("max"), vec!["Thinking: max effort"], Some("max")),
        (&unknown, None, vec!["Thinking: provider default"], None),
    ] {
        for model in models {
            assert_eq!(shown(model, level), lines, "{model} {level:?}");
            let body = sent(model, level);
            let reasoning = effort.map(|effort| format!(r#""reasoning":{{"effort":"{effort}","summary":"auto"}}"#));
            match reasoning {
                Some(reasoning) => assert!(body.contains(&reasoning), "{model} {level:?}: {body}"),
                None => assert!(!body.contains("effort"), "{model} {level:?}: {body}"),
            }
            // The API refuses encrypted reasoning for models that do not reason. It is still requested for unknown
            // models.
            assert_eq!(body.contains("reasoning.encrypted_content"), !plain.contains(model), "{model}");
        }
    }
}

#[test]
fn named_levels_of_a_deployment_are_shown_and_sent() {
    let lacks = "⚠ This model has no level med; low is sent instead";
    for (levels, level, lines, effort) in [
        (&["low", "high"][..], "high", vec!["Thinking: high effort"], Some("high")),
        (&["low", "high"], "med", vec![lacks, "Thinking: low effort"], Some("low")),
        (&["none", "low"], "none", vec!["Thinking: off"], Some("none")),
        (&["none"], "none", vec!["Thinking: off"], None),
        (&["none"], "low", vec!["⚠ This model does not support thinking", "Thinking: off"], None),
        (&["xhigh"], "xhigh", vec!["Thinking: xhigh effort"], Some("xhigh")),
    ] {
        let named: Vec<_> = levels.iter().map(|level| serde_json::json!({"level": level})).collect();
        let facts = serde_json::json!({"context-window": 400_000, "levels": named}).to_string();
        let options = [("host:model-facts", facts.as_str())];
        let pair = |(name, value): &(&str, &str)| Pair { name: (*name).to_owned(), value: (*value).to_owned() };
        let pairs: Vec<_> = options.iter().map(pair).collect();
        let plan = <Openai as Thinking>::explain("my-deployment", Some(level), &pairs);
        let warning = plan.warning.map(|warning| format!("⚠ {warning}"));
        let shown: Vec<_> = warning.into_iter().chain(plan.description).collect();
        assert_eq!(shown, lines, "{levels:?} {level}");
        assert_eq!(plan.effective.as_deref(), effort, "{levels:?} {level}");
        let body = sent_with("my-deployment", Some(level), &options);
        let sent = effort.map(|effort| format!(r#""effort":"{effort}""#));
        assert_eq!(body.contains("effort"), sent.is_some(), "{body}");
        assert!(sent.is_none_or(|sent| body.contains(&sent)), "{body}");
        assert_eq!(body.contains("reasoning.encrypted_content"), levels != ["none"], "{body}");
    }
    // A known name has its own levels.
    let facts = [("host:model-facts", r#"{"levels": [{"level": "low"}]}"#)];
    assert!(sent_with("gpt-6-sol", Some("high"), &facts).contains(r#""effort":"high""#));
}

#[test]
fn facts_of_a_deployment_name_no_levels() {
    let facts = |model: &str| -> serde_json::Value {
        serde_json::from_str(&<Openai as Models>::facts(model, &[])).expect("JSON")
    };
    let deployment = facts("my-deployment");
    assert_eq!((deployment.get("levels"), &deployment["purposes"]), (None, &serde_json::json!(["chat"])));
    assert!(facts("gpt-9")["levels"].is_array());
}

#[test]
fn options_change_the_request() {
    let summary = r#""summary":"auto""#;
    assert!(sent_with("gpt-6-astra", Some("low"), &[("summary", "auto")]).contains(summary));
    assert!(!sent_with("gpt-6-astra", Some("low"), &[("summary", "off")]).contains("summary"));
    assert!(!sent("gpt-6-astra", Some("low")).contains("prompt_cache_key"));
    let keyed = sent_with("gpt-6-astra", None, &[("host:cache-key", "k1")]);
    assert!(keyed.contains(r#""prompt_cache_key":"k1""#), "{keyed}");
    let option = Pair { name: "summary".to_owned(), value: "on".to_owned() };
    let (mut adapter, actions) = Openai::begin(CompletionRequest {
        model: "gpt-6-astra".to_owned(),
        system: Vec::new(),
        messages: Vec::new(),
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        thinking: None,
        max_output_tokens: None,
        options: vec![option],
    });
    let [Action::Fail(failure)] = actions.as_slice() else { panic!("{actions:?}") };
    assert_eq!(failure.message, "option 'summary' of this provider must be 'auto' or 'off', not 'on'");
    assert!(adapter.resume(Input::Timer).is_empty());
}
