//! Messages to an agent and the answers to them: finds the messages for `/history`, and the last message for `/retry` and
//! `/drop`. Called by `session`.

use patchbay_core::{AgentId, MessageKind, SessionId};
use rusqlite::{Connection, params};

use crate::{
    MessageRow, Store, StoreError,
    messages::{self, columns},
};

/// The last message to an agent, with the model's last answer to it.
#[derive(Clone, Debug, PartialEq)]
pub struct LastMessage {
    /// The rows of the message, in order: the user's text, the instructions of a skill, or both.
    pub rows: Vec<MessageRow>,
    /// The model's last answer after the message; `None` if there is none. It may be incomplete, or only call tools.
    pub answer: Option<MessageRow>,
    /// Number of answers after the message. A turn that calls tools has several.
    pub answers: u32,
}

/// A message that the user drops, together with the rows that its turn added to the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DroppedMessage {
    /// The agent that the message was sent to.
    pub agent: AgentId,
    /// The number of the message's first row.
    pub first: u64,
    /// The number of the message's last row. Later messages stay.
    pub last: u64,
}

/// Marks the rows of a message and of its answers as dropped, which excludes them from later requests.
pub(crate) fn drop_message(
    connection: &Connection,
    session: SessionId,
    message: DroppedMessage,
) -> Result<(), StoreError> {
    let DroppedMessage { agent, first, last } = message;
    // The mark is the ordinal of the next agent, because existing agents keep the rows that they inherited. Rows that were
    // dropped earlier keep their mark.
    connection.execute(
        "UPDATE messages SET dropped = (SELECT max(ordinal) + 1 FROM agents WHERE session = ?1) \
         WHERE session = ?1 AND agent = ?2 AND seq >= ?3 AND dropped = 0 \
         AND (seq <= ?4 OR kind IN ('assistant', 'tool', 'compaction'))",
        params![session.to_string(), agent.to_string(), first.cast_signed(), last.cast_signed()],
    )?;
    Ok(())
}

impl Store {
    /// Returns the last message to `agent` before row number `before` (a user's text or files, or a skill's
    /// instructions) and the last answer to it that has text, complete or interrupted; `None` if no such message
    /// exists. Dropped messages are skipped.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn exchange_before(
        &self,
        session: SessionId,
        agent: AgentId,
        before: u64,
    ) -> Result<Option<(MessageRow, Option<MessageRow>)>, StoreError> {
        self.database.read(|connection| {
            let columns = columns();
            let last = |kinds: &str, after: u64| {
                let sql = format!(
                    "SELECT {columns} FROM messages WHERE session = ? AND agent = ? AND seq > ? AND seq < ? \
                     AND kind IN ({kinds}) AND (kind <> 'assistant' OR octet_length(content) > 0) AND dropped = 0 ORDER BY seq DESC LIMIT 1"
                );
                let mut query = connection.prepare_cached(&sql)?;
                let (after, before) = (after.cast_signed(), i64::try_from(before).unwrap_or(i64::MAX));
                let mut rows = query.query(params![session.to_string(), agent.to_string(), after, before])?;
                rows.next()?.map(messages::read).transpose()
            };
            let Some(said) = last("'user', 'skill'", 0)? else { return Ok(None) };
            let answer = last("'assistant'", said.seq)?;
            Ok(Some((said, answer)))
        })
    }

    /// Returns the number of messages to `agent`, and of its answers with text, before row number `before`. Dropped messages
    /// are not counted.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn messages_before(&self, session: SessionId, agent: AgentId, before: u64) -> Result<u64, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached(
                "SELECT count(*) FROM messages WHERE session = ? AND agent = ? AND seq < ? \
                 AND kind IN ('user', 'skill', 'assistant') AND (kind <> 'assistant' OR octet_length(content) > 0) \
                 AND dropped = 0",
            )?;
            let before = i64::try_from(before).unwrap_or(i64::MAX);
            let count: i64 =
                query.query_row(params![session.to_string(), agent.to_string(), before], |row| row.get(0))?;
            Ok(count.cast_unsigned())
        })
    }

    /// Returns the last answer of `agent` after row number `after`; `None` if there is none. Dropped answers are skipped.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn last_answer(
        &self,
        session: SessionId,
        agent: AgentId,
        after: u64,
    ) -> Result<Option<MessageRow>, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached(&format!(
                "SELECT {} FROM messages WHERE session = ? AND agent = ? AND seq > ? AND kind = 'assistant' AND dropped = 0 \
                 ORDER BY seq DESC LIMIT 1",
                columns()
            ))?;
            let mut rows = query.query(params![session.to_string(), agent.to_string(), after.cast_signed()])?;
            rows.next()?.map(messages::read).transpose()
        })
    }

    /// Returns the last message to `agent` that began a turn; `None` before the first message. Skips dropped messages, and
    /// skill instructions that wait for the next message.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn last_message(&self, session: SessionId, agent: AgentId) -> Result<Option<LastMessage>, StoreError> {
        self.database.read(|connection| {
            let (session, agent, columns) = (session.to_string(), agent.to_string(), columns());
            // The row of `/skill NAME` without an input follows the instructions in the same commit.
            let mut query = connection.prepare_cached(&format!(
                "SELECT {columns} FROM messages AS message WHERE session = ?1 AND agent = ?2 AND dropped = 0 AND \
                 (kind = 'user' OR kind = 'skill' AND NOT EXISTS (SELECT 1 FROM messages AS next \
                  WHERE next.session = ?1 AND next.seq = message.seq + 1 AND next.agent = ?2 AND next.kind = 'command' \
                  AND json_extract(next.data, '$.code') = 'skill_added')) \
                 ORDER BY seq DESC LIMIT 2"
            ))?;
            let mut found = query.query(params![session, agent])?;
            let Some(last) = found.next()?.map(messages::read).transpose()? else { return Ok(None) };
            let before = found.next()?.map(messages::read).transpose()?;
            let seq = last.seq;
            // The instructions and the input of a command are stored in one commit.
            let with = before.filter(|row| row.seq + 1 == seq && row.kind == MessageKind::Skill);
            let mut answers = connection.prepare_cached(
                "SELECT count(*) FROM messages WHERE session = ? AND agent = ? AND seq > ? AND kind = 'assistant' \
                 AND dropped = 0",
            )?;
            let answers = answers.query_row(params![session, agent, seq.cast_signed()], |row| row.get(0))?;
            let mut answer = connection.prepare_cached(&format!(
                "SELECT {columns} FROM messages WHERE session = ? AND agent = ? AND seq > ? AND kind = 'assistant' AND dropped = 0 \
                 ORDER BY seq DESC LIMIT 1"
            ))?;
            let mut answer = answer.query(params![session, agent, seq.cast_signed()])?;
            let answer = answer.next()?.map(messages::read).transpose()?;
            Ok(Some(LastMessage { rows: with.into_iter().chain([last]).collect(), answer, answers }))
        })
    }
}

#[cfg(test)]
mod tests;
