//! Helpers for all tests, and tests of the examples in SKILL.md.

use patchbay_sdk::{Content, Reply, Result};
use serde_json::json;

use super::*;

/// Returns the JSON text of an answer, or the message of a failure.
fn shown(answer: Result<Reply>) -> Result<String, String> {
    let contents = patchbay_sdk::rt::run("{}", |_: serde_json::Value| answer);
    match contents.map_err(|failure| failure.message)?.as_slice() {
        [Content::Json(text)] => Ok(text.clone()),
        other => panic!("one JSON text, not {other:?}"),
    }
}

/// Calls the tool with an input, as the host does.
pub(crate) fn ask(expression: &str, document: &str) -> Result<String, String> {
    let input = format!(r#"{{"expression": {}, "document": {document}}}"#, json!(expression));
    serde_json::from_str(&input).map_err(|error| error.to_string()).and_then(|input| shown(query(input)))
}

pub(crate) fn result(expression: &str, document: &str) -> String {
    ask(expression, document).unwrap_or_else(|refusal| panic!("{expression}: {refusal}"))
}

pub(crate) fn refusal(expression: &str, document: &str) -> String {
    match ask(expression, document) {
        Ok(result) => panic!("{expression} gives {result}"),
        Err(refusal) => refusal,
    }
}

pub(crate) fn typed(line: &str) -> Result<String, String> {
    shown(run(Line { line: line.to_owned() }))
}

#[test]
fn input_has_exactly_an_expression_and_a_document() {
    assert!(serde_json::from_value::<Query>(json!({"expression": "@", "document": null})).is_ok());
    for wrong in [
        json!({"expression": "@"}),
        json!({"document": 1}),
        json!({"expression": 1, "document": 1}),
        json!({"expression": "@", "document": 1, "more": 1}),
    ] {
        assert!(serde_json::from_value::<Query>(wrong.clone()).is_err(), "{wrong}");
    }
    assert!(serde_json::from_value::<Line>(json!({"line": "@ 1", "more": 1})).is_err());
}

#[test]
fn schema_requires_and_describes_both_fields() {
    let tool = patchbay_sdk::rt::tool::<Query>("query", &[], &[]);
    let schema: serde_json::Value = serde_json::from_str(&tool.input_schema).expect("JSON");
    assert_eq!(schema["required"], json!(["expression", "document"]));
    assert_eq!(schema["additionalProperties"], json!(false));
    assert!(schema["properties"]["document"].get("type").is_none(), "{schema}");
    assert!(schema["properties"]["document"]["description"].is_string(), "{schema}");
}

#[test]
fn examples_of_the_instructions_are_correct() {
    let examples = include_str!("../SKILL.md").split("```").skip(1).step_by(2).flat_map(str::lines);
    let mut line = None;
    let mut tested = 0;
    for example in examples {
        if let Some(typed) = example.strip_prefix("/json ") {
            line = Some(typed);
        } else if let Some(expected) = example.strip_prefix("=> ") {
            let line = line.take().expect("a line before its result");
            assert_eq!(typed(line).as_deref(), Ok(expected), "{line}");
            tested += 1;
        }
    }
    assert!(tested >= 5, "only {tested} examples");
}
