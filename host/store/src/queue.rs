//! The queue of a database's writer thread.
//!
//! A *job* has a caller that waits for its commit. A *row* of the journal has none: it wakes no thread, and is committed with
//! the next job, or after [`LINGER`] if none comes. Rows are written before every job that was queued after them.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rusqlite::Transaction;
use tokio::sync::Semaphore;

use crate::journal::NewRow;

/// Jobs and rows that may wait; further callers wait for room.
const CAPACITY: usize = 1024;
/// Jobs with waiting callers that one commit takes along.
const BATCH: usize = 64;
/// How long rows wait for a commit to ride along with. A call's row is committed with its result in any case; this
/// bounds how late other processes see it.
const LINGER: Duration = Duration::from_millis(5);
/// So many rows are committed without waiting, so that their callers never run out of room.
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
    /// Whether it took room in the queue.
    has_room: bool,
}

/// What one commit writes.
#[derive(Default)]
pub(crate) struct Batch {
    /// Written first.
    pub(crate) rows: Vec<NewRow>,
    pub(crate) jobs: Vec<Job>,
}

/// What waits to be written.
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// Wakes the writer.
    wake: Condvar,
    room: Semaphore,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    rows: Vec<NewRow>,
    /// How many of the rows took no room.
    extra: usize,
    /// When the rows are committed at the latest; `None` while there are none.
    due: Option<Instant>,
    closed: bool,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default(), wake: Condvar::new(), room: Semaphore::new(CAPACITY) }
    }

    /// Waits until there is room for one more job or row, and takes it.
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

    /// Adds a job without a caller that waits, not even for room.
    pub(crate) fn push_now(&self, work: Work) {
        self.lock().jobs.push_back(Job { work, decision: false, has_room: false });
        self.wake.notify_one();
    }

    /// Adds a row. The caller has taken room.
    pub(crate) fn add_row(&self, row: NewRow) {
        self.add(row, 0);
    }

    /// As [`Queue::add_row`], for a caller that cannot wait for room.
    pub(crate) fn add_row_now(&self, row: NewRow) {
        self.add(row, 1);
    }

    /// Ends the queue. The writer still takes what waits.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_one();
    }

    /// Blocks until there is something to write. Returns what one commit takes along; `None` when the queue is closed and
    /// empty.
    pub(crate) fn next_batch(&self) -> Option<Batch> {
        let mut waiting = self.lock();
        loop {
            if !waiting.jobs.is_empty() || waiting.rows.len() >= MANY {
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
        let extra = std::mem::take(&mut waiting.extra);
        let count = waiting.jobs.len().min(BATCH);
        let batch = Batch { rows: std::mem::take(&mut waiting.rows), jobs: waiting.jobs.drain(..count).collect() };
        drop(waiting);
        let jobs = batch.jobs.iter().filter(|job| job.has_room).count();
        self.room.add_permits(batch.rows.len() - extra + jobs);
        Some(batch)
    }

    fn add(&self, row: NewRow, extra: usize) {
        let mut waiting = self.lock();
        waiting.rows.push(row);
        waiting.extra += extra;
        // The writer sleeps without a limit only while there are no rows.
        let first = waiting.due.is_none();
        if first {
            waiting.due = Some(Instant::now() + LINGER);
        }
        let many = waiting.rows.len() == MANY;
        drop(waiting);
        if first || many {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
