//! The thinking setting for each model and level. One table is used for sending and for showing, so that they are the
//! same.
//!
//! Checked on 2026-11-23: `ReasoningEffort` and `ChatModel` of the Python SDK openai 3.54.0; the values that the API accepts
//! for each model: enricoros/big-AGI#944 and #1159 (asked of the API), BerriAI/litellm-docs#1173 and docs.litellm.ai,
//! "GPT-6 Sol and GPT-6 Luna", anomalyco/models.dev#331 (`gpt-5-pro`), eyaltoledano/claude-task-master#1508 (`gpt-5.2-pro`).

use patchbay_codecs::responses::Reasoning;
use patchbay_codecs::thinking::{Level, plan};
use patchbay_provider_sdk::ThinkingPlan;

/// The effort that is sent, and the text that is shown.
pub(crate) struct Thinking {
    pub(crate) reasoning: Reasoning,
    pub(crate) plan: ThinkingPlan,
}

/// The efforts of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Efforts {
    /// The model does not reason: `gpt-4o` and others.
    Not,
    /// From `least` on. `none` says what the level `none` means.
    From { none: NoThinking, least: Level },
}

/// What the level `none` means for a model that reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoThinking {
    /// The effort `none`: the model does not reason.
    Off,
    /// The effort `minimal`, the lowest of `gpt-5`.
    Minimal,
    /// Nothing is sent, so that the default applies: `o1`, `o3`, `o4-mini`…
    Default,
    /// The lowest effort of the model.
    Least,
}

const ALWAYS: &str = "This model does not support disabling thinking";
const NEVER: &str = "This model does not support thinking";

pub(crate) fn thinking(model: &str, level: Option<&str>) -> Thinking {
    let efforts = efforts(model);
    let level = level.and_then(Level::parse);
    let effort = |level: Level, is_least: bool| {
        let note = if is_least { " (minimum)" } else { "" };
        (Some(level.word()), format!("{} effort{note}", level.word()))
    };
    let ((effort, line), warning) = match (efforts, level) {
        (Efforts::Not, None | Some(Level::None)) => ((None, "off".to_owned()), None),
        (Efforts::Not, Some(_)) => ((None, "off".to_owned()), Some(NEVER)),
        (_, None) => ((None, "provider default".to_owned()), None),
        (Efforts::From { none, least }, Some(Level::None)) => match none {
            NoThinking::Off => ((Some("none"), "off".to_owned()), None),
            NoThinking::Minimal => ((Some("minimal"), "minimal effort (minimum)".to_owned()), Some(ALWAYS)),
            NoThinking::Default => ((None, "medium effort (default)".to_owned()), Some(ALWAYS)),
            NoThinking::Least => (effort(least, true), Some(ALWAYS)),
        },
        (Efforts::From { least, .. }, Some(level)) => (effort(level.max(least), level < least), None),
    };
    let warning = warning.map(str::to_owned);
    Thinking {
        reasoning: Reasoning { effort, encrypted: efforts != Efforts::Not, summary: true },
        plan: ThinkingPlan { warning, ..plan(format!("Thinking: {line}")) },
    }
}

/// Returns the efforts of a model. A newer model that this table does not know has at least `low`, `medium` and `high`.
fn efforts(model: &str) -> Efforts {
    let from = |none, least| Efforts::From { none, least };
    // The name without its variant: `gpt-5.1` of `gpt-5.1-mini`, `o3` of `o3-2025-04-16`.
    if let Some(rest) = model.strip_prefix("gpt-") {
        let (name, variant) = rest.split_once('-').unwrap_or((rest, ""));
        let is = |word: &str| variant.split('-').any(|part| part == word);
        return match version(name) {
            // The model of the chat product, which is a `gpt-5` only by name.
            Some((5, 0)) if is("chat") => Efforts::Not,
            Some((5, 0)) if is("pro") => from(NoThinking::Least, Level::High),
            Some(version) if version >= (5, 0) && is("codex") => from(NoThinking::Least, Level::Low),
            Some(version) if version > (5, 0) && is("pro") => from(NoThinking::Least, Level::Med),
            Some((5, 0)) => from(NoThinking::Minimal, Level::Low),
            Some((5, 1..=6)) => from(NoThinking::Off, Level::Low),
            Some((6, 0)) if is("sol") || is("luna") => from(NoThinking::Off, Level::Low),
            Some(version) if version > (5, 0) => from(NoThinking::Least, Level::Low),
            _ => Efforts::Not,
        };
    }
    let series = ["o1", "o3", "o4"].into_iter().filter_map(|name| model.strip_prefix(name));
    let mut series = series.filter(|rest| rest.is_empty() || rest.starts_with('-'));
    if series.next().is_some() { from(NoThinking::Default, Level::Low) } else { Efforts::Not }
}

/// Parses the major and minor number of `5`, `5.1` or `6`; `None` for `4o`.
fn version(name: &str) -> Option<(u32, u32)> {
    let (major, minor) = name.split_once('.').unwrap_or((name, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}
