//! The thinking setting for each model and level. The same table is used for sending and for showing.

use patchbay_codecs::{
    gemini::Thinking,
    thinking::{Level, plan, thousands},
};
use patchbay_provider_sdk::ThinkingPlan;

const CANNOT_STOP: &str = "This model does not support disabling thinking";
const CANNOT_THINK: &str = "This model does not support thinking";

/// How the thinking of a model is set.
#[derive(Clone, Copy)]
enum Governed {
    /// By a budget in tokens, with minimum and maximum. A minimum of 0 means that thinking can be turned off.
    Tokens { min: u32, max: u32 },
    /// By the name of a level.
    Levels,
    /// The model does not think.
    Not,
}

/// Settings by prefix of the model's id; the longest match wins. The empty prefix stands for newer models, which have
/// levels since Gemini 3.
const GOVERNED: [(&str, Governed); 6] = [
    ("gemini-2.5-pro", Governed::Tokens { min: 128, max: 32_768 }),
    ("gemini-2.5-flash-lite", Governed::Tokens { min: 512, max: 24_576 }),
    ("gemini-2.5-flash", Governed::Tokens { min: 0, max: 24_576 }),
    ("gemini-2.", Governed::Not),
    ("gemini-1.", Governed::Not),
    ("", Governed::Levels),
];

fn governed(model: &str) -> Governed {
    let matching = GOVERNED.iter().filter(|(beginning, _)| model.starts_with(beginning));
    matching.max_by_key(|(beginning, _)| beginning.len()).map_or(Governed::Levels, |(_, governed)| *governed)
}

/// Returns the setting for `model` at `level`.
pub(crate) fn setting(model: &str, level: Option<&str>) -> Option<Thinking> {
    let level = Level::parse(level?)?;
    match governed(model) {
        Governed::Tokens { min, max } => Some(Thinking::Budget(level.budget(min, max))),
        Governed::Levels => Some(Thinking::Level(name(level))),
        Governed::Not => None,
    }
}

/// Describes the setting for people.
pub(crate) fn explain(model: &str, level: Option<&str>) -> ThinkingPlan {
    let level = level.and_then(Level::parse);
    match (governed(model), level) {
        (Governed::Not, None | Some(Level::None)) => plan("Thinking: off"),
        (Governed::Not, Some(_)) => warned("Thinking: off", CANNOT_THINK),
        (_, None) => plan("Thinking: provider default"),
        (Governed::Tokens { min: 0, .. }, Some(Level::None)) => plan("Thinking: off"),
        (Governed::Tokens { min, .. }, Some(Level::None)) => {
            warned(&format!("Thinking: none ({} tokens, minimum)", thousands(min)), CANNOT_STOP)
        }
        (Governed::Tokens { min, max }, Some(level)) => {
            plan(format!("Thinking: {} ({} tokens)", level.word(), thousands(level.budget(min, max))))
        }
        (Governed::Levels, Some(Level::None)) => {
            warned(&format!("Thinking: {} level (minimum)", name(Level::None)), CANNOT_STOP)
        }
        (Governed::Levels, Some(level)) => plan(format!("Thinking: {} level", name(level))),
    }
}

/// Returns true if `model` refuses calls without signatures, as all models since Gemini 3 do.
pub(crate) fn signs_calls(model: &str) -> bool {
    matches!(governed(model), Governed::Levels)
}

/// Returns the API's name of a level.
fn name(level: Level) -> &'static str {
    match level {
        Level::None | Level::Low => "LOW",
        Level::Med | Level::High => "HIGH",
    }
}

fn warned(line: &str, warning: &str) -> ThinkingPlan {
    ThinkingPlan { warning: Some(warning.to_owned()), ..plan(line) }
}
