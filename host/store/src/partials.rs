//! Partial answers, stored in pieces so that a crash loses little. A turn writes them and deletes them when it commits
//! the whole answer. A session that is resumed after a crash turns the remaining pieces into messages.

use patchbay_core::{AgentId, MessageKind, SessionId};
use rusqlite::{Connection, params};

use crate::{Hold, NewMessage, Store, StoreError, agents, messages};

/// The part of an answer that was received since the previous piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialPiece {
    /// The agent that answers.
    pub agent: AgentId,
    /// The piece's number in the answer, from 0. Piece 0 of a new answer deletes all pieces of an earlier one.
    pub ordinal: u32,
    /// The piece, as JSON. The store does not read it; see [`Store::recover`].
    pub piece: String,
}

/// Joins the pieces of one answer, which are in their order, into the text and the data of its message; `None` if they cannot
/// be read.
pub type JoinPieces = fn(&[String]) -> Option<(String, serde_json::Value)>;

/// Deletes the pieces of an answer that is complete.
pub(crate) fn end(connection: &Connection, agent: AgentId) -> Result<(), StoreError> {
    connection.prepare_cached("DELETE FROM partial_pieces WHERE agent = ?")?.execute(params![agent.to_string()])?;
    Ok(())
}

/// Returns the partial answers of a session as messages, in the order of their agents.
fn answers(connection: &Connection, session: SessionId, join: JoinPieces) -> Result<Vec<NewMessage>, StoreError> {
    let mut query = connection.prepare(
        "SELECT agent, piece FROM partial_pieces \
         WHERE agent IN (SELECT uuid FROM agents WHERE session = ?) ORDER BY agent, ordinal",
    )?;
    let mut rows = query.query(params![session.to_string()])?;
    let mut answers: Vec<(String, Vec<String>)> = Vec::new();
    while let Some(row) = rows.next()? {
        let (agent, piece) = (row.get(0)?, row.get(1)?);
        match answers.last_mut() {
            Some((last, pieces)) if *last == agent => pieces.push(piece),
            _ => answers.push((agent, vec![piece])),
        }
    }
    let message = |(agent, pieces): (String, Vec<String>)| {
        let agent = agent.parse().map_err(|_| StoreError::BadRow("partial answer"))?;
        let (content, data) = join(&pieces).ok_or(StoreError::BadRow("partial answer"))?;
        Ok(NewMessage { agent, kind: MessageKind::Assistant, content, data: Some(data) })
    };
    answers.into_iter().map(message).collect()
}

impl Store {
    /// Stores pieces of a session's partial answers in one transaction. Pieces of dead agents are ignored: the commit that
    /// killed the agent has stored its answer.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], or a database error. Nothing is stored then.
    pub async fn checkpoint(&self, hold: &Hold, pieces: Vec<PartialPiece>) -> Result<(), StoreError> {
        let hold = hold.clone();
        self.database
            .write(move |connection| {
                hold.check(connection)?;
                let mut insert =
                    connection.prepare_cached("INSERT INTO partial_pieces (agent, ordinal, piece) VALUES (?, ?, ?)")?;
                for PartialPiece { agent, ordinal, piece } in pieces {
                    if agents::is_dead(connection, agent)? {
                        continue;
                    }
                    if ordinal == 0 {
                        end(connection, agent)?;
                    }
                    insert.execute(params![agent.to_string(), ordinal, piece])?;
                }
                Ok(())
            })
            .await
    }

    /// Returns the messages that [`Store::recover`] would append, without changing anything.
    ///
    /// # Errors
    /// A database error, or [`StoreError::BadRow`] for pieces that `join` cannot read.
    pub async fn partial_answers(&self, session: SessionId, join: JoinPieces) -> Result<Vec<NewMessage>, StoreError> {
        self.database.read(|connection| answers(connection, session, join))
    }

    /// Turns the partial answers of a process that died into messages.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], a database error, or [`StoreError::BadRow`] for pieces
    /// that `join` cannot read.
    pub async fn recover(&self, hold: &Hold, join: JoinPieces) -> Result<(), StoreError> {
        let hold = hold.clone();
        self.database
            .write(move |connection| {
                let recovered = answers(connection, hold.session(), join)?;
                for answer in &recovered {
                    end(connection, answer.agent)?;
                }
                let last = hold.advance(connection, recovered.len(), 0)?;
                messages::append(connection, hold.session(), last, recovered)?;
                Ok(())
            })
            .await
    }
}
