//! Calls with effects, from their first effect until their result is committed, and results that wait until they become
//! rows. `tools` writes the calls, and `agent` writes the results; a resumed session reads the rows that a crash left behind.

use patchbay_core::{AgentId, Asker, CallId, MessageKind, SessionId};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::{
    Hold, JournalRow, MessageRow, NewMessage, PendingRecording, RetainedAttachments, Store, StoreError, agents,
    attachments,
    database::rows,
    journal::{self, BAD},
    messages::{self, columns},
};

/// A call that is about to have its first effect.
#[derive(Clone, Debug)]
pub struct OpenCall {
    /// The journal row of the call, as far as it is known.
    pub row: Box<JournalRow>,
    /// The agent that the call belongs to.
    pub agent: AgentId,
    /// The line that the user typed, if the call runs a command.
    pub line: Option<String>,
}

/// A call that ended: its row, and its recording if it is recorded.
#[derive(Debug)]
pub struct JournaledCall {
    /// The row to write to the journal.
    pub row: Box<JournalRow>,
    /// The recording to store with the row; `None` if the call is not recorded.
    pub recording: Option<PendingRecording>,
}

impl From<Box<JournalRow>> for JournaledCall {
    fn from(row: Box<JournalRow>) -> Self {
        Self { row, recording: None }
    }
}

impl From<JournalRow> for JournaledCall {
    fn from(row: JournalRow) -> Self {
        Box::new(row).into()
    }
}

/// A call that has begun an effect and whose result is not committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsettledCall {
    /// The id that identifies the call.
    pub id: CallId,
    /// The calling tool's call; `None` for an outermost call.
    pub parent: Option<CallId>,
    /// The caller of the outermost call.
    pub asker: Asker,
    /// The agent that the call belongs to.
    pub agent: AgentId,
    /// The tool's full name, including its skill or server.
    pub tool: String,
    /// The line that the user typed, if the call runs a command.
    pub line: Option<String>,
}

/// Selects the rows of an agent from its last answer on. A kill uses it to avoid reading the whole conversation.
const SINCE_ANSWER: &str = "FROM messages INDEXED BY messages_by_agent \
     WHERE agent = ?1 AND session = ?2 AND seq >= (SELECT seq FROM messages INDEXED BY messages_by_agent \
     WHERE agent = ?1 AND session = ?2 AND kind = 'assistant' ORDER BY seq DESC LIMIT 1) ORDER BY seq";

/// Selects the unsettled calls of a session. Without the index, SQLite would read the whole journal in the order of its rows.
const UNSETTLED: &str = "SELECT call, parent, asker, agent, root, skill, tool, line \
     FROM calls INDEXED BY calls_unsettled JOIN call_sites ON call_sites.id = site \
     WHERE unsettled = 1 AND session = ? ORDER BY calls.id";

impl Store {
    /// Commits that calls of a session are about to have their first effect, the outermost first. Calls that
    /// are already stored do not change.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], [`StoreError::AgentDead`] if the agent of a call was killed
    /// meanwhile, or a database error. On an error, the effect must not happen.
    pub async fn begin_calls(&self, hold: &Hold, calls: Vec<OpenCall>) -> Result<(), StoreError> {
        let (hold, source, settings) = (hold.clone(), self.source.clone(), self.journal_settings());
        let begin = move |connection: &Connection| {
            hold.begin_write(connection, &source, 0, 0)?;
            for call in &calls {
                if agents::is_dead(connection, call.agent)? {
                    return Err(StoreError::AgentDead(call.agent));
                }
            }
            Ok(journal::insert_open(connection, settings, calls)?)
        };
        self.database.write(begin).await
    }

    /// Queues the end of a call of [`Store::begin_calls`]: its row replaces the open row. Does not wait, not even for a
    /// permit; later writes are committed with it or after it. `begun` is true if the open row was committed. If the open
    /// row no longer exists then, another process has settled the call, and the new row is dropped.
    ///
    /// An outermost call stays unsettled until [`SessionChange::settles`](crate::SessionChange) names it.
    pub fn end_call(&self, call: impl Into<JournaledCall>, begun: bool) {
        let call = call.into();
        self.counts.call_ended(call.row.outcome());
        let settings = self.journal_settings();
        self.database.replace_row_now(move |connection| journal::replace_open(connection, settings, call, begun));
    }

    /// Stores the result of a call that ended before an earlier call of the same answer. The commit whose
    /// [`SessionChange::settles`](crate::SessionChange) names the call deletes it. If the agent was killed, nothing is
    /// stored, because the kill has written rows for its calls. `retained` are the contents that the result names.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], or a database error.
    pub async fn keep_result(
        &self,
        hold: &Hold,
        call: CallId,
        result: NewMessage,
        retained: Option<RetainedAttachments>,
    ) -> Result<(), StoreError> {
        let (hold, source) = (hold.clone(), self.source.clone());
        self.database
            .write(move |connection| {
                hold.begin_write(connection, &source, 0, 0)?;
                let NewMessage { agent, content, data, .. } = result;
                if agents::is_dead(connection, agent)? {
                    return Ok(());
                }
                if let Some(retained) = &retained {
                    attachments::name(connection, hold.session(), retained)?;
                }
                let data = data.unwrap_or_default().to_string();
                connection
                    .prepare_cached("INSERT INTO early_results (call, agent, content, data) VALUES (?, ?, ?, ?)")?
                    .execute(params![call.as_bytes(), agent.to_string(), content, data])?;
                Ok(())
            })
            .await
    }

    /// Returns the result that [`Store::keep_result`] has stored for a call, if any.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn kept_result(&self, call: CallId) -> Result<Option<NewMessage>, StoreError> {
        self.database.read(|connection| {
            let mut query =
                connection.prepare_cached("SELECT agent, content, data FROM early_results WHERE call = ?")?;
            let found: Option<(String, String, String)> = query
                .query_row(params![call.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .optional()?;
            let Some((agent, content, data)) = found else { return Ok(None) };
            let bad = || StoreError::BadRow("result of a call");
            Ok(Some(NewMessage {
                agent: agent.parse().map_err(|_| bad())?,
                kind: MessageKind::Tool,
                content,
                data: Some(serde_json::from_str(&data).map_err(|_| bad())?),
            }))
        })
    }

    /// Returns the rows of each agent from its last answer on, in the order of `agents`.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn rows_since_answers(
        &self,
        session: SessionId,
        agents: &[AgentId],
    ) -> Result<Vec<Vec<MessageRow>>, StoreError> {
        let session = session.to_string();
        self.database.read(|connection| {
            let mut query = connection.prepare_cached(&format!("SELECT {} {SINCE_ANSWER}", columns()))?;
            let mut found = Vec::with_capacity(agents.len());
            for agent in agents {
                let mut rows = query.query(params![agent.to_string(), session])?;
                let mut since = Vec::new();
                while let Some(row) = rows.next()? {
                    since.push(messages::read(row)?);
                }
                found.push(since);
            }
            Ok(found)
        })
    }

    /// Returns the unsettled calls of a session, in the order in which they began.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn unsettled_calls(&self, session: SessionId) -> Result<Vec<UnsettledCall>, StoreError> {
        self.database.read(|connection| {
            rows(connection, UNSETTLED, params![session.to_string()], |row| {
                let (root, skill, tool): (String, String, String) = (row.get(4)?, row.get(5)?, row.get(6)?);
                Ok(UnsettledCall {
                    id: journal::bytes(row, 0)?.map(CallId::from_bytes).ok_or(BAD)?,
                    parent: journal::bytes(row, 1)?.map(CallId::from_bytes),
                    asker: journal::parse(row, 2)?,
                    agent: journal::parse(row, 3)?,
                    tool: if root == "internal" { tool } else { format!("{skill}__{tool}") },
                    line: row.get(7)?,
                })
            })
        })
    }
}

/// Settles a call. If it has no outcome, it gets `outcome_unknown`. Its stored line and kept result are deleted.
pub(crate) fn settle(connection: &Connection, call: CallId) -> rusqlite::Result<()> {
    let mut settle = connection.prepare_cached(
        "UPDATE calls SET outcome = coalesce(outcome, 'outcome_unknown'), unsettled = NULL, agent = NULL, line = NULL \
         WHERE call = ? AND unsettled = 1",
    )?;
    settle.execute(params![call.as_bytes()])?;
    connection.prepare_cached("DELETE FROM early_results WHERE call = ?")?.execute(params![call.as_bytes()])?;
    Ok(())
}

/// Checks that no call of `agent` has begun an effect without a committed result.
///
/// # Errors
/// [`StoreError::CallBegan`], or a database error.
pub(crate) fn require_settled(connection: &Connection, agent: AgentId) -> Result<(), StoreError> {
    let mut unsettled = connection
        .prepare_cached("SELECT 1 FROM calls INDEXED BY calls_unsettled WHERE unsettled = 1 AND agent = ? LIMIT 1")?;
    match unsettled.exists(params![agent.to_string()])? {
        true => Err(StoreError::CallBegan(agent)),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;
