//! Restores earlier contents of files, for `/undo` and `/diff`. `session` decides which files and contents.

use std::sync::Arc;

use patchbay_core::{AgentId, CallId, Digest};
use patchbay_sandbox::{FilesError, LocalFiles, WorkspaceFiles as _};
use patchbay_store::{Hold, Store, StoreError};
use patchbay_workspace::{FileError, FoundFile};

use crate::{Editor, Tools, edited_files::EditedFiles, keep::ChangeKeeper};

/// Why a file that changed while the command ran was left alone.
const JUST_CHANGED: &str = "it has just been changed by something else";

/// Reads and restores files for one command. The changes are a change set of their own, which can be undone in turn. Paths are
/// checked as for a skill, and files that are open in the user's editor are changed there.
pub struct FileReverter {
    store: Store,
    hold: Hold,
    agent: AgentId,
    call: CallId,
    reverts: Vec<u64>,
    files: EditedFiles,
}

impl Tools {
    /// Returns the [`FileReverter`] of `workspace` for the command of `agent` with the call `call`, which
    /// undoes the change sets `reverts`.
    ///
    /// # Errors
    /// The database could not be read or written.
    pub async fn file_reverter(
        &self,
        hold: &Hold,
        agent: AgentId,
        call: CallId,
        reverts: &[u64],
        workspace: &str,
        editor: Option<Arc<dyn Editor>>,
    ) -> Result<FileReverter, StoreError> {
        let may_write = self.workspace_trust(workspace).await?.write;
        let files = LocalFiles::new(self.workspaces.access(workspace, may_write));
        Ok(FileReverter {
            store: self.store.clone(),
            hold: hold.clone(),
            agent,
            call,
            reverts: reverts.to_vec(),
            files: EditedFiles::new(files, editor, workspace.to_owned()),
        })
    }
}

impl FileReverter {
    /// Returns the file at `path`, with contents of at most 20 MiB; `None` if it does not exist.
    ///
    /// # Errors
    /// The reason that the file cannot be changed, without a full stop.
    pub async fn now(&self, path: &str) -> Result<Option<FoundFile>, String> {
        self.files.before_change_whole(path, true).await.map_err(|error| described(&error))
    }

    /// Returns contents that were kept before a change; `None` if they are missing or damaged.
    pub async fn kept(&self, digest: Digest) -> Option<Vec<u8>> {
        let store = self.store.clone();
        let read = tokio::task::spawn_blocking(move || store.attachment(&digest)).await;
        read.ok()?.unwrap_or_else(|error| {
            tracing::error!("kept contents could not be read: {error}");
            None
        })
    }

    /// Restores the contents and permission bits of the file at `path`; `None` deletes it. The current contents are kept first.
    /// `found` is the digest that [`Self::now`] returned: a file that has changed since then is left alone.
    ///
    /// # Errors
    /// The reason that the file was not changed, without a full stop.
    pub async fn restore(
        &self,
        path: &str,
        found: Option<Digest>,
        to: Option<(Vec<u8>, Option<u32>)>,
    ) -> Result<(), String> {
        let Self { store, hold, agent, call, reverts, files } = self;
        let keeper = ChangeKeeper { store, hold, agent: *agent, call: *call, in_turn: false, reverts };
        let after = to.as_ref().map(|(contents, _)| Digest::of(contents));
        let changed = async {
            let before = files.before_change_whole(path, after.is_some()).await?;
            if before.as_ref().map(|before| before.file.digest) != found {
                return Err(FilesError::Failed(JUST_CHANGED));
            }
            let change = async {
                match to {
                    Some((contents, mode)) => files.restore(path, contents, mode).await,
                    None => files.delete(path.to_owned()).await,
                }
            };
            keeper.change_from(files, path, before, after, change).await
        };
        changed.await.map_err(|error| described(&error))
    }
}

fn described(error: &FilesError) -> String {
    match error {
        FilesError::File(FileError::Instructions { path }) => {
            format!("'{path}' contains instructions for agents. To allow such changes: patchbay trust add --write DIR")
        }
        error => error.to_string(),
    }
}
