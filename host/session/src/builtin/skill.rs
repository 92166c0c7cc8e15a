//! `/skill NAME [INPUT]`: invokes a skill by its name.

use patchbay_command::{Argument, Completion, Spec};

use super::{BuiltIn, CommandKind};
use crate::invoke;

pub(super) static COMMAND: BuiltIn = BuiltIn {
    kind: CommandKind::Calls,
    needs_living_agent: true,
    begins_turn: |snapshot, argument| {
        let (name, input) = split(argument);
        invoke::begins_turn(snapshot, name, input)
    },
    takes_files: |snapshot, argument| {
        let (name, input) = split(argument);
        Some(invoke::takes_files(snapshot, name, input))
    },
    ..BuiltIn::new(
        Spec {
            name: "skill",
            argument: Argument::Required { usage: "NAME [INPUT]", what: "a skill name" },
            summary: "Invoke one skill, and no other",
            completion: Completion::Skills,
        },
        |line, argument| {
            let (name, input) = split(argument);
            Box::pin(async move {
                let command = format!("/skill {name}");
                invoke::skill(line, name, input, &command).await
            })
        },
    )
};

/// Splits the argument into the skill's name and its input.
fn split(argument: &str) -> (&str, &str) {
    let (name, input) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    (name, input.trim())
}
