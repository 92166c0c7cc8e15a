//! Tests of the listing with recordings that follow the SDK's types.

use patchbay_codecs::listing::play;
use serde_json::json;

use super::*;

const PAGES: [&str; 2] = [
    include_str!("../../../../codecs/recordings/listing/anthropic.1.json"),
    include_str!("../../../../codecs/recordings/listing/anthropic.2.json"),
];

#[test]
fn pages_become_facts() {
    let played = play::<Models>(&PAGES, 7);
    assert_eq!(played.paths, ["/v1/models?limit=1000", "/v1/models?limit=1000&after_id=claude-sonnet-5-5"]);
    assert_eq!(played.end, Some(("complete".to_owned(), None)));
    let [(newer, opus), (_, sonnet), (dated, old)] = &played.models[..] else { panic!("{played:?}") };
    assert_eq!((newer.as_str(), dated.as_str()), ("claude-opus-7", "claude-sonnet-4-5-20250929"));
    // A model that this adapter does not know has the levels that the API reports.
    let levels: Vec<_> = opus["levels"].as_array().expect("levels").iter().map(|level| &level["level"]).collect();
    assert_eq!(levels, ["none", "low", "high", "max"]);
    assert_eq!(opus["levels"][0]["sends"], "off");
    assert_eq!(
        [&opus["size"], &opus["context-window"], &opus["max-output-tokens"], &opus["purposes"]],
        [&json!("large"), &json!(2_000_000), &json!(256_000), &json!(["chat"])]
    );
    assert_eq!(opus["lifecycle"], json!({"status": "active", "released-on": "2027-02-03"}));
    assert_eq!(opus["capabilities"], json!({"tools": true, "thinking-off": true, "forced-tool-choice": true}));
    assert_eq!(sonnet["levels"].as_array().map(Vec::len), Some(6));
    assert_eq!(sonnet["capabilities"]["forced-tool-choice"], false);
    assert_eq!(
        old["lifecycle"],
        json!({"status": "deprecated", "released-on": "2025-09-29", "deprecated-on": "2026-09-01", "retires-on": "2026-11-30"})
    );
    assert_eq!(old["levels"][2]["sends"], "medium (43,008 tokens)");
    assert!(old["input-media"].as_array().expect("media").contains(&json!("application/pdf")));
}
