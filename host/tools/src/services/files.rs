//! The files of the workspace. A write is an effect.

use patchbay_sandbox::{BoxFuture, FileEntry, FilesError, WorkspaceFiles};

use super::{CallServices, NOT_RECORDED};

impl CallServices {
    async fn begin_write(&self) -> Result<(), FilesError> {
        if self.begin_effect().await { Ok(()) } else { Err(FilesError::Failed(NOT_RECORDED)) }
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

    fn write(&self, path: String, contents: Vec<u8>) -> BoxFuture<'_, Result<(), FilesError>> {
        Box::pin(async move {
            self.begin_write().await?;
            self.files.write(path, contents).await
        })
    }

    fn delete(&self, path: String) -> BoxFuture<'_, Result<(), FilesError>> {
        Box::pin(async move {
            self.begin_write().await?;
            self.files.delete(path).await
        })
    }
}
