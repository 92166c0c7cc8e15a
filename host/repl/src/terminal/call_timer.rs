//! Measures how long each call of a tool takes, by the front's clock. `calls` shows the time in the row of the result.

use std::time::{Duration, Instant};

/// Measures a call from the answer that calls tools, or from the previous result, to the next result. For calls that run
/// side by side, the time is only approximate. The timer is paused while a question is open.
#[derive(Debug, Default)]
pub(crate) struct CallTimer {
    /// When the running call began; `None` if the front did not see it, for example because it was started later.
    since: Option<Instant>,
    /// When the open question was asked.
    paused: Option<Instant>,
}

impl CallTimer {
    /// Starts the timer for the calls of an answer.
    pub(crate) fn start(&mut self, now: Instant) {
        self.since = Some(now);
        self.paused = self.paused.map(|_| now);
    }

    /// Pauses the timer while a question `is_open`, and continues it afterwards.
    pub(crate) fn pause(&mut self, is_open: bool, now: Instant) {
        match (is_open, self.paused) {
            (true, None) => self.paused = Some(now),
            (false, Some(paused)) => {
                let waited = now.saturating_duration_since(paused);
                self.since = self.since.and_then(|since| since.checked_add(waited));
                self.paused = None;
            }
            _ => {}
        }
    }

    /// Returns how long the finished call took, and starts the timer for the next one.
    pub(crate) fn lap(&mut self, now: Instant) -> Option<Duration> {
        let end = self.paused.unwrap_or(now);
        let took = end.saturating_duration_since(self.since?);
        self.start(now);
        Some(took)
    }
}

/// Formats a duration for the user: `4 s`, `2 min 5 s`.
pub(crate) fn seconds(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// Formats a duration for the user. A duration below 10 seconds is rounded up to a tenth: `0.1 s`.
pub(crate) fn tenths(duration: Duration) -> String {
    let tenths = duration.as_millis().div_ceil(100).max(1);
    if tenths < 100 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        seconds(duration.max(Duration::from_secs(10)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_stands_still_while_a_question_is_open() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut timer = CallTimer::default();
        assert_eq!(timer.lap(at(0)), None);
        timer.start(at(0));
        assert_eq!(timer.lap(at(300)), Some(Duration::from_millis(300)));
        for (is_open, ms) in [(false, 350), (true, 400), (true, 5_000), (false, 9_000), (false, 9_050)] {
            timer.pause(is_open, at(ms));
        }
        assert_eq!(timer.lap(at(9_100)), Some(Duration::from_millis(200)));
        // The result of one agent's call while another one asks.
        timer.pause(true, at(9_200));
        assert_eq!(timer.lap(at(9_900)), Some(Duration::from_millis(100)));
    }

    #[test]
    fn short_times_have_tenths() {
        for (ms, expected) in [
            (0, "0.1 s"),
            (1, "0.1 s"),
            (100, "0.1 s"),
            (101, "0.2 s"),
            (9_900, "9.9 s"),
            (9_901, "10 s"),
            (70_000, "1 min 10 s"),
        ] {
            assert_eq!(tenths(Duration::from_millis(ms)), expected);
        }
    }
}
