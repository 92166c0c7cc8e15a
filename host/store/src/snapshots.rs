//! Snapshots by content: sessions with the same skills share one row.

use patchbay_core::Digest;
use rusqlite::{Connection, OptionalExtension, params};

use crate::{HeldComponents, Store, StoreError};

/// A snapshot to be kept.
#[derive(Clone, Debug)]
pub struct NewSnapshot {
    /// Its digest.
    pub digest: Digest,
    /// All that it holds, as JSON.
    pub body: String,
    /// The components that its skills need.
    pub components: HeldComponents,
}

pub(crate) fn insert(connection: &Connection, snapshot: &NewSnapshot) -> Result<(), StoreError> {
    let digest = snapshot.digest.to_string();
    // The same digest is the same snapshot: nothing of it is to be written again.
    if connection.prepare_cached("SELECT 1 FROM snapshots WHERE digest = ?")?.exists(params![digest])? {
        return Ok(());
    }
    connection.execute("INSERT INTO snapshots (digest, body) VALUES (?, ?)", params![digest, snapshot.body])?;
    let mut insert =
        connection.prepare_cached("INSERT INTO snapshot_components (snapshot, component) VALUES (?, ?)")?;
    for component in &snapshot.components.digests {
        insert.execute(params![digest, component.to_string()])?;
    }
    Ok(())
}

impl Store {
    /// The body of a snapshot.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] where it is gone, which a session's row forbids; the database.
    pub fn snapshot(&self, digest: &Digest) -> Result<String, StoreError> {
        let body = self.database.read(|connection| {
            connection
                .prepare_cached("SELECT body FROM snapshots WHERE digest = ?")?
                .query_row(params![digest.to_string()], |row| row.get(0))
                .optional()
                .map_err(StoreError::from)
        })?;
        body.ok_or(StoreError::BadRow("snapshot"))
    }
}
