//! A number, in a separate file, that changes whenever any process commits a decision of the operator (grant, trust,
//! block). [`RulesCache`](crate::rules::RulesCache) is valid until the number changes. Reading it takes one system call.
//! Reading SQLite's own `data_version` takes as long as the query that it would save, and it changes with every journal row.
//!
//! The number is 0 while a decision is being committed, and a new number afterwards. A process that dies during the commit
//! leaves 0; then nothing is cached until the next decision.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use crate::{Source, StoreError};

const CHANGING: u64 = 0;

pub(crate) struct Generation {
    file: File,
    path: PathBuf,
    source: Source,
}

impl Generation {
    /// Opens the file, or creates it.
    pub(crate) fn open(path: &Path, source: Source) -> Result<Self, StoreError> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        let generation = Self { file: file.map_err(StoreError::io(path))?, path: path.to_owned(), source };
        if generation.file.metadata().map_err(StoreError::io(path))?.len() == 0 {
            generation.write(generation.unique())?;
        }
        Ok(generation)
    }

    /// Returns the current number; `None` while nothing may be cached.
    pub(crate) fn current(&self) -> Option<u64> {
        let mut number = [0; 8];
        self.file.read_exact_at(&mut number, 0).ok()?;
        Some(u64::from_le_bytes(number)).filter(|number| *number != CHANGING)
    }

    /// Called before a decision is committed.
    pub(crate) fn begin(&self) -> Result<(), StoreError> {
        self.write(CHANGING)
    }

    /// Called after the commit, before the caller of the write gets its result.
    pub(crate) fn end(&self) {
        if let Err(error) = self.write(self.unique()) {
            tracing::error!(
                "reading grants and blocks for each call, because the file that announces changes \
                cannot be written: {error}"
            );
        }
    }

    fn write(&self, number: u64) -> Result<(), StoreError> {
        self.file.write_all_at(&number.to_le_bytes(), 0).map_err(StoreError::io(&self.path))
    }

    /// Returns a random number, which no process has written before.
    fn unique(&self) -> u64 {
        let [.., a, b, c, d, e, f, g, h] = self.source.uuid();
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_change_the_generation() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("generation");
        let (ours, theirs) =
            (Generation::open(&path, Source::default()).unwrap(), Generation::open(&path, Source::default()).unwrap());
        let first = ours.current().unwrap();
        assert_eq!(theirs.current(), Some(first));
        theirs.begin().unwrap();
        assert_eq!(ours.current(), None);
        theirs.end();
        assert_ne!(ours.current().unwrap(), first);
        assert_eq!(ours.current(), theirs.current());
    }
}
