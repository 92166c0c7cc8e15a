//! Agents: the model and the conversation of each. Read by `agent` at each turn.

use patchbay_core::{AgentId, SessionId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{MessageRow, Store, StoreError, messages};

/// The model of an agent. All fields are `None` until one is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentModel {
    /// The provider's name.
    pub provider: Option<String>,
    /// The model's id.
    pub model: Option<String>,
    /// The thinking level, as a word.
    pub thinking_level: Option<String>,
    /// A temporary replacement of the model, as JSON.
    pub model_override: Option<String>,
}

pub(crate) fn set_model(connection: &Connection, agent: AgentId, model: &AgentModel) -> Result<(), StoreError> {
    let AgentModel { provider, model, thinking_level, model_override } = model;
    connection.execute(
        "UPDATE agents SET provider = ?, model = ?, thinking_level = ?, model_override = ? WHERE uuid = ?",
        params![provider, model, thinking_level, model_override, agent.to_string()],
    )?;
    Ok(())
}

impl Store {
    /// Returns the model of `agent`.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] if the agent does not exist, or a database error.
    pub async fn agent_model(&self, agent: AgentId) -> Result<AgentModel, StoreError> {
        self.database.read(|connection| {
            let mut query = connection
                .prepare_cached("SELECT provider, model, thinking_level, model_override FROM agents WHERE uuid = ?")?;
            let found = query.query_row(params![agent.to_string()], |row| {
                Ok(AgentModel {
                    provider: row.get(0)?,
                    model: row.get(1)?,
                    thinking_level: row.get(2)?,
                    model_override: row.get(3)?,
                })
            });
            found.optional()?.ok_or(StoreError::BadRow("agent"))
        })
    }

    /// Returns the rows of an agent's conversation, in order: the last compaction, the rows after it, and the earlier
    /// rows that it keeps (`keep_from` in its data). Dropped messages are left out.
    ///
    /// # Errors
    /// A database error.
    pub async fn conversation(&self, agent: AgentId) -> Result<Vec<MessageRow>, StoreError> {
        self.database.read(|connection| {
            let id = agent.to_string();
            let mut compaction = connection.prepare_cached(
                "SELECT coalesce(json_extract(data, '$.keep_from'), seq) FROM messages \
                 WHERE agent = ? AND kind = 'compaction' AND dropped = 0 ORDER BY seq DESC LIMIT 1",
            )?;
            let from: i64 = compaction.query_row(params![id], |row| row.get(0)).optional()?.unwrap_or(0);
            let mut query = connection.prepare_cached(
                "SELECT seq, agent, kind, content, data FROM messages \
                 WHERE agent = ? AND seq >= ? AND dropped = 0 \
                 AND kind IN ('user', 'skill', 'assistant', 'tool', 'compaction') ORDER BY seq",
            )?;
            let mut rows = query.query(params![id, from])?;
            let mut conversation = Vec::new();
            while let Some(row) = rows.next()? {
                conversation.push(messages::read(row)?);
            }
            Ok(conversation)
        })
    }

    /// Returns the number of tokens that models have used in `session`.
    ///
    /// # Errors
    /// [`StoreError::SessionNotFound`], or a database error.
    pub async fn tokens(&self, session: SessionId) -> Result<u64, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached("SELECT tokens FROM sessions WHERE id = ?")?;
            let tokens: Option<i64> = query.query_row(params![session.to_string()], |row| row.get(0)).optional()?;
            tokens.map(i64::cast_unsigned).ok_or(StoreError::SessionNotFound(session))
        })
    }
}
