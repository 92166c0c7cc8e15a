//! Recordings of calls, each stored with its row of the journal if the operator turned recording on. `tools` makes them, and the
//! store does not interpret them; `recorded` reads them.

use patchbay_core::{Digest, SessionId};
use rusqlite::{Connection, params};

/// A recording of a call, to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRecording {
    /// The recording, encoded as JSON.
    pub recording: String,
    /// The contents that it names by digest.
    pub contents: Vec<(Digest, Vec<u8>)>,
}

impl NewRecording {
    /// Returns the bytes that count for the limits.
    pub fn bytes(&self) -> usize {
        self.contents.iter().map(|(_, content)| content.len()).sum::<usize>().saturating_add(self.recording.len())
    }
}

/// Writes the recording of the call whose row of the journal is `row`.
pub(crate) fn insert(
    connection: &Connection,
    row: i64,
    session: SessionId,
    recording: &NewRecording,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO recorded_calls (call_row, session, bytes, recording) VALUES (?, ?, ?, ?)")?
        .execute(params![
            row,
            session.to_string(),
            i64::try_from(recording.bytes()).unwrap_or(i64::MAX),
            recording.recording
        ])?;
    let mut name = connection
        .prepare_cached("INSERT INTO recorded_content_uses (call_row, digest) VALUES (?, ?) ON CONFLICT DO NOTHING")?;
    let mut add = connection
        .prepare_cached("INSERT INTO recorded_contents (digest, content) VALUES (?, ?) ON CONFLICT DO NOTHING")?;
    // A content without a use would never be deleted, so the use comes first.
    for (digest, content) in &recording.contents {
        name.execute(params![row, digest.as_bytes()])?;
        add.execute(params![digest.as_bytes(), content])?;
    }
    Ok(())
}

/// Deletes the recordings of a session.
pub(crate) fn remove(connection: &Connection, session: SessionId) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM recorded_calls WHERE session = ?")?.execute(params![session.to_string()])?;
    Ok(())
}

/// Deletes the recordings of sessions that were removed while a call ran.
pub(crate) fn collect(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM recorded_calls WHERE session NOT IN (SELECT id FROM sessions)", [])?;
    Ok(())
}
