//! The instructions of skills and the lists of their files, each stored once by its digest. Snapshots and grants refer to
//! them.

use std::collections::BTreeSet;

use patchbay_core::Digest;
use rusqlite::{Connection, OptionalExtension, params};

use crate::{Store, StoreError};

/// Stores a text by its digest.
pub(crate) fn keep(connection: &Connection, digest: &Digest, body: &str) -> rusqlite::Result<()> {
    let mut insert =
        connection.prepare_cached("INSERT INTO texts (digest, body) VALUES (?, ?) ON CONFLICT DO NOTHING")?;
    insert.execute(params![digest.to_string(), body])?;
    Ok(())
}

/// Stores the list of a skill's files by the skill's digest.
pub(crate) fn keep_files(connection: &Connection, skill: &str, files: &str) -> rusqlite::Result<()> {
    let insert = "INSERT INTO skill_files (skill, files) VALUES (?, ?) ON CONFLICT DO NOTHING";
    connection.prepare_cached(insert)?.execute(params![skill, files.as_bytes()])?;
    Ok(())
}

/// Deletes texts that no snapshot uses, and lists of files that neither a snapshot nor a grant uses.
pub(crate) fn collect(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM texts WHERE digest NOT IN (SELECT text FROM snapshot_texts)", [])?;
    connection.execute(
        "DELETE FROM skill_files WHERE skill NOT IN (SELECT skill FROM snapshot_skills) \
         AND skill NOT IN (SELECT skill_digest FROM grants)",
        [],
    )?;
    Ok(())
}

impl Store {
    /// Returns a stored text, such as the instructions of a skill.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] if it is missing or damaged, which cannot happen to a text of a stored
    /// snapshot; or a database error.
    pub async fn text(&self, digest: &Digest) -> Result<String, StoreError> {
        let body: Option<String> = self.database.read(|connection| {
            connection
                .prepare_cached("SELECT body FROM texts WHERE digest = ?")?
                .query_row(params![digest.to_string()], |row| row.get(0))
                .optional()
                .map_err(StoreError::from)
        })?;
        body.filter(|body| Digest::of(body.as_bytes()) == *digest).ok_or(StoreError::BadRow("text"))
    }

    /// Returns the subset of `digests` whose texts are not stored.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn missing_texts<'a>(
        &self,
        digests: impl IntoIterator<Item = &'a Digest>,
    ) -> Result<BTreeSet<Digest>, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached("SELECT 1 FROM texts WHERE digest = ?")?;
            let mut missing = BTreeSet::new();
            for digest in digests {
                if !query.exists(params![digest.to_string()])? {
                    missing.insert(*digest);
                }
            }
            Ok(missing)
        })
    }

    /// Returns the list of files of the skill with this digest, if it is stored.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn skill_files(&self, skill: &Digest) -> Result<Option<String>, StoreError> {
        let files: Option<Vec<u8>> = self.database.read(|connection| {
            connection
                .prepare_cached("SELECT files FROM skill_files WHERE skill = ?")?
                .query_row(params![skill.to_string()], |row| row.get(0))
                .optional()
                .map_err(StoreError::from)
        })?;
        files.map(|files| String::from_utf8(files).map_err(|_| StoreError::BadRow("skill's files"))).transpose()
    }
}
