//! The rows of a session, in order: conversations and their events. Written through [`Store::commit`]; read by `events`,
//! `agent` and `session`.

use std::ops::RangeInclusive;

use patchbay_core::{AgentId, MessageKind, SessionId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{Store, StoreError, now};

/// A row to append.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// The agent whose conversation it belongs to.
    pub agent: AgentId,
    /// The kind of the row.
    pub kind: MessageKind,
    /// The text that a person reads.
    pub content: String,
    /// Structured data for programs.
    pub data: Option<serde_json::Value>,
}

/// A stored row.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageRow {
    /// Its number in the session, from 1.
    pub seq: u64,
    /// The agent whose conversation it belongs to.
    pub agent: AgentId,
    /// The kind of the row.
    pub kind: MessageKind,
    /// The text that a person reads.
    pub content: String,
    /// Structured data for programs.
    pub data: Option<serde_json::Value>,
}

/// Appends rows after row number `last`. Returns them with their numbers.
pub(crate) fn append(
    connection: &Connection,
    session: SessionId,
    last: i64,
    messages: Vec<NewMessage>,
) -> Result<Vec<MessageRow>, StoreError> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO messages (session, seq, agent, kind, content, data, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?;
    let mut written = Vec::with_capacity(messages.len());
    for (seq, message) in (last + 1..).zip(messages) {
        let NewMessage { agent, kind, content, data } = message;
        let json = data.as_ref().map(ToString::to_string);
        insert.execute(params![session.to_string(), seq, agent.to_string(), kind.as_str(), content, json, now()])?;
        written.push(MessageRow { seq: seq.cast_unsigned(), agent, kind, content, data });
    }
    Ok(written)
}

impl Store {
    /// Returns the number of a session's last row; 0 if it has none.
    ///
    /// # Errors
    /// [`StoreError::SessionNotFound`], or a database error.
    pub async fn last_seq(&self, session: SessionId) -> Result<u64, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached("SELECT last_seq FROM sessions WHERE id = ?")?;
            let last: Option<i64> = query.query_row(params![session.to_string()], |row| row.get(0)).optional()?;
            last.map(i64::cast_unsigned).ok_or(StoreError::SessionNotFound(session))
        })
    }

    /// Returns at most `limit` rows of a session, starting with row number `from`.
    ///
    /// # Errors
    /// A database error.
    pub async fn messages(&self, session: SessionId, from: u64, limit: u32) -> Result<Vec<MessageRow>, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM messages WHERE session = ? AND seq >= ? ORDER BY seq LIMIT ?"
            ))?;
            let mut rows = query.query(params![session.to_string(), from.cast_signed(), limit])?;
            let mut messages = Vec::new();
            while let Some(row) = rows.next()? {
                messages.push(read(row)?);
            }
            Ok(messages)
        })
    }
}

impl Store {
    /// Returns at most `limit` rows of one agent with numbers in `range`. Dropped rows are left out.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn messages_of(
        &self,
        session: SessionId,
        agent: AgentId,
        range: RangeInclusive<u64>,
        limit: u32,
    ) -> Result<Vec<MessageRow>, StoreError> {
        let bound = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.database.read(|connection| {
            let mut query = connection.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM messages INDEXED BY messages_by_agent \
                 WHERE agent = ? AND session = ? AND seq BETWEEN ? AND ? AND dropped = 0 ORDER BY seq LIMIT ?"
            ))?;
            let (agent, session) = (agent.to_string(), session.to_string());
            let mut rows = query.query(params![agent, session, bound(*range.start()), bound(*range.end()), limit])?;
            let mut messages = Vec::new();
            while let Some(row) = rows.next()? {
                messages.push(read(row)?);
            }
            Ok(messages)
        })
    }

    /// Returns the first message of a session (a person's text or a skill's instructions), else its first command; `None` if
    /// it has neither. Notifications of mail are no messages. Of the text, the first `max` characters are returned; of the data, only those of a skill.
    ///
    /// # Errors
    /// A database error.
    pub async fn first_message(&self, session: SessionId, max: u32) -> Result<Option<MessageRow>, StoreError> {
        self.database.read(|connection| {
            let first = |kinds: &str| {
                let sql = format!(
                    "SELECT seq, agent, kind, substr(content, 1, ?), CASE kind WHEN 'skill' THEN data END FROM messages \
                     WHERE session = ? AND kind IN ({kinds}) AND content <> '' \
                     AND (kind <> 'user' OR json_type(data, '$.notification') IS NULL) ORDER BY seq LIMIT 1"
                );
                let mut query = connection.prepare_cached(&sql)?;
                let mut rows = query.query(params![max, session.to_string()])?;
                rows.next()?.map(read).transpose()
            };
            Ok(match first("'user', 'skill'")? {
                Some(message) => Some(message),
                None => first("'command'")?,
            })
        })
    }
}

/// The columns that [`read`] expects.
pub(crate) const COLUMNS: &str = "seq, agent, kind, content, data";

/// Reads a row of [`COLUMNS`].
pub(crate) fn read(row: &Row<'_>) -> Result<MessageRow, StoreError> {
    let agent: String = row.get(1)?;
    let kind: String = row.get(2)?;
    let data: Option<String> = row.get(4)?;
    Ok(MessageRow {
        seq: row.get::<_, i64>(0)?.cast_unsigned(),
        agent: agent.parse().map_err(|_| StoreError::BadRow("message"))?,
        kind: MessageKind::from_word(&kind).ok_or(StoreError::BadRow("message"))?,
        content: row.get(3)?,
        data: match data {
            Some(json) => Some(serde_json::from_str(&json).map_err(|_| StoreError::BadRow("message"))?),
            None => None,
        },
    })
}
