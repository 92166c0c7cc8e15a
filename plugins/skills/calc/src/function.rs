//! The functions of the expression language.

use dashu_int::ops::{Gcd, UnsignedAbs};

use crate::{
    error::{Error, Result},
    eval::Value,
    format::{brief, shorten},
    limits::{Budget, MAX_PLACES},
    number::Number,
};

/// A function. [`TABLE`] has its name and its number of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Abs,
    Sign,
    Floor,
    Ceil,
    Round,
    Min,
    Max,
    Gcd,
    Lcm,
    Sqrt,
    Mod,
    Div,
    Numerator,
    Denominator,
}

/// Name, function, minimum and maximum number of arguments.
const TABLE: [(&str, Function, usize, usize); 14] = [
    ("abs", Function::Abs, 1, 1),
    ("sign", Function::Sign, 1, 1),
    ("floor", Function::Floor, 1, 1),
    ("ceil", Function::Ceil, 1, 1),
    ("round", Function::Round, 1, 2),
    ("min", Function::Min, 1, usize::MAX),
    ("max", Function::Max, 1, usize::MAX),
    ("gcd", Function::Gcd, 1, usize::MAX),
    ("lcm", Function::Lcm, 1, usize::MAX),
    ("sqrt", Function::Sqrt, 1, 2),
    ("mod", Function::Mod, 2, 2),
    ("div", Function::Div, 2, 2),
    ("numerator", Function::Numerator, 1, 1),
    ("denominator", Function::Denominator, 1, 1),
];

/// Bits per decimal digit, rounded up.
const DIGIT_BITS: u64 = 4;

pub(crate) fn is_name(name: &str) -> bool {
    TABLE.iter().any(|row| row.0 == name)
}

pub(crate) fn named(name: &str) -> Result<Function> {
    TABLE.iter().find(|row| row.0 == name).map(|row| row.1).ok_or_else(|| {
        let names: Vec<_> = TABLE.iter().map(|row| row.0).collect();
        Error::syntax(format!("'{}' is not a function; use one of {}", shorten(name), names.join(", ")))
    })
}

impl Function {
    fn row(self) -> (&'static str, usize, usize) {
        TABLE.iter().find(|row| row.1 == self).map_or(("", 0, 0), |row| (row.0, row.2, row.3))
    }

    pub(crate) fn name(self) -> &'static str {
        self.row().0
    }

    pub(crate) fn check_count(self, count: usize) -> Result<()> {
        let (name, fewest, most) = self.row();
        if (fewest..=most).contains(&count) {
            return Ok(());
        }
        let takes = match (fewest, most) {
            (1, 1) => "1 argument".to_owned(),
            (1, usize::MAX) => "at least 1 argument".to_owned(),
            (fewest, most) if fewest == most => format!("{fewest} arguments"),
            (fewest, most) => format!("{fewest} or {most} arguments"),
        };
        Err(Error::syntax(format!("{name} takes {takes}, not {count}")))
    }

    /// Calls the function. The number of arguments has been checked already.
    pub(crate) fn call(self, arguments: Vec<Value>, budget: &mut Budget) -> Result<Value> {
        let mut rest = arguments.into_iter();
        let Some(first) = rest.next() else { return self.check_count(0).map(|()| Value::plain(0)) };
        budget.spend(first.number.bits())?;
        match self {
            Self::Abs => Ok(first.map(Number::abs)),
            Self::Sign => Ok(Value::plain(first.number.signum())),
            Self::Floor => Ok(Value::plain(self.plain(first)?.floor())),
            Self::Ceil => Ok(Value::plain(self.plain(first)?.ceil())),
            Self::Numerator => Ok(Value::plain(self.plain(first)?.numerator().clone())),
            Self::Denominator => Ok(Value::plain(self.plain(first)?.denominator().clone())),
            Self::Round => {
                let number = self.plain(first)?;
                let places = rest.next().map_or(Ok(0), |places| self.places(places, -(MAX_PLACES as i32)))?;
                budget.spend(number.bits() + DIGIT_BITS * u64::from(places.unsigned_abs()))?;
                number.round(places).map(Value::plain)
            }
            Self::Sqrt => {
                let number = self.plain(first)?;
                let Some(places) = rest.next() else { return number.sqrt().map(Value::plain) };
                let places = self.places(places, 0)?.unsigned_abs();
                // Each digit of a root needs two digits of its square.
                budget.spend(number.bits() + 2 * DIGIT_BITS * u64::from(places))?;
                number.sqrt_to(places).map(Value::plain)
            }
            Self::Mod | Self::Div => {
                let Some(second) = rest.next() else { return self.check_count(1).map(|()| first) };
                budget.spend(first.number.bits() + second.number.bits())?;
                let (quotient, remainder) = first.div_mod_floor(&second)?;
                Ok(if self == Self::Div { quotient } else { remainder })
            }
            Self::Min | Self::Max => rest.try_fold(first, |best, next| {
                best.same_dimension(&next, |a, b| format!("{} cannot compare {a} with {b}", self.name()))?;
                budget.spend(best.number.bits() + next.number.bits())?;
                let replace = if self == Self::Min { next.number < best.number } else { next.number > best.number };
                Ok(if replace { next } else { best })
            }),
            Self::Gcd | Self::Lcm => {
                let first = self.whole(first)?.abs();
                rest.try_fold(first, |sum, next| {
                    let next = self.whole(next)?;
                    budget.spend(sum.bits() + next.bits())?;
                    self.combine(&sum, &next)
                })
                .map(Value::plain)
            }
        }
    }

    /// One step of `gcd` or `lcm`, on whole numbers.
    fn combine(self, a: &Number, b: &Number) -> Result<Number> {
        let (left, right) = (a.numerator(), b.numerator());
        // The library panics for `gcd(0, 0)`.
        let common = Number::from(if left.is_zero() { right.unsigned_abs() } else { left.gcd(right) });
        if self == Self::Gcd || common.is_zero() {
            return Ok(common);
        }
        Ok(a.div(&common)?.mul(b)?.abs())
    }

    fn plain(self, value: Value) -> Result<Number> {
        if value.dimension.is_plain() {
            return Ok(value.number);
        }
        Err(Error::units(format!(
            "{} takes plain numbers, but this is {}; divide it by a unit first, as in (90 min) / (1 h)",
            self.name(),
            value.dimension
        )))
    }

    fn whole(self, value: Value) -> Result<Number> {
        let number = self.plain(value)?;
        if number.whole().is_some() {
            return Ok(number);
        }
        Err(Error::undefined(format!("{} takes whole numbers, but {} is not one", self.name(), brief(&number))))
    }

    /// Reads the second argument of `round` and `sqrt`.
    fn places(self, value: Value, least: i32) -> Result<i32> {
        let number = self.whole(value)?;
        let places: Option<i32> = number.whole().and_then(|whole| whole.try_into().ok());
        places.filter(|places| (least..=MAX_PLACES as i32).contains(places)).ok_or_else(|| {
            Error::too_large(format!(
                "{} takes {least} to {MAX_PLACES} decimal places, not {}",
                self.name(),
                brief(&number)
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::cases::all;

    #[test]
    fn functions_of_one_number() {
        all(&[
            ("abs(-5/2)", "2.5"),
            ("abs(-3 MB)", "3 MB"),
            ("sign(-7)", "-1"),
            ("sign(0)", "0"),
            ("sign(-3 s)", "-1"),
            ("floor(-2.5)", "-3"),
            ("ceil(-2.5)", "-2"),
            ("numerator(6/4)", "3"),
            ("denominator(6/4)", "2"),
            ("denominator(-7)", "1"),
        ]);
    }

    #[test]
    fn rounding() {
        all(&[
            ("round(2.5)", "3"),
            ("round(-2.5)", "-3"),
            ("round(2/3, 4)", "0.6667"),
            ("round(123456, -3)", "123000"),
            ("round(1, 1001)", "column 1: round takes -1000 to 1000 decimal places, not 1001"),
            (
                "round(1, 1e30)",
                "column 1: round takes -1000 to 1000 decimal places, not 1000000000000000000000000000000",
            ),
            ("round(1, 1/2)", "column 1: round takes whole numbers, but 0.5 is not one"),
        ]);
    }

    #[test]
    fn roots() {
        all(&[
            ("sqrt(144)", "12"),
            ("sqrt(2.25)", "1.5"),
            ("sqrt(10^100)", &format!("1{}", "0".repeat(50))),
            ("sqrt(2, 20)", "1.4142135623730950488"),
            ("sqrt(2, 0)", "1"),
            ("sqrt(2, -1)", "column 1: sqrt takes 0 to 1000 decimal places, not -1"),
            (
                "1 + sqrt(2)",
                "column 5: the square root of 2 is not rational; \
                 sqrt(x, digits) rounds it to that many decimal places",
            ),
            ("sqrt(-4)", "column 1: -4 is negative and has no real square root"),
        ]);
    }

    #[test]
    fn functions_of_several_numbers() {
        all(&[
            ("min(3, 1/2, 2)", "0.5"),
            ("max(3)", "3"),
            ("max(1 GB, 1 GiB)", "1.073741824 GB"),
            ("max(1 GB, 1 s)", "column 1: max cannot compare data with time; give both the same kind of unit"),
            ("gcd(12, 18, -27)", "3"),
            ("gcd(0)", "0"),
            ("lcm(4, -6, 10)", "60"),
            ("lcm(0, 5)", "0"),
            ("lcm(0, 0)", "0"),
            ("gcd(1/2, 3)", "column 1: gcd takes whole numbers, but 0.5 is not one"),
        ]);
    }

    #[test]
    fn quotient_and_remainder() {
        all(&[
            ("div(-7, 2)", "-4"),
            ("mod(-7, 2)", "1"),
            ("mod(7.5, 2)", "1.5"),
            ("mod(7 h, 2 h)", "1 h"),
            ("div(7 h, 120 min)", "3"),
            ("mod(1, 0)", "column 1: 1 cannot be divided by zero"),
            ("mod(1 s, 2 B)", "column 1: cannot take the remainder of time and data; give both the same kind of unit"),
        ]);
    }

    #[test]
    fn quantities_are_refused_if_their_unit_would_matter() {
        all(&[(
            "2 * floor(90 min)",
            "column 5: floor takes plain numbers, but this is time; divide it by a unit first, as in (90 min) / (1 h)",
        )]);
    }
}
