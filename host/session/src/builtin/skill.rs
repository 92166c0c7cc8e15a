//! `/skill NAME [INPUT]`: invokes a skill by its name.

use patchbay_command::{Argument, Completion, Spec};

use super::{BuiltIn, EffectFuture};
use crate::{invoke, lines::LineContext};

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

    fn run<'a>(&'a self, line: &'a LineContext, argument: &'a str) -> EffectFuture<'a> {
        let (name, input) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
        Box::pin(async move {
            let command = format!("/skill {name}");
            invoke::skill(line, name, input.trim(), &command).await
        })
    }
}
