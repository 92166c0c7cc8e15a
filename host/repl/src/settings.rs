//! `[terminal]` of `config.toml`. The binary reads it and passes it in [`Options`](crate::Options).

use patchbay_cage::CageSettings;
use schemars::JsonSchema;
use serde::Deserialize;

/// What the terminal shows and how: `[terminal]` in `config.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TerminalSettings {
    /// How prose of answers is broken: `words`, between words at the width of the window of that moment; `terminal`, not at
    /// all, so that the terminal breaks each paragraph and joins it again when its window changes. Code is never broken.
    pub wrap: ProseWrap,
    /// Whether colours are used: `auto`, unless `NO_COLOR` is set; `never`. Bold and faint text stay.
    pub colour: ColourUse,
    /// What stays of a model's thinking: `fold`, its last rows while it thinks, then one line; `show`, all of it; `hide`,
    /// nothing. `/show thinking` prints the last one in any case.
    pub thinking: ThinkingDisplay,
    /// Whether plain lines are read and printed, as with `--plain`.
    pub plain: bool,
    /// Whether models can run programs with `terminal__run`: `ask`, each time after a question; `off`, not at all:
    /// [running.md](running.md).
    pub run: ProgramUse,
    /// What programs that models run may use besides the workspace: [running.md](running.md#what-programs-may-use).
    pub cage: CageSettings,
}

/// Whether models can run programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProgramUse {
    /// After a question for each program.
    #[default]
    Ask,
    /// Not at all.
    Off,
}

/// How prose is broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProseWrap {
    /// Between words.
    #[default]
    Words,
    /// By the terminal.
    Terminal,
}

/// Whether colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ColourUse {
    /// Unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Never.
    Never,
}

/// What stays of a model's thinking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
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
