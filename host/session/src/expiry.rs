//! Removes sessions that were not used for a long time. `patchbay sessions gc` calls it.

use patchbay_store::StoreError;

use crate::{Host, SessionError, lock::SessionLock};

/// Number of sessions per read of the store.
const PAGE: u32 = 100;

/// The sessions that [`Host::remove_unused_sessions`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiredSessions {
    /// Number of removed sessions.
    pub removed: usize,
    /// Number of old sessions that stayed because a process has them open.
    pub open: usize,
}

impl Host {
    /// Removes the sessions last used before `before`, in seconds since 1970, with the data that skills stored for
    /// them. Sessions open in any process are kept. Each session is removed in its own transaction, which means that
    /// other processes never wait for more than one.
    ///
    /// # Errors
    /// [`SessionError`] if the store or a lock file fails. Sessions removed before the error stay removed.
    pub async fn remove_unused_sessions(&self, before: i64) -> Result<ExpiredSessions, SessionError> {
        let mut found = ExpiredSessions::default();
        let mut after = None;
        loop {
            let page = self.store.unused_sessions(before, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(found) };
            after = Some(*last);
            for session in page {
                // Checked first, because taking the lock waits a moment for a process that has it.
                if self.session_holder(session.id).is_some() {
                    found.open += 1;
                    continue;
                }
                let lock = match SessionLock::take(&self.lock_folder(), session.id).await {
                    Ok(lock) => lock,
                    Err(SessionError::InUse { .. }) => {
                        found.open += 1;
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                // The session may have been used or removed since the page was read.
                match self.store.remove_unused_session(session.id, before).await {
                    Ok(false) | Err(StoreError::SessionNotFound(_)) => continue,
                    Ok(true) => {}
                    Err(error) => return Err(error.into()),
                }
                self.kv_store().remove_session(session.id).await?;
                lock.remove(&self.lock_folder(), session.id);
                found.removed += 1;
            }
        }
    }
}
