//! Recordings of calls, each stored with its journal row if the operator has turned recording on. `tools` creates them, `recorded`
//! reads them, and the store does not interpret them.
//!
//! A call's result must not wait for its recording. The writer thread makes it while nothing else is due, and stores it after its
//! row, together with others ([`crate::queue`]). If the process is killed in between, the row has no recording.

use std::{
    fmt,
    panic::{self, AssertUnwindSafe},
};

use patchbay_core::{CallId, Digest, SessionId};
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
    /// Returns the size that counts towards the limits, in bytes.
    pub fn bytes(&self) -> usize {
        self.contents.iter().map(|(_, content)| content.len()).sum::<usize>().saturating_add(self.recording.len())
    }
}

/// A recording that the store's writer thread makes after it has written the row. Making it must be cheap, because all writes of the
/// process wait for that thread.
pub struct PendingRecording(Box<dyn FnOnce() -> Option<NewRecording> + Send>);

impl PendingRecording {
    /// Creates a recording that `make` will make; if `make` returns `None`, nothing is stored. If `make` panics, the panic is
    /// logged and the row has no recording. `make` must not own the store.
    pub fn new(make: impl FnOnce() -> Option<NewRecording> + Send + 'static) -> Self {
        Self(Box::new(make))
    }

    /// Makes the recording; `None` if there is none.
    pub fn make(self) -> Option<NewRecording> {
        // `make` is dropped with everything that it captured, so no half-changed state is visible after a panic.
        let made = panic::catch_unwind(AssertUnwindSafe(self.0));
        made.unwrap_or_else(|_| {
            tracing::error!("the recording of a call is lost: making it panicked");
            None
        })
    }
}

impl fmt::Debug for PendingRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingRecording").finish_non_exhaustive()
    }
}

/// The row of a recorded call. Its number alone does not identify it: if its commit failed, another row has the number.
#[derive(Clone, Copy)]
pub(crate) struct WrittenRow {
    pub(crate) id: i64,
    pub(crate) call: CallId,
    pub(crate) session: SessionId,
}

/// The recording of a row that is written.
pub(crate) struct LateRecording {
    row: WrittenRow,
    recording: LateState,
}

enum LateState {
    Pending(PendingRecording),
    Made(Option<NewRecording>),
}

impl LateRecording {
    pub(crate) fn new(row: WrittenRow, recording: PendingRecording) -> Self {
        Self { row, recording: LateState::Pending(recording) }
    }

    /// Takes the recording out if it has not been made yet.
    pub(crate) fn take_pending(&mut self) -> Option<PendingRecording> {
        match std::mem::replace(&mut self.recording, LateState::Made(None)) {
            LateState::Pending(pending) => Some(pending),
            LateState::Made(made) => {
                self.set(made);
                None
            }
        }
    }

    /// Sets what [`PendingRecording::make`] returned.
    pub(crate) fn set(&mut self, made: Option<NewRecording>) {
        self.recording = LateState::Made(made);
    }
}

/// Writes recordings that are made. One that cannot be written is logged and does not affect the others.
pub(crate) fn insert(connection: &Connection, late: Vec<LateRecording>) {
    for LateRecording { row, recording } in late {
        let LateState::Made(Some(recording)) = recording else { continue };
        if let Err(error) = insert_one(connection, row, &recording) {
            tracing::error!("the recording of a call is lost: {error}");
        }
    }
}

/// Stores a recording, unless its row or its session was removed.
fn insert_one(connection: &Connection, row: WrittenRow, recording: &NewRecording) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO recorded_calls (call_row, session, bytes, recording) SELECT id, ?3, ?4, ?5 FROM calls \
         WHERE id = ?1 AND call = ?2 AND EXISTS (SELECT 1 FROM sessions WHERE id = ?3)",
    )?;
    let bytes = i64::try_from(recording.bytes()).unwrap_or(i64::MAX);
    let WrittenRow { id, call, session } = row;
    let inserted = insert.execute(params![id, call.as_bytes(), session.to_string(), bytes, recording.recording])?;
    if inserted == 0 || recording.contents.is_empty() {
        return Ok(());
    }
    let mut name = connection
        .prepare_cached("INSERT INTO recorded_content_uses (call_row, digest) VALUES (?, ?) ON CONFLICT DO NOTHING")?;
    let mut add = connection
        .prepare_cached("INSERT INTO recorded_contents (digest, content) VALUES (?, ?) ON CONFLICT DO NOTHING")?;
    // A content without a use would never be deleted, so the use comes first.
    for (digest, content) in &recording.contents {
        name.execute(params![id, digest.as_bytes()])?;
        add.execute(params![digest.as_bytes(), content])?;
    }
    Ok(())
}

/// Deletes the recordings of a session.
pub(crate) fn remove(connection: &Connection, session: SessionId) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM recorded_calls WHERE session = ?")?.execute(params![session.to_string()])?;
    Ok(())
}
