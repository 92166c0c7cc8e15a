//! Exact rational numbers up to the limit of length.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};
use num_integer::Integer;
use num_traits::{One, Pow, Signed, ToPrimitive, Zero};

use crate::{
    error::{Error, Result},
    format::brief,
    gcd::gcd,
    limits::{MAX_BITS, MAX_FACTORIAL},
};

/// A fraction in lowest terms with a positive denominator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    num: BigInt,
    den: BigInt,
}

impl Number {
    /// Creates `num / den` in lowest terms. `den` must not be zero.
    pub(crate) fn ratio(num: impl Into<BigInt>, den: impl Into<BigInt>) -> Result<Self> {
        Self::reduced(num.into(), den.into()).fit()
    }

    fn reduced(num: BigInt, den: BigInt) -> Self {
        let (num, den) = if den.is_negative() { (-num, -den) } else { (num, den) };
        if den.is_one() {
            return Self { num, den };
        }
        // Most quotients in practice are whole numbers, and a division detects that faster than a common divisor.
        let (whole, rest) = num.div_rem(&den);
        if rest.is_zero() {
            return whole.into();
        }
        let common = gcd(&den, &rest);
        if common.is_one() { Self { num, den } } else { Self { num: num / &common, den: den / common } }
    }

    /// Returns the number, or an error if it is too long.
    fn fit(self) -> Result<Self> {
        let bits = self.num.bits().max(self.den.bits());
        if bits > MAX_BITS {
            return Err(Error::too_large(format!(
                "the result here has {bits} bits, and the limit is {MAX_BITS}; use smaller numbers"
            )));
        }
        Ok(self)
    }

    pub(crate) fn numerator(&self) -> &BigInt {
        &self.num
    }

    pub(crate) fn denominator(&self) -> &BigInt {
        &self.den
    }

    /// Returns the bits of numerator and denominator together.
    pub(crate) fn bits(&self) -> u64 {
        self.num.bits() + self.den.bits()
    }

    /// Returns the numerator if this is a whole number.
    pub(crate) fn whole(&self) -> Option<&BigInt> {
        self.den.is_one().then_some(&self.num)
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.num.is_zero()
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.num.is_negative()
    }

    pub(crate) fn signum(&self) -> Self {
        self.num.signum().into()
    }

    pub(crate) fn abs(self) -> Self {
        Self { num: self.num.abs(), den: self.den }
    }

    pub(crate) fn neg(self) -> Self {
        Self { num: -self.num, den: self.den }
    }

    pub(crate) fn add(&self, other: &Self) -> Result<Self> {
        if self.den == other.den {
            return Self::reduced(&self.num + &other.num, self.den.clone()).fit();
        }
        Self::reduced(&self.num * &other.den + &other.num * &self.den, &self.den * &other.den).fit()
    }

    pub(crate) fn sub(&self, other: &Self) -> Result<Self> {
        self.add(&other.clone().neg())
    }

    pub(crate) fn mul(&self, other: &Self) -> Result<Self> {
        Self::reduced(&self.num * &other.num, &self.den * &other.den).fit()
    }

    pub(crate) fn div(&self, other: &Self) -> Result<Self> {
        if other.is_zero() {
            return Err(by_zero(self));
        }
        Self::reduced(&self.num * &other.den, &self.den * &other.num).fit()
    }

    /// Returns the quotient rounded down, and the remainder, which has the sign of the divisor.
    pub(crate) fn div_mod_floor(&self, other: &Self) -> Result<(Self, Self)> {
        let quotient = self.div(other)?.floor();
        let rest = self.sub(&quotient.mul(other)?)?;
        Ok((quotient, rest))
    }

    pub(crate) fn floor(&self) -> Self {
        self.num.div_floor(&self.den).into()
    }

    pub(crate) fn ceil(&self) -> Self {
        self.num.div_ceil(&self.den).into()
    }

    /// Rounds to `places` decimal places, half away from zero; a negative `places` rounds to tens, hundreds and so on.
    pub(crate) fn round(&self, places: i32) -> Result<Self> {
        let scale: BigInt = BigInt::from(10).pow(places.unsigned_abs());
        let (num, den) =
            if places < 0 { (self.num.abs(), &self.den * &scale) } else { (self.num.abs() * &scale, self.den.clone()) };
        let steps = (num * 2 + &den) / (den * 2) * self.num.signum();
        if places < 0 { Self::from(steps * scale).fit() } else { Self::ratio(steps, scale) }
    }

    /// Raises to a whole power. `0^0` is 1.
    pub(crate) fn pow(&self, exponent: &BigInt) -> Result<Self> {
        if exponent.is_zero() {
            return Ok(1.into());
        }
        if self.is_zero() {
            return if exponent.is_negative() { Err(by_zero(&1.into())) } else { Ok(0.into()) };
        }
        if self.den.is_one() && self.num.magnitude().is_one() {
            return Ok(if exponent.is_even() { 1.into() } else { self.clone() });
        }
        // A number of b bits is at least 2^(b-1), so its n-th power has more than (b-1)n bits. Checked before
        // computing.
        let least = BigInt::from(self.num.bits().max(self.den.bits()) - 1) * exponent.abs();
        let power = match exponent.magnitude().to_u32() {
            Some(power) if least < MAX_BITS.into() => power,
            _ => {
                return Err(Error::too_large(format!(
                    "{} raised to the power {} has more than {} bits, and the limit is {MAX_BITS}; \
                     use a smaller exponent",
                    brief(self),
                    brief(&exponent.clone().into()),
                    brief(&least.into()),
                )));
            }
        };
        let (num, den) = (Pow::pow(&self.num, power), Pow::pow(&self.den, power));
        match exponent.sign() {
            // The sign moves to the numerator; a power of a fraction in lowest terms is in lowest terms.
            Sign::Minus if num.is_negative() => Self { num: -den, den: -num },
            Sign::Minus => Self { num: den, den: num },
            _ => Self { num, den },
        }
        .fit()
    }

    pub(crate) fn factorial(&self) -> Result<Self> {
        let Some(whole) = self.whole().filter(|whole| !whole.is_negative()) else {
            return Err(Error::undefined(format!(
                "the factorial of {} is not defined; it takes a whole number that is not negative",
                brief(self)
            )));
        };
        match whole.to_u32().filter(|n| *n <= MAX_FACTORIAL) {
            Some(n) => Self::from(product(1, n)).fit(),
            None => Err(Error::too_large(format!(
                "the factorial of {} is over the limit of {MAX_BITS} bits; the largest that fits is {MAX_FACTORIAL}!",
                brief(self)
            ))),
        }
    }

    /// Returns the square root if it is rational.
    pub(crate) fn sqrt(&self) -> Result<Self> {
        self.refuse_negative_root()?;
        let root = Self { num: self.num.sqrt(), den: self.den.sqrt() };
        if &root.num * &root.num == self.num && &root.den * &root.den == self.den {
            return Ok(root);
        }
        Err(Error::undefined(format!(
            "the square root of {} is not rational; sqrt(x, digits) rounds it to that many decimal places",
            brief(self)
        )))
    }

    /// Returns the square root to `places` decimal places, rounded half up.
    pub(crate) fn sqrt_to(&self, places: u32) -> Result<Self> {
        self.refuse_negative_root()?;
        let scale: BigInt = BigInt::from(10).pow(places);
        // The root of 4x has one more bit, which decides the rounding.
        let fourfold: BigInt = &self.num * &scale * &scale * 4 / &self.den;
        let doubled = fourfold.sqrt();
        Self::ratio((doubled + 1) / 2, scale)
    }

    fn refuse_negative_root(&self) -> Result<()> {
        if self.is_negative() {
            return Err(Error::undefined(format!("{} is negative and has no real square root", brief(self))));
        }
        Ok(())
    }
}

fn by_zero(dividend: &Number) -> Error {
    Error::undefined(format!("{} cannot be divided by zero", brief(dividend)))
}

/// Returns the product of all numbers from `low` to `high`. Splitting in halves keeps the factors of similar length,
/// which is fastest.
fn product(low: u32, high: u32) -> BigInt {
    if high.saturating_sub(low) < 8 {
        return (low..=high).fold(BigInt::one(), |product, factor| product * factor);
    }
    let middle = low + (high - low) / 2;
    product(low, middle) * product(middle + 1, high)
}

impl<T: Into<BigInt>> From<T> for Number {
    fn from(whole: T) -> Self {
        Self { num: whole.into(), den: BigInt::one() }
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.num * &other.den).cmp(&(&other.num * &self.den))
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use num_bigint::BigUint;
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
        assert_eq!((n(-3, 2).numerator(), n(-3, 2).denominator()), (&(-3).into(), &2.into()));
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
        assert_eq!(p(2.into(), 131_071).unwrap().numerator().bits(), MAX_BITS);
        for (x, e) in
            [(n(2, 1), 131_072), (n(2, 1), i64::MAX), (n(3, 2), -100_000), (n(3, 1), 82_698), (n(1, 9), 99_999)]
        {
            assert_eq!(p(x.clone(), e).unwrap_err().kind, Kind::TooLarge, "{x:?}^{e}");
        }
        assert_eq!(
            p(2.into(), 1_000_000).unwrap_err().to_string(),
            "2 raised to the power 1000000 has more than 1000000 bits, and the limit is 131072; use a smaller exponent"
        );
        let tower = Number::from(10).pow(&BigInt::from(10).pow(9_999u32)).unwrap_err();
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
        assert!(product(1, MAX_FACTORIAL).bits() <= MAX_BITS);
        assert!(product(1, MAX_FACTORIAL + 1).bits() > MAX_BITS);
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
        let long = Number::from(BigInt::one() << (MAX_BITS - 1));
        assert_eq!(long.mul(&2.into()).unwrap_err().kind, Kind::TooLarge);
        assert_eq!(long.add(&long).unwrap_err().kind, Kind::TooLarge);
        assert!(long.sub(&long).unwrap().is_zero());
        assert!(long.mul(&n(1, 2)).is_ok());
    }

    /// Random rational numbers of up to about 640 bits per part.
    pub(crate) fn any_number() -> impl Strategy<Value = Number> {
        let words = || vec(any::<u32>(), 0..20);
        (any::<bool>(), words(), words()).prop_map(|(negative, num, den)| {
            let sign = if negative { -1 } else { 1 };
            Number::ratio(BigInt::from(BigUint::new(num)) * sign, BigInt::from(BigUint::new(den)) + 1).unwrap()
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
