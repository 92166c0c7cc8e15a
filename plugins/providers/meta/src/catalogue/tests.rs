//! Tests of the listing with a recording in OpenAI's format.

use patchbay_codecs::listing::play;
use serde_json::json;

use super::*;

#[test]
fn list_becomes_facts() {
    let played = play::<Models>(&[include_str!("../../../../codecs/recordings/listing/meta.json")], 64);
    assert_eq!(played.paths, ["/models"]);
    let purposes: Vec<_> = played.models.iter().map(|model| (model.0.as_str(), &model.1["purposes"])).collect();
    let (chat, other) = (json!(["chat"]), json!([]));
    assert_eq!(
        purposes,
        [("muse-spark-1.3", &chat), ("muse-spark-1.3-contributor", &other), ("muse-image-1.0", &other)]
    );
    assert_eq!(played.models[0].1["levels"].as_array().map(Vec::len), Some(6));
    assert_eq!(played.models[0].1["lifecycle"]["released-on"], "2026-09-02");
}
