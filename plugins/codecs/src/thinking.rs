//! Thinking levels: parsing, their share of a budget, and their descriptions.

use patchbay_provider_sdk::ThinkingPlan;

/// A thinking level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No thinking, or as little as the model supports.
    None,
    /// One third between minimum and maximum.
    Low,
    /// Two thirds between minimum and maximum.
    Med,
    /// The maximum of the model.
    High,
}

impl Level {
    /// Parses `none`, `low`, `med` or `high`. `None` for anything else, which the host never passes.
    pub fn parse(level: &str) -> Option<Self> {
        match level {
            "none" => Some(Self::None),
            "low" => Some(Self::Low),
            "med" => Some(Self::Med),
            "high" => Some(Self::High),
            _ => None,
        }
    }

    /// Returns the full name: `none`, `low`, `medium`, `high`.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Low => "low",
            Self::Med => "medium",
            Self::High => "high",
        }
    }

    /// Returns the level's tokens between `min` and `max`, in thirds.
    pub fn budget(self, min: u32, max: u32) -> u32 {
        let thirds = match self {
            Self::None => 0,
            Self::Low => 1,
            Self::Med => 2,
            Self::High => 3,
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
        let words = ["none", "low", "med", "high", "medium", ""].map(|level| Level::parse(level).map(Level::word));
        assert_eq!(words, [Some("none"), Some("low"), Some("medium"), Some("high"), None, None]);
    }

    #[test]
    fn thousands_have_commas() {
        let written = [0, 128, 1024, 43_008, 999_999, 1_000_000].map(thousands);
        assert_eq!(written, ["0", "128", "1,024", "43,008", "999,999", "1,000,000"]);
    }
}
