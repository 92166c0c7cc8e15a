//! `[terminal]` of `config.toml`. The binary reads it and passes it in [`Options`](crate::Options).

use patchbay_cage::CageSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The display settings of the terminal: `[terminal]` in `config.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TerminalSettings {
    /// How the prose of answers is wrapped: `words` wraps between words, at the width that the window has when the text is printed;
    /// `terminal` leaves wrapping to the terminal, which also rewraps the text when the window is resized. Code is never wrapped.
    pub wrap: ProseWrap,
    /// Whether to use colours: `auto` uses them unless `NO_COLOR` is set. Bold and faint text are always used.
    pub colour: ColourUse,
    /// How much of a model's thinking is shown: `fold` shows the last rows while it thinks, then one line; `show` shows all of it;
    /// `hide` shows nothing. `/show thinking` always prints the most recent thinking.
    pub thinking: ThinkingDisplay,
    /// Whether to read and print plain lines, as with `--plain`.
    pub plain: bool,
    /// Whether models can run programs with `terminal__run`: `ask` asks you unless you have allowed the command, `off` never allows it. See
    /// [running.md](running.md).
    pub run: ProgramUse,
    /// What programs that models run may use besides the workspace: [running.md](running.md#what-programs-may-use).
    pub cage: CageSettings,
}

/// Whether models can run programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProgramUse {
    /// After a question for each program.
    #[default]
    Ask,
    /// Not at all.
    Off,
}

/// How prose is wrapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProseWrap {
    /// Between words.
    #[default]
    Words,
    /// By the terminal.
    Terminal,
}

/// Whether colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ColourUse {
    /// Unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Never.
    Never,
}

/// How much of a model's thinking is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingDisplay {
    /// One line.
    #[default]
    Fold,
    /// All of it, in faint text.
    Show,
    /// Nothing.
    Hide,
}
