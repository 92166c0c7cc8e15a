//! Arithmetic of JSON numbers by decimal value: `1` equals `1.0`, and `0.3` is a multiple of `0.1`.

use std::{cmp::Ordering, fmt::Write as _};

use serde_json::Number;

/// Returns true if the number has no fraction.
pub(crate) fn is_integer(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// Returns the number as an integer. `None` if it has a fraction or is a float beyond 2^100.
pub(crate) fn as_integer(number: &Number) -> Option<i128> {
    if number.is_f64() {
        let float = number.as_f64()?;
        let fits = float.fract() == 0.0 && float.abs() < 2f64.powi(100);
        return fits.then_some(float as i128);
    }
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Compares two numbers by value.
pub(crate) fn compare(a: &Number, b: &Number) -> Ordering {
    match (as_integer(a), as_integer(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => compare_mixed(a, b.as_f64().unwrap_or_default()),
        (None, Some(b)) => compare_mixed(b, a.as_f64().unwrap_or_default()).reverse(),
        (None, None) => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
    }
}

/// Compares an integer with a float that has a fraction or is beyond 2^100.
fn compare_mixed(integer: i128, float: f64) -> Ordering {
    // The conversion is exact below 2^100.
    if float.abs() < 2f64.powi(100) {
        return integer.cmp(&(float.floor() as i128)).then(Ordering::Less);
    }
    if float > 0.0 { Ordering::Less } else { Ordering::Greater }
}

/// Returns true if `number` is an integer multiple of `of`. Compares the decimals as written, not the binary floats.
pub(crate) fn is_multiple(number: &Number, of: &Number) -> bool {
    let (Some(number), Some(of)) = (Decimal::new(number), Decimal::new(of)) else { return false };
    if number.digits == 0 {
        return true;
    }
    if of.digits == 0 {
        return false;
    }
    let shift = number.exponent - of.exponent;
    if shift >= 0 {
        // digits × 10^shift mod of.digits, both below 2^64.
        let modulus = of.digits;
        let (mut rest, mut base, mut power) = (number.digits % modulus, 10 % modulus, shift);
        while power > 0 {
            if power & 1 == 1 {
                rest = rest * base % modulus;
            }
            base = base * base % modulus;
            power >>= 1;
        }
        return rest == 0;
    }
    // A divisor that does not fit is larger than the number.
    let divisor = 10u128.checked_pow(shift.unsigned_abs()).and_then(|power| power.checked_mul(of.digits));
    divisor.is_some_and(|divisor| number.digits % divisor == 0)
}

/// `digits × 10^exponent`, without a sign. `digits` is below 2^64.
struct Decimal {
    digits: u128,
    exponent: i32,
}

impl Decimal {
    fn new(number: &Number) -> Option<Self> {
        if !number.is_f64() {
            let digits = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs))?;
            return Some(Self { digits: digits.into(), exponent: 0 });
        }
        let mut text = FloatText::default();
        write!(text, "{:e}", number.as_f64()?.abs()).ok()?;
        let (mantissa, exponent) = text.as_str().split_once('e')?;
        let exponent: i32 = exponent.parse().ok()?;
        let mut decimal = Self { digits: 0, exponent };
        let mut fraction = false;
        for byte in mantissa.bytes() {
            if byte == b'.' {
                fraction = true;
                continue;
            }
            decimal.digits = decimal.digits * 10 + u128::from(byte.wrapping_sub(b'0'));
            decimal.exponent -= i32::from(fraction);
        }
        Some(decimal)
    }
}

/// Buffer for the shortest text of a float: at most 17 digits, a point and an exponent of three digits.
#[derive(Default)]
struct FloatText {
    bytes: [u8; 32],
    len: usize,
}

impl FloatText {
    fn as_str(&self) -> &str {
        self.bytes.get(..self.len).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

impl std::fmt::Write for FloatText {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(std::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn numbers_compare_by_value() {
        for (a, b, expected) in [
            ("1", "1.0", Ordering::Equal),
            ("-0.0", "0", Ordering::Equal),
            ("1", "1.5", Ordering::Less),
            ("-1", "-1.5", Ordering::Greater),
            ("18446744073709551615", "18446744073709551616.0", Ordering::Less),
            ("9007199254740993", "9007199254740992.0", Ordering::Greater),
            ("1e300", "18446744073709551615", Ordering::Greater),
            ("-1e300", "-9223372036854775808", Ordering::Less),
            ("0.1", "0.2", Ordering::Less),
        ] {
            assert_eq!(compare(&number(a), &number(b)), expected, "{a} {b}");
            assert_eq!(compare(&number(b), &number(a)), expected.reverse(), "{b} {a}");
        }
    }

    #[test]
    fn multiples_are_exact_for_decimals() {
        for (a, b, expected) in [
            ("0.3", "0.1", true),
            ("0.35", "0.1", false),
            ("19.99", "0.01", true),
            ("7", "2", false),
            ("-8", "2", true),
            ("8", "0.5", true),
            ("0", "0.7", true),
            ("1e308", "1e-308", true),
            ("1e-308", "1e308", false),
            ("1e300", "7", false),
            ("18446744073709551615", "1e-300", true),
            ("5e-324", "1", false),
            ("4.5", "1.5", true),
            ("18446744073709551615", "18446744073709551615", true),
            ("18446744073709551614", "18446744073709551615", false),
        ] {
            assert_eq!(is_multiple(&number(a), &number(b)), expected, "{a} {b}");
        }
    }
}
