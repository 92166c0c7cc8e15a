//! Tests of the listing with a recording that follows the SDK's types.

use patchbay_codecs::listing::play;
use serde_json::json;

use super::*;

#[test]
fn list_becomes_facts() {
    let played = play::<Models>(&[include_str!("../../../../codecs/recordings/listing/openai.json")], 64);
    assert_eq!(played.paths, ["/models"]);
    assert_eq!(played.end, Some(("complete".to_owned(), Some("\"v1\"".to_owned()))));
    let facts = |id: &str| &played.models.iter().find(|model| model.0 == id).expect("listed").1;
    let offered: Vec<_> = played.models.iter().filter(|model| model.1["purposes"] == json!(["chat"])).collect();
    assert_eq!(offered.iter().map(|model| model.0.as_str()).collect::<Vec<_>>(), ["gpt-6.2-sol", "gpt-6-luna", "o3"]);
    assert_eq!(played.models.len(), 8);
    assert_eq!((&facts("gpt-6.2-sol")["size"], &facts("gpt-6-luna")["size"]), (&json!("normal"), &json!("small")));
    assert_eq!(facts("gpt-6.2-sol")["lifecycle"], json!({"released-on": "2026-11-17"}));
    assert_eq!(
        facts("o3")["lifecycle"],
        json!({"status": "deprecated", "released-on": "2025-04-16", "retires-on": "2026-12-11"})
    );
    assert_eq!(facts("gpt-6-luna")["levels"][0], json!({"level": "none", "sends": "off"}));
    assert_eq!(facts("o3")["levels"].as_array().map(Vec::len), Some(4));
}

#[test]
fn models_for_other_purposes_are_not_offered() {
    for id in [
        "gpt-6-cyber",
        "gpt-6.2-astra-law",
        "gpt-realtime-2",
        "gpt-audio-mini",
        "gpt-4o-mini-transcribe",
        "o3-deep-research",
        "gpt-3.5-turbo-instruct",
        "gpt-4-0613",
        "omni-moderation-latest",
        "sora-3",
        "chatgpt-image-latest",
        "computer-use-preview",
    ] {
        assert!(!is_offered(id), "{id}");
    }
    assert!(["gpt-7", "gpt-6.2-astra", "o3-pro", "gpt-5.3-codex"].into_iter().all(is_offered));
}
