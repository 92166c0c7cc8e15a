//! Recordings of calls, each stored with its journal row if the operator has turned recording on. `tools` creates them, `recorded`
//! reads them, and the store does not interpret them.
//!
//! A recording is made on the writer thread, mostly while its row waits for a commit ([`crate::queue`]), because the call's
//! result must not wait for it.

use std::{
    fmt,
    panic::{self, AssertUnwindSafe},
};

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
    /// Returns the size that counts towards the limits, in bytes.
    pub fn bytes(&self) -> usize {
        self.contents.iter().map(|(_, content)| content.len()).sum::<usize>().saturating_add(self.recording.len())
    }
}

/// A recording that the store's writer thread makes before it writes the row. Making it must be cheap, because all writes of the
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

/// The recording of a queued row.
#[derive(Debug)]
pub(crate) enum QueuedRecording {
    Pending(PendingRecording),
    Made(Option<NewRecording>),
}

impl QueuedRecording {
    pub(crate) fn new(recording: Option<PendingRecording>) -> Self {
        recording.map_or(Self::Made(None), Self::Pending)
    }

    /// Takes the recording out if it has not been made yet.
    pub(crate) fn take_pending(&mut self) -> Option<PendingRecording> {
        match std::mem::replace(self, Self::Made(None)) {
            Self::Pending(pending) => Some(pending),
            made @ Self::Made(_) => {
                *self = made;
                None
            }
        }
    }

    /// Returns the recording, and makes it if that has not happened yet.
    pub(crate) fn made(self) -> Option<NewRecording> {
        match self {
            Self::Pending(pending) => pending.make(),
            Self::Made(recording) => recording,
        }
    }
}

/// Stores the recording of the call with the journal row `row`.
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
    if recording.contents.is_empty() {
        return Ok(());
    }
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
