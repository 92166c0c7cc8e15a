//! Tests of the listing with recordings of several servers.

use patchbay_codecs::listing::{Played, play};
use serde_json::{Value, json};

use super::*;

fn listed(pages: &[&str]) -> Played {
    let played = play::<Models>(pages, 100);
    assert_eq!(played.end.as_ref().map(|end| end.0.as_str()), Some("complete"), "{played:?}");
    played
}

fn words(levels: &Value) -> Vec<&str> {
    levels.as_array().expect("levels").iter().filter_map(|level| level["level"].as_str()).collect()
}

#[test]
fn openrouter_says_nearly_all() {
    let played = listed(&[
        include_str!("../../../../codecs/recordings/listing/openrouter.1.json"),
        include_str!("../../../../codecs/recordings/listing/openrouter.2.json"),
    ]);
    assert_eq!(played.paths, ["/models", "/models?offset=500&limit=500"]);
    let [(id, opus), (_, router), (_, older)] = &played.models[..] else { panic!("{played:?}") };
    assert_eq!(id, "anthropic/claude-opus-5.5");
    assert_eq!(
        opus["prices"],
        json!({"currency": "USD", "per-tokens": 1_000_000, "input": "4", "output": "20", "cache-read": "0.2", "cache-write": "5"})
    );
    assert_eq!((&opus["context-window"], &opus["max-output-tokens"]), (&json!(1_000_000), &json!(128_000)));
    assert_eq!(opus["capabilities"], json!({"tools": true, "forced-tool-choice": true, "thinking": true}));
    assert_eq!(opus["input-media"].as_array().map(Vec::len), Some(5));
    assert_eq!(words(&opus["levels"]), ["none", "low", "med", "high", "xhigh", "max"]);
    assert_eq!((router.get("prices"), words(&router["levels"])), (None, vec!["none"]));
    assert_eq!(
        older["lifecycle"],
        json!({"status": "deprecated", "released-on": "2024-05-13", "retires-on": "2027-01-14"})
    );
    assert_eq!(older["levels"], json!([{"level": "none", "sends": "off"}]));
}

#[test]
fn local_servers_say_little() {
    let vllm = listed(&[include_str!("../../../../codecs/recordings/listing/vllm.json")]);
    assert_eq!((vllm.models[0].0.as_str(), &vllm.models[0].1["context-window"]), ("Qwen/Qwen3-32B", &json!(40_960)));
    assert_eq!((vllm.models[0].1.get("levels"), vllm.models[0].1.get("input-media")), (None, None));
    for list in [
        include_str!("../../../../codecs/recordings/listing/ollama.json"),
        include_str!("../../../../codecs/recordings/listing/lmstudio.json"),
    ] {
        let purposes: Vec<_> = listed(&[list]).models.into_iter().map(|model| model.1["purposes"].clone()).collect();
        assert_eq!(purposes, [json!(["chat"]), json!([])]);
    }
}

#[test]
fn fields_of_mistral_and_groq_are_read() {
    let mistral = listed(&[include_str!("../../../../codecs/recordings/listing/mistral.json")]);
    let [(_, large), (_, medium)] = &mistral.models[..] else { panic!("{mistral:?}") };
    assert_eq!((&large["context-window"], &large["capabilities"]), (&json!(262_144), &json!({"tools": true})));
    assert_eq!(
        medium["lifecycle"],
        json!({"status": "deprecated", "released-on": "2025-05-07", "retires-on": "2026-12-31", "successor": "mistral-large-2512"})
    );
    let groq = listed(&[include_str!("../../../../codecs/recordings/listing/groq.json")]);
    assert_eq!(
        (&groq.models[0].1["context-window"], &groq.models[0].1["max-output-tokens"]),
        (&json!(131_072), &json!(65_536))
    );
    assert_eq!(groq.models[1].1["purposes"], json!([]));
}

#[test]
fn levels_follow_from_the_facts() {
    let facts = |facts: Value| facts.as_object().expect("an object").clone();
    let known = facts(json!({"efforts": ["none", "low", "high"]}));
    let effort = |level: &str| levels::effort(Some(level), Some(&known));
    assert_eq!((effort("none").0, effort("high").0, effort("max").0), (Some("none"), Some("high"), Some("high")));
    assert_eq!(effort("max").1.warning.as_deref(), Some("This model has no level max; high is sent instead"));
    let never = facts(json!({"capabilities": {"thinking": false}}));
    let (effort, plan) = levels::effort(Some("low"), Some(&never));
    assert_eq!((effort, plan.description), (None, vec!["Thinking: off".to_owned()]));
    assert!(plan.warning.is_some());
    assert_eq!(levels::effort(Some("max"), None).0, Some("max"));
}
