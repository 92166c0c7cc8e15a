//! Describes tools that are not declared in the request to a model: in the result of `find_tools`, and after the instructions of
//! a skill.

use patchbay_core::completion::ToolDeclaration;
use serde_json::{Value, json};

/// Size limit of all declarations in one result, in bytes. The first declaration is always complete; a schema has at most 64 KiB.
const BYTES: usize = 64 << 10;

/// Limit of the tools in one result, because a skill may require thousands.
const TOOLS: usize = 200;

/// Returns the declarations as JSON objects. Declarations that do not fit have only their name. Tools beyond [`TOOLS`] are only
/// counted.
pub(crate) fn described(tools: impl IntoIterator<Item = ToolDeclaration>) -> Vec<Value> {
    let mut tools = tools.into_iter();
    let mut described = described_first(tools.by_ref().take(TOOLS));
    let more = tools.count();
    if more > 0 {
        described.push(json!({"left_out": format!("{more} more tools: find_tools finds them")}));
    }
    described
}

fn described_first(tools: impl Iterator<Item = ToolDeclaration>) -> Vec<Value> {
    let mut left = BYTES;
    let mut is_first = true;
    let describe = |tool: ToolDeclaration| {
        let ToolDeclaration { name, description, input_schema } = tool;
        let size = name.len() + description.len() + input_schema.len();
        if size > left && !std::mem::take(&mut is_first) {
            return json!({"name": name, "left_out": "too long: call find_tools with this name to read it"});
        }
        is_first = false;
        left = left.saturating_sub(size);
        // The schema is valid JSON, because the host wrote it.
        let input_schema: Value = serde_json::from_str(&input_schema).unwrap_or_default();
        json!({"name": name, "description": description, "input_schema": input_schema})
    };
    tools.map(describe).collect()
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
        let many = super::described((0..TOOLS + 3).map(|n| tool(&format!("t{n}"), BYTES)));
        assert_eq!((many.len(), &many[TOOLS]["left_out"]), (TOOLS + 1, &json!("3 more tools: find_tools finds them")));
        let fits = super::described([tool("a", 10), tool("b", BYTES), tool("c", 10)]);
        assert!(
            fits[0]["description"].is_string()
                && fits[1].get("description").is_none()
                && fits[2]["description"].is_string()
        );
    }
}
