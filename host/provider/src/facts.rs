//! [`ModelFacts`]: the known facts about a model, parsed from the JSON objects that adapters and APIs report. The
//! catalogue collects them, and requests use them.
//!
//! The JSON is untrusted. Unknown facts are kept for adapters, but not read here. Known facts of the wrong type are
//! dropped, context windows are clamped, and strings are cleaned and truncated.

use patchbay_core::{
    Money,
    completion::{ThinkingLevel, TokenUsage},
    text,
};
use patchbay_sandbox::adapter::{FACTS_BYTES, ModelEntry, ModelSize};
use rust_decimal::Decimal;
use serde_json::{Map, Value, json};

/// A reported context window is clamped to this range, in tokens.
const WINDOW: std::ops::RangeInclusive<u64> = 1_000..=10_000_000;
/// The media types that `image/*` stands for: the types of images that Patchbay sends.
const IMAGES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// Length limit of a string, in characters.
const STRING_CHARS: usize = 200;
/// The facts whose value is a string.
const STRINGS: [&str; 6] = ["display-name", "description", "alias-of", "size", "default-level", "as-of"];
/// Maximum number of items in a list. Longer lists are dropped, except for price tiers, which are truncated.
const ITEMS: usize = 32;
/// Length limit of a thinking level's name, in characters.
const LEVEL_CHARS: usize = 16;

/// The known facts about a model. Absent facts are unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ModelFacts(Map<String, Value>);

/// A thinking level of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LevelFact {
    /// The name, as in `/model MODEL/LEVEL`.
    pub(crate) level: String,
}

/// Whether a model can be used, and until when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lifecycle {
    pub(crate) status: LifecycleStatus,
    /// The date on which the model retires or retired, as YYYY-MM-DD; `None` if unknown.
    pub(crate) retires_on: Option<String>,
    /// The id of the model that replaces it; `None` if unknown.
    pub(crate) successor: Option<String>,
}

/// The state of a model according to its facts. Patchbay never compares dates with the clock, so a model whose date has
/// passed stays `Deprecated` until its facts change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LifecycleStatus {
    #[default]
    Active,
    /// The model still works, but its provider has announced its end.
    Deprecated,
    /// The model no longer works.
    Retired,
}

/// Prices of a model's tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prices {
    /// The currency, such as `USD`.
    pub currency: String,
    /// The prices of requests below the first tier.
    pub base: TokenPrices,
    /// Prices of long requests, each with the number of input tokens above which it applies.
    pub tiers: Vec<(u64, TokenPrices)>,
}

/// Prices of one token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPrices {
    /// Price of a token that the model reads.
    pub input: Decimal,
    /// Price of a token that the model writes.
    pub output: Decimal,
    /// Price of a token that is read from a cache; `None` if unknown.
    pub cache_read: Option<Decimal>,
    /// Price of a token that is written to a cache; `None` if unknown.
    pub cache_write: Option<Decimal>,
}

/// The currency of budgets.
const USD: &str = "USD";

impl Prices {
    /// Estimates the cost of the tokens of several requests, at the base prices: tiers depend on the size of each
    /// request, which is unknown here. Returns `None` if the number overflows.
    pub fn estimate(&self, usage: TokenUsage) -> Option<Decimal> {
        self.base.cost(usage)
    }

    /// Returns the cost of one request, including tiers, rounded up. Returns `None` unless the prices are in US
    /// dollars.
    pub fn cost(&self, usage: TokenUsage) -> Option<Money> {
        let tier = self.tiers.iter().filter(|(above, _)| usage.input > *above).max_by_key(|(above, _)| *above);
        let prices = tier.map_or(&self.base, |(_, prices)| prices);
        self.is_in_dollars().then(|| money(prices.cost(usage)))
    }

    /// Returns an upper bound of a request's cost, rounded up, given the most tokens that it can use. Every input token
    /// is charged at the highest of the input and cache prices, and lower tiers are included because a request may turn
    /// out shorter. Returns `None` unless the prices are in US dollars.
    pub fn max_cost(&self, input: u64, output: u64) -> Option<Money> {
        let tiers = self.tiers.iter().filter(|(above, _)| input > *above).map(|(_, prices)| prices);
        let bound = |prices: &TokenPrices| {
            let read = [Some(prices.input), prices.cache_read, Some(prices.written())].into_iter().flatten().max();
            let usage = TokenUsage { input, output, ..TokenUsage::default() };
            money(TokenPrices { input: read.unwrap_or(prices.input), ..prices.clone() }.cost(usage))
        };
        let max = std::iter::once(&self.base).chain(tiers).map(bound).max();
        max.filter(|_| self.is_in_dollars())
    }

    fn is_in_dollars(&self) -> bool {
        self.currency == USD
    }
}

impl TokenPrices {
    /// Returns the price of a token that is written to the cache. If it is unknown, assumes 1.25 times the input price,
    /// the highest ratio in the bundled tables.
    fn written(&self) -> Decimal {
        self.cache_write.unwrap_or(self.input * Decimal::new(125, 2))
    }

    /// Returns the cost of the tokens of a request. `usage.input` includes tokens that were read from or written to the
    /// cache. If the price of cached tokens is unknown, the input price applies. Returns `None` if the number
    /// overflows.
    fn cost(&self, usage: TokenUsage) -> Option<Decimal> {
        let TokenUsage { input, output, cache_read, cache_write, .. } = usage;
        let other = input.saturating_sub(cache_read).saturating_sub(cache_write);
        let parts = [
            (other, self.input),
            (cache_read, self.cache_read.unwrap_or(self.input)),
            (cache_write, self.written()),
            (output, self.output),
        ];
        parts
            .into_iter()
            .try_fold(Decimal::ZERO, |sum, (tokens, price)| sum.checked_add(Decimal::from(tokens).checked_mul(price)?))
    }
}

/// Converts an amount in US dollars, rounded up. An overflow (`None`) becomes [`Money::MOST`].
fn money(amount: Option<Decimal>) -> Money {
    let nanos = amount.and_then(|amount| amount.checked_mul(Decimal::from(Money::NANOS)));
    let nanos = nanos.and_then(|nanos| i64::try_from(nanos.ceil()).ok());
    nanos.map_or(Money::MOST, |nanos| Money::from_nanos(nanos).min(Money::MOST))
}

impl ModelFacts {
    /// Parses facts that an adapter reported. Returns `None` if `json` is too long or not a JSON object.
    pub(crate) fn parse(json: &str) -> Option<Self> {
        if json.len() > FACTS_BYTES {
            return None;
        }
        let Ok(Value::Object(mut facts)) = serde_json::from_str(json) else { return None };
        for (name, value) in &mut facts {
            if let (true, Value::String(text)) = (STRINGS.contains(&name.as_str()), value) {
                *text = text::excerpt(text, STRING_CHARS);
            }
        }
        facts.retain(|name, value| check_for(name).is_none_or(|check| check(value)));
        Some(Self(facts))
    }

    /// Returns the facts of a catalogue entry. If a field of the entry and its JSON object disagree, the JSON object
    /// wins.
    pub(crate) fn of_entry(entry: &ModelEntry) -> Self {
        let mut facts = Map::new();
        if entry.size != ModelSize::Unknown {
            facts.insert("size".to_owned(), json!(entry.size.as_str()));
        }
        if let Some(window) = entry.context_window {
            facts.insert("context-window".to_owned(), json!(window));
        }
        if !entry.input_media.is_empty() {
            facts.insert("input-media".to_owned(), json!(entry.input_media));
        }
        if entry.deprecated {
            facts.insert("lifecycle".to_owned(), json!({"status": "deprecated"}));
        }
        let mut facts = Self(facts);
        if let Some(own) = entry.facts.as_deref().and_then(Self::parse) {
            facts.overlay(&own);
        }
        facts
    }

    /// Overwrites facts with the facts in `other`. Objects are merged field by field, because an API that reports a
    /// model's release date may omit its successor. Prices are merged only if they have the same currency and unit.
    pub(crate) fn overlay(&mut self, other: &Self) {
        for (name, value) in &other.0 {
            match (self.0.get_mut(name), value) {
                (Some(Value::Object(own)), Value::Object(other)) if name != "prices" || has_unit_of(own, other) => {
                    own.extend(other.iter().map(|(name, value)| (name.clone(), value.clone())));
                }
                _ => drop(self.0.insert(name.clone(), value.clone())),
            }
        }
    }

    /// Adds thinking levels that the operator lists for the model in `config.toml`, unless the model has them already.
    pub(crate) fn add_levels(&mut self, levels: &[ThinkingLevel]) {
        let new: Vec<_> = levels.iter().filter(|level| !self.has_level(**level)).collect();
        if new.is_empty() {
            return;
        }
        if let Value::Array(known) = self.0.entry("levels").or_insert_with(|| json!([])) {
            known.extend(new.into_iter().map(|level| json!({"level": level.as_str()})));
        }
    }

    /// Returns the facts as adapters receive them; `None` if nothing is known.
    pub(crate) fn to_json(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| Value::Object(self.0.clone()).to_string())
    }

    /// Returns the relative size.
    pub(crate) fn size(&self) -> ModelSize {
        match self.text("size") {
            Some("small") => ModelSize::Small,
            Some("normal") => ModelSize::Normal,
            Some("large") => ModelSize::Large,
            _ => ModelSize::Unknown,
        }
    }

    /// Returns the largest input that the model accepts, in tokens.
    pub(crate) fn context_window(&self) -> Option<u64> {
        let number = |name: &str| self.0.get(name).and_then(Value::as_u64);
        // Some APIs refuse an input long before it fills the window.
        let window = ["context-window", "max-input-tokens"].into_iter().filter_map(number).min()?;
        Some(window.clamp(*WINDOW.start(), *WINDOW.end()))
    }

    /// Returns the media types that a message to the model may contain. `image/*` stands for the images that Patchbay sends.
    pub(crate) fn input_media(&self) -> Option<Vec<String>> {
        let media = self.0.get("input-media")?.as_array()?.iter().filter_map(Value::as_str);
        let each = |media| match media {
            "image/*" => IMAGES.to_vec(),
            media => vec![media],
        };
        Some(media.flat_map(each).map(str::to_owned).collect())
    }

    /// Whether the model is known to be for conversations.
    pub(crate) fn is_for_chat(&self) -> bool {
        let purposes = self.0.get("purposes").and_then(Value::as_array);
        purposes.is_some_and(|purposes| purposes.iter().any(|purpose| purpose == "chat"))
    }

    /// Whether the model belongs at the head of lists of its provider's models.
    pub(crate) fn is_default(&self) -> bool {
        self.0.get("default") == Some(&Value::Bool(true))
    }

    /// Returns the thinking levels as reported, in ascending order; `None` if they are unknown.
    pub(crate) fn levels(&self) -> Option<Vec<LevelFact>> {
        let levels = self.0.get("levels")?.as_array()?;
        let level = |level: &Value| Some(LevelFact { level: level.get("level")?.as_str()?.to_owned() });
        Some(levels.iter().filter_map(level).collect())
    }

    /// Returns the thinking levels that Patchbay knows, in ascending order. If the model's levels are unknown, returns
    /// the levels that most models have.
    pub(crate) fn thinking_levels(&self) -> Vec<ThinkingLevel> {
        let is_known = self.levels().is_some();
        let has = |level: &ThinkingLevel| if is_known { self.has_level(*level) } else { level.is_common() };
        ThinkingLevel::ALL.into_iter().filter(has).collect()
    }

    /// Whether the model is known to have this level.
    pub(crate) fn has_level(&self, level: ThinkingLevel) -> bool {
        self.levels().is_some_and(|levels| levels.iter().any(|fact| fact.level == level.as_str()))
    }

    /// Returns whether the model can be used, and until when.
    pub(crate) fn lifecycle(&self) -> Lifecycle {
        let Some(lifecycle) = self.0.get("lifecycle") else { return Lifecycle::default() };
        let text = |name: &str| lifecycle.get(name).and_then(Value::as_str);
        Lifecycle {
            status: match text("status") {
                Some("deprecated") => LifecycleStatus::Deprecated,
                Some("retired") => LifecycleStatus::Retired,
                _ => LifecycleStatus::Active,
            },
            retires_on: text("retires-on").filter(|date| is_date(date)).map(str::to_owned),
            successor: text("successor").map(|successor| text::excerpt(successor, STRING_CHARS)),
        }
    }

    /// Returns the day of release, as YYYY-MM-DD.
    pub(crate) fn released_on(&self) -> Option<&str> {
        self.0.get("lifecycle")?.get("released-on")?.as_str().filter(|date| is_date(date))
    }

    /// Returns the prices, if both the input and output prices are known.
    pub(crate) fn prices(&self) -> Option<Prices> {
        let prices = self.0.get("prices")?;
        let tokens = Decimal::from(prices.get("per-tokens")?.as_u64().filter(|tokens| *tokens > 0)?);
        let amount = |of: &Value, name: &str| {
            let text = of.get(name)?.as_str().filter(|text| is_amount(text))?;
            Decimal::from_str_exact(text).ok()?.checked_div(tokens)
        };
        let base = TokenPrices {
            input: amount(prices, "input")?,
            output: amount(prices, "output")?,
            cache_read: amount(prices, "cache-read"),
            cache_write: amount(prices, "cache-write"),
        };
        // A tier lists only the prices that differ from the base.
        let tier = |tier: &Value| {
            let prices = TokenPrices {
                input: amount(tier, "input").unwrap_or(base.input),
                output: amount(tier, "output").unwrap_or(base.output),
                cache_read: amount(tier, "cache-read").or(base.cache_read),
                cache_write: amount(tier, "cache-write").or(base.cache_write),
            };
            (tier.get("above-input-tokens").and_then(Value::as_u64).unwrap_or_default(), prices)
        };
        let tiers = prices.get("tiers").and_then(Value::as_array);
        Some(Prices {
            currency: prices.get("currency")?.as_str().filter(|currency| is_currency(currency))?.to_owned(),
            tiers: tiers.map(|tiers| tiers.iter().take(ITEMS).map(tier).collect()).unwrap_or_default(),
            base,
        })
    }

    /// Returns the longest answer that the model can give, in tokens.
    pub(crate) fn max_output_tokens(&self) -> Option<u64> {
        self.0.get("max-output-tokens")?.as_u64()
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }
}

/// Returns a function that checks the value of the fact `name`; `None` for a fact that this version does not know. The
/// checks also bound the length of names, media types and lists.
fn check_for(name: &str) -> Option<fn(&Value) -> bool> {
    fn words(value: &Value) -> bool {
        let is_word = |value: &Value| {
            value.as_str().is_some_and(|word| word.len() <= 127 && word.bytes().all(|byte| byte.is_ascii_graphic()))
        };
        value.as_array().is_some_and(|items| items.len() <= ITEMS && items.iter().all(is_word))
    }
    fn levels(value: &Value) -> bool {
        let is_level = |fact: &Value| {
            let level = fact.get("level").and_then(Value::as_str).unwrap_or_default();
            (1..=LEVEL_CHARS).contains(&level.len()) && level.bytes().all(|byte| byte.is_ascii_lowercase())
        };
        value.as_array().is_some_and(|levels| levels.len() <= ITEMS && levels.iter().all(is_level))
    }
    Some(match name {
        name if STRINGS.contains(&name) => Value::is_string,
        "purposes" | "input-media" | "output-media" => words,
        "context-window" | "max-input-tokens" | "max-output-tokens" => Value::is_u64,
        "levels" => levels,
        "capabilities" | "prices" | "lifecycle" => Value::is_object,
        "default" => Value::is_boolean,
        _ => return None,
    })
}

/// Whether the currency and the number of tokens in `other`, where present, equal those in `prices`.
fn has_unit_of(prices: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    ["currency", "per-tokens"].iter().all(|name| other.get(*name).is_none_or(|unit| prices.get(*name) == Some(unit)))
}

fn is_date(date: &str) -> bool {
    date.len() == 10
        && date
            .bytes()
            .enumerate()
            .all(|(at, byte)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() })
}

/// Returns whether a string is a decimal number of moderate length. Exponents are refused because `1e999999999` is
/// short.
fn is_amount(text: &str) -> bool {
    !text.is_empty() && text.len() <= 24 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn is_currency(text: &str) -> bool {
    text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(value: &Value) -> ModelFacts {
        ModelFacts::parse(&value.to_string()).unwrap()
    }

    #[test]
    fn values_of_a_wrong_type_are_dropped() {
        let parsed = facts(&json!({
            "size": 3, "context-window": "many", "levels": [{"level": "HIGH"}], "purposes": ["chat", 1],
            "input-media": ["image/png"], "lifecycle": [], "default": "yes", "other": [1, 2],
            "description": "two\nlines", "display-name": "x".repeat(300),
        }));
        let kept = json!({"input-media": ["image/png"], "other": [1, 2], "description": "two lines",
            "display-name": "x".repeat(200) + "…"});
        assert_eq!(parsed, facts(&kept));
        assert_eq!(parsed.0, *kept.as_object().unwrap());
        for json in ["", "[]", "{", "7", &format!("{{\"a\":\"{}\"}}", "x".repeat(FACTS_BYTES))] {
            assert_eq!(ModelFacts::parse(json), None);
        }
        assert_eq!(ModelFacts::default().to_json(), None);
    }

    #[test]
    fn windows_are_clamped_and_media_expanded() {
        for (window, expected) in [(1, 1_000), (200_000, 200_000), (u64::MAX, 10_000_000)] {
            assert_eq!(facts(&json!({"context-window": window})).context_window(), Some(expected));
        }
        assert_eq!(facts(&json!({"max-input-tokens": 922_000})).context_window(), Some(922_000));
        let shorter = json!({"context-window": 400_000, "max-input-tokens": 272_000});
        assert_eq!(facts(&shorter).context_window(), Some(272_000));
        let media = facts(&json!({"input-media": ["image/*", "application/pdf"]})).input_media().unwrap();
        assert_eq!(media, [&IMAGES[..], &["application/pdf"]].concat());
    }

    #[test]
    fn facts_are_laid_over_others_field_by_field() {
        let mut known = facts(&json!({
            "size": "small", "input-media": ["image/png"],
            "lifecycle": {"status": "deprecated", "retires-on": "2026-12-11", "successor": "new-1"},
            "prices": {"currency": "USD", "per-tokens": 1_000_000, "input": "5", "output": "25", "tiers": [{}]},
        }));
        known.overlay(&facts(&json!({
            "input-media": [], "lifecycle": {"released-on": "2025-01-02"},
            "prices": {"currency": "USD", "per-tokens": 1_000_000, "input": "4"},
        })));
        assert_eq!((known.size(), known.input_media()), (ModelSize::Small, Some(Vec::new())));
        assert_eq!(known.lifecycle().successor.as_deref(), Some("new-1"));
        assert_eq!((known.lifecycle().status, known.released_on()), (LifecycleStatus::Deprecated, Some("2025-01-02")));
        let prices = known.prices().unwrap();
        assert_eq!((prices.base.input.to_string().as_str(), prices.tiers.len()), ("0.000004", 1));
        // Prices with another unit replace all prices.
        known.overlay(&facts(&json!({"prices": {"currency": "USD", "per-tokens": 1, "input": "1", "output": "2"}})));
        let prices = known.prices().unwrap();
        assert_eq!((prices.base.output.to_string().as_str(), prices.tiers.len()), ("2", 0));
    }

    #[test]
    fn levels_of_the_operator_are_added() {
        let mut known = ModelFacts::default();
        known.add_levels(&[]);
        assert_eq!(known.levels(), None);
        known.add_levels(&[ThinkingLevel::XHigh]);
        assert_eq!(known.thinking_levels(), [ThinkingLevel::XHigh]);
        let mut known = facts(&json!({"levels": [{"level": "low", "sends": "effort low"}]}));
        known.add_levels(&[ThinkingLevel::Low, ThinkingLevel::Max]);
        assert_eq!(known.thinking_levels(), [ThinkingLevel::Low, ThinkingLevel::Max]);
        assert!(known.to_json().unwrap().contains("effort low"));
    }

    #[test]
    fn lifecycle_and_levels_are_read() {
        let parsed = facts(&json!({
            "lifecycle": {"status": "deprecated", "retires-on": "2026-11-30", "successor": "new\u{1b}-1",
                "released-on": "2025-9-1"},
            "levels": [{"level": "low", "sends": "effort low"}, {"level": "xhigh"}],
        }));
        let expected = Lifecycle {
            status: LifecycleStatus::Deprecated,
            retires_on: Some("2026-11-30".to_owned()),
            successor: Some("new-1".to_owned()),
        };
        assert_eq!((parsed.lifecycle(), parsed.released_on()), (expected, None));
        assert!(parsed.has_level(ThinkingLevel::Low) && !parsed.has_level(ThinkingLevel::High));
        assert_eq!(parsed.thinking_levels(), [ThinkingLevel::Low, ThinkingLevel::XHigh]);
        assert_eq!(ModelFacts::default().thinking_levels(), ThinkingLevel::ALL[..4]);
    }

    #[test]
    fn prices_are_exact() {
        let prices = |changed: Value| {
            let mut prices = json!({"currency": "USD", "per-tokens": 1_000_000, "input": "5", "output": "25",
                "cache-read": "0.5"});
            for (name, value) in changed.as_object().unwrap() {
                prices[name] = value.clone();
            }
            facts(&json!({"prices": prices})).prices()
        };
        let read = prices(json!({})).unwrap();
        let usage = TokenUsage { input: 1_000, output: 100, thinking: 50, cache_read: 600, cache_write: 300 };
        // 100 tokens of input at 5, 300 that are written to the cache at 6.25, 600 at 0.5, 100 of output at 25.
        assert_eq!(read.estimate(usage), Some("0.005175".parse().unwrap()));
        let endless = TokenUsage { input: u64::MAX, output: u64::MAX, ..usage };
        assert!(read.estimate(endless).is_some_and(|price| price > Decimal::from(1_000_000)));
        assert_eq!((read.base.input * Decimal::from(3), read.base.cache_write), ("0.000015".parse().unwrap(), None));
        for wrong in [
            json!({"currency": "$"}),
            json!({"per-tokens": 0}),
            json!({"input": "1e999999999"}),
            json!({"output": 25}),
            json!({"input": "-1"}),
        ] {
            assert_eq!(prices(wrong.clone()), None, "{wrong}");
        }
    }

    fn priced(prices: Value) -> Prices {
        facts(&json!({"prices": prices})).prices().unwrap()
    }

    #[test]
    fn cost_of_a_request_is_rounded_up_and_knows_tiers() {
        let tiers = json!([{"above-input-tokens": 1_000, "input": "10"}, {"above-input-tokens": 200, "output": "50"}]);
        let prices = priced(json!({
            "currency": "USD", "per-tokens": 1_000_000, "input": "5", "output": "25", "cache-write": "6.25", "tiers": tiers,
        }));
        let cost = |input, output| prices.cost(TokenUsage { input, output, ..TokenUsage::default() }).unwrap().nanos();
        assert_eq!((cost(0, 0), cost(200, 1), cost(201, 1), cost(1_001, 1)), (0, 1_025_000, 1_055_000, 10_035_000));
        // The highest cost in any tier up to this size, with all input written to the cache.
        let max = |input, output| prices.max_cost(input, output).unwrap().nanos();
        assert_eq!((max(200, 1), max(201, 1), max(1_001, 1)), (1_275_000, 1_306_250, 10_035_000));
        // A third of a billionth of a dollar is rounded up to a billionth.
        let small = json!({"currency": "USD", "per-tokens": 3_000_000_000_u64, "input": "1", "output": "1"});
        let usage = TokenUsage { input: 1, ..TokenUsage::default() };
        assert_eq!(priced(small.clone()).cost(usage), Some(Money::from_nanos(1)));
        assert_eq!(priced(small).cost(TokenUsage { input: 3, ..usage }), Some(Money::from_nanos(1)));
        let euro = priced(json!({"currency": "EUR", "per-tokens": 1, "input": "1", "output": "1"}));
        assert_eq!((euro.cost(usage), euro.max_cost(1, 1)), (None, None));
        let endless = TokenUsage { input: u64::MAX, output: u64::MAX, ..usage };
        assert_eq!(prices.cost(endless), Some(Money::MOST));
    }

    proptest::proptest! {
        /// Whatever share of the input is cached, a request within its limits costs no more than the upper bound.
        #[test]
        fn cost_never_exceeds_the_maximum(
            (input, output) in (0u64..3_000_000, 0u64..200_000),
            (used, written, answered) in (0.0f64..=1.0, 0.0f64..=1.0, 0.0f64..=1.0),
            (price, of_output, read, write) in (0u32..100_000, 0u32..100_000, 0u32..100_000, 0u32..100_000),
            above in 0u64..3_000_000,
        ) {
            let amount = |thousandths: u32| format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
            let prices = priced(json!({
                "currency": "USD", "per-tokens": 1_000_000, "input": amount(price), "output": amount(of_output),
                "cache-read": amount(read), "cache-write": amount(write),
                "tiers": [{"above-input-tokens": above, "input": amount(write), "output": amount(read)}],
            }));
            let part = |of: u64, part: f64| (of as f64 * part) as u64;
            let used = part(input, used);
            let cache_write = part(used, written);
            let usage = TokenUsage {
                input: used, output: part(output, answered), cache_write, cache_read: used - cache_write, thinking: 0,
            };
            proptest::prop_assert!(prices.cost(usage) <= prices.max_cost(input, output));
        }
    }
}
