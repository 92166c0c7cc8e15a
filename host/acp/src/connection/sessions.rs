//! The sessions that the client has open, each with the way to its task.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use patchbay_core::SessionId;
use patchbay_session::Session;

use crate::session::{SessionHandle, SessionTask};

/// Limit of the sessions that one client has open.
pub(super) const OPEN_SESSIONS: usize = 256;

/// The open sessions of a connection.
#[derive(Clone, Default)]
pub(crate) struct OpenSessions(Arc<Mutex<HashMap<SessionId, SessionEntry>>>);

struct SessionEntry {
    handle: SessionHandle,
    /// Whether the client has closed the session, or deletes it. It receives nothing more, but its task may still run.
    is_closing: bool,
}

impl OpenSessions {
    /// Returns an open session.
    pub(super) fn get(&self, id: SessionId) -> Option<SessionHandle> {
        self.0.lock().get(&id).filter(|entry| !entry.is_closing).map(|entry| entry.handle.clone())
    }

    /// Returns a session that is closing.
    pub(super) fn closing(&self, id: SessionId) -> Option<SessionHandle> {
        self.0.lock().get(&id).filter(|entry| entry.is_closing).map(|entry| entry.handle.clone())
    }

    /// Returns the number of open sessions, without those that are closing.
    pub(super) fn count(&self) -> usize {
        self.0.lock().values().filter(|entry| !entry.is_closing).count()
    }

    /// Returns the handle of a session that is open already. Otherwise `create` makes the handle and the task, which the caller
    /// runs: a session has one task, because the task takes its questions.
    pub(super) fn get_or_open(
        &self,
        session: &Arc<Session>,
        create: impl FnOnce() -> (SessionHandle, SessionTask),
    ) -> (SessionHandle, Option<SessionTask>) {
        let mut open = self.0.lock();
        // The task of a session that is closing refuses what follows.
        if let Some(entry) = open.get(&session.id()).filter(|entry| entry.handle.is_of(session)) {
            return (entry.handle.clone(), None);
        }
        let (handle, task) = create();
        open.insert(session.id(), SessionEntry { handle: handle.clone(), is_closing: false });
        (handle, Some(task))
    }

    /// Returns an open session, which is closing from now on; `None` if it is not open.
    pub(super) fn begin_close(&self, id: SessionId) -> Option<SessionHandle> {
        let mut open = self.0.lock();
        let entry = open.get_mut(&id).filter(|entry| !entry.is_closing)?;
        entry.is_closing = true;
        Some(entry.handle.clone())
    }

    /// Removes a session whose task has ended. One that was opened again since stays.
    pub(super) fn remove(&self, session: &Arc<Session>) {
        let mut open = self.0.lock();
        if open.get(&session.id()).is_some_and(|entry| entry.handle.is_of(session)) {
            open.remove(&session.id());
        }
    }

    /// Closes all sessions and waits for their ends.
    pub(super) async fn close_all(&self) {
        let handles: Vec<SessionHandle> = self.0.lock().values().map(|entry| entry.handle.clone()).collect();
        // Their turns stop at once; only then each stores what came.
        for handle in &handles {
            handle.stop();
        }
        for handle in handles {
            handle.close().await;
        }
    }
}
