//! The queue of a database's writer thread, used by [`Database`](crate::database::Database).
//!
//! A *job* has a caller that waits for its commit. A *row* of the journal has none: it does not wake the writer, and is
//! committed with the next job, or after [`LINGER`] if there is none. Rows are written before every job that was queued
//! after them.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rusqlite::Transaction;
use tokio::sync::Semaphore;

use crate::journal::NewRow;

/// Number of jobs and rows that may be queued; further callers wait for a permit.
const CAPACITY: usize = 1024;
/// Number of jobs with waiting callers in one commit.
const BATCH: usize = 64;
/// How long rows wait for a job to be committed with. Bounds how late other processes see a row; a call's row is
/// committed with its result in any case.
const LINGER: Duration = Duration::from_millis(5);
/// This many rows are committed without waiting; otherwise callers could fill the queue.
const MANY: usize = CAPACITY / 2;

/// A write. Runs in the batch's transaction; the returned function reports to the caller after the commit.
pub(crate) type Work = Box<dyn FnOnce(&Transaction<'_>) -> Report + Send>;
/// Called with true if the commit succeeded.
pub(crate) type Report = Box<dyn FnOnce(bool) + Send>;

pub(crate) struct Job {
    pub(crate) work: Work,
    /// Whether the job changes what calls are allowed to do; see [`crate::generation`].
    pub(crate) decision: bool,
    /// Whether the job took a permit of the queue.
    has_room: bool,
}

/// The content of one commit.
#[derive(Default)]
pub(crate) struct Batch {
    /// Rows of the journal, written before the jobs.
    pub(crate) rows: Vec<NewRow>,
    pub(crate) jobs: Vec<Job>,
}

/// The jobs and rows that wait for a commit.
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// Signals the writer thread to wake up.
    wake: Condvar,
    permits: Semaphore,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    rows: Vec<NewRow>,
    /// Number of the rows that took no permit.
    extra: usize,
    /// Latest time of the commit of `rows`; `None` if there are none.
    due: Option<Instant>,
    closed: bool,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default(), wake: Condvar::new(), permits: Semaphore::new(CAPACITY) }
    }

    /// Waits for a permit for one more job or row, and takes it.
    pub(crate) async fn permit(&self) {
        // An error is impossible: the semaphore is never closed.
        if let Ok(permit) = self.permits.acquire().await {
            permit.forget();
        }
    }

    /// Adds a job whose caller waits for its commit. The caller has taken a permit.
    pub(crate) fn push(&self, work: Work, decision: bool) {
        self.lock().jobs.push_back(Job { work, decision, has_room: true });
        self.wake.notify_one();
    }

    /// Adds a job without a waiting caller and without a permit.
    pub(crate) fn push_now(&self, work: Work) {
        self.lock().jobs.push_back(Job { work, decision: false, has_room: false });
        self.wake.notify_one();
    }

    /// Adds a row. The caller has taken a permit.
    pub(crate) fn add_row(&self, row: NewRow) {
        self.add(row, 0);
    }

    /// Like [`Queue::add_row`], for a caller that cannot wait for a permit.
    pub(crate) fn add_row_now(&self, row: NewRow) {
        self.add(row, 1);
    }

    /// Closes the queue. The writer still commits the queued rows.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_one();
    }

    /// Blocks until there is something to write, and returns the content of the next commit; `None` when
    /// the queue is closed and empty.
    pub(crate) fn next_batch(&self) -> Option<Batch> {
        let mut waiting = self.lock();
        loop {
            if !waiting.jobs.is_empty() || waiting.rows.len() >= MANY {
                break;
            }
            let left = waiting.due.map(|due| due.saturating_duration_since(Instant::now()));
            match left {
                None if waiting.closed => return None,
                None => self.wake.wait(&mut waiting),
                Some(left) if waiting.closed || left.is_zero() => break,
                Some(left) => {
                    self.wake.wait_for(&mut waiting, left);
                }
            }
        }
        waiting.due = None;
        let extra = std::mem::take(&mut waiting.extra);
        let count = waiting.jobs.len().min(BATCH);
        let batch = Batch { rows: std::mem::take(&mut waiting.rows), jobs: waiting.jobs.drain(..count).collect() };
        drop(waiting);
        let jobs = batch.jobs.iter().filter(|job| job.has_room).count();
        self.permits.add_permits(batch.rows.len() - extra + jobs);
        Some(batch)
    }

    fn add(&self, row: NewRow, extra: usize) {
        let mut waiting = self.lock();
        waiting.rows.push(row);
        waiting.extra += extra;
        // Without queued rows, the writer sleeps until it is woken.
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
        self.state.lock()
    }
}
