use patchbay_core::{Code, Outcome, ToolSpec, text::clean_line};
use serde_json::{Map, Value};

use crate::schema;

/// Why a command's text is no input for its tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{command} expects {schema}.")]
pub struct InputError {
    /// The command as the person would type it, such as `/calc`.
    pub command: String,
    /// The tool's schema in one line.
    pub schema: String,
}

impl From<InputError> for Outcome {
    fn from(error: InputError) -> Self {
        Outcome::error(Code::InvalidInput, error)
    }
}

/// The input that `text`, behind `command`, is for `tool`:
/// a JSON object that satisfies the tool's schema; else, where the schema requires exactly one property and that is a
/// string, that property; and for no text `{}`, where that satisfies it.
///
/// # Errors
/// [`InputError`], which shows the schema.
pub fn input_from_text(tool: &ToolSpec, text: &str, command: &str) -> Result<Value, InputError> {
    let error = || InputError { command: command.to_owned(), schema: clean_line(&tool.input_schema.to_string()) };
    let validator = schema::compile(&tool.input_schema).map_err(|_| error())?;
    if text.is_empty() {
        let empty = Value::Object(Map::new());
        return if validator.is_valid(&empty) { Ok(empty) } else { Err(error()) };
    }
    if let Ok(object @ Value::Object(_)) = serde_json::from_str::<Value>(text)
        && validator.is_valid(&object)
    {
        return Ok(object);
    }
    let property = only_required_string(&tool.input_schema).ok_or_else(error)?;
    let input = Value::Object(Map::from_iter([(property.to_owned(), Value::from(text))]));
    if validator.is_valid(&input) { Ok(input) } else { Err(error()) }
}

fn only_required_string(schema: &Value) -> Option<&str> {
    let [Value::String(property)] = &schema.get("required")?.as_array()?[..] else { return None };
    let is_string = schema.get("properties")?.get(property)?.get("type")? == "string";
    is_string.then_some(property)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(input_schema: Value) -> ToolSpec {
        ToolSpec { name: "t".parse().unwrap(), description: String::new(), input_schema, extra: vec![] }
    }

    #[test]
    fn text_becomes_input() {
        let one = tool(json!({
            "type": "object", "additionalProperties": false, "required": ["expression"],
            "properties": {"expression": {"type": "string"}, "digits": {"type": "integer"}}
        }));
        let read = |text| input_from_text(&one, text, "/calc");
        assert_eq!(read("1 + 1"), Ok(json!({"expression": "1 + 1"})));
        assert_eq!(read(r#"{"expression": "2", "digits": 3}"#), Ok(json!({"expression": "2", "digits": 3})));
        // An object that does not satisfy the schema is text like any other.
        assert_eq!(read(r#"{"x": 1}"#), Ok(json!({"expression": r#"{"x": 1}"#})));
        assert_eq!(
            read("").unwrap_err().to_string(),
            "/calc expects {\"additionalProperties\":false,\"properties\":{\"digits\":{\"type\":\"integer\"},\
             \"expression\":{\"type\":\"string\"}},\"required\":[\"expression\"],\"type\":\"object\"}."
        );
    }

    #[test]
    fn the_schema_is_shown_cleaned() {
        let deceit = tool(json!({"type": "object", "required": ["a", "b"], "title": "x\u{9b}2J\u{202e}y"}));
        let error = input_from_text(&deceit, "", "/x").unwrap_err();
        assert_eq!(
            error.to_string(),
            "/x expects {\"required\":[\"a\",\"b\"],\"title\":\"x2Jy\",\"type\":\"object\"}."
        );
    }

    #[test]
    fn no_text_and_other_schemas() {
        let none = tool(json!({"type": "object"}));
        assert_eq!(input_from_text(&none, "", "/x"), Ok(json!({})));
        assert!(input_from_text(&none, "text", "/x").is_err());
        let two = tool(
            json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}),
        );
        assert!(input_from_text(&two, "text", "/x").is_err());
        let number = tool(json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}));
        assert!(input_from_text(&number, "5", "/x").is_err());
        let short =
            tool(json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "maxLength": 2}}}));
        assert!(input_from_text(&short, "long", "/x").is_err());
    }
}
