//! Turns of agents, stored as rows to know about waiting and running turns after a crash. Written through
//! [`Store::commit`](crate::Store::commit); read by `session` when it resumes.

use patchbay_core::{AgentId, Code, SessionId, TurnCause, TurnState};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::{MessageRow, Store, StoreError, database::rows};

/// A stored turn of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnRow {
    /// The number of its first row. It identifies the turn in its session.
    pub began: u64,
    /// The agent whose turn it is.
    pub agent: AgentId,
    /// The cause that began the turn.
    pub cause: TurnCause,
    /// The current state of the turn.
    pub state: TurnState,
}

/// A turn that begins, or that runs again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTurn {
    /// The agent whose turn it is.
    pub agent: AgentId,
    /// The cause that begins the turn.
    pub cause: TurnCause,
    /// The current state of the turn.
    pub state: TurnState,
    /// The first row of an earlier turn that runs again; its stored state is replaced. `None` for a new turn, which begins
    /// with the agent's first row in this change.
    pub began: Option<u64>,
}

/// The end of a turn that was open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedTurn {
    /// The agent whose turn it is.
    pub agent: AgentId,
    /// The number of its first row.
    pub began: u64,
    /// The state that the turn ends in.
    pub state: TurnState,
    /// How it ended; `None` if it ended normally.
    pub code: Option<Code>,
}

const BAD: StoreError = StoreError::BadRow("turn");

/// Stores turns that begin. `written` are the rows of the same change.
pub(crate) fn begin(
    connection: &Connection,
    session: SessionId,
    turns: &[NewTurn],
    written: &[MessageRow],
) -> Result<(), StoreError> {
    for NewTurn { agent, cause, state, began } in turns {
        let first = || written.iter().find(|row| row.agent == *agent).map(|row| row.seq);
        let began = began.or_else(first).ok_or(BAD)?;
        let stored = connection
            .prepare_cached(
                "INSERT INTO turns (session, began, agent, cause, state) VALUES (?, ?, ?, ?, ?) \
                 ON CONFLICT (session, began) DO UPDATE SET cause = excluded.cause, state = excluded.state, code = NULL \
                 WHERE agent = excluded.agent",
            )?
            .execute(params![
                session.to_string(),
                began.cast_signed(),
                agent.to_string(),
                cause.as_str(),
                state.as_str()
            ])?;
        if stored == 0 {
            return Err(BAD);
        }
    }
    Ok(())
}

/// Ends turns. A turn that has ended already, or that is not stored, does not change.
pub(crate) fn end(connection: &Connection, session: SessionId, turns: &[EndedTurn]) -> Result<(), StoreError> {
    for EndedTurn { agent, began, state, code } in turns {
        connection
            .prepare_cached(
                "UPDATE turns SET state = ?, code = ? \
                 WHERE session = ? AND began = ? AND agent = ? AND state IN ('waiting', 'running')",
            )?
            .execute(params![
                state.as_str(),
                code.map(Code::as_str),
                session.to_string(),
                began.cast_signed(),
                agent.to_string()
            ])?;
    }
    Ok(())
}

/// Returns the number of the first row of an agent's open turn; `None` if it has none.
pub(crate) fn open_turn(
    connection: &Connection,
    session: SessionId,
    agent: AgentId,
) -> Result<Option<i64>, StoreError> {
    let mut query = connection.prepare_cached(
        "SELECT min(began) FROM turns INDEXED BY turns_open \
         WHERE session = ? AND agent = ? AND state IN ('waiting', 'running')",
    )?;
    Ok(query.query_row(params![session.to_string(), agent.to_string()], |row| row.get(0))?)
}

const COLUMNS: &str = "began, agent, cause, state";

fn read(row: &Row<'_>) -> Result<TurnRow, StoreError> {
    let (agent, cause, state): (String, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
    Ok(TurnRow {
        began: row.get::<_, i64>(0)?.cast_unsigned(),
        agent: agent.parse().map_err(|_| BAD)?,
        cause: TurnCause::from_word(&cause).ok_or(BAD)?,
        state: TurnState::from_word(&state).ok_or(BAD)?,
    })
}

impl Store {
    /// Returns the turns of a session that wait or run, in the order of their first rows.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn open_turns(&self, session: SessionId) -> Result<Vec<TurnRow>, StoreError> {
        self.database.read(|connection| {
            // Without the index, SQLite would read all turns of the session.
            let sql = format!(
                "SELECT {COLUMNS} FROM turns INDEXED BY turns_open \
                 WHERE session = ? AND state IN ('waiting', 'running') ORDER BY began"
            );
            rows(connection, &sql, params![session.to_string()], read)
        })
    }

    /// Returns the turn whose first row is number `began`, and how it ended; `None` if no turn began there.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] or a database error.
    pub async fn turn(&self, session: SessionId, began: u64) -> Result<Option<(TurnRow, Option<Code>)>, StoreError> {
        self.database.read(|connection| {
            let mut query = connection
                .prepare_cached(&format!("SELECT {COLUMNS}, code FROM turns WHERE session = ? AND began = ?"))?;
            let began = i64::try_from(began).unwrap_or(i64::MAX);
            let found = query
                .query_row(params![session.to_string(), began], |row| Ok((read(row), row.get::<_, Option<String>>(4)?)))
                .optional()?;
            let Some((turn, code)) = found else { return Ok(None) };
            let code = match code {
                Some(word) => Some(Code::from_word(&word).ok_or(BAD)?),
                None => None,
            };
            Ok(Some((turn?, code)))
        })
    }
}

#[cfg(test)]
mod tests;
