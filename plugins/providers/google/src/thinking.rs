//! The thinking setting for each model and level. The same table is used for sending and for showing.
//!
//! Checked on 2026-11-23: `ThinkingLevel` of the Python SDK google-genai 3.4.0; docs.cloud.google.com, "Thinking" (levels of
//! each model) and the pages of Gemini 3.8 Flash, 3.5 Flash-Lite and 3.1 Flash-Lite.

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
    /// By the name of a level: those for `none`, `low`, `med` and `high`. No level turns thinking off.
    Levels([&'static str; 4]),
    /// The model does not think.
    Not,
}

const FOUR: Governed = Governed::Levels(["MINIMAL", "LOW", "MEDIUM", "HIGH"]);
const THREE: Governed = Governed::Levels(["LOW", "LOW", "MEDIUM", "HIGH"]);
const TWO: Governed = Governed::Levels(["LOW", "LOW", "HIGH", "HIGH"]);

/// Settings by prefix of the model's id; the longest match wins. The empty prefix stands for newer models, which have
/// three levels since Gemini 3.7.
const GOVERNED: [(&str, Governed); 12] = [
    ("gemini-2.5-pro", Governed::Tokens { min: 128, max: 32_768 }),
    ("gemini-2.5-flash-lite", Governed::Tokens { min: 512, max: 24_576 }),
    ("gemini-2.5-flash", Governed::Tokens { min: 0, max: 24_576 }),
    ("gemini-2.", Governed::Not),
    ("gemini-1.", Governed::Not),
    ("gemini-3-pro", TWO),
    ("gemini-3-flash", FOUR),
    ("gemini-3.1-flash", FOUR),
    ("gemini-3.5-flash", FOUR),
    ("gemini-3.6-flash", FOUR),
    ("gemini-flash-lite-latest", FOUR),
    ("", THREE),
];

fn governed(model: &str) -> Governed {
    let matching = GOVERNED.iter().filter(|(beginning, _)| model.starts_with(beginning));
    matching.max_by_key(|(beginning, _)| beginning.len()).map_or(THREE, |(_, governed)| *governed)
}

/// Returns the setting for `model` at `level`.
pub(crate) fn setting(model: &str, level: Option<&str>) -> Option<Thinking> {
    let level = Level::parse(level?)?;
    match governed(model) {
        Governed::Tokens { min, max } => Some(Thinking::Budget(level.budget(min, max))),
        Governed::Levels(names) => Some(Thinking::Level(name(names, level))),
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
        (Governed::Levels(names), Some(Level::None)) => {
            warned(&format!("Thinking: {} level (minimum)", name(names, Level::None)), CANNOT_STOP)
        }
        (Governed::Levels(names), Some(level)) => plan(format!("Thinking: {} level", name(names, level))),
    }
}

/// Returns true if `model` refuses calls without signatures, as all models since Gemini 3 do.
pub(crate) fn signs_calls(model: &str) -> bool {
    matches!(governed(model), Governed::Levels(_))
}

/// Returns the API's name of a level.
fn name([none, low, med, high]: [&'static str; 4], level: Level) -> &'static str {
    match level {
        Level::None => none,
        Level::Low => low,
        Level::Med => med,
        Level::High => high,
    }
}

fn warned(line: &str, warning: &str) -> ThinkingPlan {
    ThinkingPlan { warning: Some(warning.to_owned()), ..plan(line) }
}
