//! The files of a workspace, as a sandboxed guest may see them. The guest is hostile, its workspace's files may be,
//! and somebody may swap directories for links while we look: no path and no link leads out all the same.
//!
//! Nothing is ever opened but one name of a directory that is open already, and never through a link. Links are read
//! and followed by hand, part by part, below the root. Time, memory and open files of a call are bounded by
//! [`limits`], whatever the guest asks for and whatever the files hold; the calls block, and are for a thread that
//! may.
//!
//! - [`Workspace`] reads, lists, writes and deletes.
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
mod read;
mod resolve;
mod walk;
mod wild;
mod work;
mod write;

use std::{io, path::Path, sync::Arc};

use cap_std::{ambient_authority, fs::Dir};

pub use error::FileError;

/// The files below one directory. Cheap to clone; all clones hold the same open directory, wherever it is moved.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: Arc<Dir>,
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
        Ok(Self { root: Arc::new(Dir::open_ambient_dir(root, ambient_authority())?) })
    }

    /// At most `max` bytes of the file at `path`, from the byte `offset`: fewer where the file ends, none past its
    /// end. Links to regular files inside the workspace are followed.
    ///
    /// # Errors
    /// `too-large` for a `max` over [`limits::READ_BYTES`]; `invalid` for a path that names nothing anywhere, or a
    /// directory; `not-found`; `denied` for what is no regular file, for a link that is absolute or leads out, and
    /// for all that is in a `.git`, behind links too.
    pub fn read(&self, path: &str, offset: u64, max: u32) -> Result<Vec<u8>, FileError> {
        read::read(&self.root, path, offset, max)
    }

    /// The files and directories that match `glob` and that no `.gitignore` hides, sorted by the bytes of their
    /// paths: at most `limit` (and at most [`limits::PAGE`]), of those that come after `after`. An empty page is
    /// the end. Directories that come before the page, or that the glob cannot reach, are not looked at.
    ///
    /// In a glob `*` and `?` and `[…]` match within a part of the path, `**` any number of parts, `{a,b}` either;
    /// a backslash takes the meaning from what follows. A name that begins with a dot is like any other.
    ///
    /// Links are not descended into; a link to a regular file inside is a file, other links are not listed. Nor are
    /// pipes, sockets and devices; `.git`; what this process may not look at; names that are not UTF-8 or that no
    /// path can have. What vanishes or becomes a link meanwhile is passed over.
    ///
    /// # Errors
    /// `invalid` for a glob that cannot be read; `too-large` where more would have to be looked at, or more deeply,
    /// than [`limits`] allow: never a page that lacks something.
    pub fn walk(&self, glob: &str, after: Option<&str>, limit: u32) -> Result<Vec<Entry>, FileError> {
        walk::walk(&self.root, glob, after, limit, work::Work::default())
    }

    /// Makes `contents` the whole of the file at `path`, in one step: whoever reads meanwhile has all of the old or
    /// all of the new, also after a crash. Directories that are missing are made, and stay if the rest fails. A file
    /// that is replaced leaves its permission bits to the new one, but for set-user-ID and its like.
    ///
    /// # Errors
    /// `too-large` for contents over [`limits::WRITE_BYTES`]; `invalid` for a path that names nothing anywhere, or a
    /// directory, or that goes through a file; `denied` where a link is on the way or at its end, for what is no
    /// regular file, for a file that is read-only, and in any `.git` and `.patchbay`.
    pub fn write(&self, path: &str, contents: &[u8]) -> Result<(), FileError> {
        write::write(&self.root, path, contents)
    }

    /// Deletes the regular file at `path`. Links and directories are not deleted.
    ///
    /// # Errors
    /// As [`write`](Self::write), and `not-found`.
    pub fn delete(&self, path: &str) -> Result<(), FileError> {
        write::delete(&self.root, path)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
