//! The thinking setting for each model and level. The same table is used for sending and for showing.
//!
//! Checked on 2026-11-23: `ThinkingLevel` of the Python SDK google-genai 3.4.0; docs.cloud.google.com, "Thinking" (levels of
//! each model) and the pages of Gemini 3.8 Flash, 3.5 Flash-Lite and 3.1 Flash-Lite; ai.google.dev, "Gemini 4 Argon";
//! openrouter.ai, "Gemini 4 Carbon"; BerriAI/litellm, discussion 51436 (Gemini 4 Hydrogen).

use patchbay_codecs::{
    gemini::Thinking,
    thinking::{Level, plan, thousands},
};
use patchbay_provider_sdk::ThinkingPlan;
use serde_json::{Map, Value};

const CANNOT_STOP: &str = "This model does not support disabling thinking";
const CANNOT_THINK: &str = "This model does not support thinking";

/// How the thinking of a model is set.
#[derive(Clone, Copy)]
enum Governed {
    /// By a budget in tokens, with minimum and maximum. A minimum of 0 means that thinking can be turned off.
    Tokens { min: u32, max: u32 },
    /// By the name of a level. The first field is the name that is sent for `none`; the second lists the names for `low` and
    /// above, in ascending order. No level turns thinking off.
    Levels(&'static str, &'static [(Level, &'static str)]),
    /// The model does not think.
    Not,
}

/// The levels with the API's names for them.
const NAMES: &[(Level, &str)] =
    &[(Level::Low, "LOW"), (Level::Med, "MEDIUM"), (Level::High, "HIGH"), (Level::XHigh, "XHIGH")];

const TO_XHIGH: Governed = Governed::Levels("LOW", NAMES);
const WITH_MINIMAL: Governed = Governed::Levels("MINIMAL", NAMES.split_at(3).0);
const TO_HIGH: Governed = Governed::Levels("LOW", NAMES.split_at(3).0);
const LOW_AND_HIGH: Governed =
    Governed::Levels("LOW", &[(Level::Low, "LOW"), (Level::Med, "HIGH"), (Level::High, "HIGH")]);

/// Settings by prefix of the model's id; the longest match wins.
const GOVERNED: [(&str, Governed); 12] = [
    ("gemini-2.5-pro", Governed::Tokens { min: 128, max: 32_768 }),
    ("gemini-2.5-flash-lite", Governed::Tokens { min: 512, max: 24_576 }),
    ("gemini-2.5-flash", Governed::Tokens { min: 0, max: 24_576 }),
    ("gemini-2.", Governed::Not),
    ("gemini-1.", Governed::Not),
    ("gemini-3-pro", LOW_AND_HIGH),
    ("gemini-3-flash", WITH_MINIMAL),
    ("gemini-3.1-flash", WITH_MINIMAL),
    ("gemini-3.5-flash", WITH_MINIMAL),
    ("gemini-3.6-flash", WITH_MINIMAL),
    ("gemini-flash-lite-latest", WITH_MINIMAL),
    ("gemini-4-hydrogen", TO_XHIGH),
];

/// Returns the setting of a model. A model that is not in the table has three levels, unless its `facts`, which come from
/// [`crate::catalogue`], say that it cannot think.
fn governed(model: &str, facts: Option<&Map<String, Value>>) -> Governed {
    let matching = GOVERNED.iter().filter(|(beginning, _)| model.starts_with(beginning));
    match matching.max_by_key(|(beginning, _)| beginning.len()) {
        Some((_, governed)) => *governed,
        None if facts.and_then(|facts| facts.get("capabilities")).is_some_and(|can| can["thinking"] == false) => {
            Governed::Not
        }
        None => TO_HIGH,
    }
}

/// Returns the setting for `model` at `level`.
pub(crate) fn setting(model: &str, level: Option<&str>, facts: Option<&Map<String, Value>>) -> Option<Thinking> {
    let level = Level::parse(level?)?;
    match governed(model, facts) {
        Governed::Tokens { min, max } => Some(Thinking::Budget(level.budget(min, max))),
        Governed::Levels(none, _) if level == Level::None => Some(Thinking::Level(none)),
        Governed::Levels(_, names) => Some(Thinking::Level(name(names, level).0)),
        Governed::Not => None,
    }
}

/// Describes the setting for the user.
pub(crate) fn explain(model: &str, level: Option<&str>, facts: Option<&Map<String, Value>>) -> ThinkingPlan {
    let level = level.and_then(Level::parse);
    match (governed(model, facts), level) {
        (Governed::Not, None | Some(Level::None)) => plan("Thinking: off"),
        (Governed::Not, Some(_)) => warned("Thinking: off", CANNOT_THINK),
        (_, None) => plan("Thinking: provider default"),
        (Governed::Tokens { min: 0, .. }, Some(Level::None)) => plan("Thinking: off"),
        (Governed::Tokens { min, .. }, Some(Level::None)) => {
            warned(&format!("Thinking: none ({} tokens, minimum)", thousands(min)), CANNOT_STOP)
        }
        (Governed::Tokens { min, max }, Some(level)) => {
            let (level, warning) = level.within(&[Level::Low, Level::Med, Level::High]);
            let line = format!("Thinking: {} ({} tokens)", level.word(), thousands(level.budget(min, max)));
            ThinkingPlan { warning, ..plan(line) }
        }
        (Governed::Levels(none, _), Some(Level::None)) => {
            warned(&format!("Thinking: {none} level (minimum)"), CANNOT_STOP)
        }
        (Governed::Levels(_, names), Some(level)) => {
            let (name, warning) = name(names, level);
            ThinkingPlan { warning, ..plan(format!("Thinking: {name} level")) }
        }
    }
}

/// Returns Patchbay's name for the level that takes effect; `Option::None` if no level was chosen. The name that is sent can
/// differ: for some models, `none` is sent as LOW, and `med` as HIGH.
pub(crate) fn effective(model: &str, level: Option<&str>, facts: Option<&Map<String, Value>>) -> Option<Level> {
    match (governed(model, facts), level.and_then(Level::parse)?) {
        (Governed::Not, _) | (_, Level::None) => Some(Level::None),
        (Governed::Tokens { .. }, level) => Some(level.min(Level::High)),
        (Governed::Levels(_, names), level) => {
            Some(level.within(&names.iter().map(|(level, _)| *level).collect::<Vec<_>>()).0)
        }
    }
}

/// Returns true if `model` refuses a history in which the first tool call of a message lacks its `thoughtSignature`, as all models
/// since Gemini 3 do.
pub(crate) fn signs_calls(model: &str) -> bool {
    matches!(governed(model, None), Governed::Levels(..))
}

/// Returns the API's name for `level`, or for the nearest level in `names`, with a warning if `level` is not in `names`.
fn name(names: &[(Level, &'static str)], level: Level) -> (&'static str, Option<String>) {
    let levels: Vec<Level> = names.iter().map(|(level, _)| *level).collect();
    let (sent, warning) = level.within(&levels);
    (names.iter().find(|(level, _)| *level == sent).map_or("HIGH", |(_, name)| name), warning)
}

fn warned(line: &str, warning: &str) -> ThinkingPlan {
    ThinkingPlan { warning: Some(warning.to_owned()), ..plan(line) }
}
