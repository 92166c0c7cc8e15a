//! A component by digest and location. Its bytes are read only when the sandbox or the store needs them.
//!
//! Created by `discover.rs` and `bundled.rs`; read by the crates `tools` and `session`.

use std::{io, path::Path, sync::Arc};

use bytes::Bytes;
use cap_std::{ambient_authority, fs::Dir};
use patchbay_core::{COMPONENT_BYTES, Code, Digest};
use patchbay_policy::Root;

use crate::{Problem, Stat, files};

/// A component: its digest and the location of its bytes. File contents are not kept in memory, to allow thousands of components.
///
/// The digest may come from the [`FileCache`](crate::FileCache), and the file may change at any time. Therefore
/// [`Component::bytes`] hashes the bytes it reads and never returns bytes with another digest.
#[derive(Clone, Debug)]
pub struct Component {
    digest: Digest,
    size: u64,
    source: ComponentSource,
}

#[derive(Clone, Debug)]
enum ComponentSource {
    Memory(Bytes),
    File(ComponentFile),
}

/// The bytes of a component or a SKILL.md are no longer available: the file was changed or removed, or cannot be read. Discovering
/// the root again returns the current state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The skill changed while it was read. To read it again: /reload_skills")]
pub struct Changed;

impl Component {
    /// Creates a component from bytes in memory.
    pub fn in_memory(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { digest: Digest::of(&bytes), size: bytes.len() as u64, source: ComponentSource::Memory(bytes) }
    }

    /// Creates a component that is embedded in the binary. `digest` was computed at build time.
    pub(crate) fn in_binary(bytes: &'static [u8], digest: Digest) -> Self {
        Self { digest, size: bytes.len() as u64, source: ComponentSource::Memory(Bytes::from_static(bytes)) }
    }

    /// Creates a component in a file. `digest` and `size` are checked when the bytes are read.
    pub(crate) fn in_file(digest: Digest, size: u64, file: ComponentFile) -> Self {
        Self { digest, size, source: ComponentSource::File(file) }
    }

    /// Returns the digest of the bytes, which identifies the component.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the number of bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the name of its file in the skill's folder; `None` for a single-file skill or a skill in the binary.
    pub(crate) fn file_name(&self) -> Option<&str> {
        match &self.source {
            ComponentSource::File(file) if file.folder.is_some() => Some(&file.file),
            _ => None,
        }
    }

    /// Returns the bytes. A file is read and compared with the digest on each call.
    ///
    /// # Errors
    /// [`Changed`] if the file no longer contains bytes with this digest.
    pub fn bytes(&self) -> Result<Bytes, Changed> {
        match &self.source {
            ComponentSource::Memory(bytes) => Ok(bytes.clone()),
            ComponentSource::File(file) => match file.read() {
                Ok(Some(bytes)) if Digest::of(&bytes) == self.digest => Ok(bytes.into()),
                _ => Err(Changed),
            },
        }
    }
}

/// Location of a component's or a command's file. The folders above it are opened again for each read, because a process cannot
/// keep thousands of folders open.
#[derive(Clone, Debug)]
pub(crate) struct ComponentFile {
    pub(crate) root: Root,
    /// The path that was passed to [`discover`](crate::discover).
    pub(crate) path: Arc<Path>,
    /// Name of the skill's folder; `None` for a single-file skill.
    pub(crate) folder: Option<String>,
    pub(crate) file: String,
}

impl ComponentFile {
    pub(crate) fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let Some(root) = open_root(self.root, &self.path)? else { return Ok(None) };
        match &self.folder {
            Some(folder) => read(&open_folder(self.root, &self.path, &root, folder)?, &self.file),
            None => match linked_file(self.root, &self.path, &root, &self.file)? {
                Some((folder, file)) => read(&folder, &file),
                None => read(&root, &self.file),
            },
        }
    }
}

fn read(folder: &Dir, file: &str) -> io::Result<Option<Vec<u8>>> {
    files::read(folder, file, COMPONENT_BYTES)
}

/// Reads a whole component of at most [`COMPONENT_BYTES`], and the file's metadata from just before.
pub(crate) fn read_component(folder: &Dir, file_name: &str) -> Result<(Vec<u8>, Option<Stat>), Problem> {
    let invalid = |message: String| Problem::new(Code::InvalidComponent, message);
    files::read_stat(folder, file_name, COMPONENT_BYTES)
        .map_err(|error| invalid(Problem::unreadable("The component", &error).message))?
        .ok_or_else(|| invalid("The component was removed while it was read.".to_owned()))
}

/// Opens the folder of a root: `path` itself, or the skills folder in the workspace `path`. Does not follow links out of a
/// workspace. `None` if the folder does not exist.
pub(crate) fn open_root(root: Root, path: &Path) -> io::Result<Option<Dir>> {
    match root.workspace_folder() {
        Some(folder) => files::open_below(path, folder),
        None => files::open_folder(path),
    }
}

/// Opens a skill's folder. In a root outside of workspaces it may be a link to a folder elsewhere.
pub(crate) fn open_folder(root: Root, path: &Path, parent: &Dir, name: &str) -> io::Result<Dir> {
    match parent.open_dir(name) {
        Err(_) if !root.is_workspace() => Dir::open_ambient_dir(path.join(name), ambient_authority()),
        opened => opened,
    }
}

/// If the child `name` of a root is a link out of the root, returns the folder and the name of the file that it leads to. Always
/// `None` in a workspace, where links must not lead out.
///
/// # Errors
/// The link leads to nothing, or the folder cannot be opened.
pub(crate) fn linked_file(root: Root, path: &Path, parent: &Dir, name: &str) -> io::Result<Option<(Dir, String)>> {
    let is_link = parent.symlink_metadata(name).is_ok_and(|metadata| metadata.is_symlink());
    if root.is_workspace() || !is_link || parent.metadata(name).is_ok() {
        return Ok(None);
    }
    let target = path.join(name).canonicalize()?;
    let (Some(folder), Some(name)) = (target.parent(), target.file_name().and_then(|name| name.to_str())) else {
        return Err(io::ErrorKind::InvalidFilename.into());
    };
    Ok(Some((Dir::open_ambient_dir(folder, ambient_authority())?, name.to_owned())))
}
