//! Tests of the inputs, their schemas and the examples of SKILL.md.

use patchbay_sdk::{rt, testing::Host};
use serde_json::{Value, json};

use super::*;

#[test]
fn unknown_fields_are_refused() {
    assert!(serde_json::from_value::<List>(json!({})).is_ok());
    assert!(serde_json::from_value::<List>(json!({"after": 3})).is_ok());
    assert!(serde_json::from_value::<Search>(json!({"query": "x"})).is_ok());
    assert!(serde_json::from_value::<Add>(json!({"text": "x", "more": 1})).is_err());
    assert!(serde_json::from_value::<List>(json!({"before": 3})).is_err());
    assert!(serde_json::from_value::<Search>(json!({})).is_err());
    assert!(serde_json::from_value::<Delete>(json!({"number": -1})).is_err());
    assert!(serde_json::from_value::<Delete>(json!({"number": "1"})).is_err());
    assert!(serde_json::from_value::<Line>(json!({})).is_err());
}

#[test]
fn schemas_have_required_fields() {
    fn required<T: rt::ToolInput>() -> Value {
        let schema: Value = serde_json::from_str(&rt::tool::<T>("x", &[], &[]).input_schema).expect("JSON");
        schema["required"].clone()
    }
    assert_eq!(required::<Add>(), json!(["text"]));
    assert_eq!(required::<List>(), Value::Null);
    assert_eq!(required::<Search>(), json!(["query"]));
    assert_eq!(required::<Delete>(), json!(["number"]));
    assert_eq!(required::<Line>(), json!(["line"]));
}

#[test]
fn examples_of_the_instructions_are_correct() {
    let host = Host::new();
    let examples = include_str!("../SKILL.md").split("```").skip(1).step_by(2);
    let mut tested = 0;
    for example in examples.flat_map(|block| block.trim().split("/note ").skip(1)) {
        let (line, expected) = example.trim().split_once("\n=> ").expect("a line and its answer");
        let answer = host.run(|| line::run(line)).unwrap_or_else(|failure| failure.to_string());
        assert_eq!(answer, expected.replace("\n=> ", "\n"), "{line}");
        tested += 1;
    }
    assert!(tested >= 5, "only {tested} examples");
}
