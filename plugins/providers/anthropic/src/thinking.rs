//! The thinking setting and the answer limit for each model and level.

use patchbay_codecs::messages::Thinking;
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

/// Returns the setting that is sent for a level.
pub(crate) fn wire(model: &str, level: Option<Level>) -> Thinking {
    match level {
        None | Some(Level::None) => Thinking::Unsaid,
        Some(level) if is_adaptive(model) => Thinking::Adaptive(level.word()),
        Some(level) => Thinking::Budget(level.budget(MIN_BUDGET, max_budget(model)).min(OUTPUT_LIMIT - ANSWER)),
    }
}

/// Describes the setting that is sent, for people.
pub(crate) fn explain(model: &str, level: Option<Level>) -> ThinkingPlan {
    let Some(level) = level else { return plan("Thinking: provider default") };
    match wire(model, Some(level)) {
        Thinking::Unsaid => plan("Thinking: off"),
        Thinking::Budget(tokens) => plan(format!("Thinking: {} ({} tokens)", level.word(), thousands(tokens))),
        Thinking::Adaptive(effort) => plan(format!("Thinking: {effort} effort")),
    }
}

/// Returns the required `max_tokens`. `asked` limits the answer; a budget for thinking is added to it.
pub(crate) fn max_tokens(model: &str, thinking: Thinking, asked: Option<u32>) -> u32 {
    // Newer models have larger limits, and the API reports a limit that is too large.
    let limit = if is_adaptive(model) { u32::MAX } else { OUTPUT_LIMIT };
    let tokens = match thinking {
        Thinking::Unsaid => asked.unwrap_or(UNSAID),
        Thinking::Budget(budget) => budget.saturating_add(asked.unwrap_or(ANSWER).max(1)),
        Thinking::Adaptive(_) => asked.unwrap_or(OUTPUT_LIMIT),
    };
    tokens.clamp(1, limit)
}

fn max_budget(model: &str) -> u32 {
    let small = ["claude-haiku-4-5", "claude-3-7-sonnet"].iter().any(|id| model.starts_with(id));
    if small { 32_000 } else { OUTPUT_LIMIT }
}

/// Returns true for models with adaptive thinking, from version 4.6. Older models take a budget. A name without a
/// version is a newer model, because the names of all older models have one.
fn is_adaptive(model: &str) -> bool {
    version(model).is_none_or(|version| version >= (4, 6))
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
        for (model, expected) in [
            ("claude-sonnet-4-5", budgets),
            ("claude-opus-4-5-20251101", budgets),
            ("claude-sonnet-4-20250514", budgets),
            ("claude-haiku-4-5", small),
            ("claude-haiku-4-5-20251001", small),
            ("claude-3-7-sonnet-latest", small),
            ("claude-sonnet-4-6", efforts),
            ("claude-opus-5", efforts),
            ("claude-mythos-preview", efforts),
        ] {
            for (level, expected) in levels.into_iter().zip(expected) {
                let shown = explain(model, level);
                assert_eq!(shown.description, [format!("Thinking: {expected}")], "{model} {level:?}");
                assert_eq!(shown.warning, None);
                match wire(model, level) {
                    Thinking::Unsaid => assert!(level.is_none_or(|level| level == Level::None)),
                    Thinking::Budget(tokens) => assert!(expected.contains(&thousands(tokens))),
                    Thinking::Adaptive(effort) => assert_eq!(expected, format!("{effort} effort")),
                }
            }
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
    }
}
