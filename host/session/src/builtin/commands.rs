//! `/commands`: lists the available commands.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};
use serde_json::json;

use super::{BuiltIn, CommandKind};
use crate::commands::commands;

pub(super) static COMMAND: BuiltIn = BuiltIn {
    kind: CommandKind::Shows,
    ..BuiltIn::new(
        Spec {
            name: "commands",
            argument: Argument::None,
            summary: "List the commands that work now",
            completion: Completion::None,
        },
        |line, _| {
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
        },
    )
};
