//! JSON Schemas of tools. They are written by whoever wrote the component: no reference leads out of the schema, and no
//! pattern takes more than linear time.

use jsonschema::{Draft, PatternOptions, Validator};
use patchbay_core::text;
use serde_json::Value;

/// The most memory that a schema's patterns may take when compiled.
const PATTERN_BYTES: usize = 1 << 20;

/// Compiles the schema of a tool's input.
///
/// # Errors
/// What is wrong with it, on one line.
pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
    if schema.get("type") != Some(&Value::from("object")) {
        return Err("its 'type' is not 'object'".to_owned());
    }
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES))
        .build(schema)
        .map_err(|error| text::excerpt(&error.to_string(), 300))
}

/// The first thing that is wrong with an input, and where.
pub(crate) fn first_error(validator: &Validator, input: &Value) -> Option<String> {
    let error = validator.iter_errors(input).next()?;
    let place = error.instance_path().to_string();
    let words = text::excerpt(&error.to_string(), 300);
    Some(if place.is_empty() { words } else { format!("at {}: {words}", text::excerpt(&place, 100)) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_hostile_schema_is_refused_or_harmless() {
        assert!(compile(&json!({"type": "array"})).is_err());
        assert!(compile(&json!({"type": "object", "properties": {"a": {"type": 5}}})).is_err());
        assert!(compile(&json!({"type": "object", "$ref": "http://127.0.0.1/x"})).is_err(), "it went looking");
        assert!(compile(&json!({"type": "object", "$ref": "file:///etc/passwd"})).is_err(), "it went looking");
        let slow = compile(&json!({"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}})).unwrap();
        assert!(!slow.is_valid(&json!({"a": format!("{}!", "a".repeat(50_000))})));
        assert!(compile(&json!({"type": "object", "properties": {"a": {"pattern": "(a{1000}){1000}"}}})).is_err());
    }

    #[test]
    fn errors_name_the_place() {
        let validator = compile(&json!({
            "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false
        }))
        .unwrap();
        assert_eq!(first_error(&validator, &json!({"n": 1})), None);
        assert_eq!(first_error(&validator, &json!({"n": "x"})).unwrap(), r#"at /n: "x" is not of type "integer""#);
        assert_eq!(first_error(&validator, &json!({})).unwrap(), r#""n" is a required property"#);
    }
}
