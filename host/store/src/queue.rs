//! The queue of a database's writer thread, used by [`Database`](crate::database::Database).
//!
//! A *job* is committed as soon as the writer is free. A *row* of the journal can wait: it is committed with the next
//! job, or after [`LINGER`] if no job comes. Rows are written before every job that was queued after them. The *recording* of a
//! row is committed after it, together with others ([`LATE_LINGER`]); the writer makes it while nothing else is due.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rusqlite::Transaction;
use tokio::sync::Semaphore;

use crate::{journal::NewRow, recordings::LateRecording};

/// Number of permits: how many jobs and rows can be queued, not counting those added by callers that cannot wait.
const CAPACITY: usize = 1024;
/// Maximum number of jobs in one commit.
const BATCH_JOBS: usize = 64;
/// How long rows wait to share the commit of a job. Limits how late other processes see a row. The row of a call is
/// never later than the call's result, which is a job.
const LINGER: Duration = Duration::from_millis(5);
/// This many queued rows are committed without waiting for a job. Otherwise rows alone could use up all permits.
const MANY_ROWS: usize = CAPACITY / 2;
/// How long recordings wait to share a commit. Committed one at a time, each recording would rewrite the pages of the previous one.
const LATE_LINGER: Duration = Duration::from_millis(20);

/// A write. Runs in the batch's transaction; the returned function reports to the caller after the commit.
pub(crate) type Work = Box<dyn FnOnce(&Transaction<'_>) -> Report + Send>;
/// Called with true if the commit succeeded.
pub(crate) type Report = Box<dyn FnOnce(bool) + Send>;

pub(crate) struct Job {
    pub(crate) work: Work,
    /// Whether the job changes what calls are allowed to do; see [`crate::generation`].
    pub(crate) decision: bool,
    /// Whether the job holds a permit of the queue.
    has_permit: bool,
}

/// The content of one commit.
#[derive(Default)]
pub(crate) struct Batch {
    /// Journal rows, written before the jobs.
    pub(crate) rows: Vec<NewRow>,
    pub(crate) jobs: Vec<Job>,
    /// Recordings of rows that were written before. All are made.
    pub(crate) late: Vec<LateRecording>,
}

/// The jobs and rows that wait for a commit.
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// Signals the writer thread to wake up.
    wake: Condvar,
    /// Callers forget the permits that they acquire. The permits are added again when the batch leaves the queue.
    permits: Semaphore,
}

#[derive(Default)]
struct QueueState {
    jobs: VecDeque<Job>,
    rows: Vec<NewRow>,
    /// How many of `rows` hold no permit.
    unpermitted: usize,
    /// When `rows` are committed if no job comes first; `None` if there are none.
    due: Option<Instant>,
    /// Recordings of written rows.
    late: Vec<LateRecording>,
    /// How many of `late`, counted from the first, the writer has made or is making.
    made: usize,
    /// When `late` are committed; `None` if there are none.
    late_due: Option<Instant>,
    closed: bool,
}

impl QueueState {
    /// Takes the recordings if their commit is due.
    fn take_late(&mut self) -> Vec<LateRecording> {
        if !self.closed && self.late_due.is_none_or(|due| due > Instant::now()) {
            return Vec::new();
        }
        (self.late_due, self.made) = (None, 0);
        std::mem::take(&mut self.late)
    }
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self { state: Mutex::default(), wake: Condvar::new(), permits: Semaphore::new(CAPACITY) }
    }

    /// Acquires the permit for one more job or row. Waits while the queue is full.
    pub(crate) async fn permit(&self) {
        // An error is impossible: the semaphore is never closed.
        if let Ok(permit) = self.permits.acquire().await {
            permit.forget();
        }
    }

    /// Adds a job. The caller must have called [`Queue::permit`].
    pub(crate) fn push(&self, work: Work, decision: bool) {
        self.lock().jobs.push_back(Job { work, decision, has_permit: true });
        self.wake.notify_one();
    }

    /// Like [`Queue::push`], for a caller that cannot wait for a permit.
    pub(crate) fn push_now(&self, work: Work) {
        self.lock().jobs.push_back(Job { work, decision: false, has_permit: false });
        self.wake.notify_one();
    }

    /// Adds a row. The caller must have called [`Queue::permit`].
    pub(crate) fn add_row(&self, row: NewRow) {
        self.add(row, 0);
    }

    /// Like [`Queue::add_row`], for a caller that cannot wait for a permit.
    pub(crate) fn add_row_now(&self, row: NewRow) {
        self.add(row, 1);
    }

    /// Adds the recordings of rows that were written.
    pub(crate) fn add_late(&self, late: Vec<LateRecording>) {
        // Only the writer calls this, so it need not be woken.
        if !late.is_empty() {
            let mut state = self.lock();
            state.late.extend(late);
            state.late_due.get_or_insert_with(|| Instant::now() + LATE_LINGER);
        }
    }

    /// Lets the next commit write the recordings. Returns false if there are none.
    pub(crate) fn want_late(&self) -> bool {
        let mut state = self.lock();
        state.late_due = state.late_due.map(|_| Instant::now());
        state.late_due.is_some()
    }

    /// Closes the queue. The writer commits the jobs and rows that are still queued, then stops.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_one();
    }

    /// Blocks until a commit is due, and returns its content. Returns `None` once the queue is closed and empty.
    pub(crate) fn next_batch(&self) -> Option<Batch> {
        let mut state = self.lock();
        loop {
            if !state.jobs.is_empty() || state.rows.len() >= MANY_ROWS {
                break;
            }
            let due = state.due.into_iter().chain(state.late_due).min();
            let left = due.map(|due| due.saturating_duration_since(Instant::now()));
            match left {
                None if state.closed => return None,
                None => self.wake.wait(&mut state),
                Some(left) if state.closed || left.is_zero() => break,
                Some(_) if state.made < state.late.len() => make_recording(&mut state),
                Some(left) => {
                    self.wake.wait_for(&mut state, left);
                }
            }
        }
        state.due = None;
        let unpermitted = std::mem::take(&mut state.unpermitted);
        let count = state.jobs.len().min(BATCH_JOBS);
        let (rows, mut late) = (std::mem::take(&mut state.rows), state.take_late());
        let jobs = state.jobs.drain(..count).collect();
        drop(state);
        // Not within the transaction, which keeps other processes from writing.
        for recording in &mut late {
            if let Some(pending) = recording.take_pending() {
                recording.set(pending.make());
            }
        }
        let batch = Batch { rows, jobs, late };
        let jobs = batch.jobs.iter().filter(|job| job.has_permit).count();
        self.permits.add_permits(batch.rows.len() - unpermitted + jobs);
        Some(batch)
    }

    fn add(&self, row: NewRow, unpermitted: usize) {
        let mut state = self.lock();
        state.rows.push(row);
        state.unpermitted += unpermitted;
        // The first row wakes the writer, which then sleeps until the rows are due.
        let first = state.due.is_none();
        if first {
            state.due = Some(Instant::now() + LINGER);
        }
        let many = state.rows.len() == MANY_ROWS;
        drop(state);
        if first || many {
            self.wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }
}

/// Makes the next recording while the lock is released. The recording stays in place, because only the writer calls this, and only
/// the writer removes recordings.
fn make_recording(waiting: &mut MutexGuard<'_, QueueState>) {
    let number = waiting.made;
    waiting.made += 1;
    let pending = waiting.late.get_mut(number).and_then(LateRecording::take_pending);
    let Some(pending) = pending else { return };
    let made = MutexGuard::unlocked(waiting, || pending.make());
    if let Some(late) = waiting.late.get_mut(number) {
        late.set(made);
    }
}
