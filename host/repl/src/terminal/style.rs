//! SGR sequences of the terminal front, and how its texts look. Only attributes and the terminal's own 16 colours are used, and
//! the text that the user types has no colour.

use patchbay_markdown::{Palette, WrapMode};

use crate::settings::{ColourUse, ProseWrap, TerminalSettings, ThinkingDisplay};

/// Faint text: everything that is not an answer.
pub(crate) const FAINT: &str = "\x1b[2m";
pub(crate) const BOLD: &str = "\x1b[1m";
/// Lines of a diff: the terminal's red and green.
pub(crate) const REMOVED: &str = "\x1b[31m";
pub(crate) const ADDED: &str = "\x1b[32m";
/// Reverse video: the chosen row of a menu.
pub(crate) const REVERSE: &str = "\x1b[7m";

/// Returns `text` between `on` and the reset sequence.
pub(crate) fn styled(on: &str, text: &str) -> String {
    format!("{on}{text}\x1b[0m")
}

/// How texts look, according to `[terminal]` of `config.toml` and the environment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    pub(crate) wrap: WrapMode,
    pub(crate) palette: Palette,
    pub(crate) thinking: ThinkingDisplay,
}

impl Look {
    /// Colours are also left out if `NO_COLOR` is set to a value (<https://no-color.org>, read 2026-11-22).
    pub(crate) fn new(settings: &TerminalSettings) -> Self {
        let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            wrap: match settings.wrap {
                ProseWrap::Words => WrapMode::Words,
                ProseWrap::Terminal => WrapMode::Terminal,
            },
            palette: match settings.colour {
                ColourUse::Auto if !is_refused => Palette::Colour,
                ColourUse::Auto | ColourUse::Never => Palette::NoColour,
            },
            thinking: settings.thinking,
        }
    }
}

/// Returns a line about a failure. Its mark is red, and the rest is not faint, so it is as legible as an answer.
pub(crate) fn failure(line: &str, palette: Palette) -> String {
    match line.strip_prefix('✗') {
        Some(rest) if palette != Palette::NoColour => format!("{}{rest}", styled(REMOVED, "✗")),
        _ => line.to_owned(),
    }
}

/// Returns `text` in faint style.
pub(crate) fn faint(text: &str) -> String {
    styled(FAINT, text)
}
