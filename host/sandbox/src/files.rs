//! The files of a workspace for a guest: the trait, and its implementation for a local folder.

use std::sync::{Arc, LazyLock, OnceLock};

use futures_util::future::BoxFuture;
use patchbay_policy::Permits;
use patchbay_workspace::{
    CheckedFile, EditorTexts, FileEntry, FileError, FoundFile, NameQuery, NameResults, SearchBounds, SearchHalt,
    TextQuery, TextResults, Workspace, WorkspaceAccess,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::Fault;

/// The result of an operation on files of the workspace.
pub type FilesFuture<'a, T> = BoxFuture<'a, Result<T, FilesError>>;

/// The files behind `workspace-read`, `workspace-search`, `workspace-write` and `workspace-delete`. The caller checks the permit.
pub trait WorkspaceFiles: Send + Sync {
    /// Reads at most `max` bytes of a file from byte `offset` on; see [`Workspace::read`].
    fn read(&self, path: String, offset: u64, max: u32) -> FilesFuture<'_, Vec<u8>>;
    /// Lists the files and directories that match `glob`; see [`Workspace::walk`].
    fn walk(&self, glob: String, after: Option<String>, limit: u32) -> FilesFuture<'_, Vec<FileEntry>>;
    /// Searches the text of all files; see [`Workspace::search`]. If the future is dropped, the search ends soon.
    fn search(&self, query: TextQuery, bounds: SearchBounds) -> FilesFuture<'_, TextResults>;
    /// Searches the paths of all files; see [`Workspace::find`]. If the future is dropped, the search ends soon.
    fn find(&self, query: NameQuery, bounds: SearchBounds) -> FilesFuture<'_, NameResults>;
    /// Replaces or creates a file; see [`Workspace::write`].
    fn write(&self, path: String, contents: Vec<u8>) -> FilesFuture<'_, ()>;
    /// Returns whether a write may wait for the user, for example in an editor. The clock of the call is paused
    /// during such a write, which must have a limit of its own.
    fn write_may_ask(&self) -> bool {
        false
    }
    /// Deletes a file; see [`Workspace::delete`].
    fn delete(&self, path: String) -> FilesFuture<'_, ()>;
}

/// Why an operation on the workspace failed.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The request is invalid, or the file cannot be used this way. The guest sees the reason.
    #[error(transparent)]
    File(#[from] FileError),
    /// The user's editor refused or failed. The guest sees its reason.
    #[error("{0}")]
    Editor(String),
    /// Any other failure. If the host itself failed, the cause is in its log.
    #[error("{0}")]
    Failed(&'static str),
    /// An error from the fixture of a plugin's test.
    #[error("{message}")]
    Recorded {
        /// The kind that the guest sees.
        kind: String,
        /// The message of the recorded failure.
        message: String,
    },
}

impl FilesError {
    /// Returns the kind that the guest sees.
    pub fn kind(&self) -> &str {
        match self {
            Self::File(error) => error.kind(),
            Self::Editor(_) | Self::Failed(_) => "failed",
            Self::Recorded { kind, .. } => kind,
        }
    }

    /// Converts the error for a guest with `permits`. If the operator can lift a denial, the message names the command.
    pub fn into_fault(self, permits: &Permits) -> Fault {
        match self {
            Self::File(FileError::Instructions { path }) => permits.deny_instructions(path).into(),
            error => Fault::Failed { kind: error.kind().to_owned(), message: error.to_string() },
        }
    }
}

/// Permits of searches in this process. Each search uses several threads and about a hundred open directories.
static SEARCHES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(2)));

/// Waits until a search may run. The permit belongs to the thread of the search, which may briefly outlive its call.
async fn search_permit() -> Result<OwnedSemaphorePermit, FilesError> {
    // The semaphore is never closed.
    Arc::clone(&SEARCHES).acquire_owned().await.map_err(|_| FilesError::Failed("the host failed"))
}

/// Halts a search when its future ends or is dropped.
struct HaltOnDrop(SearchHalt);

impl Drop for HaltOnDrop {
    fn drop(&mut self) {
        self.0.halt();
    }
}

/// A local folder, with the rules for plugins. Opened at first use.
pub struct LocalFiles {
    access: Arc<WorkspaceAccess>,
    opened: OnceLock<Workspace>,
}

impl LocalFiles {
    /// Returns the files of the folder of `access`, within its rules.
    pub fn new(access: WorkspaceAccess) -> Self {
        Self { access: Arc::new(access), opened: OnceLock::new() }
    }

    /// Checks a read; see [`Workspace::place_to_read`].
    pub fn place_to_read(&self, path: String) -> FilesFuture<'_, CheckedFile> {
        self.step(move |files| files.place_to_read(&path))
    }

    /// Checks a write, and creates missing directories; see [`Workspace::place_to_write`].
    pub fn place_to_write(&self, path: String, size: usize) -> FilesFuture<'_, Option<CheckedFile>> {
        self.step(move |files| files.place_to_write(&path, size))
    }

    /// Checks a change; see [`Workspace::before_change`].
    pub fn before_change(&self, path: String) -> FilesFuture<'_, Option<FoundFile>> {
        self.step(move |files| files.before_change(&path))
    }

    /// Checks a change, and returns the whole file unless it is too large; see [`Workspace::before_change_whole`].
    pub fn before_change_whole(&self, path: String) -> FilesFuture<'_, Option<FoundFile>> {
        self.step(move |files| files.before_change_whole(&path))
    }

    /// Restores earlier contents of a file; see [`Workspace::restore`].
    pub fn restore(&self, path: String, contents: Vec<u8>, mode: Option<u32>) -> FilesFuture<'_, ()> {
        self.step(move |files| files.restore(&path, &contents, mode))
    }

    /// Searches the text of all files. For each path in `texts`, that text is searched instead of the file.
    pub fn search_with(
        &self,
        query: TextQuery,
        texts: EditorTexts,
        bounds: SearchBounds,
    ) -> FilesFuture<'_, TextResults> {
        Box::pin(async move {
            let _halt = HaltOnDrop(bounds.halt.clone());
            let permit = search_permit().await?;
            let search = move |files: &Workspace| {
                let _permit = permit;
                files.search(&query, &texts, &bounds)
            };
            self.step(search).await
        })
    }

    /// Runs `step` on a thread for blocking work. If the call runs out of time, this step still
    /// completes, and its result is dropped.
    fn step<T: Send + 'static>(
        &self,
        step: impl FnOnce(&Workspace) -> Result<T, FileError> + Send + 'static,
    ) -> FilesFuture<'_, T> {
        Box::pin(async move {
            let (opened, access) = (self.opened.get().cloned(), Arc::clone(&self.access));
            let work = move || {
                let workspace = match opened {
                    Some(workspace) => workspace,
                    None => Workspace::open_for_plugins(&access)?,
                };
                Ok::<_, std::io::Error>((step(&workspace), workspace))
            };
            match tokio::task::spawn_blocking(work).await {
                Ok(Ok((done, workspace))) => {
                    let _ = self.opened.set(workspace);
                    Ok(done?)
                }
                Ok(Err(error)) => {
                    tracing::warn!("cannot open the workspace: {error}");
                    Err(FilesError::Failed("cannot open the workspace"))
                }
                Err(error) => {
                    tracing::error!("a file operation in the workspace panicked or was cancelled: {error}");
                    Err(FilesError::Failed("the host failed"))
                }
            }
        })
    }
}

impl WorkspaceFiles for LocalFiles {
    fn read(&self, path: String, offset: u64, max: u32) -> FilesFuture<'_, Vec<u8>> {
        self.step(move |files| files.read(&path, offset, max))
    }

    fn walk(&self, glob: String, after: Option<String>, limit: u32) -> FilesFuture<'_, Vec<FileEntry>> {
        self.step(move |files| files.walk(&glob, after.as_deref(), limit))
    }

    fn search(&self, query: TextQuery, bounds: SearchBounds) -> FilesFuture<'_, TextResults> {
        self.search_with(query, EditorTexts::new(), bounds)
    }

    fn find(&self, query: NameQuery, bounds: SearchBounds) -> FilesFuture<'_, NameResults> {
        Box::pin(async move {
            let _halt = HaltOnDrop(bounds.halt.clone());
            let permit = search_permit().await?;
            let find = move |files: &Workspace| {
                let _permit = permit;
                files.find(&query, &bounds)
            };
            self.step(find).await
        })
    }

    fn write(&self, path: String, contents: Vec<u8>) -> FilesFuture<'_, ()> {
        self.step(move |files| files.write(&path, &contents))
    }

    fn delete(&self, path: String) -> FilesFuture<'_, ()> {
        self.step(move |files| files.delete(&path))
    }
}
