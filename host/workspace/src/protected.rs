//! Patchbay's own folders, which no plugin may enter, and the home folder. They are recognised by device and inode.
//! Links, renames, bind mounts and case-insensitive file systems therefore make no difference.
//!
//! The crate `session` creates [`ProtectedPaths`] and [`HomeFolder`] at startup; `resolve.rs`, `walk.rs` and `write.rs`
//! check the protected paths.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    sync::Arc,
};

use cap_std::fs::Metadata;

/// Device and inode of a file or directory. Only available on Unix; nothing is recognised on other systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// Returns the identity in `metadata`, if the system has one.
    #[cfg(unix)]
    pub(crate) fn new(metadata: &Metadata) -> Option<Self> {
        use cap_std::fs::MetadataExt as _;
        Some(Self { device: metadata.dev(), inode: metadata.ino() })
    }

    #[cfg(not(unix))]
    pub(crate) fn new(_: &Metadata) -> Option<Self> {
        None
    }

    /// Returns the identity of the file or directory at `path`, following links.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        Self::new(&Metadata::from_just_metadata(fs::metadata(path).ok()?))
    }
}

/// Folders and files that no plugin may read, write or list in any workspace, and folders of skills that no plugin may write.
#[derive(Clone, Debug, Default)]
pub struct ProtectedPaths {
    own: PathSet,
    skill_roots: PathSet,
    /// The operator's folders of skills, personas and adapters, whose entries may be links.
    folders_with_links: Arc<[PathBuf]>,
}

impl ProtectedPaths {
    /// Protects `paths`. Existing folders are kept open and therefore keep their identity if they are renamed or
    /// removed. The others are looked up again each time a workspace is opened.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { own: PathSet::new(paths), ..Self::default() }
    }

    /// Also protects `paths` from being written: folders with skills that later sessions load.
    #[must_use]
    pub fn with_skill_roots(self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let paths: Vec<PathBuf> = paths.into_iter().collect();
        let folders_with_links = self.folders_with_links.iter().chain(&paths).cloned().collect();
        Self { skill_roots: PathSet::new(paths), folders_with_links, ..self }
    }

    /// Also protects the targets of links directly in `folders` from being written: skills, personas or adapters that later
    /// sessions load. The links are read at each write.
    #[must_use]
    pub fn with_links_in(self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let folders_with_links = self.folders_with_links.iter().cloned().chain(folders).collect();
        Self { folders_with_links, ..self }
    }

    /// Returns true if no plugin may use the file or folder at `path`, or a folder above it. Links are followed.
    pub fn cover(&self, path: &Path) -> bool {
        path.canonicalize().is_ok_and(|path| self.identities().cover(&path))
    }

    /// Returns the identities of everything that no plugin may currently use.
    pub(crate) fn identities(&self) -> ProtectedIds {
        self.own.identities()
    }

    /// Returns the folders whose entries may be links to files that later sessions load.
    pub(crate) fn folders_with_links(&self) -> &[PathBuf] {
        &self.folders_with_links
    }

    /// Returns the current identities of the folders of skills.
    pub(crate) fn skill_roots(&self) -> ProtectedIds {
        self.skill_roots.identities()
    }
}

/// Paths, with the folders among them that existed at creation.
#[derive(Clone, Debug, Default)]
struct PathSet {
    paths: Arc<[PathBuf]>,
    /// Kept open to prevent reuse of their inodes.
    open: Arc<[(FileId, File)]>,
}

impl PathSet {
    fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let paths: Arc<[PathBuf]> = paths.into_iter().collect();
        let open = paths.iter().filter(|path| path.is_dir()).filter_map(|path| {
            let folder = File::open(path).ok()?;
            let metadata = Metadata::from_file(&folder).ok()?;
            Some((FileId::new(&metadata)?, folder))
        });
        Self { open: open.collect(), paths }
    }

    fn identities(&self) -> ProtectedIds {
        let mut all: Vec<FileId> = self.open.iter().map(|(identity, _)| *identity).collect();
        for identity in self.paths.iter().filter_map(|path| FileId::at(path)) {
            if !all.contains(&identity) {
                all.push(identity);
            }
        }
        ProtectedIds(all)
    }
}

/// Identities of the files and folders that were protected at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProtectedIds(Vec<FileId>);

impl ProtectedIds {
    pub(crate) fn new(ids: Vec<FileId>) -> Self {
        Self(ids)
    }

    /// Returns true if the file or folder with this identity is protected.
    pub(crate) fn has(&self, id: FileId) -> bool {
        self.0.contains(&id)
    }

    /// Returns true if the file or folder with this metadata is protected.
    pub(crate) fn include(&self, metadata: &Metadata) -> bool {
        !self.is_empty() && FileId::new(metadata).is_some_and(|identity| self.0.contains(&identity))
    }

    /// Returns true if `folder` or a folder above it is protected. `folder` must be canonical.
    pub(crate) fn cover(&self, folder: &Path) -> bool {
        !self.is_empty() && folder.ancestors().filter_map(FileId::at).any(|identity| self.0.contains(&identity))
    }

    /// Returns true if nothing is protected. Metadata then need not be read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The user's home folder, to detect a workspace that is or contains it.
#[derive(Clone, Debug, Default)]
pub struct HomeFolder {
    /// Identities of the home folder and of all folders above it.
    chain: Arc<[FileId]>,
}

impl HomeFolder {
    /// Uses the home folder at `path`. If `path` does not exist, no workspace contains it.
    pub fn new(path: &Path) -> Self {
        let canonical = path.canonicalize().ok();
        let chain = canonical.iter().flat_map(|path| path.ancestors()).filter_map(FileId::at);
        Self { chain: chain.collect() }
    }

    /// Returns true if the folder at `path` is the home folder or contains it.
    pub fn is_within(&self, path: &Path) -> bool {
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
                assert!(folder.is_within(holds), "{}", holds.display());
            }
            for apart in [home.join("project"), all.path().join("users/me2"), all.path().join("nowhere")] {
                assert!(!folder.is_within(&apart), "{}", apart.display());
            }
        }
        assert!(!HomeFolder::default().is_within(Path::new("/")));
    }

    #[test]
    fn renamed_and_later_created_folders_are_recognised() {
        let all = tempfile::tempdir().unwrap();
        let (early, late) = (all.path().join("early"), all.path().join("late"));
        fs::create_dir(&early).unwrap();
        let protected = ProtectedPaths::new([early.clone(), late.clone()]);
        fs::rename(&early, all.path().join("renamed")).unwrap();
        fs::create_dir_all(late.join("inner")).unwrap();
        let now = protected.identities();
        assert!(now.cover(&all.path().join("renamed")));
        assert!(now.cover(&late) && now.cover(&late.join("inner")));
        assert!(!now.cover(all.path()));
    }
}
