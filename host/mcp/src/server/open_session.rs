//! The session of a connection. It is opened when it is first needed, because many clients only look around.

use std::sync::Arc;

use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use super::{REQUESTS_AT_ONCE, ServedSession, SessionSource};

/// An open session, with the limit of its calls.
pub(super) struct OpenSession {
    pub(super) served: Arc<dyn ServedSession>,
    calls: Semaphore,
}

impl OpenSession {
    pub(super) fn new(served: Arc<dyn ServedSession>) -> Arc<Self> {
        Arc::new(Self { served, calls: Semaphore::new(REQUESTS_AT_ONCE) })
    }

    /// Returns the right to run one call.
    ///
    /// # Errors
    /// A message if too many calls run.
    pub(super) fn begin_call(&self) -> Result<SemaphorePermit<'_>, String> {
        self.calls.try_acquire().map_err(|_| {
            format!("{REQUESTS_AT_ONCE} calls of this session are running; wait until one of them has ended")
        })
    }
}

/// The session of one connection, perhaps not yet open.
#[derive(Default)]
pub(super) struct LazySession(OnceCell<Arc<OpenSession>>);

impl LazySession {
    /// Returns a session that is already open.
    pub(super) fn opened(open: Arc<OpenSession>) -> Self {
        Self(OnceCell::new_with(Some(open)))
    }

    /// Returns the session of a connection that was created with an open session.
    ///
    /// # Errors
    /// A message, if the session was not opened.
    pub(super) fn opened_session(&self) -> Result<Arc<OpenSession>, String> {
        self.0.get().map(Arc::clone).ok_or_else(|| "this connection has no session".to_owned())
    }

    /// Returns the session, and opens it with `source` if it is not open yet.
    ///
    /// # Errors
    /// A message if no session can be opened. The next request tries again.
    pub(super) async fn get(&self, source: &dyn SessionSource) -> Result<Arc<OpenSession>, String> {
        let open = || async { source.open().await.map(OpenSession::new).map_err(|error| error.message) };
        self.0.get_or_try_init(open).await.map(Arc::clone)
    }

    /// Returns whether a request uses the open session.
    pub(super) fn is_in_use(&self) -> bool {
        self.0.get().is_some_and(|open| Arc::strong_count(open) > 1)
    }
}
