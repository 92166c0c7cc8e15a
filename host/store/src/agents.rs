//! Agents: which model each has, its conversation, and the answer that is under way.

use patchbay_core::{AgentId, MessageKind, SessionId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::{Hold, Message, NewMessage, Store, StoreError, messages};

/// Which model an agent works with. All empty: nobody chose one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentModel {
    /// The provider.
    pub provider: Option<String>,
    /// The model's id.
    pub model: Option<String>,
    /// The thinking level's word.
    pub thinking_level: Option<String>,
    /// What takes the place of the model for now, as JSON.
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

pub(crate) fn end_partial(connection: &Connection, agent: AgentId) -> Result<(), StoreError> {
    connection.prepare_cached("DELETE FROM partials WHERE agent = ?")?.execute(params![agent.to_string()])?;
    Ok(())
}

impl Store {
    /// The model of `agent`.
    ///
    /// # Errors
    /// The database; [`StoreError::BadRow`] where there is no such agent.
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

    /// The rows of an agent's conversation, in order: from the last compaction on, with what it keeps of the rows before
    /// (`keep_from` of its data).
    ///
    /// # Errors
    /// The database.
    pub async fn conversation(&self, agent: AgentId) -> Result<Vec<Message>, StoreError> {
        self.database.read(|connection| {
            let id = agent.to_string();
            let mut compaction = connection.prepare_cached(
                "SELECT coalesce(json_extract(data, '$.keep_from'), seq) FROM messages \
                 WHERE agent = ? AND kind = 'compaction' ORDER BY seq DESC LIMIT 1",
            )?;
            let from: i64 = compaction.query_row(params![id], |row| row.get(0)).optional()?.unwrap_or(0);
            let mut query = connection.prepare_cached(
                "SELECT seq, agent, kind, content, data FROM messages \
                 WHERE agent = ? AND seq >= ? AND kind IN ('user', 'skill', 'assistant', 'tool', 'compaction') ORDER BY seq",
            )?;
            let mut rows = query.query(params![id, from])?;
            let mut conversation = Vec::new();
            while let Some(row) = rows.next()? {
                conversation.push(messages::read(row)?);
            }
            Ok(conversation)
        })
    }

    /// Keeps what has come so far of the answer that `agent` is giving.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], or the database.
    pub async fn checkpoint(
        &self,
        hold: &Hold,
        agent: AgentId,
        content: String,
        data: serde_json::Value,
    ) -> Result<(), StoreError> {
        let hold = hold.clone();
        self.database
            .write(move |connection| {
                hold.check(connection)?;
                connection
                    .prepare_cached("INSERT OR REPLACE INTO partials (agent, content, data) VALUES (?, ?, ?)")?
                    .execute(params![agent.to_string(), content, data.to_string()])?;
                Ok(())
            })
            .await
    }

    /// Makes messages of the answers that were under way when the process before died.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], or the database.
    pub async fn recover(&self, hold: &Hold) -> Result<(), StoreError> {
        let hold = hold.clone();
        self.database
            .write(move |connection| {
                let session = hold.session();
                let mut query = connection.prepare(
                    "SELECT agent, content, data FROM partials WHERE agent IN (SELECT uuid FROM agents WHERE session = ?)",
                )?;
                let mut rows = query.query(params![session.to_string()])?;
                let mut recovered = Vec::new();
                while let Some(row) = rows.next()? {
                    let (agent, data): (String, String) = (row.get(0)?, row.get(2)?);
                    recovered.push(NewMessage {
                        agent: agent.parse().map_err(|_| StoreError::BadRow("partial"))?,
                        kind: MessageKind::Assistant,
                        content: row.get(1)?,
                        data: Some(serde_json::from_str(&data).map_err(|_| StoreError::BadRow("partial"))?),
                    });
                }
                for message in &recovered {
                    end_partial(connection, message.agent)?;
                }
                let last = hold.advance(connection, recovered.len(), 0)?;
                messages::append(connection, session, last, recovered)?;
                Ok(())
            })
            .await
    }

    /// Tokens that the models of `session` have taken so far.
    ///
    /// # Errors
    /// The database; [`StoreError::SessionNotFound`].
    pub async fn tokens(&self, session: SessionId) -> Result<u64, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached("SELECT tokens FROM sessions WHERE id = ?")?;
            let tokens: Option<i64> = query.query_row(params![session.to_string()], |row| row.get(0)).optional()?;
            tokens.map(i64::cast_unsigned).ok_or(StoreError::SessionNotFound(session))
        })
    }
}
