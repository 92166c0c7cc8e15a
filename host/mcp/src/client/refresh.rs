//! Decides when the tool list of a running server is read again. A listing that fails is retried, which keeps the change from being
//! lost. A listing that hangs is not retried at every turn.

use std::time::Duration;

use tokio::time::Instant;

/// How old the list of a server over HTTP may be when a turn begins. Also the pause after listings that failed.
const LIST_AGE: Duration = Duration::from_secs(60);

/// The listings of one server.
pub(super) struct ListRefresh {
    /// Whether the server can announce a change at any time. Over HTTP, it can do so only while it answers a request.
    announces: bool,
    /// How many changes the server had announced before the list was read.
    changes: u64,
    /// When the list was read last.
    read: Instant,
    /// The earliest time of the next listing.
    not_before: Instant,
    /// Whether the last completed listing failed.
    has_failed: bool,
}

impl ListRefresh {
    /// Returns the state after the list was read at the time `now`.
    pub(super) fn new(announces: bool, changes: u64, now: Instant) -> Self {
        Self { announces, changes, read: now, not_before: now, has_failed: false }
    }

    /// Returns whether the list is to be read at the time `now`. The server has announced `changes` changes.
    pub(super) fn is_due(&self, changes: u64, now: Instant) -> bool {
        let is_old = !self.announces && now >= self.read + LIST_AGE;
        now >= self.not_before && (changes != self.changes || is_old)
    }

    /// Notes that a listing begins. If it does not end in time, there is a pause before the next one.
    pub(super) fn begin(&mut self, now: Instant) {
        self.not_before = now + LIST_AGE;
    }

    /// Notes that the list was read.
    pub(super) fn succeeded(&mut self, changes: u64, now: Instant) {
        *self = Self::new(self.announces, changes, now);
    }

    /// Notes that a listing failed. After the first failure in a row, the next turn retries it; later ones cause a pause.
    pub(super) fn failed(&mut self, now: Instant) {
        if !self.has_failed {
            self.not_before = now;
        }
        self.has_failed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_due_when_it_changed_or_is_old() {
        let now = Instant::now();
        let (program, http) = (ListRefresh::new(true, 1, now), ListRefresh::new(false, 1, now));
        for refresh in [&program, &http] {
            assert!(!refresh.is_due(1, now) && refresh.is_due(2, now));
        }
        assert!(!program.is_due(1, now + LIST_AGE) && http.is_due(1, now + LIST_AGE));
    }

    #[test]
    fn change_stays_due_until_the_list_was_read() {
        let now = Instant::now();
        let mut refresh = ListRefresh::new(true, 0, now);
        // This listing does not end.
        refresh.begin(now);
        assert!(!refresh.is_due(1, now) && refresh.is_due(1, now + LIST_AGE));
        let later = now + LIST_AGE;
        refresh.begin(later);
        refresh.failed(later);
        assert!(refresh.is_due(1, later), "the first failure is tried again at once");
        refresh.begin(later);
        refresh.failed(later);
        assert!(!refresh.is_due(1, later) && refresh.is_due(1, later + LIST_AGE));
        refresh.succeeded(1, later + LIST_AGE);
        assert!(!refresh.is_due(1, later + LIST_AGE) && refresh.is_due(2, later + LIST_AGE));
    }
}
