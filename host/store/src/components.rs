//! Components by content: files named by digest, and the tools that each component has declared.

use std::{collections::BTreeSet, fs::File, sync::Arc};

use patchbay_core::Digest;
use rusqlite::{OptionalExtension, params};

use crate::{
    Store, StoreError,
    content::{ContentFolder, StoredContent},
};

/// Components and skill files that a row is about to name. Garbage collection keeps them until this
/// value and its clones are dropped.
#[derive(Clone, Debug)]
pub struct RetainedComponents {
    folder: Arc<ContentFolder>,
    pub(crate) skill_files: Arc<ContentFolder>,
    pub(crate) digests: BTreeSet<Digest>,
    /// Shared lock that garbage collection waits for.
    _lock: Arc<File>,
}

impl RetainedComponents {
    /// Adds the component `digest` of `size` bytes if the store has it. Returns whether it does.
    pub fn add_stored(&mut self, digest: Digest, size: u64) -> bool {
        let has = self.folder.has(&digest, size);
        if has {
            self.digests.insert(digest);
        }
        has
    }

    /// Adds a component, and stores it if necessary. The digest is always computed from the bytes.
    ///
    /// # Errors
    /// An I/O error in the folder of components.
    pub fn add(&mut self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::of(bytes);
        self.folder.put(&digest, bytes)?;
        self.digests.insert(digest);
        Ok(digest)
    }
}

impl Store {
    /// Returns an empty set, to which the components of a snapshot are added. Waits while
    /// another process collects garbage.
    ///
    /// # Errors
    /// An I/O error in the folder of components.
    pub fn retain_components(&self) -> Result<RetainedComponents, StoreError> {
        let lock = self.components.lock(false)?;
        Ok(RetainedComponents {
            folder: Arc::clone(&self.components),
            skill_files: Arc::clone(&self.skill_files),
            digests: BTreeSet::new(),
            _lock: Arc::new(lock),
        })
    }

    /// Returns the bytes of a stored component.
    ///
    /// # Errors
    /// [`StoreError::ComponentMissing`], [`StoreError::ComponentDamaged`].
    pub async fn component(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        match self.components.get(digest)? {
            StoredContent::Whole(bytes) => Ok(bytes),
            StoredContent::Missing => Err(StoreError::ComponentMissing(*digest)),
            StoredContent::Damaged => Err(StoreError::ComponentDamaged(*digest)),
        }
    }

    /// Returns, for each of `components`, the answer stored by [`Store::keep_described`].
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn described(&self, components: &[Digest], world: &str) -> Result<Vec<Option<String>>, StoreError> {
        self.database.read(|connection| {
            let mut query =
                connection.prepare_cached("SELECT answer FROM described WHERE component = ? AND world = ?")?;
            let mut answer = |component: &Digest| {
                query.query_row(params![component.to_string(), world], |row| row.get(0)).optional()
            };
            Ok(components.iter().map(&mut answer).collect::<Result<_, _>>()?)
        })
    }

    /// Stores the tools that a component declared, as JSON.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn keep_described(
        &self,
        component: Digest,
        world: &'static str,
        answer: String,
    ) -> Result<(), StoreError> {
        self.database
            .write(move |connection| {
                connection
                    .prepare_cached("INSERT OR REPLACE INTO described (component, world, answer) VALUES (?, ?, ?)")?
                    .execute(params![component.to_string(), world, answer])?;
                Ok(())
            })
            .await
    }
}
