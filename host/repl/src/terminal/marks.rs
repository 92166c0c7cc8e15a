//! Sequences that tell the terminal about the conversation, and what is known of terminals.

use std::time::Duration;

/// A turn that took as long rings the bell if the window is not in front.
pub(crate) const LONG: Duration = Duration::from_secs(10);
pub(crate) const BELL: &str = "\x07";

/// Marks of a prompt and of the output behind it (OSC 133), by which terminals jump from prompt to prompt.
/// Source: <https://gitlab.freedesktop.org/Per_Bothner/specifications/blob/master/proposals/semantic-prompts.md>, 2026-11-22.
pub(crate) const PROMPT_START: &str = "\x1b]133;A\x07";
pub(crate) const PROMPT_END: &str = "\x1b]133;B\x07";
pub(crate) const OUTPUT_START: &str = "\x1b]133;C\x07";

/// Whether the terminal wraps lines again when it is resized. The Linux console and xterm do not.
pub(crate) fn rewraps() -> bool {
    std::env::var("TERM").is_ok_and(|term| term != "linux") && std::env::var_os("XTERM_VERSION").is_none()
}
