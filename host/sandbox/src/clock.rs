//! The clock of a call. It is paused while the user is asked, whether by a front or by an editor.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// The remaining time of a call, shared with all nested calls. Clones share one clock and are cheap.
///
/// A running guest reads it at each epoch tick; [`CallClock::limit`] applies it to host functions that wait.
#[derive(Clone, Debug)]
pub struct CallClock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<ClockState>,
    /// Notified when the last pause ends.
    resumed: Notify,
}

#[derive(Debug)]
struct ClockState {
    deadline: Instant,
    /// Number of current pauses. Several requests of one call can wait for the user at once.
    pauses: u32,
    /// Start of the first current pause; `None` while the clock runs.
    paused_at: Option<Instant>,
    /// Length of all pauses that have ended.
    paused_for: Duration,
}

impl ClockState {
    fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(self.paused_at.unwrap_or_else(Instant::now))
    }
}

/// Keeps a clock paused until it is dropped.
#[derive(Debug)]
pub struct ClockPause(CallClock);

impl CallClock {
    /// Returns a clock that runs out after `time`.
    pub fn lasting(time: Duration) -> Self {
        let deadline = Instant::now() + time;
        let state = ClockState { deadline, pauses: 0, paused_at: None, paused_for: Duration::ZERO };
        Self(Arc::new(Shared { state: Mutex::new(state), resumed: Notify::new() }))
    }

    /// Sets the clock to run out after `time` from now.
    pub(crate) fn restart(&self, time: Duration) {
        self.state().deadline = Instant::now() + time;
    }

    pub(crate) fn extend(&self, time: Duration) {
        self.state().deadline += time;
    }

    /// Returns the time until the clock runs out; it does not shrink while the clock is paused.
    pub fn time_left(&self) -> Duration {
        self.state().time_left()
    }

    /// Returns the total length of all pauses that have ended.
    pub(crate) fn paused_for(&self) -> Duration {
        self.state().paused_for
    }

    /// Stops the clock until the returned pause is dropped. Pauses are counted: the clock runs again after the last one.
    pub fn pause(&self) -> ClockPause {
        let mut state = self.state();
        state.pauses += 1;
        state.paused_at.get_or_insert_with(Instant::now);
        ClockPause(self.clone())
    }

    /// Runs `work` until the clock runs out; `None` if it ran out first.
    pub async fn limit<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        // Boxed, and created only for work that waits: most calls end at their first poll.
        let mut run_out = None;
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            run_out.get_or_insert_with(|| Box::pin(self.run_out())).as_mut().poll(cx).map(|()| None)
        })
        .await
    }

    async fn run_out(&self) {
        loop {
            // Created before the state is read; otherwise a notification could be missed.
            let resumed = self.0.resumed.notified();
            let (left, paused) = {
                let state = self.state();
                (state.time_left(), state.paused_at.is_some())
            };
            match (left, paused) {
                (_, true) => resumed.await,
                (Duration::ZERO, false) => return,
                (left, false) => tokio::time::sleep(left).await,
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, ClockState> {
        self.0.state.lock()
    }
}

impl Drop for ClockPause {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.pauses = state.pauses.saturating_sub(1);
        if state.pauses == 0
            && let Some(paused_at) = state.paused_at.take()
        {
            let pause = paused_at.elapsed();
            state.deadline += pause;
            state.paused_for += pause;
            drop(state);
            self.0.0.resumed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[tokio::test]
    async fn waiting_work_is_stopped_in_time() {
        let clock = CallClock::lasting(MS(20));
        assert_eq!(clock.limit(async { 1 }).await, Some(1));
        assert_eq!(clock.limit(std::future::pending::<()>()).await, None);
        assert_eq!(clock.time_left(), Duration::ZERO);
        // Work that is ready immediately completes even then.
        assert_eq!(clock.limit(async { 2 }).await, Some(2));
    }

    #[tokio::test]
    async fn paused_clock_does_not_run() {
        let clock = CallClock::lasting(MS(100));
        let work = async {
            let first = clock.pause();
            let second = clock.clone().pause();
            let left = clock.time_left();
            tokio::time::sleep(MS(80)).await;
            drop(first);
            tokio::time::sleep(MS(80)).await;
            assert_eq!(clock.time_left(), left, "two pauses were counted as one");
            drop(second);
            assert!(clock.time_left() <= left && clock.paused_for() >= MS(160));
            "done"
        };
        assert_eq!(clock.limit(work).await, Some("done"));
        assert_eq!(clock.limit(std::future::pending::<()>()).await, None);
    }

    #[tokio::test]
    async fn resumed_clock_runs_out() {
        let clock = CallClock::lasting(MS(30));
        let pause = clock.pause();
        let limited = clock.limit(std::future::pending::<()>());
        let (answer, ()) = tokio::join!(limited, async {
            tokio::time::sleep(MS(60)).await;
            drop(pause);
        });
        assert_eq!(answer, None);
    }
}
