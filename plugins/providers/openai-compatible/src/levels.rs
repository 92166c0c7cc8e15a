//! The reasoning effort for a level, according to the model's entry in the server's list.

use patchbay_codecs::openai::by_effort;
use patchbay_codecs::thinking::{Level, plan};
use patchbay_provider_sdk::ThinkingPlan;
use serde_json::{Map, Value};

/// Returns the effort to send, and its description. `facts` are described in [`crate::catalogue`].
pub(crate) fn effort(level: Option<&str>, facts: Option<&Map<String, Value>>) -> (Option<&'static str>, ThinkingPlan) {
    let fact = |name: &str| facts.and_then(|facts| facts.get(name));
    if fact("capabilities").is_some_and(|can| can["thinking"] == false) {
        let off = plan("Thinking: off");
        let asked = level.and_then(Level::parse).is_some_and(|level| level != Level::None);
        return (
            None,
            ThinkingPlan { warning: asked.then(|| "This model does not support thinking".to_owned()), ..off },
        );
    }
    let (Some(efforts), Some(level)) = (fact("efforts").and_then(Value::as_array), level.and_then(Level::parse)) else {
        return by_effort(level);
    };
    let has = |level: &Level| efforts.iter().any(|effort| effort == level.word());
    let known: Vec<Level> = Level::ALL[1..].iter().copied().filter(has).collect();
    match level {
        Level::None if has(&Level::None) => (Some("none"), plan("Thinking: off")),
        Level::None => by_effort(Some(level.name())),
        level if known.is_empty() => by_effort(Some(level.name())),
        level => {
            let (sent, warning) = level.within(&known);
            (Some(sent.word()), ThinkingPlan { warning, ..plan(format!("Thinking: {} effort", sent.word())) })
        }
    }
}

/// Returns the level that is sent; `None` if the server decides.
pub(crate) fn effective(level: Option<&str>, facts: Option<&Map<String, Value>>) -> Option<Level> {
    effort(level, facts).0.and_then(Level::of_word)
}
