//! Decides whether and when a failed completion is retried. Called by the driver of an exchange.

use std::time::Duration;

use patchbay_sandbox::adapter::RetryHint;

/// How many attempts at one completion may fail for reasons other than overload: broken streams, failed connections, timeouts,
/// server errors. Such failures either pass within seconds or persist.
pub(crate) const ATTEMPTS: u32 = 5;

/// Maximum number of retries of one completion after overload and rate limits, which can last minutes.
pub(crate) const OVERLOAD_RETRIES: u32 = 15;

/// The longest wait that the host chooses.
const LONGEST_STEP: Duration = Duration::from_secs(60);

/// Limit of all waits of one completion together. Beyond it, the user sees the error and can try again later.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setback {
    /// The provider is overloaded, or a rate limit was exceeded, before the answer began.
    Overload,
    /// Another transient failure before the answer began.
    Passing,
    BrokenOff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextAttempt {
    /// How long to wait before the attempt.
    pub(crate) delay: Duration,
    /// The number of the retry, counted from 1 among the retries after setbacks of this kind.
    pub(crate) number: u32,
    /// The maximum number of retries after setbacks of this kind.
    pub(crate) of: u32,
}

/// The failures of one completion so far, and how much patience is left.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    overloads: u32,
    others: u32,
    waited: Duration,
}

impl Patience {
    /// Records that an attempt failed, and returns the next attempt; `None` if no attempt may follow.
    pub(crate) fn next(&mut self, setback: Setback, hint: RetryHint) -> Option<NextAttempt> {
        let (failed, of) = match setback {
            Setback::Overload => (&mut self.overloads, OVERLOAD_RETRIES),
            Setback::Passing | Setback::BrokenOff => (&mut self.others, ATTEMPTS - 1),
        };
        // The random part of the host's own waits does not count.
        let (delay, random) = match hint {
            RetryHint::Never => return None,
            RetryHint::After(time) if !time.is_zero() => (time, Duration::ZERO),
            // A time of zero, such as from a date in the past, is ignored, because a server that refuses must not be asked again
            // immediately.
            RetryHint::After(_) | RetryHint::Backoff => {
                (Duration::from_secs(1 << (*failed).min(6)).min(LONGEST_STEP), jitter())
            }
        };
        let waited = self.waited.saturating_add(delay);
        if *failed >= of || waited > LONGEST_WAIT {
            return None;
        }
        *failed += 1;
        let number = *failed;
        self.waited = waited;
        Some(NextAttempt { delay: delay + random, number, of })
    }
}

/// Returns a random time of up to a second. Clients that were refused together should not retry together.
fn jitter() -> Duration {
    Duration::from_millis(rand::random_range(0..1000))
}

/// Returns a time for the user to read, rounded up: `60 s`, `12 min`, `2 h 5 min`.
pub(crate) fn in_words(time: Duration) -> String {
    let seconds = time.as_millis().div_ceil(1000);
    let minutes = seconds.div_ceil(60);
    match (seconds, minutes) {
        (..=120, _) => format!("{seconds} s"),
        (_, ..=120) => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns the waits in whole seconds until no retry is left.
    fn waits(setback: Setback, hint: RetryHint) -> Vec<u64> {
        let mut patience = Patience::default();
        let next = || patience.next(setback, hint);
        std::iter::from_fn(next).map(|next| next.delay.as_secs()).collect()
    }

    #[test]
    fn overload_is_waited_out_for_ten_minutes() {
        let overload = |hint| waits(Setback::Overload, hint);
        let mut expected = vec![1, 2, 4, 8, 16, 32];
        expected.resize(14, 60);
        assert_eq!(overload(RetryHint::Backoff), expected);
        assert_eq!(overload(RetryHint::After(SECOND * 60)), [60; 10]);
        assert_eq!(overload(RetryHint::After(SECOND)), [1; 15]);
        assert_eq!(overload(RetryHint::After(Duration::from_millis(1))), [0; 15]);
        assert_eq!(overload(RetryHint::After(SECOND * 600)), [600]);
        assert!(overload(RetryHint::After(SECOND * 600 + Duration::from_millis(1))).is_empty());
        assert!(overload(RetryHint::After(Duration::MAX)).is_empty());
        assert!(overload(RetryHint::Never).is_empty());
    }

    #[test]
    fn other_failures_have_five_attempts() {
        for setback in [Setback::Passing, Setback::BrokenOff] {
            assert_eq!(waits(setback, RetryHint::Backoff), [1, 2, 4, 8]);
            assert_eq!(waits(setback, RetryHint::After(SECOND * 3)), [3; 4]);
            assert!(waits(setback, RetryHint::Never).is_empty());
        }
    }

    #[test]
    fn time_of_zero_is_no_hint() {
        for setback in [Setback::Overload, Setback::Passing, Setback::BrokenOff] {
            assert_eq!(waits(setback, RetryHint::After(Duration::ZERO)), waits(setback, RetryHint::Backoff));
        }
    }

    #[test]
    fn failures_of_both_kinds_are_counted_apart() {
        let mut patience = Patience::default();
        let mut number = |setback| patience.next(setback, RetryHint::After(SECOND)).map(|next| (next.number, next.of));
        assert_eq!(number(Setback::Overload), Some((1, 15)));
        assert_eq!(number(Setback::BrokenOff), Some((1, 4)));
        assert_eq!(number(Setback::Passing), Some((2, 4)));
        assert_eq!(number(Setback::Overload), Some((2, 15)));
        assert_eq!(number(Setback::BrokenOff), Some((3, 4)));
        assert_eq!(number(Setback::BrokenOff), Some((4, 4)));
        assert_eq!(number(Setback::Passing), None);
        assert_eq!(number(Setback::Overload), Some((3, 15)));
    }

    #[test]
    fn clients_do_not_return_together() {
        let first = || Patience::default().next(Setback::Overload, RetryHint::Backoff).map(|next| next.delay);
        let waits: Vec<_> = (0..50).map(|_| first()).collect();
        assert!(waits.iter().any(|wait| *wait != waits[0]), "they are all the same");
    }

    #[test]
    fn times_are_rounded_up() {
        for (ms, words) in [
            (0, "0 s"),
            (1, "1 s"),
            (60_000, "60 s"),
            (120_000, "120 s"),
            (120_001, "3 min"),
            (720_000, "12 min"),
            (7_200_000, "120 min"),
            (7_500_000, "2 h 5 min"),
            (90_000_000, "25 h 0 min"),
        ] {
            assert_eq!(in_words(Duration::from_millis(ms)), words);
        }
    }
}
