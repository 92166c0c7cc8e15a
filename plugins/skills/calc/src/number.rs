//! Exact rational numbers of limited length: `RBig` from the library `dashu`, with the limits of an expression.
//!
//! `dashu` was measured on 2026-11-22 against `num-bigint` with our own greatest common divisor: common divisors,
//! sums of long fractions and roots take a quarter of the time, and the component is 9 % larger.

use dashu_int::{
    IBig, UBig,
    ops::{BitTest, SquareRoot, UnsignedAbs},
};
use dashu_ratio::RBig;

use crate::{
    error::{Error, Result},
    format::brief,
    limits::{MAX_BITS, MAX_FACTORIAL},
};

/// A fraction in lowest terms with a positive denominator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Number(RBig);

impl Number {
    /// Creates `num / den` in lowest terms. `den` must not be zero.
    pub(crate) fn ratio(num: impl Into<IBig>, den: impl Into<IBig>) -> Result<Self> {
        Self(RBig::from_parts_signed(num.into(), den.into())).fit()
    }

    /// Returns the number, or an error if it is too long.
    fn fit(self) -> Result<Self> {
        let bits = bits(self.numerator()).max(bits(self.denominator()));
        if bits > MAX_BITS {
            return Err(Error::too_large(format!(
                "the result here has {bits} bits, and the limit is {MAX_BITS}; use smaller numbers"
            )));
        }
        Ok(self)
    }

    pub(crate) fn numerator(&self) -> &IBig {
        self.0.numerator()
    }

    pub(crate) fn denominator(&self) -> &UBig {
        self.0.denominator()
    }

    /// Returns the bits of numerator and denominator together.
    pub(crate) fn bits(&self) -> u64 {
        bits(self.numerator()) + bits(self.denominator())
    }

    /// Returns the numerator if this is a whole number.
    pub(crate) fn whole(&self) -> Option<&IBig> {
        self.0.is_int().then(|| self.numerator())
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.is_zero()
    }

    pub(crate) fn is_negative(&self) -> bool {
        is_negative(self.numerator())
    }

    pub(crate) fn signum(&self) -> Self {
        self.numerator().signum().into()
    }

    pub(crate) fn abs(self) -> Self {
        if self.is_negative() { self.neg() } else { self }
    }

    pub(crate) fn neg(self) -> Self {
        Self(-self.0)
    }

    pub(crate) fn add(&self, other: &Self) -> Result<Self> {
        Self(&self.0 + &other.0).fit()
    }

    pub(crate) fn sub(&self, other: &Self) -> Result<Self> {
        Self(&self.0 - &other.0).fit()
    }

    pub(crate) fn mul(&self, other: &Self) -> Result<Self> {
        Self(&self.0 * &other.0).fit()
    }

    pub(crate) fn div(&self, other: &Self) -> Result<Self> {
        if other.is_zero() {
            return Err(by_zero(self));
        }
        Self(&self.0 / &other.0).fit()
    }

    /// Returns the quotient rounded down, and the remainder, which has the sign of the divisor.
    pub(crate) fn div_mod_floor(&self, other: &Self) -> Result<(Self, Self)> {
        let quotient = self.div(other)?.floor();
        let rest = self.sub(&quotient.mul(other)?)?;
        Ok((quotient, rest))
    }

    pub(crate) fn floor(&self) -> Self {
        self.0.floor().into()
    }

    pub(crate) fn ceil(&self) -> Self {
        self.0.ceil().into()
    }

    /// Rounds to `places` decimal places, half away from zero; a negative `places` rounds to tens, hundreds and so on.
    pub(crate) fn round(&self, places: i32) -> Result<Self> {
        let scale = power_of_ten(places.unsigned_abs());
        if places < 0 {
            Self::from((&self.0 / &scale).round() * scale).fit()
        } else {
            Self::ratio((&self.0 * &scale).round(), scale)
        }
    }

    /// Raises to a whole power. `0^0` is 1.
    pub(crate) fn pow(&self, exponent: &IBig) -> Result<Self> {
        if exponent.is_zero() {
            return Ok(1.into());
        }
        if self.is_zero() {
            return if is_negative(exponent) { Err(by_zero(&1.into())) } else { Ok(0.into()) };
        }
        if self.whole().is_some_and(|whole| bits(whole) == 1) {
            let is_even = exponent.trailing_zeros() != Some(0);
            return Ok(if is_even { 1.into() } else { self.clone() });
        }
        // A number of b bits is at least 2^(b-1), so its n-th power has more than (b-1)n bits. This is
        // checked before computing.
        let least = UBig::from(bits(self.numerator()).max(bits(self.denominator())) - 1) * exponent.unsigned_abs();
        match isize::try_from(exponent) {
            Ok(power) if least < MAX_BITS.into() => Self(self.0.pow(power)).fit(),
            _ => Err(Error::too_large(format!(
                "{} raised to the power {} has more than {} bits, and the limit is {MAX_BITS}; use a smaller exponent",
                brief(self),
                brief(&exponent.clone().into()),
                brief(&least.into()),
            ))),
        }
    }

    pub(crate) fn factorial(&self) -> Result<Self> {
        let Some(whole) = self.whole().filter(|whole| !is_negative(whole)) else {
            return Err(Error::undefined(format!(
                "the factorial of {} is not defined; it takes a whole number that is not negative",
                brief(self)
            )));
        };
        match u32::try_from(whole).ok().filter(|n| *n <= MAX_FACTORIAL) {
            Some(n) => Self::from(product(1, n)).fit(),
            None => Err(Error::too_large(format!(
                "the factorial of {} is over the limit of {MAX_BITS} bits; the largest that fits is {MAX_FACTORIAL}!",
                brief(self)
            ))),
        }
    }

    /// Returns the square root if it is rational.
    pub(crate) fn sqrt(&self) -> Result<Self> {
        let (num, den) = (self.root_operand()?, self.denominator());
        let roots = (num.sqrt(), den.sqrt());
        if roots.0.sqr() == num && roots.1.sqr() == *den {
            return Self::ratio(roots.0, roots.1);
        }
        Err(Error::undefined(format!(
            "the square root of {} is not rational; sqrt(x, digits) rounds it to that many decimal places",
            brief(self)
        )))
    }

    /// Returns the square root to `places` decimal places, rounded half up.
    pub(crate) fn sqrt_to(&self, places: u32) -> Result<Self> {
        let scale = UBig::from(10u32).pow(places as usize);
        // The root of 4x has one more bit, which decides the rounding.
        let fourfold = self.root_operand()? * scale.sqr() * 4u32 / self.denominator();
        Self::ratio((fourfold.sqrt() + 1u32) / 2u32, scale)
    }

    /// Returns the numerator, or an error if it is negative.
    fn root_operand(&self) -> Result<UBig> {
        UBig::try_from(self.numerator().clone())
            .map_err(|_| Error::undefined(format!("{} is negative and has no real square root", brief(self))))
    }
}

/// Returns the length of a number in bits, without its sign.
pub(crate) fn bits(number: &impl BitTest) -> u64 {
    number.bit_len() as u64
}

pub(crate) fn is_negative(number: &IBig) -> bool {
    number.sign() == dashu_int::Sign::Negative
}

pub(crate) fn power_of_ten(exponent: u32) -> IBig {
    IBig::from(10).pow(exponent as usize)
}

fn by_zero(dividend: &Number) -> Error {
    Error::undefined(format!("{} cannot be divided by zero", brief(dividend)))
}

/// Returns the product of all numbers from `low` to `high`. Splitting the range in halves keeps the
/// factors at similar lengths, which is fastest.
fn product(low: u32, high: u32) -> IBig {
    if high.saturating_sub(low) < 8 {
        return (low..=high).fold(IBig::ONE, |product, factor| product * factor);
    }
    let middle = low + (high - low) / 2;
    product(low, middle) * product(middle + 1, high)
}

impl<T: Into<IBig>> From<T> for Number {
    fn from(whole: T) -> Self {
        Self(whole.into().into())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::error::Kind;

    fn n(num: i64, den: i64) -> Number {
        Number::ratio(num, den).unwrap()
    }

    #[test]
    fn fractions_are_in_lowest_terms() {
        assert_eq!(n(6, -4), n(-3, 2));
        assert_eq!(n(6, 3).whole(), Some(&2.into()));
        assert_eq!(n(0, -7), 0.into());
        assert_eq!((n(-3, 2).numerator(), n(-3, 2).denominator()), (&(-3).into(), &2u32.into()));
    }

    #[test]
    fn four_operations() {
        assert_eq!(n(1, 10).add(&n(2, 10)).unwrap(), n(3, 10));
        assert_eq!(n(1, 3).sub(&n(1, 2)).unwrap(), n(-1, 6));
        assert_eq!(n(2, 3).mul(&n(3, 2)).unwrap(), 1.into());
        assert_eq!(n(2, 3).div(&n(-4, 9)).unwrap(), n(-3, 2));
        assert_eq!(n(2, 3).div(&0.into()).unwrap_err().kind, Kind::Undefined);
    }

    #[test]
    fn remainder_has_the_sign_of_the_divisor() {
        for (a, b, quotient, rest) in [(7, 3, 2, 1), (-7, 3, -3, 2), (7, -3, -3, -2), (-7, -3, 2, -1), (6, 3, 2, 0)] {
            assert_eq!(n(a, 1).div_mod_floor(&n(b, 1)).unwrap(), (n(quotient, 1), n(rest, 1)), "{a} {b}");
        }
        assert_eq!(n(15, 2).div_mod_floor(&2.into()).unwrap(), (3.into(), n(3, 2)));
    }

    #[test]
    fn rounding() {
        for (x, floor, ceil, round) in
            [(n(5, 2), 2, 3, 3), (n(-5, 2), -3, -2, -3), (n(7, 3), 2, 3, 2), (n(-7, 3), -3, -2, -2), (n(4, 1), 4, 4, 4)]
        {
            assert_eq!((x.floor(), x.ceil(), x.round(0).unwrap()), (floor.into(), ceil.into(), round.into()), "{x:?}");
        }
        assert_eq!(n(12_345, 1_000).round(2).unwrap(), n(1_235, 100));
        assert_eq!(n(-12_345, 1_000).round(2).unwrap(), n(-1_235, 100));
        assert_eq!(n(1_250, 1).round(-2).unwrap(), 1_300.into());
        assert_eq!(n(-49, 1).round(-2).unwrap(), 0.into());
    }

    #[test]
    fn powers() {
        let p = |x: Number, e: i64| x.pow(&e.into());
        assert_eq!(p(n(2, 3), 3).unwrap(), n(8, 27));
        assert_eq!(p(n(-2, 3), -3).unwrap(), n(-27, 8));
        assert_eq!(p(n(-2, 3), -2).unwrap(), n(9, 4));
        assert_eq!(p(0.into(), 0).unwrap(), 1.into());
        assert_eq!(p(0.into(), 9).unwrap(), 0.into());
        assert_eq!(p(0.into(), -1).unwrap_err().kind, Kind::Undefined);
        assert_eq!(p(1.into(), i64::MIN).unwrap(), 1.into());
        assert_eq!(p((-1).into(), i64::MAX).unwrap(), (-1).into());
    }

    #[test]
    fn powers_over_the_limit_are_not_computed() {
        let p = |x: Number, e: i64| x.pow(&e.into());
        assert_eq!(bits(p(2.into(), 131_071).unwrap().numerator()), MAX_BITS);
        for (x, e) in
            [(n(2, 1), 131_072), (n(2, 1), i64::MAX), (n(3, 2), -100_000), (n(3, 1), 82_698), (n(1, 9), 99_999)]
        {
            assert_eq!(p(x.clone(), e).unwrap_err().kind, Kind::TooLarge, "{x:?}^{e}");
        }
        assert_eq!(
            p(2.into(), 1_000_000).unwrap_err().to_string(),
            "2 raised to the power 1000000 has more than 1000000 bits, and the limit is 131072; use a smaller exponent"
        );
        let tower = Number::from(10).pow(&IBig::from(10).pow(9_999)).unwrap_err();
        assert!(tower.to_string().len() < 300, "{tower}");
    }

    #[test]
    fn factorials() {
        for (x, expected) in [(0, 1), (1, 1), (5, 120), (10, 3_628_800), (20, 2_432_902_008_176_640_000)] {
            assert_eq!(n(x, 1).factorial().unwrap(), n(expected, 1), "{x}");
        }
        assert_eq!(n(1, 2).factorial().unwrap_err().kind, Kind::Undefined);
        assert_eq!(n(-1, 1).factorial().unwrap_err().kind, Kind::Undefined);
        assert_eq!(n(i64::MAX, 1).factorial().unwrap_err().kind, Kind::TooLarge);
    }

    #[test]
    fn factorial_limit_is_the_last_that_fits() {
        assert!(bits(&product(1, MAX_FACTORIAL)) <= MAX_BITS);
        assert!(bits(&product(1, MAX_FACTORIAL + 1)) > MAX_BITS);
    }

    #[test]
    fn square_roots() {
        assert_eq!(n(9, 16).sqrt().unwrap(), n(3, 4));
        assert_eq!(n(0, 1).sqrt().unwrap(), 0.into());
        assert_eq!(n(2, 1).sqrt().unwrap_err().kind, Kind::Undefined);
        assert_eq!(n(-4, 1).sqrt().unwrap_err().kind, Kind::Undefined);
        assert_eq!(n(2, 1).sqrt_to(5).unwrap(), n(141_421, 100_000));
        assert_eq!(n(3, 1).sqrt_to(3).unwrap(), n(1_732, 1_000));
        assert_eq!(n(7, 1).sqrt_to(0).unwrap(), 3.into());
        assert_eq!(n(1, 4).sqrt_to(0).unwrap(), 1.into());
        assert_eq!(n(6, 1).sqrt_to(0).unwrap(), 2.into());
    }

    #[test]
    fn results_over_the_limit_are_refused() {
        let long = Number::from(IBig::ONE << (MAX_BITS - 1) as usize);
        assert_eq!(long.mul(&2.into()).unwrap_err().kind, Kind::TooLarge);
        assert_eq!(long.add(&long).unwrap_err().kind, Kind::TooLarge);
        assert!(long.sub(&long).unwrap().is_zero());
        assert!(long.mul(&n(1, 2)).is_ok());
    }

    /// Random rational numbers of up to about 640 bits per part.
    pub(crate) fn any_number() -> impl Strategy<Value = Number> {
        let bytes = || vec(any::<u8>(), 0..80);
        (any::<bool>(), bytes(), bytes()).prop_map(|(negative, num, den)| {
            let sign = if negative { -1 } else { 1 };
            Number::ratio(UBig::from_le_bytes(&num) * IBig::from(sign), UBig::from_le_bytes(&den) + 1u32).unwrap()
        })
    }

    proptest! {
        #[test]
        fn addition_and_subtraction_are_inverse(a in any_number(), b in any_number()) {
            prop_assert_eq!(a.add(&b).unwrap().sub(&b).unwrap(), a);
        }

        #[test]
        fn multiplication_and_division_are_inverse(a in any_number(), b in any_number()) {
            prop_assume!(!b.is_zero());
            prop_assert_eq!(a.mul(&b).unwrap().div(&b).unwrap(), a);
        }

        #[test]
        fn multiplication_distributes(a in any_number(), b in any_number(), c in any_number()) {
            let left = a.mul(&b.add(&c).unwrap()).unwrap();
            prop_assert_eq!(left, a.mul(&b).unwrap().add(&a.mul(&c).unwrap()).unwrap());
        }

        #[test]
        fn quotient_and_remainder_restore_the_number(a in any_number(), b in any_number()) {
            prop_assume!(!b.is_zero());
            let (quotient, rest) = a.div_mod_floor(&b).unwrap();
            prop_assert!(quotient.whole().is_some());
            prop_assert!(rest.clone().abs() < b.clone().abs());
            prop_assert!(rest.is_zero() || rest.is_negative() == b.is_negative());
            prop_assert_eq!(quotient.mul(&b).unwrap().add(&rest).unwrap(), a);
        }

        #[test]
        fn powers_add_up(a in any_number(), i in -9i32..9, j in -9i32..9) {
            prop_assume!(!a.is_zero());
            let p = |e: i32| a.pow(&e.into()).unwrap();
            prop_assert_eq!(p(i).mul(&p(j)).unwrap(), p(i + j));
        }

        #[test]
        fn root_of_a_square_is_exact(a in any_number(), places in 0u32..40) {
            let square = a.mul(&a).unwrap();
            let a = a.abs();
            prop_assert_eq!(square.sqrt_to(places).unwrap(), a.round(places as i32).unwrap());
            prop_assert_eq!(square.sqrt().unwrap(), a);
        }

        #[test]
        fn rounding_error_is_at_most_half_a_step(a in any_number(), places in -40i32..40) {
            let off = a.round(places).unwrap().sub(&a).unwrap().abs();
            let half = Number::from(10).pow(&(-places).into()).unwrap().div(&2.into()).unwrap();
            prop_assert!(off <= half);
        }

        #[test]
        fn order_agrees_with_the_difference(a in any_number(), b in any_number()) {
            prop_assert_eq!(a.cmp(&b), a.sub(&b).unwrap().cmp(&0.into()));
        }
    }
}
