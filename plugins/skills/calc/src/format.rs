//! Formats a value as the one line of the answer.
//!
//! A whole number is printed in full. A fraction with a finite expansion of at most [`MAX_PLACES`] places is printed
//! as a decimal, any other fraction as `1/3 ≈ 0.3333333333`: the exact fraction, then ten digits. The text before the
//! `≈` is an expression with the same value.

use dashu_int::{
    IBig, UBig,
    ops::{DivRem, UnsignedAbs},
};

use crate::{
    error::{Error, Result},
    eval::Value,
    limits::MAX_PLACES,
    number::{Number, bits, is_negative, power_of_ten},
    program::{Program, Target},
    unit::Measure,
};

/// The number of digits of an approximation.
const DIGITS: usize = 10;

/// Maximum number of bits of a number that a message shows completely; longer numbers would hide the message.
const BRIEF_BITS: u64 = 200;

/// Maximum number of characters of a word that a message shows completely.
const BRIEF_CHARACTERS: usize = 40;

/// Formats the answer to `program` with the value `value`.
pub(crate) fn answer(program: &Program, value: Value) -> Result<String> {
    match &program.target {
        Some((target, column)) => converted(target, value).map_err(|error| error.at(*column)),
        None => measured(&value, &program.seen.measure(value.dimension)),
    }
}

fn converted(target: &Target, value: Value) -> Result<String> {
    let (radix, prefix) = match target {
        Target::Units(measure) => {
            let dimension = measure.dimension()?;
            if dimension != value.dimension {
                let given = value.dimension;
                return Err(Error::units(format!("cannot show {given} in {measure}, which is {dimension}")));
            }
            return measured(&value, measure);
        }
        Target::Hexadecimal => (16, "0x"),
        Target::Octal => (8, "0o"),
        Target::Binary => (2, "0b"),
    };
    if !value.dimension.is_plain() {
        return Err(Error::units(format!(
            "only plain numbers have a form such as {prefix}10, but this is {}",
            value.dimension
        )));
    }
    let Some(whole) = value.number.whole() else {
        return Err(Error::undefined(format!(
            "only whole numbers have a form such as {prefix}10, but {} is not one; use round, floor or ceil",
            brief(&value.number)
        )));
    };
    let sign = if is_negative(whole) { "-" } else { "" };
    Ok(format!("{sign}{prefix}{}", whole.unsigned_abs().in_radix(radix)))
}

/// Formats the value in the units of `measure`, which has the same dimension.
fn measured(value: &Value, measure: &Measure) -> Result<String> {
    let number = value.number.div(&measure.size()?)?;
    let unit = measure.to_string();
    if unit.is_empty() {
        return Ok(match decimal(&number, MAX_PLACES) {
            Some(decimal) => decimal,
            None => format!("{} ≈ {}", fraction(&number), approximate(&number)),
        });
    }
    Ok(match decimal(&number, MAX_PLACES) {
        Some(decimal) => format!("{decimal} {unit}"),
        // Without parentheses the unit would apply to the denominator.
        None => format!("({}) {unit} ≈ {} {unit}", fraction(&number), approximate(&number)),
    })
}

fn fraction(number: &Number) -> String {
    format!("{}/{}", number.numerator(), number.denominator())
}

/// Returns the decimal expansion if it is finite and has at most `limit` places.
fn decimal(number: &Number, limit: u32) -> Option<String> {
    if let Some(whole) = number.whole() {
        return Some(whole.to_string());
    }
    let places = places(number.denominator(), limit)?;
    let scaled = number.numerator() * power_of_ten(places) / number.denominator();
    let digits = scaled.unsigned_abs().to_string();
    let places = places as usize;
    let digits = format!("{digits:0>width$}", width = places + 1);
    let (whole, fraction) = digits.split_at(digits.len() - places);
    let sign = if number.is_negative() { "-" } else { "" };
    Some(format!("{sign}{whole}.{fraction}"))
}

/// Returns the number of places of the expansion of a fraction with this denominator, at most `limit`.
fn places(denominator: &UBig, limit: u32) -> Option<u32> {
    // A divisor of 10^limit has at most 4 * limit bits, so larger denominators need not be factored.
    if bits(denominator) > u64::from(limit) * 4 {
        return None;
    }
    let twos = denominator.trailing_zeros()?;
    let mut rest = denominator >> twos;
    let mut fives = 0;
    while let (quotient, 0) = (&rest).div_rem(5u8) {
        rest = quotient;
        fives += 1;
    }
    let places = u32::try_from(twos).ok()?.max(fives);
    (rest.is_one() && places <= limit).then_some(places)
}

/// Returns the first ten digits, the last one rounded half away from zero; as
/// `1.234567890e12` if the exponent is large.
fn approximate(number: &Number) -> String {
    let sign = if number.is_negative() { "-" } else { "" };
    let (num, den) = (IBig::from(number.numerator().unsigned_abs()), IBig::from(number.denominator().clone()));
    if num.is_zero() {
        return "0".to_owned();
    }
    // An estimate of the decimal exponent from the bit lengths. It may be up to two too small, which the loop below corrects.
    let bits = bits(&num) as i64 - bits(&den) as i64 - 1;
    let mut exponent = (bits * 30_103).div_euclid(100_000);
    let digits = loop {
        let shift = DIGITS as i64 - 1 - exponent;
        let power = power_of_ten(shift.unsigned_abs() as u32);
        let (num, den) = if shift < 0 { (num.clone(), &den * power) } else { (&num * power, den.clone()) };
        let rounded: IBig = (num * 2 + &den) / (den * 2);
        let digits = rounded.to_string();
        match digits.len() {
            DIGITS => break digits,
            ..DIGITS => exponent -= 1,
            _ => exponent += 1,
        }
    };
    let (first, rest) = digits.split_at(1);
    match exponent {
        -6..0 => format!("{sign}0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1)),
        0..9 => {
            let (whole, fraction) = digits.split_at(exponent as usize + 1);
            format!("{sign}{whole}.{fraction}")
        }
        9 => format!("{sign}{digits}"),
        _ => format!("{sign}{first}.{rest}e{exponent}"),
    }
}

/// Formats a number for a message, shortened if it is long.
pub(crate) fn brief(number: &Number) -> String {
    if number.bits() > BRIEF_BITS {
        return format!("about {}", approximate(number));
    }
    decimal(number, DIGITS as u32).unwrap_or_else(|| fraction(number))
}

/// Formats a word for a message, shortened if it is long.
pub(crate) fn shorten(word: &str) -> String {
    match word.char_indices().nth(BRIEF_CHARACTERS) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{calculate, cases::all, number::tests::any_number};

    #[test]
    fn decimals() {
        all(&[
            ("0", "0"),
            ("-0", "0"),
            ("1/8", "0.125"),
            ("-1/8", "-0.125"),
            ("1e-6", "0.000001"),
            ("5/2", "2.5"),
            ("2.50", "2.5"),
            ("1e20", "100000000000000000000"),
            ("2^-10", "0.0009765625"),
        ]);
    }

    #[test]
    fn fractions() {
        all(&[
            ("1/3", "1/3 ≈ 0.3333333333"),
            ("-2/3", "-2/3 ≈ -0.6666666667"),
            ("10/3", "10/3 ≈ 3.333333333"),
            ("1e9/3", "1000000000/3 ≈ 333333333.3"),
            ("1e10/3", "10000000000/3 ≈ 3333333333"),
            ("1e11/3", "100000000000/3 ≈ 3.333333333e10"),
            ("1/3e6", "1/3000000 ≈ 3.333333333e-7"),
            ("1/3e5", "1/300000 ≈ 0.000003333333333"),
            ("299999999999/3e11", "299999999999/300000000000 ≈ 1.000000000"),
            ("1 h / 7", "(1/7) h ≈ 0.1428571429 h"),
            ("1 B / 3 s", "(1/3) B/s ≈ 0.3333333333 B/s"),
        ]);
    }

    #[test]
    fn long_expansion_is_printed_as_a_fraction() {
        let last = calculate("2^-1000").unwrap();
        assert!(last.starts_with("0.000") && last.len() == 1_002, "{last}");
        let over = calculate("2^-1001").unwrap();
        assert!(over.starts_with("1/") && over.ends_with(" ≈ 4.666318093e-302"), "{over}");
        let far = calculate("10^-39000").unwrap();
        assert!(far.ends_with(" ≈ 1.000000000e-39000"), "{}", &far[far.len() - 30..]);
    }

    #[test]
    fn other_radices() {
        all(&[
            ("255 in hex", "0xff"),
            ("-255 in hex", "-0xff"),
            ("0 in bin", "0b0"),
            ("10 to bin", "0b1010"),
            ("0xfff in oct", "0o7777"),
            (
                "1/3 in hex",
                "column 8: only whole numbers have a form such as 0x10, but 1/3 is not one; use round, floor or ceil",
            ),
            ("3 s in bin", "column 8: only plain numbers have a form such as 0b10, but this is time"),
        ]);
    }

    #[test]
    fn conversions() {
        all(&[
            ("1 TiB in GB", "1099.511627776 GB"),
            ("1 MB/s in Mbps", "8 Mbit/s"),
            ("90 min to h", "1.5 h"),
            ("1 h in week", "(1/168) week ≈ 0.005952380952 week"),
            ("1 B/s in bit/min", "480 bit/min"),
            ("2 s in MB", "column 8: cannot show time in MB, which is data"),
            ("2 in MB/s", "column 6: cannot show a plain number in MB/s, which is data per time"),
        ]);
    }

    #[test]
    fn messages_stay_short() {
        assert_eq!(brief(&Number::ratio(1, 3).unwrap()), "1/3");
        assert_eq!(brief(&Number::ratio(-1, 4).unwrap()), "-0.25");
        assert_eq!(brief(&Number::from(10).pow(&9_999.into()).unwrap()), "about 1.000000000e9999");
        assert_eq!(shorten(&"µ".repeat(50)), "µ".repeat(40) + "…");
        assert_eq!(shorten("short"), "short");
    }

    proptest! {
        #[test]
        fn printed_answer_is_an_expression_of_the_same_value(number in any_number(), unit in 0usize..4) {
            let unit = ["", "MB", "kbit/s", "h^-1"][unit];
            let measure = match unit {
                "" => Measure::default(),
                unit => match crate::parse::parse(&format!("0 in {unit}")).unwrap().target {
                    Some((Target::Units(measure), _)) => measure,
                    _ => unreachable!(),
                },
            };
            let value = Value { number, dimension: measure.dimension().unwrap() };
            let text = measured(&value, &measure).unwrap();
            let exact = text.split(" ≈ ").next().unwrap();
            prop_assert_eq!(crate::run_text(exact).unwrap(), value);
        }

        #[test]
        fn ten_digits_are_correct(number in any_number()) {
            prop_assume!(!number.is_zero());
            let near = crate::run_text(&approximate(&number)).unwrap().number;
            let off = near.sub(&number).unwrap().div(&number).unwrap().abs();
            prop_assert!(off <= Number::ratio(1, 2_000_000_000).unwrap());
        }
    }
}
