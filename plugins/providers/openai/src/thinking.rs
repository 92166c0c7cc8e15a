//! The thinking setting for each model and level. One table is used for sending and for showing, so that they are the
//! same.

use patchbay_codecs::responses::Reasoning;
use patchbay_codecs::thinking::{Level, plan};
use patchbay_provider_sdk::ThinkingPlan;

/// The effort that is sent, and the text that is shown.
pub(crate) struct Thinking {
    pub(crate) reasoning: Reasoning,
    pub(crate) plan: ThinkingPlan,
}

/// A family of models with the same efforts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// `o1`, `o3`, `o4-mini`…: always reason.
    Series,
    /// `gpt-5`: the lowest effort is `minimal`.
    Gpt5,
    /// `gpt-5.1` and later: `none` is a valid effort.
    Gpt51,
    /// `gpt-4o` and others: do not reason.
    Plain,
}

const ALWAYS: &str = "This model does not support disabling thinking";
const NEVER: &str = "This model does not support thinking";

pub(crate) fn thinking(model: &str, level: Option<&str>) -> Thinking {
    let family = family(model);
    let level = level.and_then(Level::parse);
    let (effort, line, warning) = match (family, level) {
        (Family::Plain, None | Some(Level::None)) => (None, "off".to_owned(), None),
        (Family::Plain, Some(_)) => (None, "off".to_owned(), Some(NEVER)),
        (_, None) => (None, "provider default".to_owned(), None),
        (Family::Series, Some(Level::None)) => (None, "medium effort (default)".to_owned(), Some(ALWAYS)),
        (Family::Gpt5, Some(Level::None)) => (Some("minimal"), "minimal effort (minimum)".to_owned(), Some(ALWAYS)),
        (Family::Gpt51, Some(Level::None)) => (Some("none"), "off".to_owned(), None),
        (_, Some(level)) => (Some(level.word()), format!("{} effort", level.word()), None),
    };
    let warning = warning.map(str::to_owned);
    Thinking {
        reasoning: Reasoning { effort, encrypted: family != Family::Plain },
        plan: ThinkingPlan { warning, ..plan(format!("Thinking: {line}")) },
    }
}

fn family(model: &str) -> Family {
    // The name without its variant: `gpt-5.1` of `gpt-5.1-mini`, `o3` of `o3-2025-04-16`.
    if let Some(rest) = model.strip_prefix("gpt-") {
        let (name, variant) = rest.split_once('-').unwrap_or((rest, ""));
        return match version(name) {
            // The model of the chat product, which is a `gpt-5` only by name.
            Some((5, 0)) if variant.starts_with("chat") => Family::Plain,
            Some((5, 0)) => Family::Gpt5,
            Some(version) if version >= (5, 1) => Family::Gpt51,
            _ => Family::Plain,
        };
    }
    let series = ["o1", "o3", "o4"].into_iter().filter_map(|name| model.strip_prefix(name));
    let mut series = series.filter(|rest| rest.is_empty() || rest.starts_with('-'));
    if series.next().is_some() { Family::Series } else { Family::Plain }
}

/// Parses the major and minor number of `5`, `5.1` or `6`; `None` for `4o`.
fn version(name: &str) -> Option<(u32, u32)> {
    let (major, minor) = name.split_once('.').unwrap_or((name, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}
