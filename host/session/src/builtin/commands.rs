//! `/commands`: lists the available commands.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};
use serde_json::json;

use super::{BuiltIn, CommandKind, EffectFuture};
use crate::{commands::commands, line::context::LineContext};

pub(crate) struct CommandsCommand;

static SPEC: Spec = Spec {
    name: "commands",
    argument: Argument::None,
    summary: "List the commands that work now",
    completion: Completion::None,
};

impl BuiltIn for CommandsCommand {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn kind(&self) -> CommandKind {
        CommandKind::Shows
    }

    fn run<'a>(&'a self, line: &'a LineContext, _: &'a str) -> EffectFuture<'a> {
        Box::pin(async {
            let commands = commands(&line.state.snapshot);
            let lines: Vec<_> = commands
                .iter()
                .map(|command| match command.summary.as_str() {
                    "" => command.usage(),
                    summary => format!("{} - {summary}", command.usage()),
                })
                .collect();
            let data: Vec<_> = commands
                .iter()
                .map(|command| json!({"name": command.name, "summary": command.summary, "hint": command.hint}))
                .collect();
            Outcome::ok(Code::CommandsListed, lines.join("\n")).with_data(json!({"commands": data})).into()
        })
    }
}
