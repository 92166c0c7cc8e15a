//! The list of commands that the client offers to the user. `task` sends it after the response that opens the session, and again
//! whenever it changes.

use patchbay_session::{CommandInfo, Session};
use serde_json::{Value, json};

/// Commands that only make sense in a terminal.
const OF_TERMINALS: [&str; 1] = ["quit"];

/// The list that was sent last.
#[derive(Default)]
pub(super) struct SentCommands {
    /// The version of the snapshot that the list was made from.
    version: Option<u64>,
    list: Option<Vec<CommandInfo>>,
}

impl SentCommands {
    /// Returns the update with the whole list, if it differs from the one that was sent last.
    pub(super) fn update(&mut self, session: &Session) -> Option<Value> {
        let version = session.snapshot().version();
        if self.version == Some(version) {
            return None;
        }
        self.version = Some(version);
        self.changed(session.commands())
    }

    /// Forgets the list that was sent, because the client has opened the session again.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    fn changed(&mut self, mut commands: Vec<CommandInfo>) -> Option<Value> {
        commands.retain(|command| !OF_TERMINALS.contains(&&*command.name));
        if self.list.as_ref() == Some(&commands) {
            return None;
        }
        let list: Vec<Value> = commands.iter().map(command).collect();
        self.list = Some(commands);
        Some(json!({"sessionUpdate": "available_commands_update", "availableCommands": list}))
    }
}

/// Returns an entry of the list. If it has an `input`, the client waits for the user to type it; otherwise, the client runs the
/// command immediately.
fn command(CommandInfo { name, summary, hint }: &CommandInfo) -> Value {
    let description = if summary.trim().is_empty() { "A command of a skill" } else { summary };
    let mut command = json!({"name": name, "description": description});
    if let Some(hint) = hint {
        command["input"] = json!({ "hint": hint });
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str, summary: &str, hint: Option<&str>) -> CommandInfo {
        CommandInfo { name: name.to_owned(), summary: summary.to_owned(), hint: hint.map(str::to_owned) }
    }

    #[test]
    fn list_is_sent_when_it_changed_also_when_it_is_empty() {
        let mut sent = SentCommands::default();
        let empty = json!({"sessionUpdate": "available_commands_update", "availableCommands": []});
        assert_eq!(sent.changed(Vec::new()), Some(empty.clone()));
        assert_eq!(sent.changed(Vec::new()), None);
        let list = || vec![info("calc", "Exact arithmetic", Some("EXPRESSION")), info("quit", "Leave", None)];
        let expected = json!({"sessionUpdate": "available_commands_update", "availableCommands": [
            {"name": "calc", "description": "Exact arithmetic", "input": {"hint": "EXPRESSION"}},
        ]});
        assert_eq!(sent.changed(list()), Some(expected));
        assert_eq!(sent.changed(list()), None);
        assert_eq!(sent.changed(vec![info("quit", "Leave", None)]), Some(empty));
        sent.reset();
        assert!(sent.changed(Vec::new()).is_some());
    }

    #[test]
    fn every_command_has_a_description() {
        assert_eq!(command(&info("x", " ", None)), json!({"name": "x", "description": "A command of a skill"}));
    }
}
