//! Gives files of a workspace the contents that they had before, for a person who takes changes back. `session` decides which.

use std::sync::Arc;

use patchbay_core::{AgentId, CallId, Digest};
use patchbay_sandbox::{FilesError, LocalFiles, WorkspaceFiles as _};
use patchbay_store::{Hold, Store, StoreError};
use patchbay_workspace::{FileError, FoundFile};

use crate::{Editor, Tools, edited_files::EditedFiles, keep::ChangeKeeper};

/// Changes files for one command. Its changes are a change set of their own, which can be taken back in turn. They pass the same
/// checks of paths as those of a skill, and the user's editor.
pub struct FileReverter {
    store: Store,
    hold: Hold,
    agent: AgentId,
    call: CallId,
    reverts: Vec<u64>,
    files: EditedFiles,
}

impl Tools {
    /// Returns what changes files of `workspace` for the command of `agent` with the call `call`, which takes back the change sets
    /// `reverts`.
    ///
    /// # Errors
    /// A database error.
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
    /// Returns the file at `path` as it is now, with contents of at most 20 MiB; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be changed, as a sentence without a full stop.
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

    /// Gives the file at `path` contents and permission bits that it had before; `None` deletes it. What it has now is kept first.
    ///
    /// # Errors
    /// Why the file was not changed, as a sentence without a full stop.
    pub async fn restore(&self, path: &str, to: Option<(Vec<u8>, Option<u32>)>) -> Result<(), String> {
        let Self { store, hold, agent, call, reverts, files } = self;
        let keeper = ChangeKeeper { store, hold, agent: *agent, call: *call, in_turn: false, reverts };
        let after = to.as_ref().map(|(contents, _)| Digest::of(contents));
        let changed = async {
            keeper.keep(files, path, after).await?;
            match to {
                Some((contents, mode)) => files.restore(path, contents, mode).await,
                None => files.delete(path.to_owned()).await,
            }
        };
        changed.await.map_err(|error: FilesError| described(&error))
    }
}

fn described(error: &FilesError) -> String {
    match error {
        FilesError::File(FileError::Instructions { path }) => {
            format!("'{path}' has instructions for agents; allow such changes with: patchbay trust add --write DIR")
        }
        error => error.to_string(),
    }
}
