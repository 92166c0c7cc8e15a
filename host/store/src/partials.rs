//! Answers under way, kept in pieces so that a crash loses little of them. A turn writes them, and deletes them with the commit
//! of the whole answer; a session that is resumed after a crash makes messages of what is left.

use patchbay_core::{AgentId, MessageKind};
use rusqlite::{Connection, params};

use crate::{Hold, NewMessage, Store, StoreError, messages};

/// What was added to an answer under way since the piece before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialPiece {
    /// The agent that answers.
    pub agent: AgentId,
    /// Its number in the answer, from 0. The first piece of an answer replaces all pieces of an earlier one.
    pub ordinal: u32,
    /// The piece, as JSON. The store does not read it; see [`Store::recover`].
    pub piece: String,
}

/// Joins the pieces of one answer, which are in their order, into the text and the data of its message; `None` if they cannot
/// be read.
pub type JoinPieces = fn(&[String]) -> Option<(String, serde_json::Value)>;

/// Deletes the pieces of an answer that is no longer under way.
pub(crate) fn end(connection: &Connection, agent: AgentId) -> Result<(), StoreError> {
    connection.prepare_cached("DELETE FROM partial_pieces WHERE agent = ?")?.execute(params![agent.to_string()])?;
    Ok(())
}

impl Store {
    /// Keeps what was added to answers of the session in one write.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], or the database. Nothing is kept then.
    pub async fn checkpoint(&self, hold: &Hold, pieces: Vec<PartialPiece>) -> Result<(), StoreError> {
        let hold = hold.clone();
        self.database
            .write(move |connection| {
                hold.check(connection)?;
                let mut insert =
                    connection.prepare_cached("INSERT INTO partial_pieces (agent, ordinal, piece) VALUES (?, ?, ?)")?;
                for PartialPiece { agent, ordinal, piece } in pieces {
                    if ordinal == 0 {
                        end(connection, agent)?;
                    }
                    insert.execute(params![agent.to_string(), ordinal, piece])?;
                }
                Ok(())
            })
            .await
    }

    /// Makes messages of the answers that were under way when the process before died.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], the database, or [`StoreError::BadRow`] for pieces that `join`
    /// cannot read.
    pub async fn recover(&self, hold: &Hold, join: JoinPieces) -> Result<(), StoreError> {
        let hold = hold.clone();
        self.database
            .write(move |connection| {
                let mut query = connection.prepare(
                    "SELECT agent, piece FROM partial_pieces \
                     WHERE agent IN (SELECT uuid FROM agents WHERE session = ?) ORDER BY agent, ordinal",
                )?;
                let mut rows = query.query(params![hold.session().to_string()])?;
                let mut answers: Vec<(String, Vec<String>)> = Vec::new();
                while let Some(row) = rows.next()? {
                    let (agent, piece) = (row.get(0)?, row.get(1)?);
                    match answers.last_mut() {
                        Some((last, pieces)) if *last == agent => pieces.push(piece),
                        _ => answers.push((agent, vec![piece])),
                    }
                }
                let mut recovered = Vec::new();
                for (agent, pieces) in answers {
                    let agent = agent.parse().map_err(|_| StoreError::BadRow("partial answer"))?;
                    let (content, data) = join(&pieces).ok_or(StoreError::BadRow("partial answer"))?;
                    end(connection, agent)?;
                    recovered.push(NewMessage { agent, kind: MessageKind::Assistant, content, data: Some(data) });
                }
                let last = hold.advance(connection, recovered.len(), 0)?;
                messages::append(connection, hold.session(), last, recovered)?;
                Ok(())
            })
            .await
    }
}
