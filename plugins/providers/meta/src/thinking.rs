//! The thinking setting for each model and level. One table is used for sending and for showing.
//!
//! Checked on 2026-11-23: theopenco/llmgateway#3079 (quotes dev.meta.ai, "Reasoning": `none` is refused), docs.cloud.google.com, "Muse
//! Ember 1.0", apache/maka#5381 (`max` of `muse-spark-1.3`, but not of its contributor variant).

use patchbay_codecs::responses::Reasoning;
use patchbay_codecs::thinking::{Level, plan};
use patchbay_provider_sdk::ThinkingPlan;

const ALL: [Level; 5] = [Level::Low, Level::Med, Level::High, Level::XHigh, Level::Max];

const ALWAYS: &str = "This model does not support disabling thinking";
const NEVER: &str = "This model does not support thinking";

/// Returns the setting to send, and its description for users.
pub(crate) fn thinking(model: &str, level: Option<&str>) -> (Reasoning, ThinkingPlan) {
    let reasons = !model.starts_with(crate::LLAMA);
    let (effort, line, warning) = match level.and_then(Level::parse) {
        None | Some(Level::None) if !reasons => (None, "off".to_owned(), None),
        Some(_) if !reasons => (None, "off".to_owned(), Some(NEVER.to_owned())),
        None => (None, "provider default".to_owned(), None),
        Some(Level::None) => (Some("minimal"), "minimal effort (minimum)".to_owned(), Some(ALWAYS.to_owned())),
        Some(level) => {
            let (sent, warning) = level.within(levels(model));
            (Some(sent.word()), format!("{} effort", sent.word()), warning)
        }
    };
    let plan = ThinkingPlan { warning, ..plan(format!("Thinking: {line}")) };
    (Reasoning { effort, encrypted: reasons, summary: true }, plan)
}

/// Returns a model's efforts above `minimal`. Newer models, which this table does not know, are assumed to have all of them.
fn levels(model: &str) -> &'static [Level] {
    let older = ["muse-spark-1.1", "muse-spark-1.2"].iter().any(|id| model.starts_with(id));
    if older || model.ends_with("-contributor") { &ALL[..4] } else { &ALL }
}
