//! The text with which a model reads the declarations of tools that are not declared in the request: the result of `find_tools`,
//! and what follows the instructions of a skill.

use patchbay_core::completion::ToolDeclaration;
use serde_json::{Value, json};

/// Bytes of all declarations of one result. The first one is always whole; a schema has at most 64 KiB.
const BYTES: usize = 64 << 10;

/// Returns the declarations as JSON objects. Those that do not fit have their name alone.
pub(crate) fn described(tools: impl IntoIterator<Item = ToolDeclaration>) -> Vec<Value> {
    let mut left = BYTES;
    let mut is_first = true;
    let describe = |tool: ToolDeclaration| {
        let ToolDeclaration { name, description, input_schema } = tool;
        let size = name.len() + description.len() + input_schema.len();
        if size > left && !std::mem::take(&mut is_first) {
            return json!({"name": name, "left_out": "too long: find_tools with this name returns it"});
        }
        is_first = false;
        left = left.saturating_sub(size);
        // The host has written the schema; it is JSON.
        let input_schema: Value = serde_json::from_str(&input_schema).unwrap_or_default();
        json!({"name": name, "description": description, "input_schema": input_schema})
    };
    tools.into_iter().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_bounded_together() {
        let tool = |name: &str, bytes: usize| ToolDeclaration {
            name: name.to_owned(),
            description: "x".repeat(bytes),
            input_schema: r#"{"type":"object"}"#.to_owned(),
        };
        let described = described([tool("a", BYTES + 1), tool("b", 10), tool("c", 10)]);
        assert_eq!(described[0]["description"].as_str().map(str::len), Some(BYTES + 1));
        assert_eq!(described[0]["input_schema"], json!({"type": "object"}));
        for (tool, name) in described[1..].iter().zip(["b", "c"]) {
            assert_eq!((&tool["name"], tool.get("description")), (&json!(name), None));
        }
        let fits = super::described([tool("a", 10), tool("b", BYTES), tool("c", 10)]);
        assert!(
            fits[0]["description"].is_string()
                && fits[1].get("description").is_none()
                && fits[2]["description"].is_string()
        );
    }
}
