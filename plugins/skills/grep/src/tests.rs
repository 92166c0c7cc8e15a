//! Tests of the inputs, their schemas and the examples of SKILL.md.

use patchbay_sdk::{rt, testing::Host};
use serde_json::{Value, json};

use super::*;

#[test]
fn unknown_fields_are_refused() {
    assert!(serde_json::from_value::<Search>(json!({"pattern": "x"})).is_ok());
    let full =
        json!({"pattern": "x", "glob": "*", "ignore_case": true, "context": 1, "fixed": true, "max": 1, "after": "a"});
    assert!(serde_json::from_value::<Search>(full).is_ok());
    assert!(serde_json::from_value::<Search>(json!({})).is_err());
    assert!(serde_json::from_value::<Search>(json!({"pattern": "x", "path": "y"})).is_err());
    assert!(serde_json::from_value::<Line>(json!({})).is_err());
}

#[test]
fn schemas_have_required_fields_and_limits() {
    fn schema<T: rt::ToolInput>() -> Value {
        serde_json::from_str(&rt::tool::<T>("x", &[], &[]).input_schema).expect("JSON")
    }
    assert_eq!(schema::<Search>()["required"], json!(["pattern"]));
    assert_eq!(schema::<Search>()["properties"]["max"]["maximum"], json!(search::MAX_HITS));
    assert_eq!(schema::<Search>()["properties"]["context"]["maximum"], json!(search::MAX_CONTEXT));
    assert_eq!(schema::<Line>()["required"], json!(["line"]));
    let words = schema::<Search>()["properties"]["pattern"]["description"].to_string();
    // The limit of the host.
    assert!(words.contains("4096 bytes"), "{words}");
}

/// The files of the workspace that the examples search.
const FILES: [(&str, &str); 3] = [
    ("docs/guide.md", "# Guide\n\nTodo: explain the pool.\n"),
    ("src/main.rs", "fn main() {\n    // TODO: close the pool\n    run(pool(4));\n}\n"),
    ("src/pool.rs", "/// Makes a pool.\npub fn pool(size: usize) -> Pool {\n    Pool::new(size)\n}\n"),
];

#[test]
fn examples_of_the_instructions_are_correct() {
    let examples = include_str!("../SKILL.md").split("```").skip(1).step_by(2);
    let mut tested = 0;
    for example in examples.flat_map(|block| block.trim().split("/grep ").skip(1)) {
        let (line, expected) = example.trim().split_once("\n=> ").expect("a line and its answer");
        let host = FILES.iter().fold(Host::new(), |host, (path, text)| host.with_file(path, text));
        let query = line::read(line).and_then(|typed| Query::of_person(&typed)).expect("a query");
        let answer = host.run(|| search::run(&query)).unwrap_or_else(|failure| failure.to_string());
        assert_eq!(answer, expected.replace("\n=> ", "\n"), "{line}");
        tested += 1;
    }
    assert!(tested >= 5, "only {tested} examples");
}
