//! SGR sequences of the terminal front. Only attributes and the terminal's own 16 colours are used, and the text that the
//! user types has no colour.

use super::diff::DiffLine;

/// Faint text: everything that is not an answer.
pub(crate) const FAINT: &str = "\x1b[2m";
/// Bold text.
pub(crate) const BOLD: &str = "\x1b[1m";
/// Lines of a diff: red and green of the terminal.
const REMOVED: &str = "\x1b[31m";
const ADDED: &str = "\x1b[32m";
/// Reverse video: the chosen row of a menu.
pub(crate) const REVERSE: &str = "\x1b[7m";

/// Returns `text` between `on` and the reset sequence.
pub(crate) fn styled(on: &str, text: &str) -> String {
    format!("{on}{text}\x1b[0m")
}

/// Returns whether colours are left out: `NO_COLOR` is set to a value (<https://no-color.org>, read 2026-11-22).
pub(crate) fn is_colourless() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Returns a line of a diff with its sign.
pub(crate) fn diff_line(line: &DiffLine) -> String {
    let (colour, shown) = match line {
        DiffLine::Added(line) => (ADDED, format!("+ {line}")),
        DiffLine::Removed(line) => (REMOVED, format!("- {line}")),
        DiffLine::More(count) => return faint(&format!("… {count} more lines")),
    };
    if is_colourless() { shown } else { styled(colour, &shown) }
}

/// Returns `text` in faint style.
pub(crate) fn faint(text: &str) -> String {
    styled(FAINT, text)
}
