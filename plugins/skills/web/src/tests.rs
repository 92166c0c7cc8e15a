//! Tests of the inputs and their schemas.

use patchbay_sdk::rt;
use serde_json::{Value, json};

use super::*;

#[test]
fn unknown_fields_are_refused() {
    assert!(serde_json::from_value::<Fetch>(json!({"url": "x"})).is_ok());
    assert!(serde_json::from_value::<Fetch>(json!({"url": "x", "max_chars": 1, "from": 2})).is_ok());
    assert!(serde_json::from_value::<Fetch>(json!({})).is_err());
    assert!(serde_json::from_value::<Fetch>(json!({"url": "x", "method": "POST"})).is_err());
    assert!(serde_json::from_value::<Fetch>(json!({"url": "x", "from": -1})).is_err());
}

#[test]
fn schema_requires_only_the_address() {
    let schema: Value = serde_json::from_str(&rt::tool::<Fetch>("x", &[], &[]).input_schema).expect("JSON");
    assert_eq!(schema["required"], json!(["url"]));
    assert_eq!(schema["properties"]["max_chars"]["maximum"], json!(MAX_CHARS));
    let words = schema["properties"]["max_chars"]["description"].to_string();
    assert!(words.contains(&USUAL.to_string()), "{words}");
}

#[test]
fn length_out_of_range_is_refused_before_fetching() {
    for most in [0, MAX_CHARS + 1] {
        let input = Fetch { url: "https://example.com".to_owned(), max_chars: Some(most), from: 0 };
        let failure = fetch(input).expect_err("a refusal");
        assert_eq!(failure.message(), format!("'max_chars' must be from 1 to 100000; this is {most}"));
    }
}
