//! Tests of the listing with recordings that follow the SDK's types.

use patchbay_codecs::listing::play;
use serde_json::json;

use super::*;

const PAGES: [&str; 2] = [
    include_str!("../../../../codecs/recordings/listing/google.1.json"),
    include_str!("../../../../codecs/recordings/listing/google.2.json"),
];

#[test]
fn pages_become_facts() {
    let played = play::<Models>(&PAGES, 100);
    assert_eq!(
        played.paths,
        ["/v1beta/models?pageSize=1000", "/v1beta/models?pageSize=1000&pageToken=Ch%2Fnext%3D%3D"]
    );
    assert_eq!(played.end, Some(("complete".to_owned(), None)));
    let [(id, hydrogen), (_, plain), (_, embedding), (_, speech), (_, gemma)] = &played.models[..] else {
        panic!("{played:?}")
    };
    assert_eq!((id.as_str(), &hydrogen["display-name"]), ("gemini-4-hydrogen", &json!("Gemini 4 Hydrogen")));
    assert_eq!(hydrogen["description"], "A model with frontier-level intelligence. For coding.");
    assert_eq!((&hydrogen["context-window"], &hydrogen["max-output-tokens"]), (&json!(1_048_576), &json!(65_536)));
    let levels: Vec<_> = hydrogen["levels"].as_array().expect("levels").iter().map(|level| &level["level"]).collect();
    assert_eq!(levels, ["none", "low", "med", "high", "xhigh"]);
    assert_eq!(plain["levels"], json!([{"level": "none", "sends": "off"}]));
    assert_eq!(hydrogen["purposes"], json!(["chat"]));
    for other in [embedding, speech, gemma] {
        assert_eq!(other["purposes"], json!([]));
    }
}
