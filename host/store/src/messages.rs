//! The rows of a session, in order: conversations and their events. Written through [`Store::commit`]; read by `events`,
//! `agent` and `session`.

use std::ops::RangeInclusive;

use patchbay_core::{AgentId, MessageKind, SessionId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{Store, StoreError, database::rows, hold::SessionWrite};

/// A row to append to a conversation.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// The agent whose conversation it belongs to.
    pub agent: AgentId,
    /// The kind of row to append.
    pub kind: MessageKind,
    /// The text that the user reads.
    pub content: String,
    /// Structured data for programs.
    pub data: Option<serde_json::Value>,
}

/// A row of a conversation, as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageRow {
    /// Its number in the session, from 1.
    pub seq: u64,
    /// The agent whose conversation it belongs to.
    pub agent: AgentId,
    /// The kind of the stored row.
    pub kind: MessageKind,
    /// The text that the user reads.
    pub content: String,
    /// Structured data for programs.
    pub data: Option<serde_json::Value>,
}

/// Appends rows after row number `write.last_row`. Returns them with their numbers.
pub(crate) fn append(
    connection: &Connection,
    write: &SessionWrite,
    messages: Vec<NewMessage>,
) -> Result<Vec<MessageRow>, StoreError> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO messages (session, seq, agent, kind, content, data, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?;
    let mut written = Vec::with_capacity(messages.len());
    for (seq, message) in (write.last_row + 1..).zip(messages) {
        let NewMessage { agent, kind, content, data } = message;
        let json = data.as_ref().map(ToString::to_string);
        let (session, at) = (write.session.to_string(), write.unix_s());
        insert.execute(params![session, seq, agent.to_string(), kind.as_str(), content, json, at])?;
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
    /// The database could not be read or written.
    pub async fn messages(&self, session: SessionId, from: u64, limit: u32) -> Result<Vec<MessageRow>, StoreError> {
        self.database.read(|connection| {
            let columns = columns();
            let sql = format!("SELECT {columns} FROM messages WHERE session = ? AND seq >= ? ORDER BY seq LIMIT ?");
            rows(connection, &sql, params![session.to_string(), from.cast_signed(), limit], read)
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
            let columns = columns();
            let sql = format!(
                "SELECT {columns} FROM messages INDEXED BY messages_by_agent \
                 WHERE agent = ? AND session = ? AND seq BETWEEN ? AND ? AND dropped = 0 ORDER BY seq LIMIT ?"
            );
            let (agent, session) = (agent.to_string(), session.to_string());
            rows(connection, &sql, params![agent, session, bound(*range.start()), bound(*range.end()), limit], read)
        })
    }

    /// Returns the first message of a session (a user's text or a skill's instructions), otherwise its first command,
    /// or `None` if it has neither. Mail notifications do not count as messages. The text is cut to `max` characters,
    /// and the data is only returned for skills.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn first_message(&self, session: SessionId, max: u32) -> Result<Option<MessageRow>, StoreError> {
        self.database.read(|connection| {
            let first = |kinds: &str| {
                let sql = format!(
                    "SELECT seq, agent, kind, iif(octet_length(content) > {MAX_CONTENT}, '', substr(content, 1, ?)), \
                     CASE kind WHEN 'skill' THEN data END FROM messages \
                     WHERE session = ? AND kind IN ({kinds}) AND octet_length(content) > 0 \
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

/// Maximum number of bytes of a row's text that are read: the longest answer that `[exchange]` allows. Earlier builds could store
/// gigabytes of skill instructions. Longer texts are replaced by a note, and SQLite does not load them: `octet_length`
/// only needs the head of the row.
pub(crate) const MAX_CONTENT: usize = 64 << 20;

/// The columns that [`read`] expects.
pub(crate) fn columns() -> String {
    format!(
        "seq, agent, kind, iif(octet_length(content) > {MAX_CONTENT}, '[' || octet_length(content) || \
         ' bytes of text omitted: over the row limit]', content), data"
    )
}

/// Reads a row of [`columns`].
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestTree;

    /// Earlier builds could store a gigabyte of skill instructions.
    #[tokio::test]
    async fn oversized_text_is_not_read() {
        let tree = TestTree::new().await;
        let seq = tree.add(tree.root, MessageKind::Skill, "Do.").await;
        tree.add(tree.root, MessageKind::Assistant, "Done.").await;
        let texts = async |size: usize| {
            let update = "UPDATE messages SET content = substr(hex(zeroblob(?1)), ?1 + 1) WHERE seq = ?2";
            assert_eq!(tree.database().execute(update, params![size.cast_signed(), seq.cast_signed()]).unwrap(), 1);
            let store = &tree.store;
            let all = store.messages(tree.session(), 1, 9).await.unwrap();
            let sent = store.conversation(tree.root).await.unwrap();
            let shown = store.messages_of(tree.session(), tree.root, 1..=9, 9).await.unwrap();
            let (said, answer) = store.exchange_before(tree.session(), tree.root, 9).await.unwrap().unwrap();
            assert!(all == sent && all == shown && all[0] == said && Some(&all[1]) == answer.as_ref());
            assert_eq!(store.last_message(tree.session(), tree.root).await.unwrap().unwrap().rows[0], said);
            let first = store.first_message(tree.session(), 60).await.unwrap().unwrap();
            (said.content, first.content)
        };
        let (whole, first) = texts(MAX_CONTENT).await;
        assert_eq!((whole.len(), first.len()), (MAX_CONTENT, 60));
        let (left_out, first) = texts(MAX_CONTENT + 1).await;
        assert_eq!(left_out, "[67108865 bytes of text omitted: over the row limit]");
        assert_eq!(first, "");
    }
}
