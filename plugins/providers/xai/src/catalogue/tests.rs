//! Tests of the listing with a recording that follows xAI's OpenAPI description.

use patchbay_codecs::listing::play;
use serde_json::json;

use super::*;

#[test]
fn list_becomes_facts() {
    let played = play::<Models>(&[include_str!("../../../../codecs/recordings/listing/xai.json")], 64);
    assert_eq!(played.paths, ["/language-models"]);
    assert_eq!(played.end, Some(("complete".to_owned(), Some("\"v1\"".to_owned()))));
    let [(id, grok), (alias, latest), (_, picture)] = &played.models[..] else { panic!("{played:?}") };
    assert_eq!((id.as_str(), alias.as_str()), ("grok-4.7", "grok-latest"));
    assert_eq!(
        grok["prices"],
        json!({"currency": "USD", "per-tokens": 1_000_000, "input": "2", "output": "6", "cache-read": "0.5"})
    );
    assert_eq!(grok["lifecycle"], json!({"released-on": "2026-09-21"}));
    assert_eq!((&grok["purposes"], &grok["input-media"]), (&json!(["chat"]), &json!(["image/png", "image/jpeg"])));
    assert_eq!(grok["levels"].as_array().map(Vec::len), Some(5));
    assert_eq!(latest, &json!({"alias-of": "grok-4.7"}));
    assert_eq!((&picture["purposes"], picture.get("prices")), (&json!([]), None));
}
