//! `/skill NAME [INPUT]`: invokes a skill by its name.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_skill::Snapshot;

use super::{BeginsTurn, BuiltIn, CommandKind, EffectFuture};
use crate::{invoke, line::context::LineContext};

pub(crate) struct SkillCommand;

static SPEC: Spec = Spec {
    name: "skill",
    argument: Argument::Required { usage: "NAME [INPUT]", what: "a skill name" },
    summary: "Invoke one skill, and no other",
    completion: Completion::Skills,
};

impl BuiltIn for SkillCommand {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn kind(&self) -> CommandKind {
        CommandKind::Calls
    }

    fn needs_living_agent(&self) -> bool {
        true
    }

    fn begins_turn(&self, snapshot: &Snapshot, argument: &str) -> BeginsTurn {
        let (name, input) = split(argument);
        invoke::begins_turn(snapshot, name, input)
    }

    fn takes_files(&self, snapshot: &Snapshot, argument: &str) -> Option<bool> {
        let (name, input) = split(argument);
        Some(invoke::takes_files(snapshot, name, input))
    }

    fn run<'a>(&'a self, line: &'a LineContext, argument: &'a str) -> EffectFuture<'a> {
        let (name, input) = split(argument);
        Box::pin(async move {
            let command = format!("/skill {name}");
            invoke::skill(line, name, input, &command).await
        })
    }
}

/// Splits the argument into the skill's name and its input.
fn split(argument: &str) -> (&str, &str) {
    let (name, input) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    (name, input.trim())
}
