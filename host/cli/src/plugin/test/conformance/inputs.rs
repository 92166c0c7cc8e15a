//! Generates inputs from a schema: one that it should allow, and some that it must refuse.

use serde_json::{Map, Value, json};

/// Limit of the invalid inputs that are tried for one tool.
const REFUSED: usize = 20;
/// Nesting limit of an example input.
const DEPTH: usize = 8;

/// Returns an input with the required properties. It may be refused if the schema has rules besides types.
pub(super) fn example(schema: &Value) -> Map<String, Value> {
    match value(schema, 0) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn value(schema: &Value, depth: usize) -> Value {
    let first = |key: &str| schema[key].as_array().and_then(|values| values.first()).cloned();
    if let Some(given) = schema.get("default").or(schema.get("const")).cloned().or_else(|| first("enum")) {
        return given;
    }
    if let Some(example) = first("examples") {
        return example;
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str()).unwrap_or("object");
    match kind {
        "string" => json!("x".repeat(schema["minLength"].as_u64().unwrap_or(1).clamp(1, 1_000) as usize)),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or(json!(1)),
        "boolean" => json!(true),
        "null" => Value::Null,
        "array" => {
            let items = schema["minItems"].as_u64().unwrap_or(0).min(10);
            (0..items).map(|_| value(&schema["items"], depth + 1)).collect()
        }
        _ if depth < DEPTH => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            required.map(|name| (name.to_owned(), value(&schema["properties"][name], depth + 1))).collect()
        }
        _ => json!({}),
    }
}

/// Returns inputs that the schema certainly refuses: a required property is missing, a property has another type, or a property is
/// unknown to the schema.
pub(super) fn refused(schema: &Value) -> Vec<Map<String, Value>> {
    let example = example(schema);
    let with = |name: &str, value: Value| {
        let mut input = example.clone();
        input.insert(name.to_owned(), value);
        input
    };
    let mut refused = Vec::new();
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let mut input = example.clone();
        input.remove(name);
        refused.push(input);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        // A string has none of the first types, and an object is not a string.
        match property["type"].as_str() {
            Some("object" | "array" | "integer" | "number" | "boolean" | "null") => {
                refused.push(with(name, json!("not of this type")));
            }
            Some("string") => refused.push(with(name, json!({}))),
            _ => {}
        }
    }
    if schema["additionalProperties"] == json!(false) && schema.get("patternProperties").is_none() {
        let unknown = (0..).map(|number| format!("unknown_{number}"));
        let unknown = unknown.take(100).find(|name| schema["properties"].get(name).is_none());
        refused.extend(unknown.map(|name| with(&name, json!(1))));
    }
    refused.truncate(REFUSED);
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_follow_from_the_schema() {
        let schema = json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "count": {"type": "integer", "minimum": 3}},
            "required": ["name"],
            "additionalProperties": false,
        });
        assert_eq!(json!(example(&schema)), json!({"name": "x"}));
        let refused: Vec<Value> = refused(&schema).into_iter().map(Value::Object).collect();
        let wrong_types = [json!({"name": "x", "count": "not of this type"}), json!({"name": {}})];
        assert_eq!(refused[0], json!({}));
        assert!(wrong_types.iter().all(|wrong| refused.contains(wrong)), "{refused:?}");
        assert_eq!(refused[3], json!({"name": "x", "unknown_0": 1}));
        assert!(super::refused(&json!({"type": "object"})).is_empty());
    }
}
