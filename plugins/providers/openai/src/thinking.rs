//! The thinking setting for each model and level. Sending and display use the same table, and therefore always agree.
//!
//! Checked on 2026-11-23: `ReasoningEffort` and `ChatModel` of the Python SDK openai 3.54.0; the values that the API accepts
//! for each model: enricoros/big-AGI#944 and #1159 (measured on the API), BerriAI/litellm-docs#1173 and docs.litellm.ai,
//! "GPT-6 Sol and GPT-6 Luna" and "GPT-6.1 Terra", anomalyco/models.dev#331 (`gpt-5-pro`) and its tables of 2026-07-02 (up to
//! `gpt-5.5`), eyaltoledano/claude-task-master#1508 (`gpt-5.2-pro`), mnfst/modelparams.dev#88 (`gpt-5.6-sol`).

use patchbay_codecs::responses::Reasoning;
use patchbay_codecs::thinking::{Level, plan};
use patchbay_provider_sdk::ThinkingPlan;
use serde_json::{Map, Value};

/// The effort that is sent, and the text that is shown.
pub(crate) struct Thinking {
    pub(crate) reasoning: Reasoning,
    pub(crate) plan: ThinkingPlan,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Efforts {
    /// The model does not reason: `gpt-4o` and others.
    Not,
    /// The model accepts these efforts, in ascending order. `none` determines how the level `none` is sent.
    Of { none: NoThinking, levels: Vec<Level> },
}

/// All efforts above `none`.
const ALL: &[Level] = &[Level::Low, Level::Med, Level::High, Level::XHigh, Level::Max];

/// The meaning of the level `none` for a model that reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoThinking {
    /// The effort `none`: the model does not reason.
    Off,
    /// The effort `minimal`, the lowest of `gpt-5`.
    Minimal,
    /// Nothing is sent, and the default applies: `o1`, `o3`, `o4-mini`…
    Default,
    /// The lowest effort of the model.
    Least,
    /// Nothing is sent, because the model of a deployment is unknown, and not all models accept the effort `none`.
    Unknown,
}

const ALWAYS: &str = "This model does not support disabling thinking";
const NEVER: &str = "This model does not support thinking";
const UNKNOWN: &str = "Whether this model can stop thinking is unknown, so nothing is sent";

/// Returns the setting to send, and its description for users. `facts` are the host's facts about the model.
pub(crate) fn thinking(model: &str, level: Option<&str>, facts: Option<&Map<String, Value>>) -> Thinking {
    let efforts = known_efforts(model).unwrap_or_else(|| named_efforts(facts));
    let encrypted = efforts != Efforts::Not;
    let warned = |warning: &str| Some(warning.to_owned());
    let ((effort, line), warning) = match (efforts, level.and_then(Level::parse)) {
        (Efforts::Not, None | Some(Level::None)) => ((None, "off".to_owned()), None),
        (Efforts::Not, Some(_)) => ((None, "off".to_owned()), warned(NEVER)),
        (_, None) => ((None, "provider default".to_owned()), None),
        (Efforts::Of { none, levels }, Some(Level::None)) => match none {
            NoThinking::Off => ((Some("none"), "off".to_owned()), None),
            NoThinking::Minimal => ((Some("minimal"), "minimal effort (minimum)".to_owned()), warned(ALWAYS)),
            NoThinking::Default => ((None, "medium effort (default)".to_owned()), warned(ALWAYS)),
            NoThinking::Least => {
                let least = levels.first().map_or("low", |least| least.word());
                ((Some(least), format!("{least} effort (minimum)")), warned(ALWAYS))
            }
            NoThinking::Unknown => ((None, "provider default".to_owned()), warned(UNKNOWN)),
        },
        (Efforts::Of { levels, .. }, Some(level)) => {
            let (sent, warning) = level.within(&levels);
            ((Some(sent.word()), format!("{} effort", sent.word())), warning)
        }
    };
    Thinking {
        reasoning: Reasoning { effort, encrypted, summary: true },
        plan: ThinkingPlan { warning, ..plan(format!("Thinking: {line}")) },
    }
}

/// Returns true if the name of a model reveals its efforts.
pub(crate) fn is_known(model: &str) -> bool {
    known_efforts(model).is_some()
}

/// Returns the efforts of a model whose name does not reveal them, such as the name of an Azure
/// deployment: the levels that the host passes on from `config.toml`. Without such levels, all
/// efforts are assumed to work, and the API refuses any that do not.
fn named_efforts(facts: Option<&Map<String, Value>>) -> Efforts {
    let named = facts.and_then(|facts| facts.get("levels")).and_then(Value::as_array);
    let has = |level: &Level| named.is_some_and(|named| named.iter().any(|named| named["level"] == level.name()));
    let levels: Vec<Level> = ALL.iter().copied().filter(has).collect();
    match (has(&Level::None), levels.is_empty()) {
        (true, true) => Efforts::Not,
        (true, false) => Efforts::Of { none: NoThinking::Off, levels },
        (false, true) => Efforts::Of { none: NoThinking::Unknown, levels: ALL.to_vec() },
        (false, false) => Efforts::Of { none: NoThinking::Unknown, levels },
    }
}

/// Returns the efforts of a model that is known by its name; `None` for other names. A newer model that this table does not know
/// is assumed to accept all efforts.
fn known_efforts(model: &str) -> Option<Efforts> {
    let of = |none, levels: &[Level]| Some(Efforts::Of { none, levels: levels.to_vec() });
    let (to_high, to_xhigh) = (&ALL[..3], &ALL[..4]);
    // A fine-tuned model reasons like its base model.
    let model = model.strip_prefix("ft:").unwrap_or(model);
    // `gpt-35-turbo` is Azure's name.
    if ["gpt-4", "gpt-3.5", "gpt-35-", "chatgpt-"].iter().any(|plain| model.starts_with(plain)) {
        return Some(Efforts::Not);
    }
    // The name without its variant: `gpt-5.1` for `gpt-5.1-mini`, `o3` for `o3-2025-04-16`.
    if let Some(rest) = model.strip_prefix("gpt-") {
        let (name, variant) = rest.split_once('-').unwrap_or((rest, ""));
        let is = |word: &str| variant.split('-').any(|part| part == word);
        return match version(name)? {
            // The model of the chat product, which is a `gpt-5` only by name.
            (5, 0) if is("chat") => Some(Efforts::Not),
            (5, 0) if is("pro") => of(NoThinking::Least, &ALL[2..3]),
            (5, 0..=1) if is("codex") && !is("max") => of(NoThinking::Least, to_high),
            (5, _) if is("codex") => of(NoThinking::Least, to_xhigh),
            (5, _) if is("pro") => of(NoThinking::Least, &ALL[1..4]),
            (5, 0) => of(NoThinking::Minimal, to_high),
            (5, 1) => of(NoThinking::Off, to_high),
            (5, 2..=5) => of(NoThinking::Off, to_xhigh),
            (5, 6) => of(NoThinking::Off, ALL),
            (6, 0) if is("sol") || is("luna") => of(NoThinking::Off, ALL),
            (6, 1) if is("terra") => of(NoThinking::Off, ALL),
            version if version > (5, 0) => of(NoThinking::Least, ALL),
            _ => None,
        };
    }
    let series = ["o1", "o3", "o4"].into_iter().filter_map(|name| model.strip_prefix(name));
    let mut series = series.filter(|rest| rest.is_empty() || rest.starts_with('-'));
    series.next().and_then(|_| of(NoThinking::Default, to_high))
}

/// Parses the major and minor number of `5`, `5.1` or `6`; `None` for `4o`.
fn version(name: &str) -> Option<(u32, u32)> {
    let (major, minor) = name.split_once('.').unwrap_or((name, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}
