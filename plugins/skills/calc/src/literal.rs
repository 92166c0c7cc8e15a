//! Literals as written. They are expanded to numbers only when they are used, because the numbers may be very long.

use dashu_int::UBig;

use crate::{
    error::{Error, Result},
    format::shorten,
    limits::MAX_EXPONENT,
    number::{Number, bits, power_of_ten},
};

/// A literal: `mantissa` times ten to the power `exponent`. `1e9999` takes no memory until its number is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    mantissa: UBig,
    exponent: i64,
    text: String,
}

impl Literal {
    /// Parses the digits after `0x`, `0o` or `0b`.
    pub(crate) fn radix(digits: &str, radix: u32) -> Result<Self> {
        let (name, prefix) = match radix {
            2 => ("binary", "0b"),
            8 => ("octal", "0o"),
            _ => ("hexadecimal", "0x"),
        };
        let text = format!("{prefix}{digits}");
        if digits.is_empty() {
            return Err(Error::syntax(format!("digits must follow {prefix}")));
        }
        if let Some(wrong) = digits.chars().find(|c| *c != '_' && !c.is_digit(radix)) {
            return Err(Error::syntax(format!("'{wrong}' is not a digit of the {name} number {}", shorten(&text))));
        }
        let digits = separated(digits, &text)?;
        Ok(Self { mantissa: parse(&digits, radix)?, exponent: 0, text })
    }

    /// Parses `whole.fraction e exponent`; `fraction` and `exponent` may be missing.
    pub(crate) fn decimal(whole: &str, fraction: Option<&str>, exponent: Option<&str>) -> Result<Self> {
        let mut text = whole.to_owned();
        if let Some(fraction) = fraction {
            text = format!("{text}.{fraction}");
        }
        if let Some(exponent) = exponent {
            text = format!("{text}e{exponent}");
        }
        if fraction == Some("") {
            return Err(Error::syntax(format!("a digit must follow the point of {}", shorten(&text))));
        }
        let whole = separated(whole, &text)?;
        let fraction = separated(fraction.unwrap_or_default(), &text)?;
        let (negative, power) = match exponent.unwrap_or("0") {
            minus if minus.starts_with('-') => (true, &minus[1..]),
            plus => (false, plus),
        };
        // An exponent that does not fit an i64 is far over the limit.
        let power: i64 = separated(power, &text)?.parse().unwrap_or(i64::MAX);
        let power = if negative { -power } else { power };
        // The fraction is at most as long as the expression.
        let exponent = power.saturating_sub(fraction.len() as i64);
        Ok(Self { mantissa: parse(&(whole + &fraction), 10)?, exponent, text })
    }

    pub(crate) fn number(&self) -> Result<Number> {
        if self.exponent == 0 || self.mantissa.is_zero() {
            return Number::ratio(self.mantissa.clone(), 1);
        }
        if self.exponent.unsigned_abs() > MAX_EXPONENT {
            return Err(Error::too_large(format!(
                "{} needs a power of ten beyond the limit of {MAX_EXPONENT}; use a smaller exponent",
                shorten(&self.text)
            )));
        }
        let power = power_of_ten(self.exponent.unsigned_abs() as u32);
        if self.exponent < 0 {
            Number::ratio(self.mantissa.clone(), power)
        } else {
            Number::ratio(&self.mantissa * power, 1)
        }
    }

    /// Estimates how many bits the operands have when the number is computed.
    pub(crate) fn bits(&self) -> u64 {
        // A factor of ten has about 3.3 bits.
        bits(&self.mantissa) + self.exponent.unsigned_abs().min(MAX_EXPONENT) * 10 / 3
    }

    /// Returns the literal as written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// Removes the separators between digits.
fn separated(digits: &str, text: &str) -> Result<String> {
    if digits.starts_with('_') || digits.ends_with('_') || digits.contains("__") {
        return Err(Error::syntax(format!("in {} a '_' is not between two digits", shorten(text))));
    }
    Ok(digits.replace('_', ""))
}

fn parse(digits: &str, radix: u32) -> Result<UBig> {
    UBig::from_str_radix(digits, radix).map_err(|error| Error::syntax(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    fn decimal(whole: &str, fraction: &str, exponent: &str) -> Result<Number> {
        Literal::decimal(whole, given(fraction), given(exponent))?.number()
    }

    fn given(part: &str) -> Option<&str> {
        (!part.is_empty()).then_some(part)
    }

    #[test]
    fn decimals_are_exact() {
        for (whole, fraction, exponent, num, den) in [
            ("42", "", "", 42, 1),
            ("007", "", "", 7, 1),
            ("0", "1", "", 1, 10),
            ("", "5", "", 1, 2),
            ("1_000", "000_5", "", 2_000_001, 2_000),
            ("1", "", "9", 1_000_000_000, 1),
            ("1", "5", "-3", 3, 2_000),
            ("2", "50", "1", 25, 1),
            ("0", "0", "99999999999999999999", 0, 1),
        ] {
            let expected = Number::ratio(num, den).unwrap();
            assert_eq!(decimal(whole, fraction, exponent).unwrap(), expected, "{whole}.{fraction}e{exponent}");
        }
    }

    #[test]
    fn other_radices() {
        assert_eq!(Literal::radix("ff_FF", 16).unwrap().number().unwrap(), 65_535.into());
        assert_eq!(Literal::radix("777", 8).unwrap().number().unwrap(), 511.into());
        assert_eq!(Literal::radix("1010", 2).unwrap().number().unwrap(), 10.into());
    }

    #[test]
    fn exponents_stop_at_the_limit() {
        assert!(decimal("1", "", "39456").is_ok());
        assert!(decimal("0", "001", "39459").is_ok());
        for exponent in ["39457", "-39457", "50001", "999999999", "-999999999", "99999999999999999999999"] {
            assert_eq!(decimal("1", "", exponent).unwrap_err().kind, Kind::TooLarge, "{exponent}");
        }
        assert_eq!(
            decimal("1", "", "999999999").unwrap_err().to_string(),
            "1e999999999 needs a power of ten beyond the limit of 50000; use a smaller exponent"
        );
    }
}
