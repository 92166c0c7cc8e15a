//! The thinking setting for each model and level. One table is used for sending and for showing, so that they are the
//! same.
//!
//! Checked on 2026-11-23: `ReasoningEffort` and `ChatModel` of the Python SDK openai 3.54.0; the values that the API accepts
//! for each model: enricoros/big-AGI#944 and #1159 (asked of the API), BerriAI/litellm-docs#1173 and docs.litellm.ai,
//! "GPT-6 Sol and GPT-6 Luna" and "GPT-6.1 Terra", anomalyco/models.dev#331 (`gpt-5-pro`) and its tables of 2026-07-02 (up to
//! `gpt-5.5`), eyaltoledano/claude-task-master#1508 (`gpt-5.2-pro`), mnfst/modelparams.dev#88 (`gpt-5.6-sol`).

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
    /// These, in ascending order. `none` says what the level `none` means.
    Of { none: NoThinking, levels: &'static [Level] },
}

/// All efforts above `none`.
const ALL: &[Level] = &[Level::Low, Level::Med, Level::High, Level::XHigh, Level::Max];

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
    let always = || Some(ALWAYS.to_owned());
    let ((effort, line), warning) = match (efforts, level.and_then(Level::parse)) {
        (Efforts::Not, None | Some(Level::None)) => ((None, "off".to_owned()), None),
        (Efforts::Not, Some(_)) => ((None, "off".to_owned()), Some(NEVER.to_owned())),
        (_, None) => ((None, "provider default".to_owned()), None),
        (Efforts::Of { none, levels }, Some(Level::None)) => match none {
            NoThinking::Off => ((Some("none"), "off".to_owned()), None),
            NoThinking::Minimal => ((Some("minimal"), "minimal effort (minimum)".to_owned()), always()),
            NoThinking::Default => ((None, "medium effort (default)".to_owned()), always()),
            NoThinking::Least => {
                let least = levels.first().map_or("low", |least| least.word());
                ((Some(least), format!("{least} effort (minimum)")), always())
            }
        },
        (Efforts::Of { levels, .. }, Some(level)) => {
            let (sent, warning) = level.within(levels);
            ((Some(sent.word()), format!("{} effort", sent.word())), warning)
        }
    };
    Thinking {
        reasoning: Reasoning { effort, encrypted: efforts != Efforts::Not, summary: true },
        plan: ThinkingPlan { warning, ..plan(format!("Thinking: {line}")) },
    }
}

/// Returns the efforts of a model. A newer model that this table does not know is taken to have all of them.
fn efforts(model: &str) -> Efforts {
    let of = |none, levels| Efforts::Of { none, levels };
    let (to_high, to_xhigh) = (&ALL[..3], &ALL[..4]);
    // The name without its variant: `gpt-5.1` of `gpt-5.1-mini`, `o3` of `o3-2025-04-16`.
    if let Some(rest) = model.strip_prefix("gpt-") {
        let (name, variant) = rest.split_once('-').unwrap_or((rest, ""));
        let is = |word: &str| variant.split('-').any(|part| part == word);
        return match version(name) {
            // The model of the chat product, which is a `gpt-5` only by name.
            Some((5, 0)) if is("chat") => Efforts::Not,
            Some((5, 0)) if is("pro") => of(NoThinking::Least, &ALL[2..3]),
            Some((5, 0..=1)) if is("codex") && !is("max") => of(NoThinking::Least, to_high),
            Some((5, _)) if is("codex") => of(NoThinking::Least, to_xhigh),
            Some((5, _)) if is("pro") => of(NoThinking::Least, &ALL[1..4]),
            Some((5, 0)) => of(NoThinking::Minimal, to_high),
            Some((5, 1)) => of(NoThinking::Off, to_high),
            Some((5, 2..=5)) => of(NoThinking::Off, to_xhigh),
            Some((5, 6)) => of(NoThinking::Off, ALL),
            Some((6, 0)) if is("sol") || is("luna") => of(NoThinking::Off, ALL),
            Some((6, 1)) if is("terra") => of(NoThinking::Off, ALL),
            Some(version) if version > (5, 0) => of(NoThinking::Least, ALL),
            _ => Efforts::Not,
        };
    }
    let series = ["o1", "o3", "o4"].into_iter().filter_map(|name| model.strip_prefix(name));
    let mut series = series.filter(|rest| rest.is_empty() || rest.starts_with('-'));
    if series.next().is_some() { of(NoThinking::Default, to_high) } else { Efforts::Not }
}

/// Parses the major and minor number of `5`, `5.1` or `6`; `None` for `4o`.
fn version(name: &str) -> Option<(u32, u32)> {
    let (major, minor) = name.split_once('.').unwrap_or((name, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}
