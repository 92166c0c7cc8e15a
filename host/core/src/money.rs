//! Amounts of money. Prices have many digits, and sums of them must be exact, so amounts are whole numbers.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::text;

/// An amount in US dollars, never negative: whole billionths of a dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(transparent)]
pub struct Money(#[schemars(with = "String")] i64);

/// A string that is not a [`Money`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{}' is not an amount in US dollars: write up to {} digits, and if needed a point and up to {} more, as in \"2.50\"",
    text::excerpt(.0, 40),
    Money::DIGITS,
    Money::DECIMALS
)]
pub struct MoneyError(String);

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// Billionths in a dollar.
    pub const NANOS: i64 = 1_000_000_000;
    /// The largest cost of one request. Larger costs are counted as this amount, because sums of costs must fit in a column of
    /// the store.
    pub const MOST: Self = Self(1_000_000 * Self::NANOS);
    /// Maximum number of digits before the point of a written amount.
    const DIGITS: usize = 9;
    /// Maximum number of digits after the point of a written amount.
    const DECIMALS: usize = 6;

    /// Returns the amount of `nanos` billionths of a dollar. A negative number counts as zero.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(if nanos < 0 { 0 } else { nanos })
    }

    /// Returns the billionths of a dollar.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Returns the sum of both amounts.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference, or zero if `other` is larger.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self::from_nanos(self.0.saturating_sub(other.0))
    }

    /// Returns half of the amount, rounded down.
    #[must_use]
    pub const fn half(self) -> Self {
        Self(self.0 / 2)
    }
}

/// Writes all digits, and at least two after the point: `2.00`, `0.0125`.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dollars, nanos) = (self.0 / Self::NANOS, self.0 % Self::NANOS);
        let decimals = format!("{nanos:09}");
        let (cents, more) = decimals.split_at(2);
        write!(f, "{dollars}.{cents}{}", more.trim_end_matches('0'))
    }
}

impl FromStr for Money {
    type Err = MoneyError;

    fn from_str(written: &str) -> Result<Self, MoneyError> {
        let (dollars, decimals) = written.split_once('.').unwrap_or((written, "0"));
        let is_number = |digits: &str, most: usize| {
            (1..=most).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit())
        };
        let nanos = is_number(dollars, Self::DIGITS) && is_number(decimals, Self::DECIMALS);
        let nanos = nanos.then(|| format!("{dollars}{decimals:0<9}").parse().ok()).flatten();
        nanos.map(Self).ok_or_else(|| MoneyError(written.to_owned()))
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Money;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount in US dollars in quotes, such as \"2.50\"")
            }

            fn visit_str<E: de::Error>(self, written: &str) -> Result<Money, E> {
                written.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_they_are_read() {
        for (written, nanos, shown) in [
            ("2.00", 2 * Money::NANOS, "2.00"),
            ("2", 2 * Money::NANOS, "2.00"),
            ("0.000001", 1_000, "0.000001"),
            ("0.5", Money::NANOS / 2, "0.50"),
            ("999999999.999999", 999_999_999_999_999_000, "999999999.999999"),
            ("007.10", 7_100_000_000, "7.10"),
        ] {
            let money: Money = written.parse().unwrap();
            assert_eq!((money.nanos(), money.to_string()), (nanos, shown.to_owned()), "{written}");
            assert_eq!(shown.parse(), Ok(money));
        }
        assert_eq!(Money::from_nanos(1).to_string(), "0.000000001");
        assert_eq!(Money::from_nanos(1_020_000_000).to_string(), "1.02");
    }

    #[test]
    fn other_texts_are_refused_with_the_value() {
        for written in ["", "2,00", "-1", "+1", "1.", ".5", "1.0000001", "1234567890", "1e3", " 1", "$2", "1.2.3", "٣"]
        {
            let error = written.parse::<Money>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{}' is not an amount in US dollars", written.trim())), "{error}");
        }
    }

    #[test]
    fn sums_and_differences_have_bounds() {
        let [one, most] = [1, i64::MAX].map(Money::from_nanos);
        assert_eq!((most.plus(one), one.minus(most)), (most, Money::ZERO));
        assert_eq!((Money::from_nanos(-5), Money::from_nanos(5).half()), (Money::ZERO, Money::from_nanos(2)));
    }
}
