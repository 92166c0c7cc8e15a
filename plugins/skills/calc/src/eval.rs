//! Runs a parsed program on a stack of values.

use dashu_int::ops::UnsignedAbs;

use crate::{
    error::{Error, Result},
    format::brief,
    function::Function,
    limits::{Budget, MAX_BITS, MAX_FACTORIAL},
    number::Number,
    program::{Operation, Program},
    unit::Dimension,
};

/// A number with its dimension; quantities are in bits and seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) number: Number,
    pub(crate) dimension: Dimension,
}

impl Value {
    pub(crate) fn plain(number: impl Into<Number>) -> Self {
        Self { number: number.into(), dimension: Dimension::PLAIN }
    }

    pub(crate) fn map(self, change: impl FnOnce(Number) -> Number) -> Self {
        Self { number: change(self.number), ..self }
    }

    /// Fails with the message of `complaint` unless both values have the same dimension.
    pub(crate) fn same_dimension(
        &self,
        other: &Self,
        complaint: impl FnOnce(Dimension, Dimension) -> String,
    ) -> Result<()> {
        if self.dimension == other.dimension {
            return Ok(());
        }
        let complaint = complaint(self.dimension, other.dimension);
        Err(Error::units(format!("{complaint}; give both the same kind of unit")))
    }

    fn add(self, other: Self) -> Result<Self> {
        self.same_dimension(&other, |a, b| format!("cannot add {b} to {a}"))?;
        Ok(Self { number: self.number.add(&other.number)?, ..self })
    }

    fn sub(self, other: Self) -> Result<Self> {
        self.same_dimension(&other, |a, b| format!("cannot subtract {b} from {a}"))?;
        Ok(Self { number: self.number.sub(&other.number)?, ..self })
    }

    fn mul(self, other: Self) -> Result<Self> {
        let dimension = self.dimension.times(other.dimension)?;
        Ok(Self { number: self.number.mul(&other.number)?, dimension })
    }

    fn div(self, other: Self) -> Result<Self> {
        let dimension = self.dimension.over(other.dimension)?;
        Ok(Self { number: self.number.div(&other.number)?, dimension })
    }

    /// Returns the quotient rounded down, as a plain number, and the remainder.
    pub(crate) fn div_mod_floor(self, other: &Self) -> Result<(Self, Self)> {
        self.same_dimension(other, |a, b| format!("cannot take the remainder of {a} and {b}"))?;
        let (quotient, remainder) = self.number.div_mod_floor(&other.number)?;
        Ok((Self::plain(quotient), Self { number: remainder, ..self }))
    }

    fn pow(self, exponent: Self) -> Result<Self> {
        if !exponent.dimension.is_plain() {
            return Err(Error::units(format!(
                "an exponent must be a plain number, but this is {}",
                exponent.dimension
            )));
        }
        let Some(whole) = exponent.number.whole() else {
            return Err(Error::undefined(format!(
                "an exponent must be a whole number, but {} is not; for roots use sqrt(x)",
                brief(&exponent.number)
            )));
        };
        let dimension = self.dimension.pow(whole.try_into().ok())?;
        Ok(Self { number: self.number.pow(whole)?, dimension })
    }

    fn factorial(self) -> Result<Self> {
        if !self.dimension.is_plain() {
            return Err(Error::units(format!("a factorial takes a plain number, but this is {}", self.dimension)));
        }
        self.number.factorial().map(Self::plain)
    }
}

/// Runs a whole program and returns its value.
pub(crate) fn run(program: &Program) -> Result<Value> {
    let mut machine = Machine { stack: Vec::new(), budget: Budget::new() };
    for step in &program.steps {
        machine.step(&step.operation).map_err(|error| error.at(step.column))?;
    }
    machine.pop()
}

struct Machine {
    stack: Vec<Value>,
    budget: Budget,
}

impl Machine {
    fn step(&mut self, operation: &Operation) -> Result<()> {
        let value = match operation {
            Operation::Push(literal) => {
                self.budget.spend(literal.bits())?;
                Value::plain(literal.number()?)
            }
            Operation::Unit(measure) => Value { number: measure.size()?, dimension: measure.dimension()? },
            Operation::Negate => self.pop()?.map(Number::neg),
            Operation::Factorial => {
                let value = self.pop()?;
                self.budget.spend(factorial_bits(&value.number))?;
                value.factorial()?
            }
            Operation::Power => {
                let (base, exponent) = self.pop_two()?;
                self.budget.spend(power_bits(&base.number, &exponent.number))?;
                base.pow(exponent)?
            }
            Operation::Add => self.binary(Value::add)?,
            Operation::Subtract => self.binary(Value::sub)?,
            Operation::Multiply => self.binary(Value::mul)?,
            Operation::Divide => self.binary(Value::div)?,
            Operation::Remainder => self.binary(|a, b| Ok(a.div_mod_floor(&b)?.1))?,
            Operation::Call(function, count) => self.call(*function, *count)?,
        };
        self.stack.push(value);
        Ok(())
    }

    fn binary(&mut self, operation: fn(Value, Value) -> Result<Value>) -> Result<Value> {
        let (left, right) = self.pop_two()?;
        self.budget.spend(left.number.bits() + right.number.bits())?;
        operation(left, right)
    }

    fn call(&mut self, function: Function, count: usize) -> Result<Value> {
        let first = self.stack.len().checked_sub(count).ok_or_else(incomplete)?;
        let arguments = self.stack.split_off(first);
        function.call(arguments, &mut self.budget)
    }

    fn pop(&mut self) -> Result<Value> {
        self.stack.pop().ok_or_else(incomplete)
    }

    fn pop_two(&mut self) -> Result<(Value, Value)> {
        let right = self.pop()?;
        Ok((self.pop()?, right))
    }
}

/// The error for a program that the parser never creates. A bug there should not become a panic here.
fn incomplete() -> Error {
    Error::syntax("the expression is incomplete")
}

/// Estimates the bits of the result; 0 for an operation that is refused anyway.
fn factorial_bits(number: &Number) -> u64 {
    let n = number.whole().and_then(|whole| u32::try_from(whole).ok()).filter(|n| *n <= MAX_FACTORIAL).unwrap_or(0);
    u64::from(n) * MAX_BITS / u64::from(MAX_FACTORIAL)
}

/// Returns an upper bound on the bits of the result. Results over the limit are refused before they are computed.
fn power_bits(base: &Number, exponent: &Number) -> u64 {
    let times = exponent.whole().and_then(|whole| u64::try_from(whole.unsigned_abs()).ok()).unwrap_or(0);
    base.bits().saturating_mul(times).min(4 * MAX_BITS)
}

#[cfg(test)]
mod tests {
    use crate::{cases::all, error::Kind, run_text};

    #[test]
    fn numbers() {
        all(&[
            ("0.1 + 0.2", "0.3"),
            ("2^100", "1267650600228229401496703205376"),
            ("-2^2", "-4"),
            ("(-2)^2", "4"),
            ("2^3^2", "512"),
            ("2^-2", "0.25"),
            ("0^0", "1"),
            ("7 % 3", "1"),
            ("-7 % 3", "2"),
            ("7 % -3", "-2"),
            ("20!", "2432902008176640000"),
            ("3!!", "720"),
            ("1e3 - 1_000", "0"),
            ("0xff + 0b11 + 0o17", "273"),
            ("1/3 + 1/6", "0.5"),
            ("1e-3 * 1e3", "1"),
            ("(10^30 + 1) * (10^30 - 1)", "999999999999999999999999999999999999999999999999999999999999"),
        ]);
    }

    #[test]
    fn quantities() {
        all(&[
            ("1 GiB / 100 Mbit/s", "85.89934592 s"),
            ("3 GiB / 100 Mbit/s", "257.69803776 s"),
            ("1 GiB + 512 MiB", "1.5 GiB"),
            ("2 h - 30 min", "1.5 h"),
            ("10 MB / 4 s", "2.5 MB/s"),
            ("5 MB/s * 2 min", "600 MB"),
            ("100 Mbps * 1 h in GB", "45 GB"),
            ("(3 s)^2", "9 s^2"),
            ("1 / 4 s", "0.25 s^-1"),
            ("6 MB / 2 MB", "3"),
            ("2^10 B in KiB", "1 KiB"),
            ("1 week in h", "168 h"),
            ("1 d / 1 us", "86400000000"),
            ("(1 MB)^0", "1"),
            ("-5 s", "-5 s"),
            ("7 h % 2 h", "1 h"),
        ]);
    }

    #[test]
    fn mixed_dimensions_are_refused() {
        all(&[
            ("1 MB + 2 s", "column 6: cannot add time to data; give both the same kind of unit"),
            ("1 MB - 2", "column 6: cannot subtract a plain number from data; give both the same kind of unit"),
            ("5 MB/s + 1 MB", "column 8: cannot add data to data per time; give both the same kind of unit"),
            (
                "1 s % 2",
                "column 5: cannot take the remainder of time and a plain number; give both the same kind of unit",
            ),
            ("2^(3 s)", "column 2: an exponent must be a plain number, but this is time"),
            ("2^0.5", "column 2: an exponent must be a whole number, but 0.5 is not; for roots use sqrt(x)"),
            ("(3 s)!", "column 6: a factorial takes a plain number, but this is time"),
            ("(1 s)^101", "column 6: units can only have powers from -100 to 100"),
            ("(1 s)^1e30", "column 6: units can only have powers from -100 to 100"),
        ]);
    }

    #[test]
    fn undefined_results_are_refused() {
        all(&[
            ("1 + 5 / (2 - 2)", "column 7: 5 cannot be divided by zero"),
            ("0^-1", "column 2: 1 cannot be divided by zero"),
            ("1 % 0", "column 3: 1 cannot be divided by zero"),
            ("(-1)!", "column 5: the factorial of -1 is not defined; it takes a whole number that is not negative"),
        ]);
    }

    #[test]
    fn too_large_results_are_refused() {
        for text in [
            "1e999999999",
            "1e-999999999",
            "2^131072",
            "2^2^2^2^2^2",
            "9^9^9^9",
            "0.5^999999",
            "10!!",
            "99999!",
            "1e30000 * 1e30000",
            "1/3^60000 + 1/7^40000",
            "(2^131071)*2",
        ] {
            assert_eq!(run_text(text).unwrap_err().kind, Kind::TooLarge, "{text}");
        }
    }

    /// Without a budget, these expressions would take seconds to minutes.
    #[test]
    fn work_is_bounded() {
        for unit in ["7^-9999+9^-9999", "1e39000", "9999!", "3^80000", "1e-39000", "sqrt(3^80000,9)", "5^-9999*3^9999"]
        {
            let many = 9_990 / (unit.len() + 1);
            let text = format!("max({})", vec![unit; many].join(","));
            assert_eq!(run_text(&text).unwrap_err().kind, Kind::TooLarge, "{unit}");
        }
    }
}
