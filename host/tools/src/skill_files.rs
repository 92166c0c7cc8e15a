//! The files of skills, as a session's snapshot has them. `session` lists them, `agent` reads them for models, and
//! components read their own.

use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use patchbay_core::{Code, Digest, Name};
use patchbay_policy::Blocked;
use patchbay_skill::{FileSet, FileStorage, Skill};
use patchbay_store::{Store, StoreError};

use crate::{Tools, blocked};

/// Maximum number of bytes of files that stay in memory between reads.
const CACHED_BYTES: usize = 64 << 20;

/// The files of the skills that were read last.
pub(crate) struct SkillFilesCache {
    files: Mutex<LruCache<Digest, Arc<FileSet>>>,
}

impl Default for SkillFilesCache {
    fn default() -> Self {
        Self { files: Mutex::new(LruCache::unbounded()) }
    }
}

impl SkillFilesCache {
    fn get(&self, skill: &Digest) -> Option<Arc<FileSet>> {
        self.files.lock().get(skill).cloned()
    }

    fn insert(&self, skill: Digest, files: Arc<FileSet>) {
        let mut cached = self.files.lock();
        cached.push(skill, files);
        let mut bytes: usize = cached.iter().map(|(_, files)| files.bytes()).sum();
        while bytes > CACHED_BYTES && cached.len() > 1 {
            let Some((_, oldest)) = cached.pop_lru() else { break };
            bytes -= oldest.bytes();
        }
    }
}

/// Why the files of a skill cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SkillFilesError {
    /// The operator has blocked the skill or its component.
    #[error(transparent)]
    Blocked(#[from] Blocked),
    /// The snapshot was made by a build that did not store files, or the stored files are damaged.
    #[error("'{0}' was stored without its files. Run /reload_skills to read them.")]
    Missing(Name),
    /// The store could not be read or written.
    #[error("{0}.")]
    Store(#[from] StoreError),
}

impl SkillFilesError {
    /// Returns the stable code of this error.
    pub fn code(&self) -> Code {
        match self {
            Self::Blocked(_) => Code::Blocked,
            Self::Missing(_) => Code::SkillFilesMissing,
            Self::Store(error) => error.code(),
        }
    }
}

impl Tools {
    /// Returns the files of a skill of a snapshot. They come from the store, never from the
    /// folder that the skill was read from.
    ///
    /// # Errors
    /// Every failure is reported as [`SkillFilesError`].
    pub async fn skill_files(&self, skill: &Skill) -> Result<Arc<FileSet>, SkillFilesError> {
        if let Some(blocked) = blocked(&*self.store.rules().await?, skill) {
            return Err(blocked.into());
        }
        if let Some(files) = self.skill_files_cache.get(&skill.digest) {
            return Ok(files);
        }
        let missing = || SkillFilesError::Missing(skill.name.clone());
        let files = match (skill.files.ok_or_else(missing)?.place, skill.component) {
            (FileStorage::Pack, _) => read_pack(self.store.clone(), skill.digest).await?,
            (FileStorage::Component, Some(component)) => {
                let bytes = self.store.component(&component).await?;
                off_thread(move || FileSet::from_component(&bytes).ok()).await?
            }
            (FileStorage::Component | FileStorage::Nowhere, _) => Some(FileSet::default()),
        };
        let files = Arc::new(files.ok_or_else(missing)?);
        self.skill_files_cache.insert(skill.digest, Arc::clone(&files));
        Ok(files)
    }
}

/// Reads and checks a pack. A damaged one is deleted, and the next reload stores it again.
async fn read_pack(store: Store, skill: Digest) -> Result<Option<FileSet>, StoreError> {
    off_thread(move || {
        let Some(pack) = store.skill_pack(&skill)? else { return Ok(None) };
        let files = FileSet::from_pack(pack);
        if files.is_err() {
            tracing::warn!(%skill, "the stored files of a skill are damaged; the next reload stores them again");
            store.remove_skill_pack(&skill);
        }
        Ok(files.ok())
    })
    .await?
}

/// Runs `work` on a thread for blocking work, because it reads and hashes up to 32 MiB.
async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::BadRow("files of a skill"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(bytes: usize) -> Arc<FileSet> {
        let entry = format!(r#"[{{"path":"a","size":{bytes},"digest":"{}"}}]"#, Digest::of(&vec![0; bytes]));
        Arc::new(FileSet::from_pack([entry.as_bytes(), b"\n", &vec![0; bytes]].concat()).unwrap())
    }

    #[test]
    fn cache_is_bounded_by_bytes() {
        let cache = SkillFilesCache::default();
        let [a, b, c] = [&b"a"[..], b"b", b"c"].map(Digest::of);
        let half = CACHED_BYTES / 2;
        cache.insert(a, files(half));
        cache.insert(b, files(half));
        assert!(cache.get(&a).is_some() && cache.get(&b).is_some());
        assert!(cache.get(&a).is_some());
        cache.insert(c, files(1));
        assert!(cache.get(&b).is_none(), "the least recently used");
        assert!(cache.get(&a).is_some() && cache.get(&c).is_some());
    }
}
