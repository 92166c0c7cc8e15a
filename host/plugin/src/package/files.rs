//! Reads the files of a package's source, or of an installed copy.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use patchbay_core::{Digest, text};
use patchbay_skill::{
    files::{self, Folder},
    files_to_copy,
};

use super::{PackageError, Sums};

/// The most files of a package.
const FILES: usize = 10_000;
/// The most bytes of all files of a package.
const BYTES: u64 = 64 << 20;
/// The deepest folder, counted from the package's.
const DEPTH: usize = 16;
/// Never part of a package: the repository that it was cloned from.
const REPOSITORY: &str = ".git";

/// The files of a folder that belong to a package, by path.
pub(crate) struct PackageTree {
    root: PathBuf,
    folder: Folder,
    /// Each file, and whether it is executable.
    files: BTreeMap<String, bool>,
}

impl PackageTree {
    /// Lists all files below `root` except `.git`. Links inside of it are followed.
    pub(crate) fn of_folder(root: &Path) -> Result<Self, PackageError> {
        let mut tree = Self::empty(root)?;
        let mut bytes = 0;
        tree.walk("", 0, &mut bytes)?;
        Ok(tree)
    }

    /// Lists the files of the skill in the folder `root`, without the sources of its component `component`.
    pub(crate) fn of_skill(root: &Path, component: Option<&Path>) -> Result<Self, PackageError> {
        let mut tree = Self::empty(root)?;
        let skill_files = files_to_copy(root).map_err(PackageError::io(root))?;
        let skill_files = skill_files.map_err(|problem| {
            PackageError::invalid(format!("{}: [{}] {}", super::error::shown(root), problem.code, problem.message))
        })?;
        let component = component.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        for path in skill_files.into_keys().chain(component) {
            tree.add_file(path, &mut 0)?;
        }
        Ok(tree)
    }

    fn empty(root: &Path) -> Result<Self, PackageError> {
        let missing = || PackageError::io(root)(io::ErrorKind::NotFound.into());
        let folder = files::open_folder(root).map_err(PackageError::io(root))?.ok_or_else(missing)?;
        Ok(Self { root: root.to_owned(), folder, files: BTreeMap::new() })
    }

    fn walk(&mut self, below: &str, depth: usize, bytes: &mut u64) -> Result<(), PackageError> {
        if depth > DEPTH {
            return Err(PackageError::invalid(format!("the package has folders more than {DEPTH} deep.")));
        }
        let at = if below.is_empty() { "." } else { below };
        let failed = |error| PackageError::io(&self.root.join(below))(error);
        let mut names = Vec::new();
        for entry in self.folder.read_dir(at).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let name = name
                .into_string()
                .map_err(|name| PackageError::invalid(format!("the file name {name:?} is not UTF-8. Rename it.")))?;
            names.push(name);
            if names.len() > FILES {
                return Err(too_many());
            }
        }
        names.sort();
        for name in names.into_iter().filter(|name| name != REPOSITORY) {
            let path = if below.is_empty() { name } else { format!("{below}/{name}") };
            super::sums::check_path(&path)?;
            let metadata = self.folder.metadata(&path).map_err(|error| outside(&path, &error))?;
            if metadata.is_dir() {
                self.walk(&path, depth + 1, bytes)?;
            } else if metadata.is_file() {
                self.add_file(path, bytes)?;
            } else {
                let path = text::excerpt(&path, 80);
                return Err(PackageError::invalid(format!(
                    "'{path}' is a device, pipe or socket, which a package cannot have."
                )));
            }
        }
        Ok(())
    }

    /// Adds a regular file.
    fn add_file(&mut self, path: String, bytes: &mut u64) -> Result<(), PackageError> {
        let at = self.root.join(&path);
        // The tree of folders was checked; a link inside of it counts as its target.
        let metadata = fs::metadata(&at).map_err(PackageError::io(&at))?;
        if is_hard_link(&metadata) {
            let path = text::excerpt(&path, 80);
            let message = format!(
                "'{path}' is a hard link, and could be changed through its other name. Replace it with a copy."
            );
            return Err(PackageError::invalid(message));
        }
        *bytes = bytes.saturating_add(metadata.len());
        if *bytes > BYTES {
            return Err(PackageError::invalid(format!("the package has more than {} MiB.", BYTES >> 20)));
        }
        self.files.insert(path, is_executable(&metadata));
        if self.files.len() > FILES { Err(too_many()) } else { Ok(()) }
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, PackageError> {
        let read =
            files::read(&self.folder, path, BYTES).and_then(|read| read.ok_or_else(|| io::ErrorKind::NotFound.into()));
        read.map_err(PackageError::io(&self.root.join(path)))
    }

    /// Reads all files and returns their sums.
    pub(crate) fn sums(&self) -> Result<Sums, PackageError> {
        let sum = |path: &String| Ok((path.clone(), Digest::of(&self.read(path)?)));
        Sums::new(self.files.keys().map(sum).collect::<Result<_, PackageError>>()?)
    }

    /// Copies all files below `to`, read-only and without set-id bits, and returns their sums.
    pub(crate) fn copy(&self, to: &Path) -> Result<Sums, PackageError> {
        let mut sums = BTreeMap::new();
        for (path, is_executable) in &self.files {
            let contents = self.read(path)?;
            write(&to.join(path), &contents, *is_executable)?;
            sums.insert(path.clone(), Digest::of(&contents));
        }
        Sums::new(sums)
    }
}

/// Writes a new read-only file and the folders above it.
pub(crate) fn write(path: &Path, contents: &[u8], is_executable: bool) -> Result<(), PackageError> {
    let failed = |error| PackageError::io(path)(error);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(path, contents).map_err(failed)?;
    set_read_only(path, is_executable).map_err(failed)
}

#[cfg(unix)]
fn set_read_only(path: &Path, is_executable: bool) -> io::Result<()> {
    let mode = if is_executable { 0o555 } else { 0o444 };
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
}

#[cfg(not(unix))]
fn set_read_only(path: &Path, _: bool) -> io::Result<()> {
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

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_: &fs::Metadata) -> bool {
    false
}

fn too_many() -> PackageError {
    PackageError::invalid(format!("the package has more than {FILES} files."))
}

/// The error of an entry that cannot be followed inside the package.
fn outside(path: &str, error: &io::Error) -> PackageError {
    let path = text::excerpt(path, 80);
    match error.kind() {
        io::ErrorKind::NotFound => PackageError::invalid(format!("'{path}' is a link to nothing. Remove it.")),
        _ => PackageError::invalid(format!(
            "'{path}' is a link out of the package, or cannot be read. Replace it with a copy."
        )),
    }
}
