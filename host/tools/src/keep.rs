//! Keeps the contents of a file before a call changes it, and commits the change to its turn or command. The file is changed only
//! after that, so a crash never loses what was there.

use patchbay_core::{AgentId, CallId, Digest};
use patchbay_sandbox::{FilesError, FoundFile};
use patchbay_store::{Hold, NewFileChange, RetainedAttachments, Store, StoreError};
use patchbay_workspace::limits::KEPT_BYTES;

use crate::edited_files::EditedFiles;

/// The most bytes that are kept for a session. Changes beyond it cannot be taken back.
const SESSION_BYTES: u64 = 256 << 20;

/// Why a change could not be committed. The file is not changed then.
const NOT_KEPT: &str = "the host could not keep the file's contents; nothing was changed";

/// Keeps files before the changes of one call.
pub(crate) struct ChangeKeeper<'a> {
    pub(crate) store: &'a Store,
    pub(crate) hold: &'a Hold,
    pub(crate) agent: AgentId,
    /// The outermost call.
    pub(crate) call: CallId,
    /// Whether it belongs to a turn of the agent.
    pub(crate) in_turn: bool,
    /// The change sets that the call takes back.
    pub(crate) reverts: &'a [u64],
}

impl ChangeKeeper<'_> {
    /// Commits that the file at `path` is about to get contents with the digest `after`; `None` if it is deleted.
    pub(crate) async fn keep(&self, files: &EditedFiles, path: &str, after: Option<Digest>) -> Result<(), FilesError> {
        // A write or deletion that must fail does so by itself, with the same error.
        let before = files.before_change_whole(path, after.is_some()).await?;
        self.commit(path, before, after).await.map_err(|error| {
            tracing::error!("a change of a file could not be recorded: {error}");
            FilesError::Failed(NOT_KEPT)
        })
    }

    async fn commit(&self, path: &str, before: Option<FoundFile>, after: Option<Digest>) -> Result<(), StoreError> {
        let (mut file, mut mode, mut retained) = (None, None, None);
        if let Some(before) = before {
            (file, mode) = (Some(before.file), before.mode);
            let has_room = why_not_kept(self.store, self.hold, before.file.size).await?.is_none();
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

/// Returns why a file of `size` bytes would not be kept before its change; `None` if it would.
pub(crate) async fn why_not_kept(store: &Store, hold: &Hold, size: u64) -> Result<Option<&'static str>, StoreError> {
    if size > KEPT_BYTES {
        return Ok(Some("cannot be undone: the file has more than 20 MiB"));
    }
    let kept = store.kept_bytes(hold.session()).await?;
    Ok((kept.saturating_add(size) > SESSION_BYTES)
        .then_some("cannot be undone: this session keeps 256 MiB of earlier contents already"))
}
