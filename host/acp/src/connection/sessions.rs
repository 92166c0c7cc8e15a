//! The sessions that the client has open, each with the way to its task.

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
    /// A permit for each further session that the client may open.
    permits: Arc<Semaphore>,
}

struct SessionEntry {
    handle: SessionHandle,
    /// The session's part of the limit. `None` once the client has closed the session, or deletes it: it receives nothing more,
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

    /// Returns the handle of a session that is open already. Otherwise `create` makes the handle and the task, which the caller
    /// runs: a session has one task, because the task takes its questions. `permit` is taken already, unless the session was
    /// open when its request came.
    ///
    /// # Errors
    /// The session was closed since, and the limit of open sessions is reached.
    pub(super) fn get_or_open(
        &self,
        session: &Arc<Session>,
        permit: Option<OwnedSemaphorePermit>,
        create: impl FnOnce() -> (SessionHandle, SessionTask),
    ) -> Result<(SessionHandle, Option<SessionTask>), RpcError> {
        let mut open = self.entries.lock();
        // The task of a session that is closing refuses what follows.
        if let Some(entry) = open.get(&session.id()).filter(|entry| entry.handle.is_of(session)) {
            return Ok((entry.handle.clone(), None));
        }
        let permit = permit.map_or_else(|| self.take_permit(), Ok)?;
        let (handle, task) = create();
        open.insert(session.id(), SessionEntry { handle: handle.clone(), permit: Some(permit) });
        Ok((handle, Some(task)))
    }

    /// Returns an open session, which is closing from now on; `None` if it is not open.
    pub(super) fn begin_close(&self, id: SessionId) -> Option<SessionHandle> {
        let mut open = self.entries.lock();
        let entry = open.get_mut(&id)?;
        drop(entry.permit.take()?);
        Some(entry.handle.clone())
    }

    /// Removes a session whose task has ended. One that was opened again since stays.
    pub(super) fn remove(&self, session: &Arc<Session>) {
        let mut open = self.entries.lock();
        if open.get(&session.id()).is_some_and(|entry| entry.handle.is_of(session)) {
            open.remove(&session.id());
        }
    }

    /// Returns whether something runs in a session.
    pub(super) fn is_any_busy(&self) -> bool {
        self.entries.lock().values().any(|entry| !entry.handle.is_idle())
    }

    /// Ends the tasks of all sessions and waits for them. `stops`: the turns are stopped first.
    pub(super) async fn close_all(&self, stops: bool) {
        let handles: Vec<SessionHandle> = self.entries.lock().values().map(|entry| entry.handle.clone()).collect();
        // Their turns stop at once. Only then does each store the text it has received.
        for handle in handles.iter().filter(|_| stops) {
            handle.stop();
        }
        for handle in handles {
            handle.close().await;
        }
    }
}
