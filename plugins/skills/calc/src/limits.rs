//! Limits of one expression. Expressions are not trusted, and exact arithmetic has no natural limit.

use crate::error::{Error, Result};

/// The longest expression in bytes: a page of arithmetic. It also bounds the steps of a program.
pub(crate) const MAX_EXPRESSION_BYTES: usize = 10_000;

/// The deepest nesting of parentheses, calls and powers of powers. Only the parser recurses, about eight frames per
/// level, and the stack of a component is small.
pub(crate) const MAX_DEPTH: usize = 100;

/// Maximum number of bits of a numerator or denominator: 39,457 digits, enough for 10000!.
pub(crate) const MAX_BITS: u64 = 131_072;

/// The largest whole number whose factorial fits [`MAX_BITS`].
pub(crate) const MAX_FACTORIAL: u32 = 10_944;

/// The largest power of ten in a literal. 10^39456 is the last one that fits [`MAX_BITS`]; the rest is room for digits
/// that cancel, as in `0.001e39459`.
pub(crate) const MAX_EXPONENT: u64 = 50_000;

/// The most decimal places that are printed and that `round` and `sqrt` accept. Their results are
/// therefore always printed completely.
pub(crate) const MAX_PLACES: u32 = 1_000;

/// The largest power of a unit. It keeps the exponents far from overflow.
pub(crate) const MAX_UNIT_POWER: i32 = 100;

/// The work of one expression, see [`Budget::spend`]; about one second inside the sandbox.
const MAX_WORK: u64 = 256 << 20;

/// The work that is left for an expression. Without it, a few thousand operations on the
/// largest numbers would take minutes.
pub(crate) struct Budget {
    left: u64,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self { left: MAX_WORK }
    }

    /// Counts one operation whose operands have `bits` bits in total. The cost is the square of their length in
    /// words, which matches the slowest operation, the greatest common divisor.
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
    fn small_numbers_fit_the_budget() {
        let mut budget = Budget::new();
        for _ in 0..MAX_EXPRESSION_BYTES {
            budget.spend(1_000).unwrap();
        }
    }

    #[test]
    fn large_numbers_exhaust_the_budget() {
        let mut budget = Budget::new();
        let operations = (0..1_000).take_while(|_| budget.spend(4 * MAX_BITS).is_ok()).count();
        assert!((2..20).contains(&operations), "{operations}");
        assert_eq!(budget.spend(4 * MAX_BITS).unwrap_err().kind, Kind::TooLarge);
        assert_eq!(budget.spend(u64::MAX).unwrap_err().kind, Kind::TooLarge);
    }
}
