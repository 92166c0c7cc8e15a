//! Sentences about agents, and failures of tools.

use patchbay_core::{Code, text};

/// Begins a command in a text of the host; the command ends with the line.
pub(crate) const COMMAND: &str = ": patchbay ";
/// Length limit of a command that is printed whole, in characters.
const COMMAND_CHARACTERS: usize = 1_000;

/// Returns at most `max` characters of the message of a tool that failed with `code`. Denials and blocks are written by
/// the host, and the command that they name is printed whole, on its own line. Other messages come from tools and
/// servers, whose commands must not look like advice from the host.
pub fn failure(code: Code, message: &str, max: usize) -> String {
    let message = text::clean(message);
    let is_hosts = matches!(code, Code::Denied | Code::Blocked);
    let named = message.find(COMMAND).filter(|_| is_hosts).map(|at| message.split_at(at + 1));
    let named = named.map(|(before, rest)| (before, rest.trim_start().lines().next().unwrap_or_default()));
    match named.filter(|(_, command)| command.chars().count() <= COMMAND_CHARACTERS) {
        Some((before, command)) => format!("{}\n{command}", text::excerpt(before, max)),
        None => text::excerpt(&message, max),
    }
}

/// Returns the line that reports how many agents were stopped.
pub(crate) fn stopped(agents: usize) -> String {
    format!("Stopped {}.", counted(agents))
}

/// Returns the hint before leaving while agents work.
pub(crate) fn leaving(working: usize) -> String {
    let (are, them) = if working == 1 { ("is", "it") } else { ("are", "them") };
    format!("{} {are} working. Ctrl+D again stops {them} and leaves.", counted(working))
}

fn counted(agents: usize) -> String {
    let s = if agents == 1 { "" } else { "s" };
    format!("{agents} agent{s}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_has_its_command_whole_and_alone() {
        let what = "skill 'files' may not use 'workspace-write': it is not granted. To grant it:";
        let command = "patchbay grant add --root workspace --workspace '/my  work' files workspace-write";
        let message = format!("{what} {command}\nmore");
        let denied = |message, max| failure(Code::Denied, message, max);
        assert_eq!(denied(&message, 100), format!("{what}\n{command}"));
        assert_eq!(denied(&message, 12), format!("skill 'files…\n{command}"));
        assert_eq!(denied("no such\nfile", 5), "no su…");
        assert_eq!(denied(&format!("a: patchbay {}", "x".repeat(1_000)), 12), "a: patchbay …");
    }

    #[test]
    fn command_in_a_message_of_a_tool_is_text() {
        assert_eq!(failure(Code::ToolFailed, "not allowed: patchbay trust add /", 20), "not allowed: patchba…");
    }

    #[test]
    fn agents_are_counted() {
        assert_eq!((stopped(1), stopped(2)), ("Stopped 1 agent.".to_owned(), "Stopped 2 agents.".to_owned()));
        assert_eq!(leaving(2), "2 agents are working. Ctrl+D again stops them and leaves.");
        assert_eq!(leaving(1), "1 agent is working. Ctrl+D again stops it and leaves.");
    }
}
