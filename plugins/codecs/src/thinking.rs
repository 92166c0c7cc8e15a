//! Thinking levels: parsing, their share of a budget, and their descriptions.

use patchbay_provider_sdk::ThinkingPlan;

/// A level of thinking, from none to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No thinking, or as little as the model supports.
    None,
    /// One third of the way from minimum to maximum.
    Low,
    /// Two thirds of the way from minimum to maximum.
    Med,
    /// The maximum of a budget, or the third-lowest effort.
    High,
    /// An effort above `high`, which only some models have.
    XHigh,
    /// The highest effort, which only some models have.
    Max,
}

impl Level {
    /// All levels in ascending order.
    pub const ALL: [Self; 6] = [Self::None, Self::Low, Self::Med, Self::High, Self::XHigh, Self::Max];

    /// Parses the name of a level, such as `med`. `None` for anything else, which the host never passes.
    pub fn parse(level: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == level)
    }

    /// Returns the name in the contract and in `/model`: `none`, `low`, `med`, `high`, `xhigh`, `max`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Low => "low",
            Self::Med => "med",
            Self::High => "high",
            Self::XHigh => "xhigh",
            Self::Max => "max",
        }
    }

    /// Returns the name that APIs use, and that users see: `medium` for `med`, otherwise the contract's name.
    pub fn word(self) -> &'static str {
        if self == Self::Med { "medium" } else { self.name() }
    }

    /// Parses an API's name for a level. `None` for names that do not correspond to a level, such as `minimal`.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.word() == word)
    }

    /// Returns the highest level of `levels` that is not above this one, or else the lowest, and a warning if it is not
    /// this level. `levels` are in ascending order and not empty.
    pub fn within(self, levels: &[Self]) -> (Self, Option<String>) {
        let below = levels.iter().rev().find(|level| **level <= self).or(levels.first());
        let sent = below.copied().unwrap_or(self);
        let warning = || format!("This model has no level {}; {} is sent instead", self.name(), sent.name());
        (sent, (sent != self).then(warning))
    }

    /// Returns the level's tokens between `min` and `max`, in thirds.
    pub fn budget(self, min: u32, max: u32) -> u32 {
        let thirds = match self {
            Self::None => 0,
            Self::Low => 1,
            Self::Med => 2,
            Self::High | Self::XHigh | Self::Max => 3,
        };
        // In u64, because three times the range may overflow.
        u32::try_from(u64::from(max.saturating_sub(min)) * thirds / 3).map_or(max, |more| min + more)
    }
}

/// Creates a plan with one line, such as `Thinking: off`, and without a warning.
pub fn plan(line: impl Into<String>) -> ThinkingPlan {
    ThinkingPlan { description: vec![line.into()], warning: None }
}

/// Formats a number with commas between thousands.
pub fn thousands(number: u32) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_thirds() {
        let budgets = |min, max| [Level::None, Level::Low, Level::Med, Level::High].map(|level| level.budget(min, max));
        assert_eq!(budgets(1024, 64_000), [1024, 22_016, 43_008, 64_000]);
        assert_eq!(budgets(1024, 32_000), [1024, 11_349, 21_674, 32_000]);
        assert_eq!(budgets(128, 32_768), [128, 11_008, 21_888, 32_768]);
        assert_eq!(budgets(512, 24_576), [512, 8533, 16_554, 24_576]);
        assert_eq!(budgets(0, u32::MAX)[3], u32::MAX);
        assert_eq!(budgets(5, 1), [5; 4]);
    }

    #[test]
    fn levels_have_names() {
        let names = ["none", "low", "med", "high", "xhigh", "max"];
        let words = ["none", "low", "medium", "high", "xhigh", "max"];
        assert_eq!(names.map(|name| Level::parse(name).map(Level::word)), words.map(Some));
        assert_eq!(Level::ALL.map(Level::name), names);
        assert_eq!(words.map(Level::of_word), Level::ALL.map(Some));
        assert_eq!(["med", "minimal"].map(Level::of_word), [None; 2]);
        assert!(Level::ALL.is_sorted());
        assert_eq!(["medium", "", "High"].map(Level::parse), [None; 3]);
    }

    #[test]
    fn missing_levels_are_replaced_with_a_warning() {
        let levels = [Level::Low, Level::Med, Level::High, Level::Max];
        assert_eq!(Level::Med.within(&levels), (Level::Med, None));
        let warning = |text: &str| Some(text.to_owned());
        assert_eq!(
            Level::XHigh.within(&levels),
            (Level::High, warning("This model has no level xhigh; high is sent instead"))
        );
        assert_eq!(
            Level::Med.within(&levels[2..]),
            (Level::High, warning("This model has no level med; high is sent instead"))
        );
        assert_eq!(Level::Max.within(&[]), (Level::Max, None));
    }

    #[test]
    fn thousands_have_commas() {
        let written = [0, 128, 1024, 43_008, 999_999, 1_000_000].map(thousands);
        assert_eq!(written, ["0", "128", "1,024", "43,008", "999,999", "1,000,000"]);
    }
}
