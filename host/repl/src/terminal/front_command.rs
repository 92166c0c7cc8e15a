//! The terminal's own commands, such as `/show`, `/copy` and `/resume`. They never reach the session.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::Front;
use crate::NextSession;

/// The keys and the front's own commands, for `?`.
const HELP: &str = "\
Enter sends; Ctrl+J, Alt+Enter, Shift+Enter or \\ and Enter start a new line.
During a turn, Enter adds a message to it; Alt+Enter sends one after it.
Esc stops what is running; Ctrl+C clears the text, then stops it.
Ctrl+D on an empty line exits.
Esc twice lists your messages, so you can go back to one.
Ctrl+T shows the tasks.
/ lists commands, @ lists files; Tab completes.
Up and Down go through the history, Ctrl+R searches it.
Ctrl+Enter stops what is running and sends at once.
Shift+Tab switches to the next mode: ask, edits, plan.
Ctrl+G opens the text in $EDITOR, Ctrl+L redraws, Ctrl+Z suspends.
! before a command runs it at once; your next message includes its output.
/ps lists the programs in the background, /ps N prints the output
of one, /ps stop N stops it.
/show N prints a tool's result in full, /show N in prints its input,
/show thinking prints the thinking before the last answer.
/new begins another session here, /resume lists this workspace's sessions,
/resume ID continues one. The session that you leave is kept.
/copy copies the last answer, /copy N copies a result,
/copy code copies the last block of code.
/commands lists all other commands.";

/// The names of the terminal's own commands.
pub(crate) const NAMES: &[&str] = &["copy", "new", "ps", "resume", "show"];

/// Printed below the error of `/help` without an argument.
pub(crate) const HELP_HINT: &str = "? lists the keys, /commands the commands.";

/// Runs `line` if it is a command of the terminal. Returns whether the command succeeded; `None` for any other line.
pub(crate) fn run(front: &mut Front, line: &str) -> Option<bool> {
    let line = line.trim();
    let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match name {
        "?" if argument.is_empty() => {
            front.conversation.transcript.entered(line);
            front.conversation.transcript.prose(HELP);
            Some(true)
        }
        "/show" => {
            front.conversation.transcript.entered(line);
            let shown = front.conversation.transcript.results().show(argument).map(str::to_owned);
            match &shown {
                Ok(shown) => front.conversation.transcript.print(shown),
                Err(error) => front.conversation.transcript.prose(error),
            }
            Some(shown.is_ok())
        }
        "/ps" => {
            front.conversation.transcript.entered(line);
            let listed = front.own_programs.programs().list(argument);
            match &listed {
                Ok(listed) => front.conversation.transcript.print(listed),
                Err(error) => front.conversation.transcript.prose(error),
            }
            Some(listed.is_ok())
        }
        "/new" => {
            front.conversation.transcript.entered(line);
            match argument.trim() {
                "" => front.go_on_in(NextSession::New),
                _ => front.conversation.transcript.prose("Error: /new does not accept arguments."),
            }
            Some(argument.trim().is_empty())
        }
        "/resume" => {
            front.conversation.transcript.entered(line);
            match argument.trim() {
                "" => front.list_sessions(),
                id => front.go_on_in(NextSession::Resume(id.to_owned())),
            }
            Some(true)
        }
        "/copy" => {
            front.conversation.transcript.entered(line);
            let (sequence, message) = match front.conversation.transcript.copied(argument.trim()) {
                Ok(text) => {
                    let characters = text.chars().count();
                    let sequence = format!("\x1b]52;c;{}\x07", STANDARD.encode(text));
                    (Some(sequence), format!("Copied {characters} characters, if the terminal allows it (OSC 52)."))
                }
                Err(error) => (None, error),
            };
            front.conversation.transcript.prose(&message);
            let is_copied = sequence.is_some();
            sequence.into_iter().for_each(|sequence| front.window.copy(sequence));
            Some(is_copied)
        }
        _ => None,
    }
}
