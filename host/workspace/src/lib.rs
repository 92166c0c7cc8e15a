//! The files of a workspace, as a sandboxed guest may see them. The guest is hostile, its workspace's files may be,
//! and somebody may swap directories for links while we look: no path and no link leads out all the same.
//!
//! Nothing is ever opened but one name of a directory that is open already, and never through a link. Links are read
//! and followed by hand, part by part, below the root. Time, memory and open files of a call are bounded by
//! [`limits`], whatever the guest asks for and whatever the files hold; the calls block, and are for a thread that
//! may.
//!
//! - [`Workspace`] reads, lists, writes and deletes.
//! - [`WorkspaceAccess`] says what the plugins of one call may do in it; [`ProtectedPaths`] are Patchbay's own folders, which no
//!   plugin enters; [`HomeFolder`] recognises a workspace that is or holds the person's home folder.
//! - [`open_regular_file`] and [`open_file_below`] open files for the host itself, and never wait for a pipe.
//! - [`Entry`] is one line of a listing.
//! - [`FileError`] says why not; [`FileError::kind`] is the word of the WIT contract.
//!
//! What it is not for: who may call it, and how often, is for the sandbox. What is mounted or hard-linked below the
//! root is inside: a hard link is the file itself. A write gives a name a new file, so other hard links of the old
//! one keep the old contents.

mod error;
mod glob;
mod guard;
mod handle;
mod ignored;
pub mod limits;
mod path;
mod protected;
mod read;
mod resolve;
mod walk;
mod wild;
mod work;
mod write;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use cap_fs_ext::OpenOptionsSyncExt as _;
use cap_std::{
    ambient_authority,
    fs::{Dir, File, Metadata, OpenOptions},
};

pub use error::FileError;
pub use protected::{HomeFolder, ProtectedPaths};

use path::RelPath;
use protected::Identities;

/// The files below one directory. Cheap to clone; all clones hold the same open directory, wherever it is moved.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: Arc<Dir>,
    rules: Arc<Rules>,
}

/// A workspace, and what the plugins of one call may do in it.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceAccess {
    /// The canonical path of the root.
    pub root: PathBuf,
    /// The folders that no plugin enters.
    pub protected: ProtectedPaths,
    /// Whether files with instructions for agents, such as AGENTS.md, may be written.
    pub write_instructions: bool,
}

/// What is out of bounds in an open workspace.
#[derive(Debug, Default)]
struct Rules {
    protected: ProtectedPaths,
    identities: Identities,
    /// The root itself is, or lies in, one of the protected folders.
    root_is_protected: bool,
    /// Files with instructions for agents may be written.
    instructions: bool,
}

impl Rules {
    fn check_root(&self, path: RelPath<'_>) -> Result<(), FileError> {
        match self.root_is_protected {
            true => Err(FileError::Protected { path: path.shown(), why: guard::OWN_FOLDER }),
            false => Ok(()),
        }
    }

    /// Whether the open directory `dir` is protected.
    fn protect_directory(&self, dir: &Dir) -> io::Result<bool> {
        Ok(!self.identities.is_empty() && self.identities.have(&dir.dir_metadata()?))
    }

    /// The same for a directory that did not exist when the workspace was opened.
    fn protect_new(&self, dir: &Dir) -> io::Result<bool> {
        Ok(self.protected.identities().have(&dir.dir_metadata()?))
    }
}

/// What is at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the root, with `/` between the parts.
    pub path: String,
    /// A directory; else a regular file, or a link to one.
    pub is_directory: bool,
    /// The file's size, in bytes. 0 for a directory.
    pub size: u64,
}

impl Workspace {
    /// The workspace whose root is the directory `root`. A link is followed: it is the operator's.
    ///
    /// # Errors
    /// Where it is no directory or cannot be opened.
    pub fn open(root: &Path) -> io::Result<Self> {
        Ok(Self { root: Arc::new(Dir::open_ambient_dir(root, ambient_authority())?), rules: Arc::default() })
    }

    /// Opens the workspace of `access` for plugins.
    ///
    /// # Errors
    /// Where the root is no directory or cannot be opened.
    pub fn open_for_plugins(access: &WorkspaceAccess) -> io::Result<Self> {
        let identities = access.protected.identities();
        let rules = Rules {
            root_is_protected: identities.contain(&access.root),
            identities,
            protected: access.protected.clone(),
            instructions: access.write_instructions,
        };
        Ok(Self { rules: Arc::new(rules), ..Self::open(&access.root)? })
    }

    /// Opens the workspace at `root` for the host itself, which reads rules there: no link leads to what is `protected`.
    ///
    /// # Errors
    /// Where the root is no directory or cannot be opened.
    pub fn open_for_host(root: &Path, protected: &ProtectedPaths) -> io::Result<Self> {
        let rules = Rules { identities: protected.identities(), ..Rules::default() };
        Ok(Self { rules: Arc::new(rules), ..Self::open(root)? })
    }

    /// At most `max` bytes of the file at `path`, from the byte `offset`: fewer where the file ends, none past its
    /// end. Links to regular files inside the workspace are followed.
    ///
    /// # Errors
    /// `too-large` for a `max` over [`limits::READ_BYTES`]; `invalid` for a path that names nothing anywhere, or a
    /// directory; `not-found`; `denied` for what is no regular file, for a link that is absolute or leads out, and
    /// for all that is in a `.git` or in one of Patchbay's own folders, behind links too.
    pub fn read(&self, path: &str, offset: u64, max: u32) -> Result<Vec<u8>, FileError> {
        read::read(self, path, offset, max)
    }

    /// The files and directories that match `glob` and that no `.gitignore` hides, sorted by the bytes of their
    /// paths: at most `limit` (and at most [`limits::PAGE`]), of those that come after `after`. An empty page is
    /// the end. Directories that come before the page, or that the glob cannot reach, are not looked at.
    ///
    /// In a glob `*` and `?` and `[…]` match within a part of the path, `**` any number of parts, `{a,b}` either;
    /// a backslash takes the meaning from what follows. A name that begins with a dot is like any other.
    ///
    /// Links are not descended into; a link to a regular file inside is a file, other links are not listed. Nor are
    /// pipes, sockets and devices; `.git`; Patchbay's own folders; what this process may not look at; names that are not UTF-8 or that no
    /// path can have. What vanishes or becomes a link meanwhile is passed over.
    ///
    /// # Errors
    /// `invalid` for a glob that cannot be read; `too-large` where more would have to be looked at, or more deeply,
    /// than [`limits`] allow: never a page that lacks something.
    pub fn walk(&self, glob: &str, after: Option<&str>, limit: u32) -> Result<Vec<Entry>, FileError> {
        walk::walk(self, glob, after, limit, work::Work::default())
    }

    /// Makes `contents` the whole of the file at `path`, in one step: whoever reads meanwhile has all of the old or
    /// all of the new, also after a crash. Directories that are missing are made, and stay if the rest fails. A file
    /// that is replaced leaves its permission bits to the new one, but for set-user-ID and its like.
    ///
    /// # Errors
    /// `too-large` for contents over [`limits::WRITE_BYTES`]; `invalid` for a path that names nothing anywhere, or a
    /// directory, or that goes through a file; `denied` where a link is on the way or at its end, for what is no
    /// regular file, for a file that is read-only, in any `.git`, `.patchbay`, `.agents` and `.claude`, in Patchbay's
    /// own folders, for what would make git see a repository, and for files with instructions for agents, unless
    /// [`WorkspaceAccess::write_instructions`] allows these ([`FileError::Instructions`]).
    pub fn write(&self, path: &str, contents: &[u8]) -> Result<(), FileError> {
        write::write(self, path, contents)
    }

    /// Deletes the regular file at `path`. Links and directories are not deleted.
    ///
    /// # Errors
    /// As [`write`](Self::write), and `not-found`.
    pub fn delete(&self, path: &str) -> Result<(), FileError> {
        write::delete(self, path)
    }
}

impl Workspace {
    /// Opens the regular file at `path` for the host itself. Links inside the workspace are followed, but to no file
    /// whose name begins with a dot.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`FileError::LinkTarget`].
    pub fn open_file(&self, path: &str) -> Result<(File, Metadata), FileError> {
        read::open_file(self, path)
    }

    /// Opens the directory at `path` for the host itself. Links inside the workspace are followed.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn open_folder(&self, path: &str) -> Result<Arc<Dir>, FileError> {
        resolve::follow_to_directory(self, RelPath::parse(path)?)
    }

    /// Reads a file that becomes rules of the host: AGENTS.md, or a file of a persona. A link is followed only to a file
    /// that plugins may not write either, so that none of them can put its own text there, and that is not hidden, so
    /// that none of the person's secrets (`.env`) is sent to a model in its place.
    ///
    /// # Errors
    /// As [`read`](Self::read); [`FileError::LinkTarget`]; [`FileError::TooLong`] for a file of more than `max` bytes.
    pub fn read_rules(&self, path: &str, max: u64) -> Result<Vec<u8>, FileError> {
        read::read_rules(self, path, max)
    }
}

/// Opens the regular file at `path`, which the operator named: links are followed. A pipe, a device or a directory is
/// refused and never waited for, also when it takes the file's place in this moment.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for what is no regular file, and what the system says.
pub fn open_regular_file(path: &Path) -> io::Result<(std::fs::File, Metadata)> {
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true);
    let file = File::open_ambient_with(path, &options, ambient_authority())?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok((file.into_std(), metadata))
}

/// Opens the regular file at `path` below `folder`, as [`Workspace::open_file`] does.
///
/// # Errors
/// As [`Workspace::open_file`].
pub fn open_file_below(folder: &Dir, path: &str) -> Result<(File, Metadata), FileError> {
    // Nearly always it is a plain name, and no link: then this is all.
    if !path.contains('/')
        && guard::against_reading(path).is_none()
        && let Ok((file, metadata)) = handle::open(folder, path, handle::For::Reading)
        && metadata.is_file()
    {
        return Ok((file, metadata));
    }
    let root = folder.try_clone().map_err(FileError::io(path))?;
    Workspace { root: Arc::new(root), rules: Arc::default() }.open_file(path)
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
