//! Files named by digest, outside of the database: large content would hold up the database's only writer, and a
//! database file does not shrink when rows are deleted. Used by `components`, `attachments` and `skill_files`. A file's
//! name is the digest of its content, except for skill files.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use patchbay_core::Digest;

use crate::StoreError;

/// A folder of files. A file never changes.
#[derive(Debug)]
pub(crate) struct ContentFolder {
    folder: PathBuf,
    /// The extension of the file names, with its dot.
    extension: &'static str,
}

pub(crate) enum StoredContent {
    Whole(Vec<u8>),
    Missing,
    /// The bytes did not match the digest. The file was deleted.
    Damaged,
}

impl ContentFolder {
    pub(crate) fn open(folder: &Path, extension: &'static str) -> Result<Self, StoreError> {
        fs::create_dir_all(folder).map_err(StoreError::io(folder))?;
        Ok(Self { folder: folder.to_owned(), extension })
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(format!("{}{}", digest.to_hex(), self.extension))
    }

    /// Locks the folder: shared by writers of files until the rows that name these files are committed;
    /// exclusive for garbage collection.
    pub(crate) fn lock(&self, exclusive: bool) -> Result<File, StoreError> {
        let path = self.folder.join("lock");
        let lock =
            File::options().create(true).truncate(false).write(true).open(&path).map_err(StoreError::io(&path))?;
        let locked = if exclusive { lock.lock() } else { lock.lock_shared() };
        locked.map_err(StoreError::io(&path))?;
        Ok(lock)
    }

    /// Returns whether the file exists with this size. The content is not read.
    pub(crate) fn has(&self, digest: &Digest, size: u64) -> bool {
        fs::metadata(self.path(digest)).is_ok_and(|file| file.len() == size)
    }

    /// Writes a file atomically: it gets its name when all bytes are on disk.
    pub(crate) fn put(&self, digest: &Digest, bytes: &[u8]) -> Result<(), StoreError> {
        if self.has(digest, bytes.len() as u64) {
            return Ok(());
        }
        self.write(digest, bytes, true)
    }

    /// Returns whether the file exists and is not empty.
    pub(crate) fn exists(&self, digest: &Digest) -> bool {
        fs::metadata(self.path(digest)).is_ok_and(|file| file.len() > 0)
    }

    /// Like [`Self::put`], but does not wait until the bytes are on disk: after a power failure, the
    /// file can be missing or damaged.
    pub(crate) fn put_unsynced(&self, digest: &Digest, bytes: &[u8]) -> Result<(), StoreError> {
        self.write(digest, bytes, false)
    }

    fn write(&self, digest: &Digest, bytes: &[u8], sync: bool) -> Result<(), StoreError> {
        let path = self.path(digest);
        let mut file = tempfile::NamedTempFile::new_in(&self.folder).map_err(StoreError::io(&self.folder))?;
        file.write_all(bytes).map_err(StoreError::io(&path))?;
        if sync {
            file.as_file().sync_data().map_err(StoreError::io(&path))?;
        }
        file.persist(&path).map_err(|error| StoreError::io(&path)(error.error))?;
        Ok(())
    }

    /// Reads a file without checking its digest. `None` if it is missing.
    pub(crate) fn read(&self, digest: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.path(digest);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io(&path)(error)),
        }
    }

    /// Deletes a damaged file, which lets it be stored again.
    pub(crate) fn remove(&self, digest: &Digest) {
        let _ = fs::remove_file(self.path(digest));
    }

    /// Reads a file and checks its digest.
    pub(crate) fn get(&self, digest: &Digest) -> Result<StoredContent, StoreError> {
        let Some(bytes) = self.read(digest)? else { return Ok(StoredContent::Missing) };
        if Digest::of(&bytes) != *digest {
            self.remove(digest);
            return Ok(StoredContent::Damaged);
        }
        Ok(StoredContent::Whole(bytes))
    }

    /// Returns the folder's name.
    pub(crate) fn name(&self) -> &OsStr {
        self.folder.file_name().unwrap_or_default()
    }

    /// Returns the paths of all files, except unfinished files.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, StoreError> {
        let entries = fs::read_dir(&self.folder).map_err(StoreError::io(&self.folder))?;
        let paths: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
        let mut paths = paths.map_err(StoreError::io(&self.folder))?;
        let is_whole = |path: &PathBuf| {
            path.file_name().and_then(OsStr::to_str).is_some_and(|name| name.ends_with(self.extension))
        };
        paths.retain(is_whole);
        Ok(paths)
    }

    /// Deletes all files for which `keep` returns false. Returns their number and size in bytes.
    pub(crate) fn collect(&self, keep: impl Fn(&str) -> bool) -> Result<(usize, u64), StoreError> {
        let (mut count, mut bytes) = (0, 0);
        for path in self.files()? {
            let Some(hex) = path.file_stem().and_then(OsStr::to_str) else { continue };
            if !keep(&format!("sha256:{hex}")) {
                bytes += fs::symlink_metadata(&path).map_or(0, |file| file.len());
                fs::remove_file(&path).map_err(StoreError::io(&path))?;
                count += 1;
            }
        }
        Ok((count, bytes))
    }
}
