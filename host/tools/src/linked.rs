//! Skills whose folder the user linked with `plugin add --link`. Their grants hold for any files in the folder.

use std::{collections::BTreeSet, path::PathBuf};

use parking_lot::Mutex;
use patchbay_core::Digest;
use patchbay_policy::{Identity, Root};
use patchbay_skill::LinkedFolder;

#[derive(Default)]
pub(crate) struct LinkedSkills {
    /// The user's folder of skills.
    pub(crate) skills: Option<PathBuf>,
    /// Digests that this process has found in a linked folder. They are checked because a snapshot may have a skill of the same name
    /// from before the folder was linked.
    seen: Mutex<BTreeSet<(LinkedFolder, Digest)>>,
}

impl LinkedSkills {
    /// Returns the folder that is linked as this skill now.
    pub(crate) fn folder(&self, identity: &Identity) -> Option<LinkedFolder> {
        let skills = self.skills.as_ref().filter(|_| identity.root == Root::User)?;
        LinkedFolder::of(skills, &identity.name)
    }

    /// Like [`LinkedSkills::folder`], but only if the skill with this digest is or was in the folder.
    pub(crate) async fn folder_of(&self, identity: &Identity, digest: Digest) -> Option<LinkedFolder> {
        let folder = self.folder(identity)?;
        let seen = (folder.clone(), digest);
        if self.seen.lock().contains(&seen) {
            return Some(folder);
        }
        let reading = folder.clone();
        if !tokio::task::spawn_blocking(move || reading.has(digest)).await.unwrap_or_default() {
            return None;
        }
        self.seen.lock().insert(seen);
        Some(folder)
    }

    /// Returns the value that a grant stores as its digest: the skill's digest or its linked folder. Empty for bundled skills, whose
    /// files are part of the binary.
    pub(crate) async fn granted_for(&self, identity: &Identity, digest: Digest) -> String {
        if identity.root == Root::Bundled {
            return String::new();
        }
        self.folder_of(identity, digest).await.map_or_else(|| digest.to_string(), |folder| folder.as_granted())
    }
}
