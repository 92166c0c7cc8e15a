//! Components by content: files named by digest, and the tools that each component has declared.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Write,
    path::PathBuf,
    sync::Arc,
};

use patchbay_core::Digest;
use rusqlite::{OptionalExtension, params};

use crate::{Store, StoreError};

/// The folder of component files. A file never changes.
#[derive(Debug)]
pub(crate) struct ComponentFolder {
    folder: PathBuf,
}

impl ComponentFolder {
    pub(crate) fn open(folder: &std::path::Path) -> Result<Self, StoreError> {
        fs::create_dir_all(folder).map_err(StoreError::io(folder))?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(format!("{}.wasm", digest.to_hex()))
    }

    /// Locks the folder: shared by writers of files until the rows that name these files are committed; exclusive for
    /// garbage collection.
    pub(crate) fn lock(&self, exclusive: bool) -> Result<File, StoreError> {
        let path = self.folder.join("lock");
        let lock =
            File::options().create(true).truncate(false).write(true).open(&path).map_err(StoreError::io(&path))?;
        let locked = if exclusive { lock.lock() } else { lock.lock_shared() };
        locked.map_err(StoreError::io(&path))?;
        Ok(lock)
    }

    /// Returns whether the file exists with this size. The content is not read.
    fn has(&self, digest: &Digest, size: u64) -> bool {
        fs::metadata(self.path(digest)).is_ok_and(|file| file.len() == size)
    }

    /// Writes a file atomically: the name appears when all bytes are on disk.
    fn put(&self, digest: &Digest, bytes: &[u8]) -> Result<(), StoreError> {
        if self.has(digest, bytes.len() as u64) {
            return Ok(());
        }
        let path = self.path(digest);
        let mut file = tempfile::NamedTempFile::new_in(&self.folder).map_err(StoreError::io(&self.folder))?;
        file.write_all(bytes).map_err(StoreError::io(&path))?;
        file.as_file().sync_data().map_err(StoreError::io(&path))?;
        file.persist(&path).map_err(|error| StoreError::io(&path)(error.error))?;
        Ok(())
    }

    fn get(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let path = self.path(digest);
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => StoreError::ComponentMissing(*digest),
            _ => StoreError::io(&path)(error),
        })?;
        if Digest::of(&bytes) != *digest {
            // Deleted, so that a reload finds it missing and stores it again.
            let _ = fs::remove_file(&path);
            return Err(StoreError::ComponentDamaged(*digest));
        }
        Ok(bytes)
    }

    /// Deletes all components for which `keep` returns false. Returns their number and size in bytes.
    pub(crate) fn collect(&self, keep: impl Fn(&str) -> bool) -> Result<(usize, u64), StoreError> {
        let (mut count, mut bytes) = (0, 0);
        for entry in fs::read_dir(&self.folder).map_err(StoreError::io(&self.folder))? {
            let entry = entry.map_err(StoreError::io(&self.folder))?;
            let name = entry.file_name();
            let Some(hex) = name.to_str().and_then(|name| name.strip_suffix(".wasm")) else { continue };
            if !keep(&format!("sha256:{hex}")) {
                let path = entry.path();
                bytes += entry.metadata().map_or(0, |file| file.len());
                fs::remove_file(&path).map_err(StoreError::io(&path))?;
                count += 1;
            }
        }
        Ok((count, bytes))
    }
}

/// Components in the store that garbage collection keeps until this value and its clones are dropped, so that a row can
/// name them.
#[derive(Clone, Debug)]
pub struct RetainedComponents {
    folder: Arc<ComponentFolder>,
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

    /// Adds a component, and stores it if necessary. Computes the digest, so that no component is stored under a wrong
    /// one.
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
    /// Returns an empty set, to which the components of a snapshot are added. Waits while another process collects
    /// garbage.
    ///
    /// # Errors
    /// An I/O error in the folder of components.
    pub fn retain_components(&self) -> Result<RetainedComponents, StoreError> {
        let lock = self.components.lock(false)?;
        Ok(RetainedComponents { folder: Arc::clone(&self.components), digests: BTreeSet::new(), _lock: Arc::new(lock) })
    }

    /// Returns the bytes of a stored component.
    ///
    /// # Errors
    /// [`StoreError::ComponentMissing`], [`StoreError::ComponentDamaged`].
    pub async fn component(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        self.components.get(digest)
    }

    /// Returns, for each of `components`, the answer stored by [`Store::keep_described`].
    ///
    /// # Errors
    /// A database error.
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
    /// A database error.
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
