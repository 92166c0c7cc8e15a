//! Turns the text after a command into the input of its tool. Called by `session`.

use patchbay_core::{
    Code, Outcome, ToolSpec,
    text::{clean_line, excerpt},
};
use patchbay_schema::{PatternBudget, Schema};
use serde_json::{Map, Value, json};

/// Why the text of a command is not a valid input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The text is empty, and the skill declares a hint.
    #[error("{command} requires {hint}.")]
    Required {
        /// The command as typed, such as `/web`.
        command: String,
        /// The skill's `input_hint`.
        hint: String,
        /// The tool's input schema, to show in the error.
        schema: Value,
    },
    /// The text is a JSON object that violates the schema.
    #[error("input for {command} is invalid: {problem}.")]
    Invalid {
        /// The command as the user typed it.
        command: String,
        /// The first violation and its position.
        problem: String,
        /// The tool's input schema, to show in the error.
        schema: Value,
    },
    /// The text cannot become an input.
    #[error("{command} expects {}{}.", clean_line(&.schema.to_string()), advice(.schema))]
    Expected {
        /// The command as the user typed it.
        command: String,
        /// The tool's input schema, to show in the error.
        schema: Value,
    },
    /// The tool's schema is not supported; possible in a snapshot of an older build.
    #[error("{0}")]
    Schema(String),
}

impl From<InputError> for Outcome {
    fn from(error: InputError) -> Self {
        match &error {
            InputError::Schema(_) => Outcome::error(Code::InvalidComponent, error),
            InputError::Required { schema, .. }
            | InputError::Invalid { schema, .. }
            | InputError::Expected { schema, .. } => {
                let data = json!({"schema": schema});
                Outcome::error(Code::InvalidInput, error).with_data(data)
            }
        }
    }
}

/// Returns the input for `tool` from `text`, typed after `command`: a JSON object is used as it is; other text becomes
/// the one required string of the schema, if the schema requires nothing else; an empty text becomes `{}`. The input
/// satisfies the schema. `hint` is the skill's `input_hint`.
///
/// # Errors
/// [`InputError`], with the schema.
pub fn input_from_text(tool: &ToolSpec, text: &str, command: &str, hint: Option<&str>) -> Result<Value, InputError> {
    let schema = Schema::compile(&tool.input_schema, &mut PatternBudget::default())
        .map_err(|error| InputError::Schema(error.of_tool(tool.name.as_str())))?;
    let owned = || (command.to_owned(), tool.input_schema.clone());
    let expected = || {
        let (command, schema) = owned();
        InputError::Expected { command, schema }
    };
    if text.is_empty() {
        let empty = Value::Object(Map::new());
        return schema.check(&empty).map(|()| empty).map_err(|_| match hint.map(clean_line) {
            Some(hint) if !hint.is_empty() => {
                let (command, schema) = owned();
                InputError::Required { command, hint: hint.trim_end_matches('.').to_owned(), schema }
            }
            _ => expected(),
        });
    }
    if let Ok(object @ Value::Object(_)) = serde_json::from_str::<Value>(text) {
        return schema.check(&object).map(|()| object).map_err(|error| {
            let (command, schema) = owned();
            InputError::Invalid { command, problem: error.to_string(), schema }
        });
    }
    let property = only_required_string(&tool.input_schema).ok_or_else(expected)?;
    let input = Value::Object(Map::from_iter([(property.to_owned(), Value::from(text))]));
    schema.check(&input).map(|()| input).map_err(|error| {
        let (command, schema) = owned();
        InputError::Invalid { command, problem: error.to_string(), schema }
    })
}

/// Returns how to write an input that satisfies `schema`; empty if text can be one.
fn advice(schema: &Value) -> String {
    if only_required_string(schema).is_some() {
        return String::new();
    }
    let text = "Other text works only for a tool that requires one string and nothing else";
    match only_string(schema) {
        Some(name) => {
            let name = excerpt(name, 40);
            let example = json!({ &*name: "…" });
            format!(": write a JSON object, such as {example}. {text}, and '{name}' is optional here")
        }
        None => format!(": write a JSON object. {text}"),
    }
}

fn only_required_string(schema: &Value) -> Option<&str> {
    let [Value::String(property)] = &schema.get("required")?.as_array()?[..] else { return None };
    let is_string = schema.get("properties")?.get(property)?.get("type")? == "string";
    is_string.then_some(property)
}

/// Returns the property of a schema with one optional property, a string.
fn only_string(schema: &Value) -> Option<&str> {
    let requires_none = schema.get("required").is_none_or(|required| *required == json!([]));
    let mut properties = schema.get("properties")?.as_object()?.iter();
    let (Some((name, property)), None) = (properties.next(), properties.next()) else { return None };
    (requires_none && property.get("type")? == "string").then_some(name)
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
        let read = |text| input_from_text(&one, text, "/calc", None);
        assert_eq!(read("1 + 1"), Ok(json!({"expression": "1 + 1"})));
        assert_eq!(read(r#"{"expression": "2", "digits": 3}"#), Ok(json!({"expression": "2", "digits": 3})));
        // An object that violates the schema is an error, not text; text that is not a JSON object is text.
        let error = read(r#"{"expression": 1}"#).unwrap_err();
        assert_eq!(error.to_string(), r#"input for /calc is invalid: at /expression: 1 is not of type "string"."#);
        assert_eq!(read(r#"{"x": 1"#), Ok(json!({"expression": r#"{"x": 1"#})));
        assert_eq!(read("[1]"), Ok(json!({"expression": "[1]"})));
        assert_eq!(
            read("").unwrap_err().to_string(),
            "/calc expects {\"additionalProperties\":false,\"properties\":{\"digits\":{\"type\":\"integer\"},\
             \"expression\":{\"type\":\"string\"}},\"required\":[\"expression\"],\"type\":\"object\"}."
        );
    }

    #[test]
    fn missing_text_error_contains_the_hint() {
        let web = tool(json!({"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}}}));
        let outcome = |hint| Outcome::from(input_from_text(&web, "", "/web", hint).unwrap_err());
        let schema = json!({"schema": web.input_schema});
        for (hint, message) in [
            (Some("URL"), "Error: /web requires URL."),
            (Some(" an\u{1b}\naddress. "), "Error: /web requires an address."),
            (
                Some(" "),
                "Error: /web expects {\"properties\":{\"url\":{\"type\":\"string\"}},\"required\":[\"url\"],\"type\":\"object\"}.",
            ),
        ] {
            let outcome = outcome(hint);
            assert_eq!((outcome.code, &*outcome.line()), (Code::InvalidInput, message));
            assert_eq!(outcome.data, Some(schema.clone().into()));
        }
        assert_eq!(input_from_text(&web, "x", "/web", Some("URL")), Ok(json!({"url": "x"})));
    }

    #[test]
    fn rejected_schema_is_an_invalid_component() {
        let refused = tool(json!({"type": "object", "$ref": "#/x"}));
        let error = input_from_text(&refused, "", "/x", None).unwrap_err();
        assert_eq!(Outcome::from(error).code, Code::InvalidComponent);
    }

    #[test]
    fn schema_is_shown_cleaned() {
        let deceit = tool(json!({"type": "object", "required": ["a", "b"], "title": "x\u{9b}2J\u{202e}y"}));
        let error = input_from_text(&deceit, "", "/x", None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "/x expects {\"required\":[\"a\",\"b\"],\"title\":\"x2Jy\",\"type\":\"object\"}: write a JSON object. Other text works \
             only for a tool that requires one string and nothing else."
        );
    }

    #[test]
    fn empty_text_with_other_schemas() {
        let none = tool(json!({"type": "object"}));
        assert_eq!(input_from_text(&none, "", "/x", None), Ok(json!({})));
        assert!(input_from_text(&none, "text", "/x", None).is_err());
        let two = tool(
            json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}),
        );
        assert!(input_from_text(&two, "text", "/x", None).is_err());
        let number = tool(json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}));
        assert!(input_from_text(&number, "5", "/x", None).is_err());
        let short =
            tool(json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "maxLength": 2}}}));
        let error = input_from_text(&short, "long", "/x", None).unwrap_err().to_string();
        assert_eq!(error, "input for /x is invalid: at /a: \"long\" is longer than 2 characters.");
        let optional = tool(json!({"type": "object", "properties": {"name": {"type": "string"}}}));
        let error = input_from_text(&optional, "Ada", "/m", None).unwrap_err().to_string();
        let advice = "write a JSON object, such as {\"name\":\"…\"}. Other text works only for a tool that requires one string and nothing \
                      else, and 'name' is optional here.";
        assert!(error.ends_with(&format!(": {advice}")), "{error}");
    }
}
