//! Tests of the inputs, their schemas and the examples of SKILL.md.

use patchbay_sdk::rt;
use serde_json::{Value, json};

use super::*;

fn schema<T: JsonSchema>() -> Value {
    serde_json::from_str(&rt::tool::<T>("x", &[]).input_schema).expect("JSON")
}

#[test]
fn unknown_fields_are_refused() {
    assert!(serde_json::from_value::<Read>(json!({"path": "a"})).is_ok());
    assert!(serde_json::from_value::<Read>(json!({"path": "a", "first": 3, "lines": 4})).is_ok());
    assert!(serde_json::from_value::<List>(json!({})).is_ok());
    assert!(serde_json::from_value::<List>(json!({"glob": "*", "after": "b"})).is_ok());
    assert!(serde_json::from_value::<Write>(json!({"path": "a", "text": ""})).is_ok());
    assert!(serde_json::from_value::<Edit>(json!({"path": "a", "old": "b", "new": "", "all": true})).is_ok());
    assert!(serde_json::from_value::<Read>(json!({"path": "a", "last": 3})).is_err());
    assert!(serde_json::from_value::<Read>(json!({"path": "a", "first": -1})).is_err());
    assert!(serde_json::from_value::<List>(json!({"path": "a"})).is_err());
    assert!(serde_json::from_value::<Write>(json!({"path": "a"})).is_err());
    assert!(serde_json::from_value::<Edit>(json!({"path": "a", "old": "b"})).is_err());
}

#[test]
fn schemas_have_required_fields_and_limits() {
    assert_eq!(schema::<Read>()["required"], json!(["path"]));
    assert_eq!(schema::<Read>()["properties"]["lines"]["maximum"], json!(read::MAX_LINES));
    assert_eq!(schema::<List>()["required"], Value::Null);
    assert_eq!(schema::<Write>()["required"], json!(["path", "text"]));
    assert_eq!(schema::<Edit>()["required"], json!(["path", "old", "new"]));
    let words = schema::<Write>()["properties"]["text"]["description"].to_string();
    assert!(words.contains(&contents::MAX_FILE.to_string()), "{words}");
}

/// Every input in the instructions is valid.
#[test]
fn examples_of_the_instructions_are_valid_inputs() {
    let text = include_str!("../SKILL.md").replace('\n', " ");
    let examples: Vec<&str> = text.split('`').filter(|part| part.starts_with('{')).collect();
    assert_eq!(examples.len(), 2);
    let glob: List = serde_json::from_str(examples[0]).expect("an input of list");
    assert_eq!(glob.glob.as_deref(), Some("src/**/*.rs"));
    let lines: Read = serde_json::from_str(examples[1]).expect("an input of read");
    assert_eq!((lines.first, lines.lines), (Some(120), Some(60)));
}
