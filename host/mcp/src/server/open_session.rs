//! The session of a connection, opened when it is first needed: a client that only looks who answers leaves none.

use std::sync::Arc;

use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::{REQUESTS_AT_ONCE, ServedSession, SessionSource};

/// An open session, with the limit of its calls.
pub(super) struct OpenSession {
    pub(super) served: Arc<dyn ServedSession>,
    calls: Semaphore,
    /// Its place among the open sessions of the server; `None` for the only session.
    _place: Option<OwnedSemaphorePermit>,
}

impl OpenSession {
    pub(super) fn new(served: Arc<dyn ServedSession>, place: Option<OwnedSemaphorePermit>) -> Arc<Self> {
        Arc::new(Self { served, calls: Semaphore::new(REQUESTS_AT_ONCE), _place: place })
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
    /// Returns `open` as a session.
    pub(super) fn opened(open: Arc<OpenSession>) -> Self {
        Self(OnceCell::new_with(Some(open)))
    }

    /// Returns the session of a connection that was made with one.
    ///
    /// # Errors
    /// A message if it was not.
    pub(super) fn opened_session(&self) -> Result<Arc<OpenSession>, String> {
        self.0.get().map(Arc::clone).ok_or_else(|| "this connection has no session".to_owned())
    }

    /// Returns the session; opens it with `sessions` if that was not done yet.
    ///
    /// # Errors
    /// A message if no session can be opened. The next request tries again.
    pub(super) async fn get(&self, sessions: &SessionPlaces) -> Result<Arc<OpenSession>, String> {
        self.0.get_or_try_init(|| sessions.open()).await.map(Arc::clone)
    }
}

/// Opens sessions, up to a limit.
pub(super) struct SessionPlaces {
    source: Arc<dyn SessionSource>,
    places: Arc<Semaphore>,
    limit: usize,
}

impl SessionPlaces {
    pub(super) fn new(source: Arc<dyn SessionSource>, limit: usize) -> Self {
        Self { source, places: Arc::new(Semaphore::new(limit)), limit }
    }

    /// Opens a session.
    ///
    /// # Errors
    /// A message if too many are open, or if the source fails.
    pub(super) async fn open(&self) -> Result<Arc<OpenSession>, String> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            format!(
                "{} MCP sessions are open, which is the limit; close one, or wait until one has expired",
                self.limit
            )
        })?;
        let served = self.source.open().await.map_err(|error| error.message)?;
        Ok(OpenSession::new(served, Some(place)))
    }
}
