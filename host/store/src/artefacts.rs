//! The digests of compiled components. They are kept in the database, separately from the files, to detect a
//! replaced file.

use patchbay_core::Digest;
use rusqlite::{OptionalExtension, params};

use crate::{Store, StoreError};

impl Store {
    /// Returns the digest of the artefact that the engine with this `fingerprint` compiled from `component`, if it is stored.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn artefact(&self, component: &Digest, fingerprint: &str) -> Result<Option<Digest>, StoreError> {
        let digest: Option<String> = self.database.read(|connection| {
            connection
                .prepare_cached("SELECT digest FROM artefacts WHERE component = ? AND fingerprint = ?")?
                .query_row(params![component.to_string(), fingerprint], |row| row.get(0))
                .optional()
                .map_err(StoreError::from)
        })?;
        digest.map(|digest| digest.parse().map_err(|_| StoreError::BadRow("artefact"))).transpose()
    }

    /// Stores the digest of an artefact.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn keep_artefact(
        &self,
        component: Digest,
        fingerprint: String,
        artefact: Digest,
    ) -> Result<(), StoreError> {
        self.database
            .write(move |connection| {
                connection
                    .prepare_cached(
                        "INSERT OR REPLACE INTO artefacts (component, fingerprint, digest) VALUES (?, ?, ?)",
                    )?
                    .execute(params![component.to_string(), fingerprint, artefact.to_string()])?;
                Ok(())
            })
            .await
    }
}
