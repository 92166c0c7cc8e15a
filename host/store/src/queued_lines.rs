//! Lines of a session that wait for their turn. `session` writes them when they are submitted during a turn, and reads them
//! when a session is resumed.

use patchbay_core::{AgentId, Attachment, LineId, SessionId};
use rusqlite::{Connection, params};

use crate::{Hold, RetainedAttachments, Store, StoreError, agents, attachments, database::rows};

/// A line that waits for its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueRow {
    /// The id of the line that waits.
    pub line: LineId,
    /// The agent that the line belongs to.
    pub agent: AgentId,
    /// The line's position among the waiting lines of its session; unique.
    pub position: i64,
    /// The line as it was typed.
    pub text: String,
    /// The files that are attached to it.
    pub attachments: Vec<Attachment>,
}

/// Deletes a waiting line, because its turn begins or the user took it back.
pub(crate) fn remove(connection: &Connection, session: SessionId, line: LineId) -> Result<(), StoreError> {
    connection
        .prepare_cached("DELETE FROM queued_lines WHERE session = ? AND line = ?")?
        .execute(params![session.to_string(), line.to_string()])?;
    Ok(())
}

/// Encodes attachments for the database; `None` without attachments.
fn to_json(attachments: &[Attachment]) -> Option<String> {
    // This cannot fail, because JSON can represent all values of attachments.
    if attachments.is_empty() { None } else { serde_json::to_string(attachments).ok() }
}

fn from_json(json: Option<String>) -> Result<Vec<Attachment>, StoreError> {
    json.map_or(Ok(Vec::new()), |json| serde_json::from_str(&json).map_err(|_| StoreError::BadRow("waiting line")))
}

impl Store {
    /// Adds a line to the waiting lines of a session; `retained` are the contents of its attachments.
    /// [`SessionChange::begins`](crate::SessionChange::begins) removes it.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], [`StoreError::AgentDead`] if the agent was killed
    /// meanwhile, or a database error.
    pub async fn queue_line(
        &self,
        hold: &Hold,
        row: QueueRow,
        retained: Option<RetainedAttachments>,
    ) -> Result<(), StoreError> {
        let (hold, source) = (hold.clone(), self.source.clone());
        let _held = retained.clone();
        self.database
            .write(move |connection| {
                hold.begin_write(connection, &source, 0, 0)?;
                let QueueRow { line, agent, position, text, attachments } = row;
                if agents::is_dead(connection, agent)? {
                    return Err(StoreError::AgentDead(agent));
                }
                if let Some(retained) = &retained {
                    attachments::name(connection, hold.session(), retained)?;
                }
                connection
                    .prepare_cached(
                        "INSERT INTO queued_lines (session, position, agent, line, content, attachments) \
                         VALUES (?, ?, ?, ?, ?, ?)",
                    )?
                    .execute(params![
                        hold.session().to_string(),
                        position,
                        agent.to_string(),
                        line.to_string(),
                        text,
                        to_json(&attachments),
                    ])?;
                Ok(())
            })
            .await
    }

    /// Removes a line from the waiting lines of a session, if it is among them.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], or a database error.
    pub async fn remove_queued_line(&self, hold: &Hold, line: LineId) -> Result<(), StoreError> {
        let (hold, source) = (hold.clone(), self.source.clone());
        self.database
            .write(move |connection| {
                hold.begin_write(connection, &source, 0, 0)?;
                remove(connection, hold.session(), line)
            })
            .await
    }

    /// Returns the waiting lines of a session, in their order.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn queued_lines(&self, session: SessionId) -> Result<Vec<QueueRow>, StoreError> {
        self.database.read(|connection| {
            let sql = "SELECT line, agent, position, content, attachments FROM queued_lines WHERE session = ? ORDER BY position";
            rows(connection, sql, params![session.to_string()], |row| {
                let (line, agent): (String, String) = (row.get(0)?, row.get(1)?);
                Ok(QueueRow {
                    line: line.parse().map_err(|_| StoreError::BadRow("waiting line"))?,
                    agent: agent.parse().map_err(|_| StoreError::BadRow("waiting line"))?,
                    position: row.get(2)?,
                    text: row.get(3)?,
                    attachments: from_json(row.get(4)?)?,
                })
            })
        })
    }
}

#[cfg(test)]
mod tests;
