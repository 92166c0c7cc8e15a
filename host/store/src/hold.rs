//! The fence: decides which process may write a session.
//!
//! Each time a session is taken, its epoch rises; each write carries the epoch of its [`Hold`]. A process can be
//! suspended while another one takes the session over, for example after its lock file was removed. When it resumes, its
//! epoch is outdated, and its writes are rejected as a whole. Called when a session is created or resumed.

use patchbay_core::SessionId;
use rusqlite::{Connection, OptionalExtension, params};

use crate::{Source, Store, StoreError, reservations};

/// The right to write one session. It ends when the session is held again, by this process or another; every later
/// write with this hold fails with [`StoreError::Fenced`]. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    session: SessionId,
    epoch: i64,
}

impl Hold {
    /// Returns the hold of a newly created session.
    pub(crate) fn first(session: SessionId) -> Self {
        Self { session, epoch: FIRST_EPOCH }
    }

    /// Returns the session that may be written.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Begins a write to the session; every write under a hold begins here. It raises the session's revision, and adds `rows`
    /// and `tokens` to its counts.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the session has been held again since, [`StoreError::SessionNotFound`] if it
    /// was removed, or a database error.
    pub(crate) fn begin_write(
        &self,
        connection: &Connection,
        source: &Source,
        rows: usize,
        tokens: u64,
    ) -> Result<SessionWrite, StoreError> {
        let unix_ms = source.unix_ms();
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        // A sum over the largest integer would be a floating-point number, which the column rejects.
        let last: Option<i64> = connection
            .prepare_cached(
                "UPDATE sessions SET revision = revision + 1, last_seq = last_seq + ?, \
                 tokens = min(tokens + ?, 9223372036854775807), used_at = ? WHERE id = ? AND epoch = ? RETURNING last_seq",
            )?
            .query_row(params![rows, tokens, unix_ms / 1000, self.session.to_string(), self.epoch], |row| row.get(0))
            .optional()?;
        match last {
            Some(last) => Ok(SessionWrite { session: self.session, last_row: last - rows, unix_ms }),
            None => Err(self.check(connection).err().unwrap_or(StoreError::Fenced(self.session))),
        }
    }

    /// Checks that no later hold of the session exists.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the session has been held again since, [`StoreError::SessionNotFound`] if it
    /// was removed, or a database error.
    fn check(&self, connection: &Connection) -> Result<(), StoreError> {
        let epoch: Option<i64> = connection
            .prepare_cached("SELECT epoch FROM sessions WHERE id = ?")?
            .query_row(params![self.session.to_string()], |row| row.get(0))
            .optional()?;
        match epoch {
            Some(epoch) if epoch == self.epoch => Ok(()),
            Some(_) => Err(StoreError::Fenced(self.session)),
            None => Err(StoreError::SessionNotFound(self.session)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionWrite {
    pub(crate) session: SessionId,
    /// The number of the session's last row before the write.
    pub(crate) last_row: i64,
    /// The time of everything that is written, in milliseconds since 1970.
    pub(crate) unix_ms: i64,
}

impl SessionWrite {
    /// Returns the time in seconds since 1970.
    pub(crate) fn unix_s(&self) -> i64 {
        self.unix_ms / 1000
    }
}

/// The epoch of a session that was never resumed.
pub(crate) const FIRST_EPOCH: i64 = 1;

impl Store {
    /// Takes over the session `id` from any process that holds it. Normally a session's lock file already rejects a
    /// second process; the hold keeps the session consistent if that lock fails.
    ///
    /// # Errors
    /// [`StoreError::SessionNotFound`], or a database error.
    pub async fn hold(&self, id: SessionId) -> Result<Hold, StoreError> {
        let holder = self.holder.to_string();
        self.database
            .write(move |connection| {
                // A process of an older build numbers its rows after the stored rows, and does not update `last_seq`.
                let mut take = connection.prepare_cached(
                    "UPDATE sessions SET holder = ?, epoch = epoch + 1, \
                     last_seq = (SELECT coalesce(max(seq), 0) FROM messages WHERE session = sessions.id) \
                     WHERE id = ? RETURNING epoch",
                )?;
                let epoch = take.query_row(params![holder, id.to_string()], |row| row.get(0)).optional()?;
                let epoch = epoch.ok_or(StoreError::SessionNotFound(id))?;
                reservations::end_abandoned(connection, id)?;
                Ok(Hold { session: id, epoch })
            })
            .await
    }

    /// Checks that `hold` is still valid. Writes check it themselves; this is for a caller that is
    /// about to act outside the store.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], or a database error.
    pub async fn check_hold(&self, hold: &Hold) -> Result<(), StoreError> {
        self.check_hold_now(hold)
    }

    /// Like [`Store::check_hold`], for use within a write to another database.
    pub(crate) fn check_hold_now(&self, hold: &Hold) -> Result<(), StoreError> {
        self.database.read(|connection| hold.check(connection))
    }
}

#[cfg(test)]
mod tests;
