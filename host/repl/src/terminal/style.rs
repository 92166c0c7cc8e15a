//! SGR sequences of the terminal front. Only attributes and the terminal's own 16 colours are used, and the text that the
//! user types has no colour.

/// Faint text: everything that is not an answer.
pub(crate) const FAINT: &str = "\x1b[2m";
/// Bold text.
pub(crate) const BOLD: &str = "\x1b[1m";
/// Reverse video: the chosen row of a menu.
pub(crate) const REVERSE: &str = "\x1b[7m";

/// Returns `text` between `on` and the reset sequence.
pub(crate) fn styled(on: &str, text: &str) -> String {
    format!("{on}{text}\x1b[0m")
}

/// Returns `text` in faint style.
pub(crate) fn faint(text: &str) -> String {
    styled(FAINT, text)
}
