//! The sessions that the client has open, each with the way to its task.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use patchbay_core::SessionId;

use crate::session::SessionHandle;

/// Limit of the sessions that one client has open.
pub(super) const OPEN_SESSIONS: usize = 256;

/// The open sessions of a connection.
#[derive(Clone, Default)]
pub(crate) struct OpenSessions(Arc<Mutex<HashMap<SessionId, SessionHandle>>>);

impl OpenSessions {
    /// Returns an open session.
    pub(super) fn get(&self, id: SessionId) -> Option<SessionHandle> {
        self.0.lock().get(&id).cloned()
    }

    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// Adds a session. Returns the handle of the one that is open under the same id already, if there is one.
    pub(super) fn add(&self, id: SessionId, handle: &SessionHandle) -> Option<SessionHandle> {
        let mut open = self.0.lock();
        if let Some(there) = open.get(&id) {
            return Some(there.clone());
        }
        open.insert(id, handle.clone());
        None
    }

    /// Removes a session that is closed.
    pub(super) fn remove(&self, id: SessionId) {
        self.0.lock().remove(&id);
    }

    /// Closes all sessions and waits for their ends.
    pub(super) async fn close_all(&self) {
        let handles: Vec<SessionHandle> = self.0.lock().values().cloned().collect();
        // Their turns stop at once; only then each stores what came.
        for handle in &handles {
            handle.stop();
        }
        for handle in handles {
            handle.close(None).await;
        }
    }
}
