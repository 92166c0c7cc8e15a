//! Ages on the command line, such as `--older-than 30d`.

use std::str::FromStr;

use patchbay_core::text;

/// A positive number of hours: how long something has not been used, or how long a token works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age {
    hours: i64,
}

impl Age {
    /// Returns an age of `days` days, or `None` for 0.
    pub(crate) fn days(days: u32) -> Option<Self> {
        (days > 0).then_some(Self { hours: 24 * i64::from(days) })
    }

    pub(crate) fn seconds(self) -> i64 {
        3_600 * self.hours
    }
}

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let text = text::excerpt(text, 40);
            format!("'{text}' is not an age: a number from 1 and h (hours), d (days) or w (weeks), such as 30d")
        };
        let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
        let hours = match unit {
            "h" => 1,
            "d" => 24,
            "w" => 7 * 24,
            _ => return Err(wrong()),
        };
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let number: u32 = number.parse().ok().filter(|number| is_number && *number > 0).ok_or_else(wrong)?;
        Ok(Self { hours: hours * i64::from(number) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_number_and_a_unit() {
        let seconds = |text: &str| text.parse().map(Age::seconds);
        assert_eq!(seconds("1h"), Ok(3_600));
        assert_eq!(seconds("30d"), Ok(30 * 86_400));
        assert_eq!(seconds("2w"), Ok(14 * 86_400));
        for wrong in ["", "d", "30", "0d", "-1d", "+1d", "1.5d", "30m", "30 d", "30D", "\u{e4}", "99999999999d"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
