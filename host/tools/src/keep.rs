//! Changes files of the workspace. The earlier contents are committed with the turn or command before the file changes, so a crash
//! cannot lose them.

use std::future::Future;

use patchbay_core::{AgentId, CallId, Digest};
use patchbay_sandbox::{FilesError, FoundFile};
use patchbay_store::{Hold, NewFileChange, RetainedAttachments, Store, StoreError};
use patchbay_workspace::limits::KEPT_BYTES;

use crate::edited_files::EditedFiles;

/// Size limit of the old file contents that a session keeps, in bytes. Changes beyond it cannot be undone.
const SESSION_BYTES: u64 = 256 << 20;

/// Why a change could not be committed. In this case the file is not changed.
const NOT_KEPT: &str = "the host could not keep the file's contents; nothing was changed";

/// Makes the file changes of one call, and keeps the earlier contents.
pub(crate) struct ChangeKeeper<'a> {
    pub(crate) store: &'a Store,
    pub(crate) hold: &'a Hold,
    pub(crate) agent: AgentId,
    pub(crate) call: CallId,
    /// Whether the call belongs to a turn of the agent.
    pub(crate) in_turn: bool,
    /// The change sets that the call undoes; empty unless it is `/undo`.
    pub(crate) reverts: &'a [u64],
}

impl ChangeKeeper<'_> {
    /// Changes the file at `path` with `change`. `after` is the digest of its new contents, or `None` if it is deleted.
    pub(crate) async fn change(
        &self,
        files: &EditedFiles,
        path: &str,
        after: Option<Digest>,
        change: impl Future<Output = Result<(), FilesError>>,
    ) -> Result<(), FilesError> {
        // This fails with the error that the change itself would return. An editor that does not return its text may still accept a
        // new one. In this case, the contents on disk are kept.
        let before = match files.before_change_whole(path, after.is_some()).await {
            Err(FilesError::Editor(_)) => files.before_change_whole(path, false).await?,
            before => before?,
        };
        self.change_from(files, path, before, after, change).await
    }

    /// Like [`Self::change`], for a file that was found to be `before`.
    pub(crate) async fn change_from(
        &self,
        files: &EditedFiles,
        path: &str,
        before: Option<FoundFile>,
        after: Option<Digest>,
        change: impl Future<Output = Result<(), FilesError>>,
    ) -> Result<(), FilesError> {
        self.commit(path, before, after).await.map_err(|error| {
            tracing::error!("a change of a file could not be recorded: {error}");
            FilesError::Failed(NOT_KEPT)
        })?;
        let changed = change.await;
        if changed.is_err() {
            self.correct(files, path, after).await;
        }
        changed
    }

    /// Records the actual contents of the file at `path` after a change that failed. Otherwise `/undo` would mistake them for
    /// a change by the user. They may be the intended ones, from an editor that did not respond in time.
    async fn correct(&self, files: &EditedFiles, path: &str, intended: Option<Digest>) {
        let Ok(now) = files.before_change(path, intended.is_some()).await else { return };
        let now = now.map(|now| now.file.digest);
        if let Err(error) = self.store.correct_file_change(self.hold, path.to_owned(), intended, now).await {
            tracing::warn!("a change that failed could not be corrected in the store: {error}");
        }
    }

    async fn commit(&self, path: &str, before: Option<FoundFile>, after: Option<Digest>) -> Result<(), StoreError> {
        let (mut file, mut mode, mut retained) = (None, None, None);
        if let Some(before) = before {
            (file, mode) = (Some(before.file), before.mode);
            let has_room = why_not_kept(self.store, self.hold, before.file.size, 0).await?.is_none();
            if let Some(contents) = before.contents.filter(|_| has_room) {
                retained = Some(self.store_contents(contents).await?);
            }
        }
        let change = NewFileChange {
            agent: self.agent,
            call: self.call,
            in_turn: self.in_turn,
            reverts: self.reverts.to_vec(),
            path: path.to_owned(),
            before: file.map(|file| file.digest),
            after,
            size: file.map_or(0, |file| file.size),
            mode,
            retained,
        };
        self.store.begin_file_change(self.hold, change).await
    }

    async fn store_contents(&self, contents: Vec<u8>) -> Result<RetainedAttachments, StoreError> {
        let store = self.store.clone();
        let stored = tokio::task::spawn_blocking(move || store.store_before_change(&contents)).await;
        stored.map_err(|_| StoreError::BadRow("contents of a file"))?
    }
}

/// Returns why the contents of a file of `size` bytes would not be kept after `before` bytes of other files; `None` if they would.
pub(crate) async fn why_not_kept(
    store: &Store,
    hold: &Hold,
    size: u64,
    before: u64,
) -> Result<Option<&'static str>, StoreError> {
    if size > KEPT_BYTES {
        return Ok(Some("cannot be undone: the file is over the limit of 20 MiB"));
    }
    let kept = store.kept_bytes(hold.session()).await?;
    Ok((kept.saturating_add(before).saturating_add(size) > SESSION_BYTES)
        .then_some("cannot be undone: earlier contents in this session have reached the limit of 256 MiB"))
}
