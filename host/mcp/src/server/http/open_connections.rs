//! The open connections. Permits are reserved for requests with the token. Programs and web pages without it cannot keep
//! clients out, however many connections they open.

use std::{
    collections::VecDeque,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// How many connections and requests a server handles at the same time.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Limit of active requests. More requests wait, and no connection is accepted in the meantime.
    pub active: usize,
    /// Limit of connections without an active request. A new one closes the connection that has been idle longest.
    pub idle: usize,
}

/// The connections of a server.
pub struct OpenConnections {
    limits: ConnectionLimits,
    /// The permits of active requests.
    permits: Arc<Semaphore>,
    /// The connections without an active request, the longest idle first. Cancelling a token closes its connection.
    idle: Mutex<VecDeque<Arc<CancellationToken>>>,
}

/// A connection. It is idle except while it has an [`ActiveRequest`].
pub struct OpenConnection {
    all: Arc<OpenConnections>,
    closing: Arc<CancellationToken>,
    /// Whether a request has passed the gate.
    passed_gate: AtomicBool,
}

/// A request that passed the gate, until this is dropped.
pub struct ActiveRequest {
    connection: Arc<OpenConnection>,
    /// `None` only if the semaphore is closed, which never happens.
    _permit: Option<OwnedSemaphorePermit>,
}

impl OpenConnections {
    /// Returns the connections of a server, none of which is open yet.
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, permits: Arc::new(Semaphore::new(limits.active)), idle: Mutex::default() })
    }

    /// Waits until there is a permit for a request.
    pub async fn has_permit(&self) {
        drop(self.permits.acquire().await);
    }

    /// Waits until no request is active.
    pub async fn all_idle(&self) {
        drop(self.permits.acquire_many(u32::try_from(self.limits.active).unwrap_or(u32::MAX)).await);
    }

    /// Adds a connection that was accepted.
    pub fn add(self: &Arc<Self>) -> Arc<OpenConnection> {
        let (all, closing) = (Arc::clone(self), Arc::default());
        let connection = OpenConnection { all, closing, passed_gate: AtomicBool::new(false) };
        connection.begin_idle();
        Arc::new(connection)
    }
}

impl OpenConnection {
    /// Begins a request that passed the gate. Waits for a permit.
    pub async fn begin(self: Arc<Self>) -> ActiveRequest {
        self.end_idle();
        if self.closing.is_cancelled() {
            // No request may begin while the connection is being closed.
            pending::<()>().await;
        }
        self.passed_gate.store(true, Ordering::Relaxed);
        let permit = Arc::clone(&self.all.permits).acquire_owned().await.ok();
        ActiveRequest { connection: self, _permit: permit }
    }

    /// Waits until the connection must be closed, either to make room for a new one or because no request passed the gate within
    /// `first_time`.
    pub async fn closed(&self, first_time: Duration) {
        let closed = timeout(first_time, self.closing.cancelled()).await;
        if closed.is_err() && self.passed_gate.load(Ordering::Relaxed) {
            self.closing.cancelled().await;
        }
    }

    fn begin_idle(&self) {
        let mut idle = self.all.idle.lock();
        idle.push_back(Arc::clone(&self.closing));
        if idle.len() > self.all.limits.idle
            && let Some(longest) = idle.pop_front()
        {
            // Cancelled under the lock, because otherwise one of its requests could begin in the meantime.
            longest.cancel();
        }
    }

    fn end_idle(&self) {
        self.all.idle.lock().retain(|other| !Arc::ptr_eq(other, &self.closing));
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.end_idle();
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.connection.begin_idle();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const LIMITS: ConnectionLimits = ConnectionLimits { active: 8, idle: 8 };

    /// Returns the indexes of the connections that must be closed.
    fn closed(connections: &[Arc<OpenConnection>]) -> Vec<usize> {
        (0..connections.len()).filter(|number| connections[*number].closing.is_cancelled()).collect()
    }

    #[tokio::test]
    async fn longest_idle_connection_is_closed_for_a_new_one() {
        let all = OpenConnections::new(LIMITS);
        let mut open: Vec<_> = (0..LIMITS.idle).map(|_| all.add()).collect();
        let request = Arc::clone(&open[0]).begin().await;
        open.push(all.add());
        assert!(closed(&open).is_empty(), "an active connection is not idle");
        open.push(all.add());
        assert_eq!(closed(&open), [1]);
        drop(request);
        assert_eq!(closed(&open), [1, 2], "the first one is idle again");
        drop(open);
        assert!(all.idle.lock().is_empty());
    }

    #[tokio::test]
    async fn closing_connection_begins_no_request() {
        let all = OpenConnections::new(LIMITS);
        let first = all.add();
        let _others: Vec<_> = (0..LIMITS.idle).map(|_| all.add()).collect();
        assert!(first.closing.is_cancelled());
        assert!(first.begin().now_or_never().is_none());
    }

    #[tokio::test]
    async fn active_requests_are_limited() {
        let all = OpenConnections::new(LIMITS);
        let mut active = Vec::new();
        for _ in 0..LIMITS.active {
            active.push(all.add().begin().await);
        }
        assert!(all.has_permit().now_or_never().is_none());
        assert!(all.add().begin().now_or_never().is_none());
        active.pop();
        assert!(all.has_permit().now_or_never().is_some());
    }

    #[tokio::test]
    async fn connection_is_closed_if_its_first_request_is_late() {
        let all = OpenConnections::new(LIMITS);
        let (trusted, late) = (all.add(), all.add());
        drop(Arc::clone(&trusted).begin().await);
        tokio::select! {
            biased;
            () = trusted.closed(Duration::from_millis(1)) => panic!("a connection with a request is closed"),
            () = late.closed(Duration::from_millis(20)) => {}
        }
    }
}
