//! Escape sequences that tell the terminal about the conversation, and known properties of terminals.

use std::time::{Duration, Instant};

use patchbay_core::text;

/// A turn that took at least this long rings the bell if the window does not have the focus.
pub(crate) const LONG: Duration = Duration::from_secs(10);
pub(crate) const BELL: &str = "\x07";
/// Length limit of a notification, in characters.
const NOTIFIED: usize = 120;

/// Returns the sequence that shows `what`, cleaned, as a desktop notification (OSC 9). Terminals without notifications ignore it.
/// It ends with ST, as `PROGRESS_ON` does. Source: <https://iterm2.com/documentation-escape-codes.html>, 2026-11-23.
pub(crate) fn notification(what: &str) -> String {
    format!("\x1b]9;Patchbay: {}\x1b\\", text::excerpt(what, NOTIFIED))
}

/// Saves the window's title, and restores it (XTWINOPS). Terminals without these sequences ignore them.
/// Source: <https://invisible-island.net/xterm/ctlseqs/ctlseqs.html>, 2026-11-23.
pub(crate) const TITLE_SAVE: &str = "\x1b[22;2t";
pub(crate) const TITLE_RESTORE: &str = "\x1b[23;2t";
/// Length limit of the folder in the title, in characters.
const TITLE_FOLDER: usize = 40;

/// The mark before the folder in the window's title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TitleMark {
    Idle,
    Busy,
    /// A question waits for an answer.
    Asking,
}

/// The title of the window (OSC 2): the folder of the workspace, with a mark while anything runs or a question waits.
#[derive(Debug)]
pub(crate) struct WindowTitle {
    folder: String,
    /// The current title, or `None` if it is not set yet.
    shown: Option<TitleMark>,
}

impl WindowTitle {
    pub(crate) fn new(workspace: &str) -> Self {
        let folder = workspace.rsplit('/').find(|part| !part.is_empty()).unwrap_or("/");
        Self { folder: text::excerpt(folder, TITLE_FOLDER), shown: None }
    }

    /// Returns the sequence that sets the title; `None` if the window has it already.
    pub(crate) fn update(&mut self, mark: TitleMark) -> Option<String> {
        if self.shown == Some(mark) {
            return None;
        }
        self.shown = Some(mark);
        let mark = match mark {
            TitleMark::Idle => "",
            TitleMark::Busy => "* ",
            TitleMark::Asking => "? ",
        };
        Some(format!("\x1b]2;{mark}{} - Patchbay\x1b\\", self.folder))
    }

    /// Makes the next update set the title again, because another program has used the terminal.
    pub(crate) fn forget(&mut self) {
        self.shown = None;
    }
}

/// Marks of a prompt and of the output after it (OSC 133), which let terminals jump from prompt to prompt.
/// Source: <https://gitlab.freedesktop.org/Per_Bothner/specifications/blob/master/proposals/semantic-prompts.md>, 2026-11-22.
pub(crate) const PROMPT_START: &str = "\x1b]133;A\x07";
pub(crate) const PROMPT_END: &str = "\x1b]133;B\x07";
pub(crate) const OUTPUT_START: &str = "\x1b]133;C\x07";

/// Returns the mark of the end of an output, with an exit status as a shell would report it.
pub(crate) fn output_end(is_ok: bool) -> &'static str {
    if is_ok { "\x1b]133;D;0\x07" } else { "\x1b]133;D;1\x07" }
}

/// Whether the terminal rewraps lines when it is resized. The Linux console and xterm do not.
pub(crate) fn rewraps() -> bool {
    std::env::var("TERM").is_ok_and(|term| term != "linux") && std::env::var_os("XTERM_VERSION").is_none()
}

/// The progress sign of the terminal's tab or task bar (OSC 9;4): busy without a percentage, and off. The sequences end with ST,
/// because some VTE terminals do not accept BEL here.
/// Source: <https://conemu.github.io/en/AnsiEscapeCodes.html#ConEmu_specific_OSC>, 2026-11-23.
const PROGRESS_ON: &str = "\x1b]9;4;3\x1b\\";
const PROGRESS_OFF: &str = "\x1b]9;4;0\x1b\\";
/// How often the terminal's progress sign is sent again, because ghostty removes a sign that is older than 15 seconds.
const PROGRESS_AGAIN: Duration = Duration::from_secs(5);

/// The progress sign, for terminals that are known to have one. Others may show the sequence as a notification.
#[derive(Debug)]
pub(crate) struct ProgressSign {
    is_known: bool,
    /// When the sign was last turned on; `None` while it is off.
    shown: Option<Instant>,
}

impl ProgressSign {
    pub(crate) fn new() -> Self {
        Self { is_known: has_progress(), shown: None }
    }

    /// Returns the sequence that shows whether anything runs; `None` if the terminal shows it already.
    pub(crate) fn update(&mut self, is_busy: bool, now: Instant) -> Option<&'static str> {
        if !self.is_known {
            return None;
        }
        match (is_busy, self.shown) {
            (true, Some(shown)) if now.saturating_duration_since(shown) < PROGRESS_AGAIN => None,
            (true, _) => {
                self.shown = Some(now);
                Some(PROGRESS_ON)
            }
            (false, None) => None,
            (false, Some(_)) => {
                self.shown = None;
                Some(PROGRESS_OFF)
            }
        }
    }
}

/// Returns the sequence that turns the sign off when the front leaves the terminal; empty if the terminal has no sign.
pub(crate) fn progress_off() -> &'static str {
    if has_progress() { PROGRESS_OFF } else { "" }
}

fn has_progress() -> bool {
    knows_progress(|name| std::env::var(name).unwrap_or_default())
}

/// Whether the terminal that these environment variables describe shows progress. A multiplexer does not pass it on.
fn knows_progress(variable: impl Fn(&str) -> String) -> bool {
    let term = variable("TERM");
    if term.starts_with("screen") || term.starts_with("tmux") || term == "linux" {
        return false;
    }
    let known = match variable("TERM_PROGRAM").as_str() {
        "ghostty" | "WezTerm" => true,
        "iTerm.app" => version(&variable("TERM_PROGRAM_VERSION")) >= [3, 6, 6],
        _ => term == "xterm-ghostty",
    };
    known
        || variable("ConEmuANSI") == "ON"
        || !variable("WT_SESSION").is_empty()
        || variable("VTE_VERSION").parse::<u32>().is_ok_and(|version| version >= 7_900)
}

/// Returns major, minor and patch of a version such as `3.6.6` or `3.6.7beta1`. A part without a number counts as 0.
fn version(text: &str) -> [u32; 3] {
    let mut parts = text.split('.').map(|part| {
        let end = part.find(|character: char| !character.is_ascii_digit()).unwrap_or(part.len());
        part[..end].parse().unwrap_or(0)
    });
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knows(variables: &[(&str, &str)]) -> bool {
        knows_progress(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()).unwrap_or_default()
        })
    }

    #[test]
    fn progress_is_shown_where_it_is_known() {
        for variables in [
            &[("ConEmuANSI", "ON")][..],
            &[("WT_SESSION", "0a1b")],
            &[("TERM_PROGRAM", "ghostty")],
            &[("TERM", "xterm-ghostty")],
            &[("TERM_PROGRAM", "WezTerm")],
            &[("VTE_VERSION", "7900")],
            &[("VTE_VERSION", "8003")],
            &[("TERM_PROGRAM", "iTerm.app"), ("TERM_PROGRAM_VERSION", "3.6.6")],
            &[("TERM_PROGRAM", "iTerm.app"), ("TERM_PROGRAM_VERSION", "3.10.0beta2")],
        ] {
            assert!(knows(variables), "{variables:?}");
        }
        for variables in [
            &[][..],
            &[("TERM", "xterm-256color")],
            &[("ConEmuANSI", "OFF")],
            &[("VTE_VERSION", "7802")],
            &[("VTE_VERSION", "new")],
            &[("TERM_PROGRAM", "iTerm.app"), ("TERM_PROGRAM_VERSION", "3.6.5")],
            &[("TERM_PROGRAM", "iTerm.app")],
            &[("TERM_PROGRAM", "Apple_Terminal")],
            &[("TERM", "tmux-256color"), ("WT_SESSION", "0a1b")],
            &[("TERM", "screen-256color"), ("VTE_VERSION", "8003")],
        ] {
            assert!(!knows(variables), "{variables:?}");
        }
    }

    #[test]
    fn title_names_the_folder_and_marks_work() {
        let mut title = WindowTitle::new("/home/me/a\x1b]2;b\x07/");
        let idle = "\x1b]2;a]2;b - Patchbay\x1b\\".to_owned();
        assert_eq!([title.update(TitleMark::Idle), title.update(TitleMark::Idle)], [Some(idle), None]);
        assert_eq!(title.update(TitleMark::Busy).as_deref(), Some("\x1b]2;* a]2;b - Patchbay\x1b\\"));
        assert!(title.update(TitleMark::Asking).is_some_and(|title| title.contains("2;? a")));
        assert_eq!(WindowTitle::new("/").update(TitleMark::Idle).as_deref(), Some("\x1b]2;/ - Patchbay\x1b\\"));
    }

    #[test]
    fn progress_is_repeated_while_busy_and_turned_off_once() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut progress = ProgressSign { is_known: true, shown: None };
        let busy = [(false, 0), (true, 1), (true, 2), (true, 6), (true, 7), (false, 8), (false, 9)];
        let written = busy.map(|(is_busy, seconds)| progress.update(is_busy, at(seconds)));
        assert_eq!(written, [None, Some(PROGRESS_ON), None, Some(PROGRESS_ON), None, Some(PROGRESS_OFF), None]);
        let mut unknown = ProgressSign { is_known: false, shown: None };
        assert_eq!(unknown.update(true, start), None);
    }
}
