//! A component that was found, and how its bytes are had when they are needed.

use std::{io, path::Path, sync::Arc};

use bytes::Bytes;
use cap_std::{ambient_authority, fs::Dir};
use patchbay_core::{COMPONENT_BYTES, Digest};
use patchbay_policy::Root;

use crate::files;

/// Where a workspace has its skills.
const IN_WORKSPACE: &str = ".patchbay/skills";

/// A component that was found: the digest of its bytes, and where they are. It does not hold them, so that a thousand
/// components take no memory to speak of.
///
/// The digest may be known from the file's stat alone ([`FileCache`](crate::FileCache)), and the file may change at any time. So bytes
/// are never taken for those of the digest: [`Component::bytes`] hashes what it reads.
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

/// The bytes of a component cannot be had any more: its file has changed, is gone or cannot be read. Looking at its root
/// again tells what is there now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("The component changed while it was read; /reload_skills reads it again.")]
pub struct Changed;

impl Component {
    /// A component whose bytes are at hand.
    pub fn in_memory(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { digest: Digest::of(&bytes), size: bytes.len() as u64, source: ComponentSource::Memory(bytes) }
    }

    /// A component of the binary, whose digest was computed when it was built.
    pub(crate) fn of_binary(bytes: &'static [u8], digest: Digest) -> Self {
        Self { digest, size: bytes.len() as u64, source: ComponentSource::Memory(Bytes::from_static(bytes)) }
    }

    /// A component in a file that is believed to hold bytes of this digest and size.
    pub(crate) fn in_file(digest: Digest, size: u64, file: ComponentFile) -> Self {
        Self { digest, size, source: ComponentSource::File(file) }
    }

    /// The digest of its bytes: what it is.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// How many bytes it has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its bytes. They are of its digest: that is checked here, each time they are read.
    ///
    /// # Errors
    /// [`Changed`] where the file does not hold them any more.
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

/// A file of a skill. The folders above it are opened anew for each look: a thousand open folders are more than a process
/// may have.
#[derive(Clone, Debug)]
pub(crate) struct ComponentFile {
    pub(crate) root: Root,
    /// What the root was looked for by.
    pub(crate) path: Arc<Path>,
    /// The skill's folder, where it has one.
    pub(crate) folder: Option<String>,
    pub(crate) file: String,
}

impl ComponentFile {
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let Some(root) = open_root(self.root, &self.path)? else { return Ok(None) };
        match &self.folder {
            Some(folder) => read(&open_folder(self.root, &self.path, &root, folder)?, &self.file),
            None => read(&root, &self.file),
        }
    }
}

fn read(folder: &Dir, file: &str) -> io::Result<Option<Vec<u8>>> {
    files::read(folder, file, COMPONENT_BYTES)
}

/// Opens a root: the person's folder of skills itself, or that of a workspace, reached by no link that leads out of it.
pub(crate) fn open_root(root: Root, path: &Path) -> io::Result<Option<Dir>> {
    match root {
        Root::Workspace => files::open_below(path, IN_WORKSPACE),
        _ => files::open_folder(path),
    }
}

/// Opens a skill's folder. A person's own may be links that lead elsewhere.
pub(crate) fn open_folder(root: Root, path: &Path, parent: &Dir, name: &str) -> io::Result<Dir> {
    match parent.open_dir(name) {
        Err(_) if root != Root::Workspace => Dir::open_ambient_dir(path.join(name), ambient_authority()),
        opened => opened,
    }
}
