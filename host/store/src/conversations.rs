//! An agent's conversation: its own rows, and before them the rows that it inherits up to the fork point, from its parent or
//! from the agent that it rewinds. Inherited rows are not copied. Read by `agent` at each request.

use patchbay_core::{AgentId, MessageKind, SessionId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{
    MessageRow, Store, StoreError,
    database::rows,
    messages::{self, columns},
};

/// The rows of one agent that belong to a conversation.
struct ConversationPart {
    session: String,
    agent: String,
    /// The number of the last row.
    last: i64,
    /// The ordinal of the agent that inherits the rows. Rows that were dropped after its creation belong to the conversation.
    heir: i64,
}

/// An agent and its chain of ancestors by inheritance, with the rows that the conversation uses from each. The query
/// requires every ancestor to be older than its heir; otherwise it could run forever on a damaged database.
const CHAIN: &str = "WITH RECURSIVE chain (session, agent, parent, source, fork_point, ordinal, last, heir) AS (\
     SELECT session, uuid, parent_uuid, coalesce(rewound, parent_uuid), fork_message_id, ordinal, 9223372036854775807, \
     9223372036854775807 FROM agents WHERE uuid = ? \
     UNION ALL \
     SELECT agents.session, agents.uuid, agents.parent_uuid, coalesce(agents.rewound, agents.parent_uuid), \
     agents.fork_message_id, agents.ordinal, min(chain.last, chain.fork_point), chain.ordinal \
     FROM chain JOIN agents ON agents.uuid = chain.source WHERE agents.ordinal < chain.ordinal) \
     SELECT session, agent, last, heir, parent FROM chain ORDER BY ordinal DESC";

/// An agent whose rows belong to a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// The agent.
    pub agent: AgentId,
    /// Its parent in the tree; `None` for the root.
    pub parent: Option<AgentId>,
    /// The number of its last row that may belong to the conversation.
    pub last: u64,
}

/// Selects the user messages that began turns, without the conversation's other rows.
const MESSAGES: &str = "FROM turns CROSS JOIN messages ON messages.session = turns.session AND messages.seq = turns.began \
     WHERE turns.session = ? AND turns.agent = ? AND turns.began <= ? AND turns.cause = 'person' \
     AND messages.kind IN ('user', 'skill') AND (dropped = 0 OR dropped > ?) ORDER BY turns.began";

/// The number of characters that [`Store::messages_to`] reads of each message.
const EXCERPT: u32 = 1_000;

/// Selects the first row still in a conversation: the last summary (a compaction), or the first row that it keeps. From the
/// row in the second column on, all rows are included; before it, a summary may keep only the user's messages.
const SUMMARY: &str = "SELECT coalesce(json_extract(data, '$.keep_from'), seq), \
     iif(json_extract(data, '$.requests_only'), seq, 0) FROM messages INDEXED BY messages_compactions \
     WHERE agent = ? AND session = ? AND seq <= ? AND kind = 'compaction' AND (dropped = 0 OR dropped > ?) \
     ORDER BY seq DESC LIMIT 1";

/// Selects the rows of a part; the columns are added in front.
const ROWS: &str = "FROM messages INDEXED BY messages_by_agent \
     WHERE agent = ? AND session = ? AND seq BETWEEN ? AND ? AND (dropped = 0 OR dropped > ?) \
     AND kind IN ('user', 'skill', 'assistant', 'tool', 'compaction') \
     AND (seq >= ? OR kind IN ('user', 'skill')) ORDER BY seq";

/// Returns the parts of a conversation, starting with the agent's own.
fn parts(connection: &Connection, agent: AgentId) -> Result<Vec<ConversationPart>, StoreError> {
    rows(connection, CHAIN, params![agent.to_string()], |row| {
        Ok(ConversationPart { session: row.get(0)?, agent: row.get(1)?, last: row.get(2)?, heir: row.get(3)? })
    })
}

/// Returns the number of the first row that is still in a conversation, and the number from which on all rows are in it.
/// Both are 0 without a summary.
fn first_rows(connection: &Connection, parts: &[ConversationPart]) -> Result<(i64, i64), StoreError> {
    let mut query = connection.prepare_cached(SUMMARY)?;
    for ConversationPart { session, agent, last, heir } in parts {
        let rows = query.query_row(params![agent, session, last, heir], |row| Ok((row.get(0)?, row.get(1)?)));
        if let Some(rows) = rows.optional()? {
            return Ok(rows);
        }
    }
    Ok((0, 0))
}

impl Store {
    /// Returns the agents whose rows belong to the conversation of `agent`: itself, the agent that it inherits from, and so on.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn lineage(&self, agent: AgentId) -> Result<Vec<Lineage>, StoreError> {
        let id = |text: String| text.parse().map_err(|_| StoreError::BadRow("agent"));
        self.database.read(|connection| {
            rows(connection, CHAIN, params![agent.to_string()], |row| {
                let (agent, parent): (String, Option<String>) = (row.get(1)?, row.get(4)?);
                let last = row.get::<_, i64>(2)?.cast_unsigned();
                Ok(Lineage { agent: id(agent)?, parent: parent.map(id).transpose()?, last })
            })
        })
    }

    /// Returns the user messages that began turns in an agent's conversation, in order, including messages from before a
    /// summary. Only the first 1,000 characters of each message's first row are returned.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn messages_to(&self, agent: AgentId) -> Result<Vec<MessageRow>, StoreError> {
        self.database.read(|connection| {
            let _transaction = connection.unchecked_transaction()?;
            let mut query = connection.prepare_cached(&format!(
                "SELECT messages.seq, messages.agent, messages.kind, substr(messages.content, 1, {EXCERPT}), messages.data {MESSAGES}"
            ))?;
            let mut messages = Vec::new();
            for ConversationPart { session, agent, last, heir } in parts(connection, agent)?.iter().rev() {
                let mut rows = query.query(params![session, agent, last, heir])?;
                while let Some(row) = rows.next()? {
                    messages.push(messages::read(row)?);
                }
            }
            Ok(messages)
        })
    }

    /// Returns the rows of an agent's conversation, in order: the last summary, the rows after it, and the earlier
    /// rows that it keeps (`keep_from` and `requests_only` in its data). Dropped messages are left out. A forked agent
    /// begins with the rows of its parent up to its fork point; messages that the parent drops or summarises after the
    /// fork remain in the child's conversation.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn conversation(&self, agent: AgentId) -> Result<Vec<MessageRow>, StoreError> {
        self.database.read(|connection| {
            // All statements read the same state of the database.
            let _transaction = connection.unchecked_transaction()?;
            let parts = parts(connection, agent)?;
            let (first, whole) = first_rows(connection, &parts)?;
            let mut query = connection.prepare_cached(&format!("SELECT {} {ROWS}", columns()))?;
            let mut conversation = Vec::new();
            // The rows of an agent are later than its fork point.
            for ConversationPart { session, agent, last, heir } in parts.iter().rev() {
                let mut rows = query.query(params![agent, session, first, last, heir, whole])?;
                while let Some(row) = rows.next()? {
                    conversation.push(messages::read(row)?);
                }
            }
            Ok(conversation)
        })
    }

    /// Returns the rows that were added to an agent's conversation after row number `last`, the last row of an earlier
    /// [`Store::conversation`]. Returns `None` if a summary is among the new rows, because a summary removes earlier rows.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn conversation_since(
        &self,
        session: SessionId,
        agent: AgentId,
        last: u64,
    ) -> Result<Option<Vec<MessageRow>>, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached(&format!("SELECT {} {ROWS}", columns()))?;
            let from = last.saturating_add(1).cast_signed();
            let (agent, session) = (agent.to_string(), session.to_string());
            let mut rows = query.query(params![agent, session, from, i64::MAX, i64::MAX, 0])?;
            let mut added = Vec::new();
            while let Some(row) = rows.next()? {
                let row = messages::read(row)?;
                if row.kind == MessageKind::Compaction {
                    return Ok(None);
                }
                added.push(row);
            }
            Ok(Some(added))
        })
    }
}

#[cfg(test)]
mod tests;
