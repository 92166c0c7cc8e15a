//! The files of the workspace for a call. Before each change, the file's contents are kept, so that the change can be taken back.

use futures_util::future::BoxFuture;
use patchbay_core::Digest;
use patchbay_sandbox::{
    FileEntry, FilesError, NameQuery, NameResults, SearchBounds, TextQuery, TextResults, WorkspaceFiles,
};

use super::{CallServices, NOT_RECORDED};

impl CallServices {
    /// Records that the file at `path` is about to get the contents `after`, `None` to delete it, and keeps what it has now.
    async fn begin_change(&self, path: &str, after: Option<&[u8]>) -> Result<(), FilesError> {
        if !self.begin_effect().await {
            return Err(FilesError::Failed(NOT_RECORDED));
        }
        self.change_keeper().keep(&self.files, path, after.map(Digest::of)).await
    }
}

impl WorkspaceFiles for CallServices {
    fn read(&self, path: String, offset: u64, max: u32) -> BoxFuture<'_, Result<Vec<u8>, FilesError>> {
        self.files.read(path, offset, max)
    }

    fn walk(
        &self,
        glob: String,
        after: Option<String>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<FileEntry>, FilesError>> {
        self.files.walk(glob, after, limit)
    }

    fn search(&self, query: TextQuery, bounds: SearchBounds) -> BoxFuture<'_, Result<TextResults, FilesError>> {
        self.files.search(query, bounds)
    }

    fn find(&self, query: NameQuery, bounds: SearchBounds) -> BoxFuture<'_, Result<NameResults, FilesError>> {
        self.files.find(query, bounds)
    }

    fn write(&self, path: String, contents: Vec<u8>) -> BoxFuture<'_, Result<(), FilesError>> {
        Box::pin(async move {
            self.begin_change(&path, Some(&contents)).await?;
            self.files.write(path, contents).await
        })
    }

    fn write_may_ask(&self) -> bool {
        self.files.write_may_ask()
    }

    fn delete(&self, path: String) -> BoxFuture<'_, Result<(), FilesError>> {
        Box::pin(async move {
            self.begin_change(&path, None).await?;
            self.files.delete(path).await
        })
    }
}
