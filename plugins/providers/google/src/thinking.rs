//! What a thinking level comes to for each model. What is shown is what is sent.

use patchbay_codecs::{
    gemini::Thinking,
    thinking::{Level, plan, thousands},
};
use patchbay_provider_sdk::ThinkingPlan;

const CANNOT_STOP: &str = "This model does not support disabling thinking";
const CANNOT_THINK: &str = "This model does not support thinking";

/// How a model's thinking is governed.
#[derive(Clone, Copy)]
enum Governed {
    /// By tokens, at least and at most; a least of 0 is off.
    Tokens { min: u32, max: u32 },
    /// By names of levels.
    Levels,
    /// It does not think.
    Not,
}

/// By the beginning of a model's id; the longest that matches wins. The empty one stands for all that come after these:
/// since Gemini 3 there are levels.
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

/// What is asked of `model` at `level`.
pub(crate) fn asked(model: &str, level: Option<&str>) -> Option<Thinking> {
    let level = Level::parse(level?)?;
    match governed(model) {
        Governed::Tokens { min, max } => Some(Thinking::Budget(level.budget(min, max))),
        Governed::Levels => Some(Thinking::Level(name(level))),
        Governed::Not => None,
    }
}

/// The same, for people.
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

/// Whether `model` refuses calls without signatures: since Gemini 3 all do.
pub(crate) fn signs_calls(model: &str) -> bool {
    matches!(governed(model), Governed::Levels)
}

/// The API's name for a level.
fn name(level: Level) -> &'static str {
    match level {
        Level::None | Level::Low => "LOW",
        Level::Med | Level::High => "HIGH",
    }
}

fn warned(line: &str, warning: &str) -> ThinkingPlan {
    ThinkingPlan { warning: Some(warning.to_owned()), ..plan(line) }
}
