//! Mail between agents. It is written through [`Store::commit`](crate::Store::commit), and therefore stored before its
//! sender reads the result. Read by `session` and by the mail tools.

use patchbay_core::{AgentId, SessionId};
use rusqlite::{Connection, Row, params};

use crate::{Store, StoreError, agents, database::rows, hold::SessionWrite};

/// A mail to send to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMail {
    /// The agent that sent the mail.
    pub from: AgentId,
    /// The recipient. It must be alive after the change.
    pub to: AgentId,
    /// The body of the mail, as text.
    pub body: String,
    /// Maximum number of messages in the recipient's inbox; `None` for no limit.
    pub limit: Option<u32>,
    /// Whether the recipient is notified of it. If not, it counts as covered by a notification.
    pub wakes: bool,
}

/// A mail in an inbox, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailRow {
    /// Its number in the inbox, from 1. The number of a deleted mail is not reused.
    pub number: u64,
    /// The agent that sent the mail.
    pub from: AgentId,
    /// When it was sent, in milliseconds since 1970. Later mail in the same inbox has a later time.
    pub sent_at: i64,
    /// Whether the recipient has read it.
    pub read: bool,
    /// The body of the mail, as text.
    pub body: String,
}

/// The numbers of messages in an inbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailCounts {
    /// Number of all messages in the inbox.
    pub all: u64,
    /// Number of unread messages in the inbox.
    pub unread: u64,
    /// Number of unread messages that no notification has counted.
    pub uncounted: u64,
}

/// Stores mail in the given order. `kills` are the agents that the same change kills.
pub(crate) fn send(
    connection: &Connection,
    write: &SessionWrite,
    mails: Vec<NewMail>,
    kills: &[AgentId],
) -> Result<(), StoreError> {
    for NewMail { from, to, body, limit, wakes } in mails {
        if kills.contains(&to) {
            return Err(StoreError::AgentDead(to));
        }
        agents::require_alive(connection, write.session, to)?;
        let recipient = to.to_string();
        if let Some(limit) = limit {
            let size: i64 = connection
                .prepare_cached("SELECT count(*) FROM mail WHERE recipient = ?")?
                .query_row(params![recipient], |row| row.get(0))?;
            if size >= i64::from(limit) {
                return Err(StoreError::InboxFull { agent: to, limit });
            }
        }
        let number: i64 = connection
            .prepare_cached("UPDATE agents SET next_mail = next_mail + 1 WHERE uuid = ? RETURNING next_mail - 1")?
            .query_row(params![recipient], |row| row.get(0))?;
        connection
            .prepare_cached(
                "INSERT INTO mail (recipient, number, sender, body, counted, sent_at) VALUES (?1, ?2, ?3, ?4, ?6, max(?5, \
                 coalesce((SELECT sent_at + 1 FROM mail WHERE recipient = ?1 ORDER BY number DESC LIMIT 1), 0)))",
            )?
            .execute(params![
                recipient,
                number,
                from.to_string(),
                body,
                write.unix_ms,
                !wakes
            ])?;
    }
    Ok(())
}

/// Marks a mail as read, if it exists.
pub(crate) fn mark_read(connection: &Connection, recipient: AgentId, number: u64) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE mail SET read = 1 WHERE recipient = ? AND number = ?")?
        .execute(params![recipient.to_string(), bounded(number)])?;
    Ok(())
}

/// Deletes a mail, if it exists.
pub(crate) fn delete(connection: &Connection, recipient: AgentId, number: u64) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM mail WHERE recipient = ? AND number = ?")?
        .execute(params![recipient.to_string(), bounded(number)])?;
    Ok(())
}

/// Marks all unread mail of an agent as counted by a notification.
pub(crate) fn mark_counted(connection: &Connection, recipient: AgentId) -> Result<(), StoreError> {
    connection
        .prepare_cached("UPDATE mail SET counted = 1 WHERE recipient = ? AND read = 0 AND counted = 0")?
        .execute(params![recipient.to_string()])?;
    Ok(())
}

/// Converts a mail number, which may come from a user or a model, for SQLite. No mail has the largest integer.
fn bounded(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

const COLUMNS: &str = "number, sender, sent_at, read, body";

fn read(row: &Row<'_>) -> Result<MailRow, StoreError> {
    let sender: String = row.get(1)?;
    Ok(MailRow {
        number: row.get::<_, i64>(0)?.cast_unsigned(),
        from: sender.parse().map_err(|_| StoreError::BadRow("mail"))?,
        sent_at: row.get(2)?,
        read: row.get(3)?,
        body: row.get(4)?,
    })
}

impl Store {
    /// Returns an agent's mail, optionally from one sender: unread mail first, then the newest first.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn inbox(&self, agent: AgentId, from: Option<AgentId>) -> Result<Vec<MailRow>, StoreError> {
        self.database.read(|connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM mail WHERE recipient = ?1 AND (?2 IS NULL OR sender = ?2) ORDER BY read, number DESC"
            );
            rows(connection, &sql, params![agent.to_string(), from.map(|from| from.to_string())], read)
        })
    }

    /// Returns a mail of an agent by its number; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn mail(&self, agent: AgentId, number: u64) -> Result<Option<MailRow>, StoreError> {
        self.database.read(|connection| {
            let mut query =
                connection.prepare_cached(&format!("SELECT {COLUMNS} FROM mail WHERE recipient = ? AND number = ?"))?;
            let mut rows = query.query(params![agent.to_string(), bounded(number)])?;
            rows.next()?.map(read).transpose()
        })
    }

    /// Returns unread mail of an agent that no notification has counted, at most `most` messages, sorted by number.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn uncounted_mail(&self, agent: AgentId, most: u32) -> Result<Vec<MailRow>, StoreError> {
        self.database.read(|connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM mail WHERE recipient = ? AND read = 0 AND counted = 0 ORDER BY number LIMIT ?"
            );
            rows(connection, &sql, params![agent.to_string(), most], read)
        })
    }

    /// Counts the unread mail of an agent.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn mail_counts(&self, agent: AgentId) -> Result<MailCounts, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached(
                "SELECT count(*), count(*) FILTER (WHERE read = 0), count(*) FILTER (WHERE read = 0 AND counted = 0) \
                 FROM mail WHERE recipient = ?",
            )?;
            let counts: [i64; 3] =
                query.query_row(params![agent.to_string()], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?]))?;
            let [all, unread, uncounted] = counts.map(i64::cast_unsigned);
            Ok(MailCounts { all, unread, uncounted })
        })
    }

    /// Returns the agents of a session that have unread mail, including dead agents, in the order of their creation, with
    /// the number of unread messages.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn unread_mail(&self, session: SessionId) -> Result<Vec<(AgentId, u64)>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT uuid, (SELECT count(*) FROM mail WHERE recipient = uuid AND read = 0) AS unread \
                 FROM agents WHERE session = ? AND unread > 0 ORDER BY ordinal";
            rows(connection, sql, params![session.to_string()], |row| {
                let agent: String = row.get(0)?;
                let agent = agent.parse().map_err(|_| StoreError::BadRow("agent"))?;
                Ok((agent, row.get::<_, i64>(1)?.cast_unsigned()))
            })
        })
    }
}

#[cfg(test)]
mod tests;
