//! The sessions that the client has open, each with a handle to its task.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use patchbay_core::SessionId;
use patchbay_session::Session;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::session::{SessionHandle, SessionTask};
use patchbay_jsonrpc::RpcError;

/// Limit of a client's open sessions, not counting sessions that are closing.
const OPEN_SESSIONS: usize = 256;

/// The open sessions of a connection.
#[derive(Clone)]
pub(crate) struct OpenSessions {
    entries: Arc<Mutex<HashMap<SessionId, SessionEntry>>>,
    /// One permit for each session that the client may still open.
    permits: Arc<Semaphore>,
}

struct SessionEntry {
    handle: SessionHandle,
    /// Counts the session toward the limit. `None` once the client closes or deletes the session: it receives no more messages,
    /// but its task may still run.
    permit: Option<OwnedSemaphorePermit>,
}

impl Default for OpenSessions {
    fn default() -> Self {
        Self { entries: Arc::default(), permits: Arc::new(Semaphore::new(OPEN_SESSIONS)) }
    }
}

impl OpenSessions {
    pub(super) fn get(&self, id: SessionId) -> Option<SessionHandle> {
        self.entries.lock().get(&id).filter(|entry| entry.permit.is_some()).map(|entry| entry.handle.clone())
    }

    /// Returns a session that is closing.
    pub(super) fn closing(&self, id: SessionId) -> Option<SessionHandle> {
        self.entries.lock().get(&id).filter(|entry| entry.permit.is_none()).map(|entry| entry.handle.clone())
    }

    /// Takes the permit for a session that is about to be opened. Dropping it releases the permit.
    ///
    /// # Errors
    /// The client has reached its limit of sessions, including those that are being opened.
    pub(super) fn take_permit(&self) -> Result<OwnedSemaphorePermit, RpcError> {
        Arc::clone(&self.permits).try_acquire_owned().map_err(|_| {
            let message = format!("{OPEN_SESSIONS} sessions are open; close one with session/close.");
            RpcError::invalid_request(message)
        })
    }

    /// Returns the handle of a session that is already open. Otherwise `create` makes the handle and the task, which the caller
    /// runs. A session has only one task, because the task receives the session's questions. `permit` is `None` if the session
    /// was open when the request arrived.
    ///
    /// # Errors
    /// The session was closed in the meantime, and the limit of open sessions is reached.
    pub(super) fn get_or_open(
        &self,
        session: &Arc<Session>,
        permit: Option<OwnedSemaphorePermit>,
        create: impl FnOnce() -> (SessionHandle, SessionTask),
    ) -> Result<(SessionHandle, Option<SessionTask>), RpcError> {
        let mut open = self.entries.lock();
        // If the session is closing, its task refuses further messages.
        if let Some(entry) = open.get(&session.id()).filter(|entry| entry.handle.is_of(session)) {
            return Ok((entry.handle.clone(), None));
        }
        let permit = permit.map_or_else(|| self.take_permit(), Ok)?;
        let (handle, task) = create();
        open.insert(session.id(), SessionEntry { handle: handle.clone(), permit: Some(permit) });
        Ok((handle, Some(task)))
    }

    /// Marks an open session as closing and returns its handle; `None` if the session is not open.
    pub(super) fn begin_close(&self, id: SessionId) -> Option<SessionHandle> {
        let mut open = self.entries.lock();
        let entry = open.get_mut(&id)?;
        drop(entry.permit.take()?);
        Some(entry.handle.clone())
    }

    /// Removes a session after its task has ended, unless the session was opened again in the meantime.
    pub(super) fn remove(&self, session: &Arc<Session>) {
        let mut open = self.entries.lock();
        if open.get(&session.id()).is_some_and(|entry| entry.handle.is_of(session)) {
            open.remove(&session.id());
        }
    }

    /// Returns whether something runs in any session.
    pub(super) fn is_any_busy(&self) -> bool {
        self.entries.lock().values().any(|entry| !entry.handle.is_idle())
    }

    /// Ends all session tasks and waits for them. With `stops`, it stops all turns first.
    pub(super) async fn close_all(&self, stops: bool) {
        let handles: Vec<SessionHandle> = self.entries.lock().values().map(|entry| entry.handle.clone()).collect();
        // All turns are stopped before the first session stores its partial answers, which takes time.
        for handle in handles.iter().filter(|_| stops) {
            handle.stop();
        }
        for handle in handles {
            handle.close().await;
        }
    }
}
