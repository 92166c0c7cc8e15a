//! When a failed completion is retried. The driver of an exchange calls it.

use std::time::Duration;

use patchbay_sandbox::adapter::RetryHint;

/// Retries of one completion.
pub(crate) const MAX_RETRIES: u32 = 3;

/// The longest wait before a retry. Beyond it, the person gets the error and can try again later.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// Returns how long to wait before the next retry after `done` retries; `None` if there is none.
pub(crate) fn delay(done: u32, hint: RetryHint) -> Option<Duration> {
    let delay = match hint {
        RetryHint::Never => return None,
        RetryHint::After(time) => time,
        RetryHint::Backoff => Duration::from_secs(1 << done.min(MAX_RETRIES)) + jitter(),
    };
    (done < MAX_RETRIES && delay <= LONGEST_WAIT).then_some(delay)
}

/// Returns up to a second at random, so that clients that were refused together do not return together.
fn jitter() -> Duration {
    Duration::from_millis(rand::random_range(0..1000))
}

/// Returns a time for a person to read, rounded up: `60 s`, `12 min`, `2 h 5 min`.
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

    #[test]
    fn delays_grow_until_the_last_retry() {
        let second = Duration::from_secs(1);
        for (done, least) in [(0, 1), (1, 2), (2, 4)] {
            let waits: Vec<Duration> = (0..50).map(|_| delay(done, RetryHint::Backoff).unwrap()).collect();
            assert!(waits.iter().all(|wait| (second * least..second * (least + 1)).contains(wait)), "{waits:?}");
            assert!(waits.iter().any(|wait| *wait != waits[0]), "they are not all the same");
            assert_eq!(delay(done, RetryHint::After(second * 60)), Some(second * 60));
            assert_eq!(delay(done, RetryHint::After(Duration::ZERO)), Some(Duration::ZERO));
            assert_eq!(delay(done, RetryHint::After(second * 600)), Some(second * 600));
            assert_eq!(delay(done, RetryHint::After(second * 600 + Duration::from_millis(1))), None);
            assert_eq!(delay(done, RetryHint::Never), None);
        }
        for hint in [RetryHint::Backoff, RetryHint::After(second)] {
            assert_eq!(delay(MAX_RETRIES, hint), None);
        }
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
