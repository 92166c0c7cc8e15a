//! The files of the workspace for a call. The contents from before each change are kept for `/undo`.
use patchbay_core::Digest;
use patchbay_sandbox::{
    FileEntry, FilesError, FilesFuture, NameQuery, NameResults, SearchBounds, TextQuery, TextResults, WorkspaceFiles,
};

use super::{CallServices, NOT_RECORDED};

impl CallServices {
    /// Changes the file at `path` with `change`. `after` is the digest of its new contents, or `None` if it is deleted.
    async fn change_file(
        &self,
        path: &str,
        after: Option<Digest>,
        change: FilesFuture<'_, ()>,
    ) -> Result<(), FilesError> {
        if !self.begin_effect().await {
            return Err(FilesError::Failed(NOT_RECORDED));
        }
        self.change_keeper().change(&self.files, path, after, change).await
    }
}

impl WorkspaceFiles for CallServices {
    fn read(&self, path: String, offset: u64, max: u32) -> FilesFuture<'_, Vec<u8>> {
        self.files.read(path, offset, max)
    }

    fn walk(&self, glob: String, after: Option<String>, limit: u32) -> FilesFuture<'_, Vec<FileEntry>> {
        self.files.walk(glob, after, limit)
    }

    fn search(&self, query: TextQuery, bounds: SearchBounds) -> FilesFuture<'_, TextResults> {
        self.files.search(query, bounds)
    }

    fn find(&self, query: NameQuery, bounds: SearchBounds) -> FilesFuture<'_, NameResults> {
        self.files.find(query, bounds)
    }

    fn write(&self, path: String, contents: Vec<u8>) -> FilesFuture<'_, ()> {
        Box::pin(async move {
            let after = Digest::of(&contents);
            self.change_file(&path, Some(after), self.files.write(path.clone(), contents)).await
        })
    }

    fn write_may_ask(&self) -> bool {
        self.files.write_may_ask()
    }

    fn delete(&self, path: String) -> FilesFuture<'_, ()> {
        Box::pin(async move { self.change_file(&path, None, self.files.delete(path.clone())).await })
    }
}
