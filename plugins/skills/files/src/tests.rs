//! Tests of the inputs, their schemas and the examples of SKILL.md.

use patchbay_sdk::rt;
use serde_json::{Value, json};

use super::*;

fn schema<T: rt::ToolInput>() -> Value {
    serde_json::from_str(&rt::tool::<T>("x", &[], &[]).input_schema).expect("JSON")
}

#[test]
fn unknown_fields_are_refused() {
    assert!(serde_json::from_value::<Read>(json!({"path": "a"})).is_ok());
    assert!(serde_json::from_value::<Read>(json!({"path": "a", "first": 3, "offset": 5, "lines": 4})).is_ok());
    assert!(serde_json::from_value::<List>(json!({})).is_ok());
    assert!(serde_json::from_value::<List>(json!({"glob": "*", "after": "b"})).is_ok());
    assert!(serde_json::from_value::<Find>(json!({"name": "*", "ignore_case": true, "after": "b"})).is_ok());
    assert!(serde_json::from_value::<Find>(json!({"glob": "*"})).is_err());
    assert!(serde_json::from_value::<Write>(json!({"path": "a", "text": ""})).is_ok());
    assert!(serde_json::from_value::<Edit>(json!({"path": "a", "old": "b", "new": "", "all": true})).is_ok());
    assert!(serde_json::from_value::<ReadMany>(json!({"paths": ["a"], "numbers": true})).is_ok());
    assert!(serde_json::from_value::<Patch>(json!({"patch": ""})).is_ok());
    assert!(serde_json::from_value::<Rename>(json!({"from": "a", "to": "b"})).is_ok());
    assert!(serde_json::from_value::<Delete>(json!({"path": "a"})).is_ok());
    assert!(serde_json::from_value::<Delete>(json!({"path": "a", "all": true})).is_err());
    assert!(serde_json::from_value::<Read>(json!({"path": "a", "last": 3})).is_err());
    assert!(serde_json::from_value::<Read>(json!({"path": "a", "first": -1})).is_err());
    assert!(serde_json::from_value::<Read>(json!({"path": "a", "offset": -1})).is_err());
    assert!(serde_json::from_value::<List>(json!({"path": "a"})).is_err());
    assert!(serde_json::from_value::<Write>(json!({"path": "a"})).is_err());
    assert!(serde_json::from_value::<Edit>(json!({"path": "a", "old": "b"})).is_err());
}

#[test]
fn schemas_have_required_fields_and_limits() {
    assert_eq!(schema::<Read>()["required"], json!(["path"]));
    assert_eq!(schema::<Read>()["properties"]["lines"]["maximum"], json!(read::MAX_LINES));
    assert_eq!(schema::<Read>()["properties"]["offset"]["minimum"], json!(0));
    assert_eq!(schema::<ReadMany>()["properties"]["paths"]["maxItems"], json!(read::MAX_FILES));
    assert!(schema::<Patch>().to_string().contains(&format!("At most {} files", patch::MAX_FILES)));
    assert_eq!(schema::<List>()["required"], Value::Null);
    assert_eq!(schema::<Write>()["required"], json!(["path", "text"]));
    assert_eq!(schema::<Edit>()["required"], json!(["path", "old", "new"]));
    let words = schema::<Write>()["properties"]["text"]["description"].to_string();
    assert!(words.contains(&format!("at most {} MiB", contents::MAX_FILE >> 20)), "{words}");
}

/// Every input in the instructions is valid.
#[test]
fn examples_of_the_instructions_are_valid_inputs() {
    let text = include_str!("../SKILL.md").replace('\n', " ");
    let examples: Vec<&str> = text.split('`').filter(|part| part.starts_with('{')).collect();
    assert_eq!(examples.len(), 4);
    let glob: List = serde_json::from_str(examples[0]).expect("an input of list");
    assert_eq!(glob.glob.as_deref(), Some("src/**/*.rs"));
    let name: Find = serde_json::from_str(examples[1]).expect("an input of find");
    assert_eq!(name.name, "*config*");
    let lines: Read = serde_json::from_str(examples[2]).expect("an input of read");
    assert_eq!((lines.first, lines.lines), (Some(120), Some(60)));
    let many: ReadMany = serde_json::from_str(examples[3]).expect("an input of read_many");
    assert_eq!(many.paths.len(), 2);
}
