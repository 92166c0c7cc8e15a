//! The thinking setting, the answer limit and the peculiarities of each model and level.
//!
//! Checked on 2026-11-23 against the Python SDK anthropic 2.12.0 (`ThinkingConfigParam`, `OutputConfigParam`,
//! `ThinkingTypes`, `DEPRECATED_MODELS`) and platform.claude.com: "Thinking", "Troubleshooting thinking", "What's new" in
//! Claude Opus 5, Opus 5.5 and Sonnet 5.5, "Migration guide".

use patchbay_codecs::messages::{Settings, Thinking};
use patchbay_codecs::thinking::{Level, plan, thousands};
use patchbay_provider_sdk::ThinkingPlan;
use serde_json::{Map, Value};

/// The smallest budget that the API accepts.
const MIN_BUDGET: u32 = 1024;

/// Maximum number of tokens of an answer including thinking, for a model with a budget.
const OUTPUT_LIMIT: u32 = 64_000;

/// Tokens for the answer in addition to its thinking. The API refuses a budget that leaves no tokens for the answer.
const ANSWER: u32 = 4096;

/// The default limit of an answer without thinking. Every model here supports it, and few answers are as long.
const UNSAID: u32 = 32_000;

const ALWAYS: &str = "This model does not support disabling thinking";

/// How the thinking of a model is turned on and off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// By a budget in tokens; off by default. For models before 4.6.
    Budget,
    /// By an effort; off by default. For models from 4.6 to 4.8.
    Optional,
    /// By an effort; on by default, and turned off with this type.
    Default(&'static str),
    /// By an effort; always on. Also assumed for all models that this table does not know, because they accept such requests.
    Always,
}

/// The known properties of a model: from its name, and from the host for a model that is newer than this table.
#[derive(Debug)]
pub(crate) struct Known<'a> {
    model: &'a str,
    family: Family,
    /// The levels besides `none`, in ascending order.
    levels: Vec<Level>,
    /// The limit of the answer in tokens, if the host knows it.
    limit: Option<u32>,
}

impl<'a> Known<'a> {
    /// Returns the properties of `model`. [`crate::catalogue`] describes `facts`.
    pub(crate) fn of(model: &'a str, facts: Option<&Map<String, Value>>) -> Self {
        let words = |name: &str| facts.and_then(|facts| facts.get(name)).and_then(Value::as_array);
        let limit = facts.and_then(|facts| facts.get("max-output-tokens")).and_then(Value::as_u64);
        let limit = limit.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX));
        let mut known = Self { model, family: family(model), levels: levels(model).to_vec(), limit };
        if is_newer(model) {
            if let Some(types) = words("thinking-types") {
                let has = |word: &str| types.iter().any(|known| known == word);
                known.family = match () {
                    () if has("enabled") && !has("adaptive") => Family::Budget,
                    () if has("disabled") => Family::Default("disabled"),
                    () if has("between_tools") => Family::Default("between_tools"),
                    () => Family::Always,
                };
            }
            let efforts = words("efforts").map(|efforts| {
                let has = |level: &Level| efforts.iter().any(|effort| effort == level.word());
                Level::ALL[1..].iter().copied().filter(has).collect::<Vec<_>>()
            });
            known.levels = efforts.filter(|efforts| !efforts.is_empty()).unwrap_or(known.levels);
        }
        known
    }

    /// Returns the level that is sent; `None` if the API decides.
    pub(crate) fn effective(&self, level: Option<&str>) -> Option<Level> {
        match level.and_then(Level::parse)? {
            Level::None if matches!(wire(self, Some(Level::None)), Thinking::Adaptive(_)) => Some(Level::Low),
            Level::None => Some(Level::None),
            level => Some(level.within(&self.levels).0),
        }
    }

    /// Returns false for models that refuse to be forced to call a tool.
    pub(crate) fn forced_tools(&self) -> bool {
        !matches!(self.family, Family::Always | Family::Default("between_tools"))
    }
}

/// Returns the settings of a request. `forced` is true if the request forces a call of a tool,
/// and `asked` limits the answer.
pub(crate) fn settings(known: &Known<'_>, level: Option<Level>, forced: bool, asked: Option<u32>) -> Settings {
    let forced_tools = known.forced_tools();
    // The API refuses thinking together with a forced tool.
    let level = if forced && forced_tools { Some(Level::None) } else { level };
    let thinking = limited(wire(known, level), asked);
    Settings {
        thinking,
        max_tokens: max_tokens(known, thinking, asked),
        forced_tools,
        bound_thinking: binds_thinking(known.model),
    }
}

/// Lowers a thinking budget to half of the answer's limit, which counts thinking and answer together. If that is less than the
/// smallest budget, thinking is turned off.
fn limited(thinking: Thinking, asked: Option<u32>) -> Thinking {
    match (thinking, asked.map(|asked| asked / 2)) {
        (Thinking::Budget(_), Some(half)) if half < MIN_BUDGET => Thinking::Unsaid,
        (Thinking::Budget(budget), Some(half)) => Thinking::Budget(budget.min(half)),
        (thinking, _) => thinking,
    }
}

/// Returns the setting that is sent for a level.
fn wire(known: &Known<'_>, level: Option<Level>) -> Thinking {
    let model = known.model;
    match (known.family, level) {
        (Family::Budget | Family::Optional, None | Some(Level::None)) => Thinking::Unsaid,
        (Family::Budget, Some(level)) => {
            Thinking::Budget(level.budget(MIN_BUDGET, max_budget(model)).min(OUTPUT_LIMIT - ANSWER))
        }
        // Thinks as without a setting, but also returns summaries of the thoughts.
        (Family::Default(_) | Family::Always, None) => Thinking::Adaptive(None),
        (Family::Default(off), Some(Level::None)) => Thinking::Off(off),
        (Family::Always, Some(Level::None)) => Thinking::Adaptive(Some(Level::Low.word())),
        (_, Some(level)) => Thinking::Adaptive(Some(level.within(&known.levels).0.word())),
    }
}

/// Returns the levels of a model besides `none` (2026-11-23, platform.claude.com, "Effort").
fn levels(model: &str) -> &'static [Level] {
    const ALL: &[Level] = &[Level::Low, Level::Med, Level::High, Level::XHigh, Level::Max];
    match family(model) {
        Family::Budget => &ALL[..3],
        _ if version(model) == Some((4, 6)) => &[Level::Low, Level::Med, Level::High, Level::Max],
        _ => ALL,
    }
}

/// Describes the setting that is sent, for the user.
pub(crate) fn explain(known: &Known<'_>, level: Option<&str>) -> ThinkingPlan {
    let Some(level) = level.and_then(Level::parse) else { return plan("Thinking: provider default") };
    let wire = wire(known, Some(level));
    let (level, warning) = if level == Level::None { (level, None) } else { level.within(&known.levels) };
    match wire {
        Thinking::Unsaid | Thinking::Off(_) => plan("Thinking: off"),
        Thinking::Budget(tokens) => {
            let plan = plan(format!("Thinking: {} ({} tokens)", level.word(), thousands(tokens)));
            ThinkingPlan { warning, ..plan }
        }
        Thinking::Adaptive(Some(effort)) if level == Level::None => {
            let plan = plan(format!("Thinking: {effort} effort (minimum)"));
            ThinkingPlan { warning: Some(ALWAYS.to_owned()), ..plan }
        }
        Thinking::Adaptive(effort) => {
            let plan = plan(format!("Thinking: {} effort", effort.unwrap_or(level.word())));
            ThinkingPlan { warning, ..plan }
        }
    }
}

/// Returns the required `max_tokens`. `asked` limits the answer and its thinking together.
fn max_tokens(known: &Known<'_>, thinking: Thinking, asked: Option<u32>) -> u32 {
    // Newer models have larger limits. If a limit is too large, the API says so.
    let limit = if known.family == Family::Budget { OUTPUT_LIMIT } else { known.limit.unwrap_or(u32::MAX).max(1) };
    let tokens = match thinking {
        Thinking::Unsaid | Thinking::Off(_) => asked.unwrap_or(UNSAID),
        Thinking::Budget(budget) => asked.unwrap_or(budget.saturating_add(ANSWER)),
        Thinking::Adaptive(_) => asked.unwrap_or(OUTPUT_LIMIT),
    };
    tokens.clamp(1, limit)
}

fn max_budget(model: &str) -> u32 {
    let small = ["claude-haiku-4-5", "claude-3-7-sonnet"].iter().any(|id| model.starts_with(id));
    if small { 32_000 } else { OUTPUT_LIMIT }
}

/// Returns the family of a model. A name without a version is a newer model, because the
/// names of all older models have one.
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

/// Returns true for a model that this table does not know by its name: the newest it knows are 5.5, and Fable and Mythos 5.2.
fn is_newer(model: &str) -> bool {
    version(model).is_none_or(|version| version > (5, 5))
}

/// Returns true for models that bind their thinking to the conversation: Fable and Mythos from 5.1, other
/// models from 5.5, and models without a version.
fn binds_thinking(model: &str) -> bool {
    version(model).is_none_or(|version| version > (5, 0))
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
        let levels = [
            None,
            Some(Level::None),
            Some(Level::Low),
            Some(Level::Med),
            Some(Level::High),
            Some(Level::XHigh),
            Some(Level::Max),
        ];
        let of = |none, levels: [&'static str; 5]| [&["provider default", none], &levels[..]].concat();
        let most = "high (59,904 tokens)";
        let budgets = of("off", ["low (22,016 tokens)", "medium (43,008 tokens)", most, most, most]);
        let most = "high (32,000 tokens)";
        let small = of("off", ["low (11,349 tokens)", "medium (21,674 tokens)", most, most, most]);
        let all = ["low effort", "medium effort", "high effort", "xhigh effort", "max effort"];
        let without_xhigh = ["low effort", "medium effort", "high effort", "high effort", "max effort"];
        let (efforts, older, always) = (of("off", all), of("off", without_xhigh), of("low effort (minimum)", all));
        let (unsaid, default) = (Thinking::Unsaid, Thinking::Adaptive(None));
        let (disabled, between) = (Thinking::Off("disabled"), Thinking::Off("between_tools"));
        let least = Thinking::Adaptive(Some("low"));
        for (model, expected, without_level, none) in [
            ("claude-sonnet-4-5", &budgets, unsaid, unsaid),
            ("claude-opus-4-5-20251101", &budgets, unsaid, unsaid),
            ("claude-sonnet-4-20250514", &budgets, unsaid, unsaid),
            ("claude-haiku-4-5", &small, unsaid, unsaid),
            ("claude-haiku-4-5-20251001", &small, unsaid, unsaid),
            ("claude-3-7-sonnet-latest", &small, unsaid, unsaid),
            ("claude-sonnet-4-6", &older, unsaid, unsaid),
            ("claude-opus-4-8", &efforts, unsaid, unsaid),
            ("claude-opus-5", &efforts, default, disabled),
            ("claude-sonnet-5", &efforts, default, disabled),
            ("claude-haiku-5-5", &efforts, default, disabled),
            ("claude-sonnet-5-5", &efforts, default, between),
            ("claude-opus-5-5", &always, default, least),
            ("claude-fable-5", &always, default, least),
            ("claude-fable-5-1", &always, default, least),
            ("claude-mythos-5-2", &always, default, least),
            ("claude-sonnet-7", &always, default, least),
        ] {
            for (level, expected) in levels.into_iter().zip(expected.iter().copied()) {
                let known = Known::of(model, None);
                let shown = explain(&known, level.map(Level::name));
                assert_eq!(shown.description, [format!("Thinking: {expected}")], "{model} {level:?}");
                let sent = wire(&known, level);
                let missing = level.is_some_and(|level| level != Level::None && !self::levels(model).contains(&level));
                let warned = missing || level == Some(Level::None) && none == least;
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
            ("claude-opus-latest", false, true),
        ] {
            let settings = settings(&Known::of(model, None), Some(Level::High), true, None);
            assert_eq!((settings.forced_tools, settings.bound_thinking), (forced_tools, bound_thinking), "{model}");
            let off = matches!(settings.thinking, Thinking::Unsaid | Thinking::Off(_));
            assert_eq!(off, forced_tools, "{model}");
        }
    }

    #[test]
    fn answer_has_tokens_besides_thinking() {
        let most = |model: &str, level, asked| settings(&Known::of(model, None), level, false, asked).max_tokens;
        assert_eq!(most("claude-sonnet-4-5", None, None), 32_000);
        assert_eq!(most("claude-sonnet-4-5", None, Some(100)), 100);
        assert_eq!(most("claude-sonnet-4-5", None, Some(0)), 1);
        assert_eq!(most("claude-sonnet-4-5", None, Some(500_000)), 64_000);
        assert_eq!(most("claude-sonnet-4-5", Some(Level::Med), None), 47_104);
        assert_eq!(most("claude-sonnet-4-5", Some(Level::Med), Some(8_000)), 8_000);
        assert_eq!(most("claude-sonnet-4-5", Some(Level::Med), Some(0)), 1);
        let thinks =
            |asked| settings(&Known::of("claude-sonnet-4-5", None), Some(Level::Med), false, Some(asked)).thinking;
        assert_eq!(
            [thinks(100_000), thinks(8_000), thinks(2_047)],
            [Thinking::Budget(43_008), Thinking::Budget(4_000), Thinking::Unsaid,]
        );
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

    #[test]
    fn facts_decide_about_newer_models() {
        let facts = |types: &[&str]| {
            let facts = serde_json::json!({
                "thinking-types": types, "efforts": ["low", "high"], "max-output-tokens": 9000,
            });
            facts.as_object().expect("an object").clone()
        };
        for (types, off, forced) in [
            (&["adaptive"][..], Thinking::Adaptive(Some("low")), false),
            (&["adaptive", "disabled"], Thinking::Off("disabled"), true),
            (&["adaptive", "between_tools"], Thinking::Off("between_tools"), false),
            (&["enabled", "disabled"], Thinking::Unsaid, true),
        ] {
            let facts = facts(types);
            let known = Known::of("claude-opus-7", Some(&facts));
            assert_eq!((wire(&known, Some(Level::None)), known.forced_tools()), (off, forced), "{types:?}");
            if forced != (off == Thinking::Unsaid) {
                assert_eq!(wire(&known, Some(Level::XHigh)), Thinking::Adaptive(Some("high")));
                let shown = explain(&known, Some("med"));
                assert_eq!(shown.warning.as_deref(), Some("This model has no level med; low is sent instead"));
                assert_eq!(settings(&known, Some(Level::High), false, None).max_tokens, 9000);
            }
            // The facts are ignored for models in the table.
            assert_eq!(Known::of("claude-opus-5", Some(&facts)).family, Family::Default("disabled"));
            assert_eq!(Known::of("claude-sonnet-4-5", Some(&facts)).family, Family::Budget);
        }
    }
}
