//! Folders that no plugin may enter: Patchbay's own. They are recognised by device and inode, so that a link, a rename, a
//! bind mount or a file system without regard to case makes no difference.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
};

use cap_std::fs::Metadata;

/// Device and inode of a file or directory. Unknown outside Unix: there, nothing is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Returns the identity behind `metadata`, where the system has one.
    #[cfg(unix)]
    pub(crate) fn new(metadata: &Metadata) -> Option<Self> {
        use cap_std::fs::MetadataExt as _;
        Some(Self { device: metadata.dev(), inode: metadata.ino() })
    }

    #[cfg(not(unix))]
    pub(crate) fn new(_: &Metadata) -> Option<Self> {
        None
    }

    /// Returns the identity of what is at `path`, following links.
    fn at(path: &Path) -> Option<Self> {
        Self::new(&Metadata::from_just_metadata(fs::metadata(path).ok()?))
    }
}

/// The folders and files that no plugin may read, write or list in any workspace.
#[derive(Clone, Debug, Default)]
pub struct ProtectedPaths {
    paths: Arc<[PathBuf]>,
    held: Arc<[(FileId, File)]>,
}

impl ProtectedPaths {
    /// Protects `paths`. Those that exist now are kept open, so that their identity stays theirs even if they are renamed
    /// or removed; the others are looked up again each time a workspace is opened.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let paths: Arc<[PathBuf]> = paths.into_iter().collect();
        let held = paths.iter().filter(|path| path.is_dir()).filter_map(|path| {
            let folder = File::open(path).ok()?;
            let metadata = Metadata::from_file(&folder).ok()?;
            Some((FileId::new(&metadata)?, folder))
        });
        Self { held: held.collect(), paths }
    }

    /// Returns the identities of what is protected at this moment.
    pub(crate) fn identities(&self) -> Identities {
        let mut all: Vec<FileId> = self.held.iter().map(|(identity, _)| *identity).collect();
        for identity in self.paths.iter().filter_map(|path| FileId::at(path)) {
            if !all.contains(&identity) {
                all.push(identity);
            }
        }
        Identities(all)
    }
}

/// The identities of what was protected when a workspace was opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identities(Vec<FileId>);

impl Identities {
    /// Whether what `metadata` describes is protected.
    pub(crate) fn have(&self, metadata: &Metadata) -> bool {
        !self.is_empty() && FileId::new(metadata).is_some_and(|identity| self.0.contains(&identity))
    }

    /// Whether `folder` is protected or lies in a protected folder. `folder` is a canonical path.
    pub(crate) fn contain(&self, folder: &Path) -> bool {
        !self.is_empty() && folder.ancestors().filter_map(FileId::at).any(|identity| self.0.contains(&identity))
    }

    /// Whether nothing is protected, so that no metadata needs to be fetched.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The person's home folder, to recognise a workspace that is or holds it.
#[derive(Clone, Debug, Default)]
pub struct HomeFolder {
    /// The identities of the folder itself and of every folder above it.
    chain: Arc<[FileId]>,
}

impl HomeFolder {
    /// The home folder at `path`. Where that is no folder, no workspace holds it.
    pub fn new(path: &Path) -> Self {
        let canonical = path.canonicalize().ok();
        let chain = canonical.iter().flat_map(|path| path.ancestors()).filter_map(FileId::at);
        Self { chain: chain.collect() }
    }

    /// Whether the folder at `path` is the home folder or holds it.
    pub fn is_in(&self, path: &Path) -> bool {
        !self.chain.is_empty() && FileId::at(path).is_some_and(|identity| self.chain.contains(&identity))
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn home_is_recognised_by_identity() {
        let all = tempfile::tempdir().unwrap();
        let home = all.path().join("users/me");
        fs::create_dir_all(home.join("project")).unwrap();
        fs::create_dir_all(all.path().join("users/me2")).unwrap();
        symlink(&home, all.path().join("link")).unwrap();
        for known_as in [home.clone(), all.path().join("link")] {
            let folder = HomeFolder::new(&known_as);
            for holds in [&home, &all.path().join("link"), &all.path().join("users"), Path::new("/")] {
                assert!(folder.is_in(holds), "{}", holds.display());
            }
            for apart in [home.join("project"), all.path().join("users/me2"), all.path().join("nowhere")] {
                assert!(!folder.is_in(&apart), "{}", apart.display());
            }
        }
        assert!(!HomeFolder::default().is_in(Path::new("/")));
    }

    #[test]
    fn identity_survives_rename_and_is_found_when_made_later() {
        let all = tempfile::tempdir().unwrap();
        let (early, late) = (all.path().join("early"), all.path().join("late"));
        fs::create_dir(&early).unwrap();
        let protected = ProtectedPaths::new([early.clone(), late.clone()]);
        fs::rename(&early, all.path().join("renamed")).unwrap();
        fs::create_dir_all(late.join("inner")).unwrap();
        let now = protected.identities();
        assert!(now.contain(&all.path().join("renamed")));
        assert!(now.contain(&late) && now.contain(&late.join("inner")));
        assert!(!now.contain(all.path()));
    }
}
