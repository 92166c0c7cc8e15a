//! Access to the files of a workspace for sandboxed plugins. No path and no link leads out of the workspace, even if
//! the plugin is hostile, the files are hostile, or another process swaps directories for links at the same time.
//!
//! The crate `sandbox` calls it for plugins; `session`, `skill` and `provider` use it to read the host's own files.
//!
//! A file is always opened by one name relative to an open directory, and never through a link. Links are read and
//! followed by this crate, segment by segment, below the root. [`limits`] bounds time, memory and open files of each call.
//! All calls block, so run them on a thread for blocking work.
//!
//! - [`Workspace`] reads, lists, searches, writes and deletes files.
//! - [`TextQuery`], [`NameQuery`]: searches of all files; [`TextResults`], [`NameResults`]: their results; [`SearchBounds`]:
//!   their limits.
//! - [`WorkspaceAccess`]: the file permissions of one call's plugins. [`ProtectedPaths`]: Patchbay's own folders, which
//!   no plugin may enter. [`HomeFolder`] detects a workspace that is or contains the home folder.
//! - [`is_repository`] and [`git_head`] tell which branch or commit of a git repository is checked out.
//! - [`resolved_path`] resolves the links in a path that may not exist yet.
//! - [`open_regular_file`] and [`open_file_below`] open files for the host itself and never block on a pipe.
//! - [`FileEntry`]: one entry of a listing. [`CheckedFile`]: a file that an editor may read or write. [`ExistingFile`]: a file
//!   before a change.
//! - [`FileError`]: why a call failed; [`FileError::kind`] is the error kind of the WIT contract.
//!
//! Permissions and the number of calls are checked by the sandbox, not here. Mounted and hard-linked files below the
//! root count as inside, because a hard link *is* the file. A write replaces the file of a name, so other hard links
//! keep the old contents.

mod error;
mod git;
mod glob;
mod guard;
mod handle;
mod ignored;
pub mod limits;
mod linked;
mod path;
mod place;
mod protected;
mod read;
mod resolve;
mod search;
mod selection;
mod walk;
mod wild;
mod work;
mod write;

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Instant,
};

use cap_fs_ext::OpenOptionsSyncExt as _;
use cap_std::{
    ambient_authority,
    fs::{Dir, File, Metadata, OpenOptions},
};
use patchbay_core::Digest;

pub use error::FileError;
pub use git::{GitHead, git_head, is_repository};
pub use guard::protected_names;
pub use protected::{HomeFolder, ProtectedPaths};
pub use search::{
    EditorTexts, FileMatches, MatchedLine, NameQuery, NameResults, SearchBounds, SearchPosition, SearchStop,
    SkippedFiles, TextQuery, TextResults,
};
pub use work::SearchHalt;

use linked::LinkedPaths;
use path::RelPath;
use protected::ProtectedIds;

/// The files below one directory. Cheap to clone: all clones share one open directory, which
/// stays the same if it is moved.
#[derive(Clone, Debug)]
pub struct Workspace {
    root: Arc<Dir>,
    rules: Arc<AccessRules>,
}

/// A workspace, and the permissions that the plugins of one call have in it.
#[derive(Clone, Debug, Default)]
pub struct WorkspaceAccess {
    /// The canonical path of the root.
    pub root: PathBuf,
    /// Folders that no plugin may enter.
    pub protected: ProtectedPaths,
    /// True if plugins may write files with instructions for agents, such as AGENTS.md.
    pub write_instructions: bool,
}

/// The access rules of an open workspace. Empty for the host's own access.
#[derive(Debug, Default)]
struct AccessRules {
    protected: ProtectedPaths,
    /// Identities of `protected` when the workspace was opened.
    identities: ProtectedIds,
    /// True if the root is one of the protected folders or is inside one.
    root_is_protected: bool,
    /// Identities of the folders of skills when the workspace was opened.
    skill_roots: ProtectedIds,
    /// True if the root is one of the folders of skills or is inside one.
    root_is_of_skills: bool,
    /// True if files with instructions for agents may be written.
    instructions: bool,
    /// The canonical path of the root; empty for the host's own access.
    root: PathBuf,
    /// The targets of the operator's links, as of the first write.
    linked: OnceLock<LinkedPaths>,
}

impl AccessRules {
    /// Refuses everything if the root itself is protected.
    fn check_root(&self, path: RelPath<'_>) -> Result<(), FileError> {
        match self.root_is_protected {
            true => Err(FileError::Protected { path: path.shown(), why: guard::OWN_FOLDER }),
            false => Ok(()),
        }
    }

    /// Refuses every write if the root itself is in a folder of skills.
    fn check_root_for_writing(&self, path: RelPath<'_>) -> Result<(), FileError> {
        self.check_root(path)?;
        let why = match self.root_is_of_skills {
            true => Some(guard::SKILL_ROOT),
            false => self.linked().cover_root().then_some(guard::LINKED),
        };
        why.map_or(Ok(()), |why| Err(FileError::Protected { path: path.shown(), why }))
    }

    /// Returns the targets of the operator's links, as of the first write.
    fn linked(&self) -> &LinkedPaths {
        self.linked.get_or_init(|| self.linked_now())
    }

    /// Returns the current targets of the operator's links.
    fn linked_now(&self) -> LinkedPaths {
        LinkedPaths::now(&self.protected, &self.root)
    }

    /// Returns why nothing may be written below the open directory `dir`; `None` if writing is allowed. `is_new` is true if `dir`
    /// did not exist when the workspace was opened.
    fn write_refusal(&self, dir: &Dir, is_new: bool) -> io::Result<Option<&'static str>> {
        let is_own = if is_new { self.is_new_protected(dir)? } else { self.is_protected(dir)? };
        if is_own {
            return Ok(Some(guard::OWN_FOLDER));
        }
        let skill_roots = if is_new { &self.protected.skill_roots() } else { &self.skill_roots };
        let is_of_skills = !skill_roots.is_empty() && skill_roots.include(&dir.dir_metadata()?);
        Ok(is_of_skills.then_some(guard::SKILL_ROOT))
    }

    /// Returns true if the open directory `dir` is protected.
    fn is_protected(&self, dir: &Dir) -> io::Result<bool> {
        Ok(!self.identities.is_empty() && self.identities.include(&dir.dir_metadata()?))
    }

    /// Like [`AccessRules::is_protected`], for a directory that did not exist when the workspace was opened.
    fn is_new_protected(&self, dir: &Dir) -> io::Result<bool> {
        Ok(self.protected.identities().include(&dir.dir_metadata()?))
    }
}

/// One entry of [`Workspace::walk`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Path relative to the root, with `/` between its segments.
    pub path: String,
    /// True for a directory; false for a regular file or a link to one.
    pub is_directory: bool,
    /// Size of the file in bytes; 0 for a directory.
    pub size: u64,
}

/// A file that passed every check, for an editor that reads or writes it in place of this crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedFile {
    /// The real path relative to the root; links are resolved.
    pub path: String,
    /// Size in bytes: of the file to read, or of the contents to write.
    pub size: u64,
    /// False for a file with a NUL byte in its first 8 KiB.
    pub is_text: bool,
}

/// A file as a write or a deletion would find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExistingFile {
    /// Size of the contents, in bytes.
    pub size: u64,
    /// Digest of the contents, or of the beginning of a file over [`limits::COMPARED_BYTES`].
    pub digest: Digest,
}

/// A file, as it was before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// The size and digest of the file.
    pub file: ExistingFile,
    /// Its contents; `None` for a file over [`limits::SHOWN_BYTES`] or, from [`Workspace::before_change_whole`],
    /// [`limits::KEPT_BYTES`].
    pub contents: Option<Vec<u8>>,
    /// Its read, write and execute bits; `None` on a system without them.
    pub mode: Option<u32>,
}

impl Workspace {
    /// Opens the workspace with the root directory `root`, which may be a link, because the operator chose it.
    ///
    /// # Errors
    /// `root` is not a directory or cannot be opened.
    pub fn open(root: &Path) -> io::Result<Self> {
        Ok(Self { root: Arc::new(Dir::open_ambient_dir(root, ambient_authority())?), rules: Arc::default() })
    }

    /// Opens the workspace of `access` for plugins.
    ///
    /// # Errors
    /// The root is not a directory or cannot be opened.
    pub fn open_for_plugins(access: &WorkspaceAccess) -> io::Result<Self> {
        let (identities, skill_roots) = (access.protected.identities(), access.protected.skill_roots());
        let rules = AccessRules {
            root_is_protected: identities.cover(&access.root),
            identities,
            root_is_of_skills: skill_roots.cover(&access.root),
            skill_roots,
            protected: access.protected.clone(),
            instructions: access.write_instructions,
            root: access.root.clone(),
            linked: OnceLock::new(),
        };
        Ok(Self { rules: Arc::new(rules), ..Self::open(&access.root)? })
    }

    /// Opens the workspace at `root` for the host itself, which reads AGENTS.md and personas there. No link
    /// may lead to a `protected` path.
    ///
    /// # Errors
    /// The root is not a directory or cannot be opened.
    pub fn open_for_host(root: &Path, protected: &ProtectedPaths) -> io::Result<Self> {
        let rules = AccessRules { identities: protected.identities(), ..AccessRules::default() };
        Ok(Self { rules: Arc::new(rules), ..Self::open(root)? })
    }

    /// Reads up to `max` bytes of the file at `path`, starting at byte `offset`. Returns fewer bytes at the end of the
    /// file and none past it. Links to regular files inside the workspace are followed.
    ///
    /// # Errors
    /// By [`FileError::kind`]:
    /// - `too-large`: `max` exceeds [`limits::READ_BYTES`];
    /// - `invalid`: a malformed path, or a directory;
    /// - `not-found`;
    /// - `denied`: not a regular file, a link that is absolute or leads out, or a path in `.git` or in one of
    ///   Patchbay's own folders, even through links.
    pub fn read(&self, path: &str, offset: u64, max: u32) -> Result<Vec<u8>, FileError> {
        read::read(self, path, offset, max)
    }

    /// Lists one page of the files and directories that match `glob` and are not hidden by a `.gitignore`,
    /// sorted by the bytes of their paths. The page begins after the path `after` and has at most `limit` (and
    /// at most [`limits::PAGE`]) entries. An empty page means the end. Directories before the page, or out of
    /// reach of the glob, are not read.
    ///
    /// In a glob `*`, `?` and `[…]` match within one segment of the path, `**` matches any number of segments,
    /// `{a,b}` matches either text, and a backslash escapes the next character. Names that begin with a
    /// dot are matched like all others.
    ///
    /// Links to directories are not followed; a link to a regular file inside the workspace is listed as a
    /// file. Not listed: other links; pipes, sockets and devices; `.git`; Patchbay's own folders; files and
    /// folders without permission; names that are not UTF-8 or are not valid in a path; files that are removed
    /// or become links during the walk.
    ///
    /// # Errors
    /// `invalid` for a malformed glob; `too-large` if the walk would exceed [`limits`]. A
    /// page is never silently incomplete.
    pub fn walk(&self, glob: &str, after: Option<&str>, limit: u32) -> Result<Vec<FileEntry>, FileError> {
        walk::walk(self, glob, after, limit, work::WorkBudget::default())
    }

    /// Lists at most `limit` files and directories for the user, with the rules and in the order of
    /// [`walk`](Self::walk), and stops at the deadline `until`. Unlike a page of a walk, the list may be
    /// incomplete: it ends at the first error and where the walk would exceed [`limits`].
    pub fn list(&self, limit: usize, until: Instant) -> Vec<FileEntry> {
        walk::list(self, limit, until)
    }

    /// Searches the text of the files that [`walk`](Self::walk) would list, on several threads. The result is sorted by the bytes
    /// of the paths, complete up to [`TextResults::next`], and does not depend on the threads. Binary files and files over
    /// [`limits::SEARCHED_FILE_BYTES`] are skipped. `texts` replace the contents of their files.
    ///
    /// # Errors
    /// By [`FileError::kind`]:
    /// - `invalid`: a malformed pattern or glob, or a number out of range;
    /// - `too-large`: the walk exceeded [`limits`] before the first file;
    /// - `timeout`: the time ended before the first file;
    /// - `denied`: the root is one of Patchbay's own folders;
    /// - `failed`: the system has no thread left.
    ///
    /// After [`SearchHalt::halt`] the result is meaningless.
    pub fn search(
        &self,
        query: &TextQuery,
        texts: &EditorTexts,
        bounds: &SearchBounds,
    ) -> Result<TextResults, FileError> {
        search::search(self, query, texts, bounds)
    }

    /// Searches the paths of the files and directories that [`walk`](Self::walk) would list, without its page limit.
    ///
    /// # Errors
    /// The same as [`search`](Self::search).
    pub fn find(&self, query: &NameQuery, bounds: &SearchBounds) -> Result<NameResults, FileError> {
        search::find(self, query, bounds)
    }

    /// Replaces the contents of the file at `path` atomically: a concurrent reader, even after a crash, sees either the
    /// old or the new contents. Missing directories are created, and remain if a later step fails. The new file gets
    /// the permission bits of the old one, without set-user-ID, set-group-ID and sticky.
    ///
    /// # Errors
    /// By [`FileError::kind`]:
    /// - `too-large`: contents over [`limits::WRITE_BYTES`];
    /// - `invalid`: a malformed path, a directory, or a path through a file;
    /// - `denied`: a link anywhere in the path; not a regular file; a read-only file; a path in `.git`, in one of Patchbay's
    ///   own folders, or in the settings of an agent, an editor or git, such as `.claude` or `.vscode`; a skill or a persona
    ///   that a link leads to; a name that would create or change a bare git repository; a file with instructions for agents
    ///   ([`FileError::Instructions`]), unless [`WorkspaceAccess::write_instructions`] is set.
    pub fn write(&self, path: &str, contents: &[u8]) -> Result<(), FileError> {
        write::write(self, path, contents)
    }

    /// Checks a write or deletion of `path` as far as possible without creating a directory, and returns the file that it would
    /// replace or delete; `None` if there is none.
    ///
    /// # Errors
    /// The same as [`write`](Self::write).
    pub fn before_change(&self, path: &str) -> Result<Option<FoundFile>, FileError> {
        write::before_change(self, path, limits::SHOWN_BYTES)
    }

    /// Like [`before_change`](Self::before_change), with the contents of files of at most [`limits::KEPT_BYTES`].
    ///
    /// # Errors
    /// The same as [`write`](Self::write).
    pub fn before_change_whole(&self, path: &str) -> Result<Option<FoundFile>, FileError> {
        write::before_change(self, path, limits::KEPT_BYTES)
    }

    /// Restores earlier contents of the file at `path`, at most [`limits::KEPT_BYTES`]. A file that does not exist is
    /// created with the permission bits `mode`.
    ///
    /// # Errors
    /// The same as [`write`](Self::write).
    pub fn restore(&self, path: &str, contents: &[u8], mode: Option<u32>) -> Result<(), FileError> {
        write::restore(self, path, contents, mode)
    }

    /// Checks a read of `path` and returns the real path of the file.
    ///
    /// # Errors
    /// The same as [`read`](Self::read).
    pub fn place_to_read(&self, path: &str) -> Result<CheckedFile, FileError> {
        place::to_read(self, path)
    }

    /// Checks a write of `size` bytes to `path`, creates missing directories, and returns the path of the file. `None` if
    /// a name in `path` could be part of a git repository, which only [`write`](Self::write) can write safely.
    ///
    /// # Errors
    /// The same as [`write`](Self::write).
    pub fn place_to_write(&self, path: &str, size: usize) -> Result<Option<CheckedFile>, FileError> {
        place::to_write(self, path, size)
    }

    /// Deletes the regular file at `path`. Does not delete links or directories.
    ///
    /// # Errors
    /// The same as [`write`](Self::write), and `not-found`.
    pub fn delete(&self, path: &str) -> Result<(), FileError> {
        write::delete(self, path)
    }
}

impl Workspace {
    /// Opens the regular file at `path` for the host itself. Follows links inside the workspace, but not to a file with a
    /// name that begins with a dot.
    ///
    /// # Errors
    /// The same as [`read`](Self::read), and [`FileError::LinkTarget`].
    pub fn open_file(&self, path: &str) -> Result<(File, Metadata), FileError> {
        read::open_file(self, path)
    }

    /// Opens the regular file at `path` that the user wants to send to a model. Refuses files that a
    /// `.gitignore` hides, even through a link.
    ///
    /// # Errors
    /// The same as [`open_file`](Self::open_file), and [`FileError::Ignored`].
    pub fn open_listed_file(&self, path: &str) -> Result<(File, Metadata), FileError> {
        read::open_listed_file(self, path)
    }

    /// Opens the directory at `path` for the host itself. Follows links inside the workspace.
    ///
    /// # Errors
    /// The same as [`read`](Self::read).
    pub fn open_folder(&self, path: &str) -> Result<Arc<Dir>, FileError> {
        resolve::follow_to_directory(self, RelPath::parse(path)?)
    }

    /// Reads a file that controls the host: AGENTS.md, or a file of a persona. Follows a link only if plugins may not
    /// write its target, because a plugin could otherwise place its own text there. The target must not be hidden
    /// either; a secret such as `.env` must not be sent to a model.
    ///
    /// # Errors
    /// The same as [`read`](Self::read); [`FileError::LinkTarget`]; [`FileError::TooLong`] for a
    /// file of more than `max` bytes.
    pub fn read_rules(&self, path: &str, max: u64) -> Result<Vec<u8>, FileError> {
        read::read_rules(self, path, max)
    }
}

/// Opens the regular file at `path`, which the operator chose, and follows links. Refuses pipes, devices and
/// directories without blocking, even if one of them replaces the file at that moment.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if it is not a regular file, and errors of the system.
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

/// Opens the regular file at `path` below `folder` with the rules of [`Workspace::open_file`].
///
/// # Errors
/// The same as [`Workspace::open_file`].
pub fn open_file_below(folder: &Dir, path: &str) -> Result<(File, Metadata), FileError> {
    // Fast path: nearly always `path` is a single name and not a link.
    if !path.contains('/')
        && guard::read_refusal(path).is_none()
        && let Ok((file, metadata)) = handle::open(folder, path, handle::OpenFor::Reading)
        && metadata.is_file()
    {
        return Ok((file, metadata));
    }
    let root = folder.try_clone().map_err(FileError::io(path))?;
    Workspace { root: Arc::new(root), rules: Arc::default() }.open_file(path)
}

/// Returns `path` with the links in its existing part resolved. File events may contain the path in this form: on macOS, for
/// example, `/tmp` is a link to `/private/tmp`.
pub fn resolved_path(path: &Path) -> PathBuf {
    let resolved = path.ancestors().find_map(|part| {
        let rest = path.strip_prefix(part).ok().filter(|rest| !rest.as_os_str().is_empty());
        let part = part.canonicalize().ok()?;
        Some(rest.map_or_else(|| part.clone(), |rest| part.join(rest)))
    });
    resolved.unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
