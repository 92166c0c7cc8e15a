//! The queue of a database's writer thread.
//!
//! A *job* has a caller that waits for its commit. A *deferred* job has none: it wakes no thread, and is committed with the
//! next job, or after [`LINGER`] where none comes. Deferred jobs run before every job that was queued after them.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rusqlite::Transaction;
use tokio::sync::Semaphore;

/// Jobs that may wait, deferred ones included; further callers wait for room.
const CAPACITY: usize = 1024;
/// Jobs with waiting callers that one commit takes along.
const BATCH: usize = 64;
/// How long deferred jobs wait for a commit to ride along with. A call's row is committed with its result in any case; this
/// bounds how late other processes see it.
const LINGER: Duration = Duration::from_millis(5);
/// So many deferred jobs are committed without waiting, so that their callers never run out of room.
const MANY: usize = CAPACITY / 2;

/// A write: runs within the batch's transaction and returns the function that reports to its caller after the commit.
pub(crate) type Work = Box<dyn FnOnce(&Transaction<'_>) -> Report + Send>;
/// Called with whether the commit succeeded.
pub(crate) type Report = Box<dyn FnOnce(bool) + Send>;

/// One write in the queue.
pub(crate) struct Job {
    pub(crate) work: Work,
    /// Whether it changes what calls are allowed to do; see [`crate::generation`].
    pub(crate) decision: bool,
    /// Whether it took a permit of the queue's room.
    has_room: bool,
}

/// What waits to be written.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    /// Wakes the writer.
    wake: Condvar,
    room: Semaphore,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    deferred: Vec<Job>,
    /// When the deferred jobs are committed at the latest; `None` while there are none.
    due: Option<Instant>,
    closed: bool,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self { waiting: Mutex::default(), wake: Condvar::new(), room: Semaphore::new(CAPACITY) }
    }

    /// Waits until there is room for one more job, and takes it.
    pub(crate) async fn room(&self) {
        // An error is impossible: the semaphore is never closed.
        if let Ok(permit) = self.room.acquire().await {
            permit.forget();
        }
    }

    /// Adds a job whose caller waits for its commit. The caller has taken room.
    pub(crate) fn push(&self, work: Work, decision: bool) {
        self.lock().jobs.push_back(Job { work, decision, has_room: true });
        self.wake.notify_one();
    }

    /// Adds a job that nothing waits for. The caller has taken room.
    pub(crate) fn defer(&self, work: Work) {
        self.add_deferred(Job { work, decision: false, has_room: true });
    }

    /// As [`Queue::defer`], for a caller that cannot wait for room.
    pub(crate) fn defer_now(&self, work: Work) {
        self.add_deferred(Job { work, decision: false, has_room: false });
    }

    /// Ends the queue. The writer still takes what waits.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_one();
    }

    /// Blocks until there is something to write. Returns what one commit takes along, deferred jobs first; `None` when the
    /// queue is closed and empty.
    pub(crate) fn next_batch(&self) -> Option<Vec<Job>> {
        let mut waiting = self.lock();
        loop {
            if !waiting.jobs.is_empty() || waiting.deferred.len() >= MANY {
                break;
            }
            let left = waiting.due.map(|due| due.saturating_duration_since(Instant::now()));
            match left {
                None if waiting.closed => return None,
                None => waiting = self.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(left) if waiting.closed || left.is_zero() => break,
                Some(left) => {
                    waiting = self.wake.wait_timeout(waiting, left).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        waiting.due = None;
        let mut batch = std::mem::take(&mut waiting.deferred);
        let count = waiting.jobs.len().min(BATCH);
        batch.extend(waiting.jobs.drain(..count));
        drop(waiting);
        self.room.add_permits(batch.iter().filter(|job| job.has_room).count());
        Some(batch)
    }

    fn add_deferred(&self, job: Job) {
        let mut waiting = self.lock();
        waiting.deferred.push(job);
        // The writer sleeps without a limit only while nothing is deferred.
        let first = waiting.due.is_none();
        if first {
            waiting.due = Some(Instant::now() + LINGER);
        }
        let many = waiting.deferred.len() == MANY;
        drop(waiting);
        if first || many {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
