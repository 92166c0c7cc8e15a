//! Counts the work that runs in a session: lines, turns, and checks for mail after turns. `exec` waits until the session is idle.

use std::sync::Arc;

use tokio::sync::watch;

pub(crate) struct Activity(watch::Sender<usize>);

/// Keeps the session busy until it is dropped.
pub(crate) struct ActivityGuard(Arc<Activity>);

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(0)))
    }

    pub(crate) fn begin(self: &Arc<Self>) -> ActivityGuard {
        self.0.send_modify(|running| *running += 1);
        ActivityGuard(Arc::clone(self))
    }

    /// Returns whether nothing runs.
    pub(crate) fn is_idle(&self) -> bool {
        *self.0.borrow() == 0
    }

    /// Waits until nothing runs.
    pub(crate) async fn idle(&self) {
        // An error is impossible: the sender exists as long as `self`.
        let _ = self.0.subscribe().wait_for(|running| *running == 0).await;
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        self.0.0.send_modify(|running| *running -= 1);
    }
}
