//! Reads the files of a package's source, or of an installed copy.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use patchbay_core::{Digest, text};
use patchbay_skill::{
    agent_plugin::{Sums, list_files},
    files::{self, Folder},
    files_to_copy,
};

use super::PackageError;

/// Size limit of one file, in bytes. It is also the limit of a whole package.
const FILE_BYTES: u64 = 64 << 20;

/// The files of a folder that belong to a package, by path.
pub(crate) struct PackageTree {
    root: PathBuf,
    folder: Folder,
    files: BTreeSet<String>,
}

impl PackageTree {
    /// Lists all files of the package in `root`. Links that stay inside are followed.
    pub(crate) fn of_folder(root: &Path) -> Result<Self, PackageError> {
        let files = list_files(root)?.into_iter().map(|file| file.path).collect();
        Ok(Self { files, ..Self::empty(root)? })
    }

    /// Lists the files of the skill in the folder `root`, without the sources of its component `component`.
    pub(crate) fn of_skill(root: &Path, component: Option<&Path>) -> Result<Self, PackageError> {
        let mut tree = Self::empty(root)?;
        let skill_files = files_to_copy(root).map_err(PackageError::io(root))?;
        let skill_files = skill_files.map_err(|problem| {
            PackageError::refused(format!("{}: [{}] {}", super::error::shown(root), problem.code, problem.message))
        })?;
        let component = component.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        for path in skill_files.into_keys().chain(component) {
            tree.add_file(path)?;
        }
        Ok(tree)
    }

    fn empty(root: &Path) -> Result<Self, PackageError> {
        let missing = || PackageError::io(root)(io::ErrorKind::NotFound.into());
        let folder = files::open_folder(root).map_err(PackageError::io(root))?.ok_or_else(missing)?;
        Ok(Self { root: root.to_owned(), folder, files: BTreeSet::new() })
    }

    /// Adds a regular file.
    fn add_file(&mut self, path: String) -> Result<(), PackageError> {
        let at = self.root.join(&path);
        let metadata = fs::metadata(&at).map_err(PackageError::io(&at))?;
        if is_hard_link(&metadata) {
            let path = text::excerpt(&path, 80);
            let message = format!(
                "'{path}' is a hard link, and could be changed through its other name. Replace it with a copy."
            );
            return Err(PackageError::refused(message));
        }
        self.files.insert(path);
        Ok(())
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, PackageError> {
        let read = files::read(&self.folder, path, FILE_BYTES)
            .and_then(|read| read.ok_or_else(|| io::ErrorKind::NotFound.into()));
        read.map_err(PackageError::io(&self.root.join(path)))
    }

    /// Reads all files and returns their sums.
    pub(crate) fn sums(&self) -> Result<Sums, PackageError> {
        Ok(Sums::of_files(&self.folder, self.files.iter().map(String::as_str))?)
    }

    /// Copies all files below `to`, read-only and not executable, and returns their sums. A server's program becomes executable when
    /// it is started.
    pub(crate) fn copy(&self, to: &Path) -> Result<Sums, PackageError> {
        let mut sums = BTreeMap::new();
        for path in &self.files {
            let contents = self.read(path)?;
            write(&to.join(path), &contents)?;
            sums.insert(path.clone(), Digest::of(&contents));
        }
        Ok(Sums::new(sums)?)
    }
}

/// Writes a new read-only file and the folders above it.
pub(crate) fn write(path: &Path, contents: &[u8]) -> Result<(), PackageError> {
    let failed = |error| PackageError::io(path)(error);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, contents).map_err(failed)?;
    set_read_only(path).map_err(failed)
}

#[cfg(unix)]
fn set_read_only(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o444))
}

#[cfg(not(unix))]
fn set_read_only(path: &Path) -> io::Result<()> {
    let mut permissions = fs::metadata(path)?.permissions();
    permissions.set_readonly(true);
    fs::set_permissions(path, permissions)
}

#[cfg(unix)]
fn is_hard_link(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(metadata) > 1
}

#[cfg(not(unix))]
fn is_hard_link(_: &fs::Metadata) -> bool {
    false
}
