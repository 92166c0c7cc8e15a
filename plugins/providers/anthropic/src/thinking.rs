//! The thinking setting, the answer limit and the peculiarities of each model and level.
//!
//! Checked on 2026-11-23 against the Python SDK anthropic 2.12.0 (`ThinkingConfigParam`, `OutputConfigParam`,
//! `ThinkingTypes`, `DEPRECATED_MODELS`) and platform.claude.com: "Thinking", "Troubleshooting thinking", "What's new" in
//! Claude Opus 5, Opus 5.5 and Sonnet 5.5, "Migration guide".

use patchbay_codecs::messages::{Settings, Thinking};
use patchbay_codecs::thinking::{Level, plan, thousands};
use patchbay_provider_sdk::ThinkingPlan;

/// The smallest budget that the API accepts.
const MIN_BUDGET: u32 = 1024;

/// The most tokens of an answer including thinking, for a model with a budget.
const OUTPUT_LIMIT: u32 = 64_000;

/// Tokens for the answer in addition to its thinking. The API refuses a budget that leaves none.
const ANSWER: u32 = 4096;

/// The default limit of an answer without thinking. Every model here supports it, and few answers are as long.
const UNSAID: u32 = 32_000;

const ALWAYS: &str = "This model does not support disabling thinking";

/// How the thinking of a model is turned on and off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// By a budget in tokens; off by default. Before 4.6.
    Budget,
    /// By an effort; off by default. 4.6 to 4.8.
    Optional,
    /// By an effort; on by default, and turned off with this type.
    Default(&'static str),
    /// By an effort; always on. Also all models that this table does not know, because they accept these requests.
    Always,
}

/// Returns the settings of a request. `forced` is true if the request forces a call of a tool, and `asked` limits the
/// answer.
pub(crate) fn settings(model: &str, level: Option<Level>, forced: bool, asked: Option<u32>) -> Settings {
    // These also refuse to be forced to call a tool.
    let forced_tools = !matches!(family(model), Family::Always | Family::Default("between_tools"));
    // The API refuses thinking together with a forced tool.
    let level = if forced && forced_tools { Some(Level::None) } else { level };
    let thinking = wire(model, level);
    Settings {
        thinking,
        max_tokens: max_tokens(model, thinking, asked),
        forced_tools,
        bound_thinking: binds_thinking(model),
    }
}

/// Returns the setting that is sent for a level.
fn wire(model: &str, level: Option<Level>) -> Thinking {
    match (family(model), level) {
        (Family::Budget | Family::Optional, None | Some(Level::None)) => Thinking::Unsaid,
        (Family::Budget, Some(level)) => {
            Thinking::Budget(level.budget(MIN_BUDGET, max_budget(model)).min(OUTPUT_LIMIT - ANSWER))
        }
        // The same as no setting, but with the thoughts in words.
        (Family::Default(_) | Family::Always, None) => Thinking::Adaptive(None),
        (Family::Default(off), Some(Level::None)) => Thinking::Off(off),
        (Family::Always, Some(Level::None)) => Thinking::Adaptive(Some(Level::Low.word())),
        (_, Some(level)) => Thinking::Adaptive(Some(level.word())),
    }
}

/// Describes the setting that is sent, for people.
pub(crate) fn explain(model: &str, level: Option<Level>) -> ThinkingPlan {
    let Some(level) = level else { return plan("Thinking: provider default") };
    match wire(model, Some(level)) {
        Thinking::Unsaid | Thinking::Off(_) => plan("Thinking: off"),
        Thinking::Budget(tokens) => plan(format!("Thinking: {} ({} tokens)", level.word(), thousands(tokens))),
        Thinking::Adaptive(Some(effort)) if level == Level::None => {
            let plan = plan(format!("Thinking: {effort} effort (minimum)"));
            ThinkingPlan { warning: Some(ALWAYS.to_owned()), ..plan }
        }
        Thinking::Adaptive(effort) => plan(format!("Thinking: {} effort", effort.unwrap_or(level.word()))),
    }
}

/// Returns the required `max_tokens`. `asked` limits the answer; a budget for thinking is added to it.
fn max_tokens(model: &str, thinking: Thinking, asked: Option<u32>) -> u32 {
    // Newer models have larger limits, and the API reports a limit that is too large.
    let limit = if family(model) == Family::Budget { OUTPUT_LIMIT } else { u32::MAX };
    let tokens = match thinking {
        Thinking::Unsaid | Thinking::Off(_) => asked.unwrap_or(UNSAID),
        Thinking::Budget(budget) => budget.saturating_add(asked.unwrap_or(ANSWER).max(1)),
        Thinking::Adaptive(_) => asked.unwrap_or(OUTPUT_LIMIT),
    };
    tokens.clamp(1, limit)
}

fn max_budget(model: &str) -> u32 {
    let small = ["claude-haiku-4-5", "claude-3-7-sonnet"].iter().any(|id| model.starts_with(id));
    if small { 32_000 } else { OUTPUT_LIMIT }
}

/// Returns the family of a model. A name without a version is a newer model, because the names of all older models have
/// one.
fn family(model: &str) -> Family {
    let is = |line: &str| model.split('-').any(|part| part == line);
    match version(model) {
        _ if is("fable") || is("mythos") => Family::Always,
        Some(version) if version < (4, 6) => Family::Budget,
        Some(version) if version < (5, 0) => Family::Optional,
        Some((5, 0)) => Family::Default("disabled"),
        Some((5, 5)) if is("haiku") => Family::Default("disabled"),
        Some((5, 5)) if is("sonnet") => Family::Default("between_tools"),
        _ => Family::Always,
    }
}

/// Returns true for models that bind their thinking to the conversation: Fable and Mythos from 5.1, others from 5.5.
fn binds_thinking(model: &str) -> bool {
    version(model).is_some_and(|version| version > (5, 0))
}

/// Parses the version of a name: `claude-sonnet-4-5-20250929` is 4.5, `claude-opus-4-20250514` 4.0,
/// `claude-3-7-sonnet-latest` 3.7, `claude-2.1` 2.1.
fn version(model: &str) -> Option<(u32, u32)> {
    // Longer numbers are dates.
    let number = |part: &str| part.parse().ok().filter(|_| part.len() <= 2);
    let mut parts = model.split(['-', '.', '@']).map(number).skip_while(Option::is_none);
    let major = parts.next()??;
    Some((major, parts.next().flatten().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_parsed_from_names() {
        for (model, expected) in [
            ("claude-sonnet-4-5", Some((4, 5))),
            ("claude-sonnet-4-5-20250929", Some((4, 5))),
            ("claude-opus-4-5@20251101", Some((4, 5))),
            ("claude-opus-4-20250514", Some((4, 0))),
            ("claude-opus-4-1", Some((4, 1))),
            ("claude-3-7-sonnet-20250219", Some((3, 7))),
            ("claude-3-haiku-20240307", Some((3, 0))),
            ("claude-2.1", Some((2, 1))),
            ("claude-sonnet-4-6", Some((4, 6))),
            ("claude-opus-4-10", Some((4, 10))),
            ("claude-opus-5", Some((5, 0))),
            ("claude-sonnet-10-1-20270101", Some((10, 1))),
            ("claude-mythos-preview", None),
            ("claude-next-20270101", None),
            ("claude-", None),
        ] {
            assert_eq!(version(model), expected, "{model}");
        }
    }

    #[test]
    fn shown_setting_equals_sent_setting() {
        let levels = [None, Some(Level::None), Some(Level::Low), Some(Level::Med), Some(Level::High)];
        let budgets =
            ["provider default", "off", "low (22,016 tokens)", "medium (43,008 tokens)", "high (59,904 tokens)"];
        let small =
            ["provider default", "off", "low (11,349 tokens)", "medium (21,674 tokens)", "high (32,000 tokens)"];
        let efforts = ["provider default", "off", "low effort", "medium effort", "high effort"];
        let always = ["provider default", "low effort (minimum)", "low effort", "medium effort", "high effort"];
        let (unsaid, default) = (Thinking::Unsaid, Thinking::Adaptive(None));
        let (disabled, between) = (Thinking::Off("disabled"), Thinking::Off("between_tools"));
        let least = Thinking::Adaptive(Some("low"));
        for (model, expected, without_level, none) in [
            ("claude-sonnet-4-5", budgets, unsaid, unsaid),
            ("claude-opus-4-5-20251101", budgets, unsaid, unsaid),
            ("claude-sonnet-4-20250514", budgets, unsaid, unsaid),
            ("claude-haiku-4-5", small, unsaid, unsaid),
            ("claude-haiku-4-5-20251001", small, unsaid, unsaid),
            ("claude-3-7-sonnet-latest", small, unsaid, unsaid),
            ("claude-sonnet-4-6", efforts, unsaid, unsaid),
            ("claude-opus-4-8", efforts, unsaid, unsaid),
            ("claude-opus-5", efforts, default, disabled),
            ("claude-sonnet-5", efforts, default, disabled),
            ("claude-haiku-5-5", efforts, default, disabled),
            ("claude-sonnet-5-5", efforts, default, between),
            ("claude-opus-5-5", always, default, least),
            ("claude-fable-5", always, default, least),
            ("claude-fable-5-1", always, default, least),
            ("claude-mythos-preview", always, default, least),
            ("claude-sonnet-7", always, default, least),
        ] {
            for (level, expected) in levels.into_iter().zip(expected) {
                let shown = explain(model, level);
                assert_eq!(shown.description, [format!("Thinking: {expected}")], "{model} {level:?}");
                let sent = wire(model, level);
                let warned = level == Some(Level::None) && none == least;
                assert_eq!(shown.warning.is_some(), warned, "{model} {level:?}");
                match level {
                    None => assert_eq!(sent, without_level, "{model}"),
                    Some(Level::None) => assert_eq!(sent, none, "{model}"),
                    Some(_) => match sent {
                        Thinking::Budget(tokens) => assert!(expected.contains(&thousands(tokens))),
                        Thinking::Adaptive(Some(effort)) => assert_eq!(expected, format!("{effort} effort")),
                        other => panic!("{model} {level:?}: {other:?}"),
                    },
                }
            }
        }
    }

    #[test]
    fn peculiarities_follow_from_the_name() {
        for (model, forced_tools, bound_thinking) in [
            ("claude-sonnet-4-5", true, false),
            ("claude-opus-5", true, false),
            ("claude-haiku-5-5", true, true),
            ("claude-sonnet-5-5", false, true),
            ("claude-opus-5-5", false, true),
            ("claude-fable-5", false, false),
            ("claude-fable-5-1", false, true),
        ] {
            let settings = settings(model, Some(Level::High), true, None);
            assert_eq!((settings.forced_tools, settings.bound_thinking), (forced_tools, bound_thinking), "{model}");
            let off = matches!(settings.thinking, Thinking::Unsaid | Thinking::Off(_));
            assert_eq!(off, forced_tools, "{model}");
        }
    }

    #[test]
    fn answer_has_tokens_besides_thinking() {
        let most = |model: &str, level, asked| max_tokens(model, wire(model, level), asked);
        assert_eq!(most("claude-sonnet-4-5", None, None), 32_000);
        assert_eq!(most("claude-sonnet-4-5", None, Some(100)), 100);
        assert_eq!(most("claude-sonnet-4-5", None, Some(0)), 1);
        assert_eq!(most("claude-sonnet-4-5", None, Some(500_000)), 64_000);
        assert_eq!(most("claude-sonnet-4-5", Some(Level::Med), None), 47_104);
        assert_eq!(most("claude-sonnet-4-5", Some(Level::Med), Some(0)), 43_009);
        assert_eq!(most("claude-sonnet-4-5", Some(Level::High), None), 64_000);
        assert_eq!(most("claude-sonnet-4-5", Some(Level::High), Some(u32::MAX)), 64_000);
        assert_eq!(most("claude-haiku-4-5", Some(Level::High), None), 36_096);
        assert_eq!(most("claude-opus-4-6", Some(Level::High), None), 64_000);
        assert_eq!(most("claude-opus-4-6", Some(Level::Low), Some(128_000)), 128_000);
        assert_eq!(most("claude-opus-4-6", None, Some(128_000)), 128_000);
        assert_eq!(most("claude-opus-4-6", None, None), 32_000);
        assert_eq!(most("claude-opus-5-5", None, None), 64_000);
        assert_eq!(most("claude-opus-5", Some(Level::None), None), 32_000);
    }
}
