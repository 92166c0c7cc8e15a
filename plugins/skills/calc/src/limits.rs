//! How much one expression may ask for. Expressions come from anybody, and exact arithmetic has no natural end.

use crate::error::{Error, Result};

/// Enough for a page of arithmetic; it also bounds how many steps a program can have.
pub(crate) const MAX_EXPRESSION_BYTES: usize = 10_000;

/// Parentheses, calls and towers of powers, one inside the other. Only the parser recurses, some eight frames a
/// level, and a guest's stack is small.
pub(crate) const MAX_DEPTH: usize = 100;

/// Bits of a numerator or of a denominator: 39,457 digits, so that 10000! still fits.
pub(crate) const MAX_BITS: u64 = 131_072;

/// The largest whole number whose factorial fits [`MAX_BITS`].
pub(crate) const MAX_FACTORIAL: u32 = 10_944;

/// The largest power of ten in a literal. 10^39456 is the last that fits [`MAX_BITS`] by itself; the rest is room
/// for digits that cancel, as in `0.001e39459`.
pub(crate) const MAX_EXPONENT: u64 = 50_000;

/// Decimal places that are printed, and that `round` and `sqrt` take. All that they can make is printed whole.
pub(crate) const MAX_PLACES: u32 = 1_000;

/// The power to which a unit may stand. Nobody needs more, and it keeps the exponents far from overflow.
pub(crate) const MAX_UNIT_POWER: i32 = 100;

/// What one expression may cost, see [`Budget::spend`]; about a second inside the sandbox.
const MAX_WORK: u64 = 256 << 20;

/// The work that is left for an expression. A few thousand operations on numbers of the largest size would
/// otherwise take minutes.
pub(crate) struct Budget {
    left: u64,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { left: MAX_WORK }
    }

    /// Pays for one operation on operands of `bits` bits together: the square of their words, for that is how long
    /// the slowest operation, a common divisor, takes.
    pub(crate) fn spend(&mut self, bits: u64) -> Result<()> {
        let words = bits / 64 + 1;
        let cost = words.saturating_mul(words);
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Error::too_large(
                "the operations on large numbers up to here are more than one expression may do; \
                 use fewer of them or smaller numbers",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn small_numbers_cannot_use_up_the_budget() {
        let mut budget = Budget::new();
        for _ in 0..MAX_EXPRESSION_BYTES {
            budget.spend(1_000).unwrap();
        }
    }

    #[test]
    fn large_numbers_can() {
        let mut budget = Budget::new();
        let operations = (0..1_000).take_while(|_| budget.spend(4 * MAX_BITS).is_ok()).count();
        assert!((2..20).contains(&operations), "{operations}");
        assert_eq!(budget.spend(4 * MAX_BITS).unwrap_err().kind, Kind::TooLarge);
        assert_eq!(budget.spend(u64::MAX).unwrap_err().kind, Kind::TooLarge);
    }
}
