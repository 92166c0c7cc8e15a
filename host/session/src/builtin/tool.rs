//! `/tool NAME [JSON]`: calls one tool by its full name, without a model.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Asker, Code, Outcome, text};
use patchbay_skill::Snapshot;
use patchbay_tools::{ResolvedTool, ToolError};
use serde_json::{Map, Value};

use super::{BuiltIn, CommandKind};
use crate::{invoke, line::context::LineContext};

/// Maximum number of tools that an error names.
const NAMED_TOOLS: usize = 20;

pub(super) static COMMAND: BuiltIn = BuiltIn {
    kind: CommandKind::Calls,
    needs_living_agent: true,
    takes_files: |_, argument| {
        // Attachments are only passed to skills, not to MCP servers.
        (!is_of_server(split(argument).0)).then_some(true)
    },
    ..BuiltIn::new(
        Spec {
            name: "tool",
            argument: Argument::Required {
                usage: "SKILL__TOOL [JSON]",
                what: "a tool's full name, such as calc__eval",
            },
            summary: "Call one tool by its full name, without a model",
            completion: Completion::Tools,
        },
        |line, argument| {
            let (name, json) = split(argument);
            Box::pin(async move { run(line, name, json).await.into() })
        },
    )
};

async fn run(line: &LineContext, name: &str, json: &str) -> Result<Outcome, Outcome> {
    let (session, snapshot, agent) = (&line.session, &line.state.snapshot, line.agent.id());
    let outside = match snapshot.tool(name) {
        Some((skill, _)) => {
            session.keep_files_for(skill, agent).await;
            session.outside_for(skill, agent, &line.client).await
        }
        // This also starts the MCP servers.
        None if is_of_server(name) => session.outside_for_turn(agent, &line.client).await,
        None => session.outside_now(&line.client).await,
    };
    let asker = Asker::Person(session.owner.clone());
    let tool =
        ResolvedTool::find(&asker, snapshot, &[], &outside, name).map_err(|error| not_found(snapshot, &error))?;
    let input = read_input(name, json).map_err(|problem| Outcome::error(Code::InvalidInput, problem))?;
    let typed = format!("/tool {name} {json}").trim_end().to_owned();
    Ok(invoke::call(line, tool, &input, outside.clone(), typed).await)
}

/// Splits the argument into the tool's name and its input.
fn split(argument: &str) -> (&str, &str) {
    let (name, json) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    (name, json.trim())
}

fn is_of_server(name: &str) -> bool {
    name.starts_with("mcp__")
}

/// Parses the input of the tool `name`. An empty input means `{}`.
fn read_input(name: &str, json: &str) -> Result<Value, String> {
    if json.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let wanted = r#"write a JSON object, such as {"name": "Ada"}"#;
    match serde_json::from_str(json) {
        Ok(object @ Value::Object(_)) => Ok(object),
        Ok(other) => Err(format!("input for '{name}' is {}: {wanted}.", kind(&other))),
        Err(error) => Err(format!("input for '{name}' is not JSON ({error}): {wanted}.")),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Returns the outcome of a call whose tool was not found. If the skill exists, the message lists its tools.
fn not_found(snapshot: &Snapshot, error: &ToolError) -> Outcome {
    let advice = match error {
        ToolError::NotFound(name) => advice(snapshot, name),
        _ => String::new(),
    };
    Outcome::error(error.code(), format_args!("{error}{advice}"))
}

fn advice(snapshot: &Snapshot, name: &str) -> String {
    if is_of_server(name) {
        return String::new();
    }
    let Some((skill, _)) = name.rsplit_once("__") else {
        return " A tool's full name is SKILL__TOOL or mcp__SERVER__TOOL.".to_owned();
    };
    let Some(skill) = snapshot.skill(skill) else {
        return format!(" There is no skill '{}' in it.", text::excerpt(skill, 80));
    };
    let mut names: Vec<String> =
        skill.tools.iter().take(NAMED_TOOLS).map(|tool| format!("{}__{}", skill.name, tool.name)).collect();
    if skill.tools.len() > NAMED_TOOLS {
        names.push(format!("{} more", skill.tools.len() - NAMED_TOOLS));
    }
    match &*names {
        [] => format!(" Skill '{}' has no tools.", skill.name),
        names => format!(" Tools of '{}': {}.", skill.name, names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn argument_splits_at_white_space() {
        assert_eq!(split("a__b"), ("a__b", ""));
        assert_eq!(split("a__b\t {\"x\": 1} "), ("a__b", "{\"x\": 1}"));
    }

    #[test]
    fn input_is_a_json_object_or_missing() {
        assert_eq!(read_input("a__b", ""), Ok(json!({})));
        assert_eq!(read_input("a__b", r#"{"x": [1]}"#), Ok(json!({"x": [1]})));
        let wanted = r#"write a JSON object, such as {"name": "Ada"}."#;
        assert_eq!(read_input("a__b", "[1]"), Err(format!("input for 'a__b' is an array: {wanted}")));
        let found = read_input("a__b", "Ada").unwrap_err();
        assert_eq!(found, format!("input for 'a__b' is not JSON (expected value at line 1 column 1): {wanted}"));
    }
}
