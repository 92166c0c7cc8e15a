//! The contents of skill files: one pack for each skill, by the skill's digest. `session` stores the packs of a
//! snapshot, and `tools` reads them. The crate `skill` defines the format of a pack and checks its contents.
//!
//! Packs are not synced to disk: for a thousand skills that would take ten seconds. A pack that a power failure damaged is
//! detected by its digests, deleted, and stored again by the next reload. A crash of the process cannot damage a pack.

use patchbay_core::Digest;

use crate::{RetainedComponents, Store, StoreError};

impl RetainedComponents {
    /// Returns whether the store has the files of the skill with this digest. Garbage collection
    /// keeps them while this value exists.
    pub fn has_skill_files(&self, skill: &Digest) -> bool {
        self.skill_files.exists(skill)
    }

    /// Stores the files of the skill with this digest.
    ///
    /// # Errors
    /// An I/O error in the folder of skill files.
    pub fn add_skill_files(&self, skill: &Digest, pack: &[u8]) -> Result<(), StoreError> {
        self.skill_files.put_unsynced(skill, pack)
    }
}

impl Store {
    /// Returns the pack of the skill with this digest, unchecked; `None` if the store does not have it. Blocks.
    ///
    /// # Errors
    /// An I/O error in the folder of skill files.
    pub fn skill_pack(&self, skill: &Digest) -> Result<Option<Vec<u8>>, StoreError> {
        self.skill_files.read(skill)
    }

    /// Deletes a pack that is damaged.
    pub fn remove_skill_pack(&self, skill: &Digest) {
        self.skill_files.remove(skill);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        NewSnapshot, SessionChange,
        testing::{TestTree, new_store},
    };

    /// Stores the pack of a skill, and returns a snapshot with this skill.
    fn snapshot(store: &Store, skill: &str) -> NewSnapshot {
        let digest = Digest::of(skill.as_bytes());
        let retained = store.retain_components().unwrap();
        assert!(!retained.has_skill_files(&digest));
        retained.add_skill_files(&digest, b"pack").unwrap();
        assert!(retained.has_skill_files(&digest));
        let skills = BTreeMap::from([(digest, None)]);
        NewSnapshot { skills, ..NewSnapshot::empty(digest, String::new(), retained) }
    }

    #[tokio::test]
    async fn gc_keeps_the_files_of_snapshots() {
        let tree = TestTree::new().await;
        let store = &tree.store;
        let use_skill = async |skill: &str, version| {
            let change =
                SessionChange { snapshot: Some((snapshot(store, skill), version)), ..SessionChange::default() };
            tree.commit(change).await.unwrap();
        };
        let pack = |skill: &str| store.skill_pack(&Digest::of(skill.as_bytes())).unwrap();
        use_skill("used", 2).await;
        drop(snapshot(store, "unused"));
        let collected = store.collect().await.unwrap();
        assert_eq!((collected.skill_files, collected.bytes), (1, 4));
        assert_eq!((pack("used"), pack("unused")), (Some(b"pack".to_vec()), None));
        use_skill("other", 3).await;
        assert_eq!(store.collect().await.unwrap().skill_files, 1);
        assert_eq!((pack("used"), pack("other")), (None, Some(b"pack".to_vec())));
    }

    #[test]
    fn damaged_pack_is_stored_again() {
        let (home, store) = new_store();
        drop(snapshot(&store, "one"));
        let digest = Digest::of(b"one");
        store.remove_skill_pack(&digest);
        assert_eq!(store.skill_pack(&digest).unwrap(), None);
        drop(snapshot(&store, "one"));
        let pack = home.path().join(format!("skill-files/{}.pack", digest.to_hex()));
        std::fs::write(pack, "").unwrap();
        assert!(!store.retain_components().unwrap().has_skill_files(&digest), "the file is empty");
    }
}
