//! Snapshots by content: sessions with the same skills share one row. Written when a session is created or reloads its
//! skills.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use patchbay_core::Digest;
use rusqlite::{Connection, OptionalExtension, params};

use crate::{RetainedComponents, Store, StoreError, texts};

/// A snapshot that is to be stored.
#[derive(Clone, Debug)]
pub struct NewSnapshot {
    /// The digest of the snapshot.
    pub digest: Digest,
    /// The snapshot, encoded as JSON.
    pub body: String,
    /// The components that its skills need.
    pub components: RetainedComponents,
    /// The digests of the instructions of its skills.
    pub instructions: BTreeSet<Digest>,
    /// Instructions by digest, at least those that are not stored yet.
    pub texts: BTreeMap<Digest, Arc<str>>,
    /// Its skills by digest, each with the list of its files if it can be granted a capability.
    pub skills: BTreeMap<Digest, Option<Arc<str>>>,
}

impl NewSnapshot {
    /// Returns a snapshot with this content and without skills.
    pub fn empty(digest: Digest, body: String, components: RetainedComponents) -> Self {
        Self {
            digest,
            body,
            components,
            instructions: BTreeSet::new(),
            texts: BTreeMap::new(),
            skills: BTreeMap::new(),
        }
    }
}

pub(crate) fn insert(connection: &Connection, snapshot: &NewSnapshot) -> Result<(), StoreError> {
    let digest = snapshot.digest.to_string();
    // Snapshots with the same digest are equal.
    if connection.prepare_cached("SELECT 1 FROM snapshots WHERE digest = ?")?.exists(params![digest])? {
        return Ok(());
    }
    connection.execute("INSERT INTO snapshots (digest, body) VALUES (?, ?)", params![digest, snapshot.body])?;
    let mut insert =
        connection.prepare_cached("INSERT INTO snapshot_components (snapshot, component) VALUES (?, ?)")?;
    for component in &snapshot.components.digests {
        insert.execute(params![digest, component.to_string()])?;
    }
    for (text, body) in &snapshot.texts {
        texts::keep(connection, text, body)?;
    }
    let mut insert = connection.prepare_cached("INSERT INTO snapshot_texts (snapshot, text) VALUES (?, ?)")?;
    for text in &snapshot.instructions {
        insert.execute(params![digest, text.to_string()])?;
    }
    let mut insert = connection.prepare_cached("INSERT INTO snapshot_skills (snapshot, skill) VALUES (?, ?)")?;
    for (skill, files) in &snapshot.skills {
        insert.execute(params![digest, skill.to_string()])?;
        if let Some(files) = files {
            texts::keep_files(connection, &skill.to_string(), files)?;
        }
    }
    Ok(())
}

impl Store {
    /// Returns whether the snapshot and the texts that it needs are stored.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn has_snapshot(&self, digest: &Digest) -> Result<bool, StoreError> {
        self.database.read(|connection| {
            let mut query = connection.prepare_cached("SELECT 1 FROM snapshots WHERE digest = ?")?;
            Ok(query.exists(params![digest.to_string()])?)
        })
    }

    /// Returns the JSON of a snapshot.
    ///
    /// # Errors
    /// [`StoreError::BadRow`] if it does not exist, which foreign keys prevent for a session's
    /// snapshot; or a database error.
    pub async fn snapshot(&self, digest: &Digest) -> Result<String, StoreError> {
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
