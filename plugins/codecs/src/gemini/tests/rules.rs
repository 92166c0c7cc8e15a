//! The rules of the Gemini API for requests, as a checker (2026-11-23, ai.google.dev, "Function calling" and "Thought
//! signatures"; docs.cloud.google.com, "Gemini 3.5 Flash-Lite": the last turn is the user's).

use proptest::prelude::*;
use serde_json::Value;

use super::{DIALECT, body, completion_of, kept, stream};
use crate::conversations::conversations;
use crate::gemini::Dialect;
use crate::recording;

fn check(body: &Value, signed_calls: bool) {
    let contents = body["contents"].as_array().expect("contents");
    assert_eq!((&contents[0]["role"], &contents[contents.len() - 1]["role"]), (&"user".into(), &"user".into()));
    let mut open: Vec<Value> = Vec::new();
    for content in contents {
        let parts = content["parts"].as_array().expect("parts");
        let last = parts.last().expect("a turn is not empty");
        assert!(last["thought"] != true, "it ends in thinking");
        let named = |key: &str| parts.iter().filter_map(|part| part.get(key)).cloned().collect::<Vec<_>>();
        let (calls, responses) = (named("functionCall"), named("functionResponse"));
        let pairs =
            |list: &[Value]| list.iter().map(|one| (one["name"].clone(), one["id"].clone())).collect::<Vec<_>>();
        assert_eq!(pairs(&responses), pairs(&open), "each call has its response in the next turn");
        assert!(content["role"] == "model" || calls.is_empty());
        if let Some(first) = parts.iter().find(|part| part.get("functionCall").is_some()) {
            assert!(!signed_calls || first["thoughtSignature"].is_string(), "a first call without a signature");
        }
        for part in parts {
            let signed = part.get("thoughtSignature").is_some();
            assert!(part["text"].as_str().is_none_or(|text| !text.is_empty() || signed), "an empty text");
            assert!(part["thought"] != true || signed, "a thought without a signature");
        }
        open = calls;
    }
    assert!(open.is_empty(), "calls without a response");
}

proptest! {
    #[test]
    fn every_conversation_keeps_the_rules(
        request in conversations(
            ["signed_texts", "thoughts"]
                .into_iter()
                .flat_map(|name| {
                    let mut stream = stream(&completion_of(Vec::new()));
                    kept(&recording::play(&mut stream, &recording::parts("gemini", name), &[])).parts
                })
                .collect(),
            vec![None, Some("c2ln".to_owned())],
        ),
        signed_calls in any::<bool>(),
    ) {
        check(&body(&request, Dialect { signed_calls, ..DIALECT }), signed_calls);
    }
}
