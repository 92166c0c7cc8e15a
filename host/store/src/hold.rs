//! The fence: which process may write a session.
//!
//! Each taking of a session raises its epoch, and each write names the epoch of its own [`Hold`]. A process that was stopped
//! while another one took the session over, such as by removing its lock file, finds another epoch when it goes on. Its writes
//! are refused, and nothing of them is kept. Called wherever a session is created or resumed.

use patchbay_core::SessionId;
use rusqlite::{Connection, OptionalExtension, params};

use crate::{Store, StoreError};

/// The right to write one session. It ends when the session is held again, by this process or another one: from then on
/// every write with it fails with [`StoreError::Fenced`]. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    session: SessionId,
    epoch: i64,
}

impl Hold {
    /// The hold of a session that was just created.
    pub(crate) fn first(session: SessionId) -> Self {
        Self { session, epoch: FIRST_EPOCH }
    }

    /// The session that may be written.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Adds `rows` to the number of the session's last row, `tokens` to what its models have used, and returns the number
    /// of the last row as it was before.
    ///
    /// # Errors
    /// As [`Hold::check`].
    pub(crate) fn advance(&self, connection: &Connection, rows: usize, tokens: u64) -> Result<i64, StoreError> {
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        let last: Option<i64> = connection
            .prepare_cached(
                "UPDATE sessions SET last_seq = last_seq + ?, tokens = tokens + ?, used_at = ? \
                 WHERE id = ? AND epoch = ? RETURNING last_seq",
            )?
            .query_row(params![rows, tokens, crate::now(), self.session.to_string(), self.epoch], |row| row.get(0))
            .optional()?;
        match last {
            Some(last) => Ok(last - rows),
            None => Err(self.check(connection).err().unwrap_or(StoreError::Fenced(self.session))),
        }
    }

    /// Checks that this is still the hold of the session.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the session was held again since, [`StoreError::SessionNotFound`] if it was removed; the
    /// database.
    pub(crate) fn check(&self, connection: &Connection) -> Result<(), StoreError> {
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

/// The epoch of a session that was never resumed.
pub(crate) const FIRST_EPOCH: i64 = 1;

impl Store {
    /// Takes the session `id` over from whichever process held it. The lock file of a session is what refuses a second
    /// process; this makes the refusal safe where the lock failed.
    ///
    /// # Errors
    /// [`StoreError::SessionNotFound`], or the database.
    pub async fn hold(&self, id: SessionId) -> Result<Hold, StoreError> {
        let holder = self.holder.to_string();
        self.database
            .write(move |connection| {
                // A process of an older build numbers its rows by what is there, and does not count them in `last_seq`.
                let mut take = connection.prepare_cached(
                    "UPDATE sessions SET holder = ?, epoch = epoch + 1, \
                     last_seq = (SELECT coalesce(max(seq), 0) FROM messages WHERE session = sessions.id) \
                     WHERE id = ? RETURNING epoch",
                )?;
                let epoch = take.query_row(params![holder, id.to_string()], |row| row.get(0)).optional()?;
                let epoch = epoch.ok_or(StoreError::SessionNotFound(id))?;
                Ok(Hold { session: id, epoch })
            })
            .await
    }

    /// Checks that `hold` is still the hold of its session. Writes check it themselves; this is for a caller that is about
    /// to do something outside the store.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], or the database.
    pub async fn check_hold(&self, hold: &Hold) -> Result<(), StoreError> {
        self.check_hold_now(hold)
    }

    /// As [`Store::check_hold`], within a write to another database.
    pub(crate) fn check_hold_now(&self, hold: &Hold) -> Result<(), StoreError> {
        self.database.read(|connection| hold.check(connection))
    }
}

#[cfg(test)]
mod tests;
