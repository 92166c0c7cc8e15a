//! Partial answers, stored in pieces to limit the loss in a crash. A turn writes them and deletes them when it
//! commits the whole answer. A session that is resumed after a crash turns the remaining pieces into messages.

use patchbay_core::{AgentId, MessageKind, SessionId};
use rusqlite::{Connection, params};

use crate::{Hold, NewMessage, Store, StoreError, agents, messages};

/// The part of an answer that was received since the previous piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialPiece {
    /// The agent whose model answers.
    pub agent: AgentId,
    /// The piece's number in the answer, from 0. Piece 0 of a new answer deletes all pieces of an earlier answer.
    pub ordinal: u32,
    /// The piece, as JSON. The store does not parse it; see [`Store::recover`].
    pub piece: String,
}

impl PartialPiece {
    /// Returns a piece that only deletes the pieces of an earlier answer.
    pub fn nothing(agent: AgentId) -> Self {
        Self { agent, ordinal: 0, piece: String::new() }
    }
}

/// Joins the pieces of one answer, given in order, into the text and the data of its message; `None` if they cannot
/// be read.
pub type JoinPieces = fn(&[String]) -> Option<(String, serde_json::Value)>;

/// Deletes the pieces of an answer that is complete.
pub(crate) fn end(connection: &Connection, agent: AgentId) -> Result<(), StoreError> {
    connection.prepare_cached("DELETE FROM partial_pieces WHERE agent = ?")?.execute(params![agent.to_string()])?;
    Ok(())
}

/// Returns the agents of a session that have partial answers, in order.
fn answering(connection: &Connection, session: SessionId) -> Result<Vec<AgentId>, StoreError> {
    let mut query = connection.prepare_cached(
        "SELECT uuid FROM agents WHERE session = ? AND EXISTS (SELECT 1 FROM partial_pieces WHERE agent = uuid) ORDER BY uuid",
    )?;
    let agents = query.query_map(params![session.to_string()], |row| row.get::<_, String>(0))?;
    agents.map(|agent| agent?.parse().map_err(|_| StoreError::BadRow("partial answer"))).collect()
}

/// Returns the partial answers of `agents` as messages, in the order of the agents.
fn answers(connection: &Connection, agents: &[AgentId], join: JoinPieces) -> Result<Vec<NewMessage>, StoreError> {
    let mut query = connection.prepare_cached("SELECT piece FROM partial_pieces WHERE agent = ? ORDER BY ordinal")?;
    let mut answers = Vec::new();
    for agent in agents {
        let pieces = query.query_map(params![agent.to_string()], |row| row.get(0))?.collect::<Result<Vec<_>, _>>()?;
        if !pieces.is_empty() {
            let (content, data) = join(&pieces).ok_or(StoreError::BadRow("partial answer"))?;
            answers.push(NewMessage { agent: *agent, kind: MessageKind::Assistant, content, data: Some(data) });
        }
    }
    Ok(answers)
}

impl Store {
    /// Stores pieces of a session's partial answers in one transaction. Pieces of dead agents are ignored: the commit that
    /// killed the agent has stored its answer.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], or a database error. On an error, nothing is stored.
    pub async fn checkpoint(&self, hold: &Hold, pieces: Vec<PartialPiece>) -> Result<(), StoreError> {
        let (hold, source) = (hold.clone(), self.source.clone());
        self.database
            .write(move |connection| {
                hold.begin_write(connection, &source, 0, 0)?;
                let mut insert =
                    connection.prepare_cached("INSERT INTO partial_pieces (agent, ordinal, piece) VALUES (?, ?, ?)")?;
                for PartialPiece { agent, ordinal, piece } in pieces {
                    if agents::is_dead(connection, agent)? {
                        continue;
                    }
                    if ordinal == 0 {
                        end(connection, agent)?;
                    }
                    if piece.is_empty() {
                        continue;
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
        self.database.read(|connection| answers(connection, &answering(connection, session)?, join))
    }

    /// Like [`Store::partial_answers`], for `agents` only, without reading the pieces of other agents.
    ///
    /// # Errors
    /// The same as [`Store::partial_answers`].
    pub async fn partial_answers_of(
        &self,
        agents: &[AgentId],
        join: JoinPieces,
    ) -> Result<Vec<NewMessage>, StoreError> {
        self.database.read(|connection| answers(connection, agents, join))
    }

    /// Turns the partial answers of a process that died into messages.
    ///
    /// # Errors
    /// [`StoreError::Fenced`], [`StoreError::SessionNotFound`], a database error, or [`StoreError::BadRow`] for
    /// pieces that `join` cannot read.
    pub async fn recover(&self, hold: &Hold, join: JoinPieces) -> Result<(), StoreError> {
        let (hold, source) = (hold.clone(), self.source.clone());
        self.database
            .write(move |connection| {
                let recovered = answers(connection, &answering(connection, hold.session())?, join)?;
                for answer in &recovered {
                    end(connection, answer.agent)?;
                }
                let write = hold.begin_write(connection, &source, recovered.len(), 0)?;
                messages::append(connection, &write, recovered)?;
                Ok(())
            })
            .await
    }
}
