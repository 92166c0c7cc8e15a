//! The thinking setting for each model and level. One table is used for sending and for showing.
//!
//! Checked on 2026-11-23: docs.x.ai, "Reasoning" (`grok-4.3`); theopenco/llmgateway#3669 (`grok-4.5` and `grok-4.6`, measured
//! on the API); the release notes of @ai-sdk/xai 4.0.8 (`grok-4.20-reasoning` refuses an effort); acedergren/
//! opencode-oci-provider v0.2.3 and docs.x.ai, "Reasoning" of 2025 (`grok-4` and its fast variants refuse it); docs.x.ai, "Grok
//! 4.7"; anomalyco/models.dev of 2026-07-02 (`grok-build-0.1`, `grok-4.20-multi-agent`).

use patchbay_codecs::responses::Reasoning;
use patchbay_codecs::thinking::{Level, plan};
use patchbay_provider_sdk::ThinkingPlan;

/// How the thinking of a model is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Governed {
    /// By an effort up to `high`; `none` turns it off.
    Optional,
    /// By one of these efforts, of which `low` is the lowest. Also assumed for newer models, which this table does not know.
    Always(&'static [Level]),
    /// The model thinks, and refuses an effort.
    Fixed,
    /// The model does not think.
    Not,
}

/// The efforts of the newest models.
const TO_XHIGH: &[Level] = &[Level::Low, Level::Med, Level::High, Level::XHigh];
const TO_HIGH: &[Level] = &[Level::Low, Level::Med, Level::High];

const ALWAYS: &str = "This model does not support disabling thinking";
const FIXED: &str = "The thinking of this model cannot be set";
const NEVER: &str = "This model does not support thinking";

/// Returns the setting to send, and its description for users.
pub(crate) fn thinking(model: &str, level: Option<&str>) -> (Reasoning, ThinkingPlan) {
    let governed = governed(model);
    let warned = |warning: &str| Some(warning.to_owned());
    let by_effort = |level: Level, levels: &[Level]| {
        let (sent, warning) = level.within(levels);
        (Some(sent.word()), format!("{} effort", sent.word()), warning)
    };
    let (effort, line, warning) = match (governed, level.and_then(Level::parse)) {
        (Governed::Not, None | Some(Level::None)) => (None, "off".to_owned(), None),
        (Governed::Not, Some(_)) => (None, "off".to_owned(), warned(NEVER)),
        (_, None) => (None, "provider default".to_owned(), None),
        (Governed::Fixed, Some(Level::None)) => (None, "provider default".to_owned(), warned(ALWAYS)),
        (Governed::Fixed, Some(_)) => (None, "provider default".to_owned(), warned(FIXED)),
        (Governed::Optional, Some(Level::None)) => (Some("none"), "off".to_owned(), None),
        (Governed::Optional, Some(level)) => by_effort(level, TO_HIGH),
        (Governed::Always(_), Some(Level::None)) => (Some("low"), "low effort (minimum)".to_owned(), warned(ALWAYS)),
        (Governed::Always(levels), Some(level)) => by_effort(level, levels),
    };
    let plan = ThinkingPlan { warning, ..plan(format!("Thinking: {line}")) };
    (Reasoning { effort, encrypted: governed != Governed::Not, summary: true }, plan)
}

fn governed(model: &str) -> Governed {
    // The name up to its version: `grok-4` for `grok-4-0709` and `grok-4-fast`, `grok-4.20` for `grok-4.20-0309-reasoning`.
    let version = model.strip_prefix("grok-").and_then(|rest| rest.split('-').next()).unwrap_or_default();
    match version {
        _ if model.contains("non-reasoning") => Governed::Not,
        "4.3" => Governed::Optional,
        // Its effort sets the number of agents.
        "4.20" if model.contains("multi-agent") => Governed::Always(TO_XHIGH),
        "2" | "3" | "4" | "4.20" | "code" | "build" => Governed::Fixed,
        "4.5" | "4.6" => Governed::Always(TO_HIGH),
        _ => Governed::Always(TO_XHIGH),
    }
}
