//! The input of `terminal__run`, the tool with which a front offers to run programs: its fields, its text in a question, and its
//! schema. Editors run the programs themselves; the terminal runs them in its cage.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{command_line, input_json};

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TerminalCommand {
    /// The program.
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// The folder that it runs in, relative to the workspace. `None` means the workspace itself.
    pub cwd: Option<String>,
    /// Additional environment variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Time limit in seconds. `None` means [`TerminalCommand::SECONDS`].
    pub seconds: Option<u64>,
    /// Whether the call returns while the program runs. Like the fields below, only available in the terminal.
    #[serde(default)]
    pub background: bool,
    /// Whether it needs the network.
    #[serde(default)]
    pub network: bool,
    /// Further files and folders that it reads.
    #[serde(default)]
    pub read: Vec<String>,
    /// Further folders that it changes.
    #[serde(default)]
    pub write: Vec<String>,
}

impl TerminalCommand {
    /// The full name of the tool.
    pub const TOOL: &str = "terminal__run";
    /// Time limit in seconds of a program that does not set one.
    pub const SECONDS: u64 = 120;
    /// The highest time limit in seconds.
    pub const MOST_SECONDS: u64 = 600;

    /// Reads the input of a call.
    ///
    /// # Errors
    /// Why it does not satisfy the schema.
    pub fn read(input: &Value) -> Result<Self, String> {
        Self::deserialize(input).map_err(|error| format!("the input cannot be read: {error}"))
    }

    /// Returns the time limit in seconds.
    pub fn limit(&self) -> u64 {
        self.seconds.unwrap_or(Self::SECONDS).clamp(1, Self::MOST_SECONDS)
    }

    /// Whether it asks for more than programs have by default.
    pub fn widens(&self) -> bool {
        self.network || !self.read.is_empty() || !self.write.is_empty()
    }

    /// Returns the program with its arguments as a shell would read them.
    pub fn line(&self) -> String {
        command_line(std::iter::once(&self.command).chain(&self.args).map(String::as_str))
    }

    /// Returns an input as a question shows it: the command line, then the other fields as JSON.
    pub fn in_question(input: &Value) -> String {
        let Ok(command) = Self::deserialize(input) else { return input_json(input) };
        let mut others = input.as_object().cloned().unwrap_or_default();
        others.retain(|field, _| field != "command" && field != "args");
        match others.is_empty() {
            true => command.line(),
            false => format!("{} {}", command.line(), input_json(&Value::Object(others))),
        }
    }

    /// Returns the JSON Schema of the input. With `in_cage`, it includes the fields for the terminal.
    pub fn schema(in_cage: bool) -> Value {
        let text =
            |most: u32, description: &str| json!({"type": "string", "maxLength": most, "description": description});
        let mut schema = json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "The program."},
                "args": {
                    "type": "array", "maxItems": 256, "items": {"type": "string", "maxLength": 65536},
                    "description": "Its arguments.",
                },
                "cwd": text(4096, "The folder to run it in, relative to the workspace; by default the workspace."),
                "env": {
                    "type": "object", "maxProperties": 64, "additionalProperties": {"type": "string", "maxLength": 65536},
                    "description": "Additional environment variables.",
                },
                "seconds": {
                    "type": "integer", "minimum": 1, "maximum": Self::MOST_SECONDS,
                    "description": format!("Time after which it is killed; by default {}.", Self::SECONDS),
                },
            },
            "required": ["command"],
            "additionalProperties": false,
        });
        if in_cage {
            let paths = |description: &str| {
                let path = json!({"type": "string", "minLength": 1, "maxLength": 4096});
                json!({"type": "array", "maxItems": 16, "items": path, "description": description})
            };
            let more = [
                (
                    "background",
                    json!({"type": "boolean", "description": "Return at once; the output is read later by its id."}),
                ),
                ("network", json!({"type": "boolean", "description": "Let it use the network."})),
                ("read", paths("Files and folders outside of the workspace that it must read.")),
                ("write", paths("Folders outside of the workspace that it must change.")),
            ];
            if let Some(properties) = schema["properties"].as_object_mut() {
                properties.extend(more.map(|(name, schema)| (name.to_owned(), schema)));
            }
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_begins_with_the_command_line() {
        let input = json!({"args": ["-c", "# Tests\ncurl x | sh"], "command": "sh"});
        assert_eq!(TerminalCommand::in_question(&input), r"sh -c $'# Tests\ncurl x | sh'");
        let input = json!({"args": ["{}", "a b"], "command": "make", "cwd": "src", "env": {"A": "1"}});
        assert_eq!(TerminalCommand::in_question(&input), r#"make '{}' 'a b' {"cwd":"src","env":{"A":"1"}}"#);
        let input = json!({"command": "rm", "args": ["My  Files"], "cwd": "a  b"});
        assert_eq!(TerminalCommand::in_question(&input), r#"rm $'My \x20Files' {"cwd":"a \u0020b"}"#);
    }

    /// A shell reads the text of the question as exactly the arguments that the program receives.
    #[test]
    fn question_shows_what_runs_byte_for_byte() {
        let long = "x".repeat(16_000);
        for args in [
            vec![
                "a\u{202e}b",
                "\u{200b}",
                "\u{feff}é€",
                "tab\there",
                "new\nline",
                "\u{7f}",
                "\u{1b}[2J",
                "'",
                "$'x'",
                "\\",
                "*",
            ],
            vec!["  two  blanks ", "", "$(id)", "`id`", "a;b", "!x", "#", "~", "\u{a0}", "\u{e0001}"],
            vec![&long],
        ] {
            let all = [&["%s\\0"][..], &args].concat();
            let shown = TerminalCommand::in_question(&json!({"command": "/usr/bin/printf", "args": all}));
            assert_eq!(patchbay_core::text::clean_line(&shown), shown, "the host shows it as it is");
            // bash writes the number of a character differently.
            let mut parts = shown.split(r"\u{");
            let first = parts.next().unwrap_or_default().to_owned();
            let words = parts.fold(first, |words, part| {
                let (number, rest) = part.split_once('}').unwrap();
                format!(r"{words}\U{number:0>8}{rest}")
            });
            let ran =
                std::process::Command::new("bash").env("LC_ALL", "C.UTF-8").args(["-c", &words]).output().unwrap();
            let printed = String::from_utf8(ran.stdout).unwrap();
            assert_eq!(printed, args.iter().map(|argument| format!("{argument}\0")).collect::<String>(), "{shown}");
        }
    }
}
