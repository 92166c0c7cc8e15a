//! Reads and writes the files of the workspace, in the user's editor if the session has one: reads return unsaved text, and writes
//! change it. Lists, deletions, binary files and files over [`EditedFiles::EDITOR_BYTES`] use the disk. Used by calls of skills and
//! by `/undo`.
//!
//! Unfortunately an editor cannot say which files have unsaved changes, so a search has to request every file. It does so for up to
//! [`EditedFiles::EDITOR_FILES`] files; a wider search only reads the disk.

use std::{path::Path, sync::Arc, time::Duration};

use parking_lot::Mutex;
use patchbay_core::{Digest, text};
use patchbay_sandbox::{
    EditorTexts, ExistingFile, FileEntry, FilesError, FilesFuture, FoundFile, LocalFiles, NameQuery, NameResults,
    SearchBounds, TextQuery, TextResults, WorkspaceFiles,
};
use tokio::time::timeout;

use crate::Editor;

/// The files of a workspace for one call, including unsaved text in the user's editor.
pub(crate) struct EditedFiles {
    files: LocalFiles,
    editor: Option<Arc<dyn Editor>>,
    /// The workspace's canonical path.
    workspace: String,
    read_in_editor: Mutex<Option<ReadInEditor>>,
}

/// The last file that a call read in the editor, kept for reads of its other parts.
struct ReadInEditor {
    path: String,
    contents: Arc<[u8]>,
}

impl EditedFiles {
    /// Size limit of a text that is exchanged with the editor, in bytes. A longer response is refused.
    const EDITOR_BYTES: usize = 4 << 20;
    /// Maximum number of files that a search reads from the editor.
    const EDITOR_FILES: u32 = 200;
    /// Maximum number of bytes that a search reads from the editor in total. They are in memory until the search ends.
    const SEARCHED_EDITOR_BYTES: usize = 16 << 20;
    /// Length limit of an editor's error, in characters.
    const EDITOR_ERROR: usize = 300;
    /// How many minutes an editor may take to respond while the call's clock does not run. It may ask its user first.
    const EDITOR_MINUTES: u64 = 5;

    /// Returns the files of the workspace at the canonical path `workspace`.
    pub(crate) fn new(files: LocalFiles, editor: Option<Arc<dyn Editor>>, workspace: String) -> Self {
        Self { files, editor, workspace, read_in_editor: Mutex::default() }
    }

    /// Reads a part of a file in the editor. The first part is always read anew; the following parts come from the same text.
    async fn read_in_editor(
        &self,
        editor: &dyn Editor,
        path: String,
        offset: u64,
        max: u32,
    ) -> Result<Vec<u8>, FilesError> {
        let place = self.files.place_to_read(path.clone()).await?;
        if !place.is_text || place.size > Self::EDITOR_BYTES as u64 {
            return self.files.read(path, offset, max).await;
        }
        let known = self.read_in_editor.lock().take().filter(|known| offset > 0 && known.path == place.path);
        let contents = match known {
            Some(known) => known.contents,
            None => {
                let text = editor.read(&self.absolute(&place.path)).await;
                let text = text.map_err(|error| editor_error("read", &path, &error))?;
                if text.len() > Self::EDITOR_BYTES {
                    let problem = format!("its text has {} bytes; the limit is {}", text.len(), Self::EDITOR_BYTES);
                    return Err(editor_error("read", &path, &problem));
                }
                text.into_bytes().into()
            }
        };
        let start = usize::try_from(offset).map_or(contents.len(), |offset| offset.min(contents.len()));
        let end = usize::try_from(max).map_or(contents.len(), |max| start.saturating_add(max).min(contents.len()));
        let part = contents[start..end].to_vec();
        *self.read_in_editor.lock() = Some(ReadInEditor { path: place.path, contents });
        Ok(part)
    }

    /// Searches the editor's texts instead of the files. If there are too many files or bytes, searches only the disk.
    async fn search_in_editor(
        &self,
        editor: &dyn Editor,
        query: TextQuery,
        bounds: SearchBounds,
    ) -> Result<TextResults, FilesError> {
        let files = NameQuery {
            globs: query.globs.clone(),
            ignores_case: false,
            directories: false,
            after: None,
            max_entries: Self::EDITOR_FILES,
        };
        // The listing has its own halt, because its end must not halt the search.
        let listing = SearchBounds { until: bounds.until, bytes: bounds.bytes, halt: Default::default() };
        let mut texts = EditorTexts::new();
        let mut bytes = 0;
        if let Ok(NameResults { entries, stopped: None, .. }) = self.files.find(files, listing).await {
            for FileEntry { path, .. } in entries {
                let Ok(place) = self.files.place_to_read(path.clone()).await else { continue };
                if place.is_text && place.size <= Self::EDITOR_BYTES as u64 {
                    let text = editor.read(&self.absolute(&place.path)).await.ok();
                    let text = text.filter(|text| text.len() <= Self::EDITOR_BYTES);
                    bytes += text.as_ref().map_or(0, String::len);
                    if bytes > Self::SEARCHED_EDITOR_BYTES {
                        texts.clear();
                        break;
                    }
                    texts.insert(path, text.map(|text| text.into_bytes().into()));
                }
            }
        }
        self.files.search_with(query, texts, bounds).await
    }

    /// Writes a file in the editor. Returns the contents if they must be written to the disk.
    async fn write_in_editor(
        &self,
        editor: &dyn Editor,
        path: &str,
        contents: Vec<u8>,
    ) -> Result<Option<Vec<u8>>, FilesError> {
        let text = match String::from_utf8(contents) {
            Ok(text) if text.len() <= Self::EDITOR_BYTES && !text.contains('\0') => text,
            Ok(text) => return Ok(Some(text.into_bytes())),
            Err(error) => return Ok(Some(error.into_bytes())),
        };
        let Some(place) = self.files.place_to_write(path.to_owned(), text.len()).await? else {
            return Ok(Some(text.into_bytes()));
        };
        let limit = Duration::from_secs(Self::EDITOR_MINUTES * 60);
        let late = |_| Err(Self::late());
        let written = timeout(limit, editor.write(&self.absolute(&place.path), &text)).await.unwrap_or_else(late);
        written.map(|()| None).map_err(|error| editor_error("write", path, &error))
    }

    /// Checks a write or deletion, and returns the file that it would find; `None` if there is none. For a write, this is the text
    /// in the editor.
    pub(crate) async fn before_change(&self, path: &str, is_write: bool) -> Result<Option<FoundFile>, FilesError> {
        let on_disk = self.files.before_change(path.to_owned()).await?;
        self.before_change_in_editor(path, is_write, on_disk).await
    }

    /// Like [`Self::before_change`], with the contents of files of at most 20 MiB.
    pub(crate) async fn before_change_whole(
        &self,
        path: &str,
        is_write: bool,
    ) -> Result<Option<FoundFile>, FilesError> {
        let on_disk = self.files.before_change_whole(path.to_owned()).await?;
        self.before_change_in_editor(path, is_write, on_disk).await
    }

    async fn before_change_in_editor(
        &self,
        path: &str,
        is_write: bool,
        on_disk: Option<FoundFile>,
    ) -> Result<Option<FoundFile>, FilesError> {
        let editor = self.editor.as_ref().filter(|editor| is_write && editor.can_read() && editor.can_write());
        let (Some(editor), Some(before)) = (editor, &on_disk) else { return Ok(on_disk) };
        let place = self.files.place_to_read(path.to_owned()).await?;
        if !place.is_text || before.file.size > Self::EDITOR_BYTES as u64 {
            return Ok(on_disk);
        }
        let limit = Duration::from_secs(Self::EDITOR_MINUTES * 60);
        let late = |_| Err(Self::late());
        let text = timeout(limit, editor.read(&self.absolute(&place.path))).await.unwrap_or_else(late);
        let text = text.map_err(|error| editor_error("read", path, &error))?;
        let file = ExistingFile { size: text.len() as u64, digest: Digest::of(text.as_bytes()) };
        Ok(Some(FoundFile { file, contents: Some(text.into_bytes()), mode: before.mode }))
    }

    fn late() -> String {
        format!("it did not respond within {} minutes", Self::EDITOR_MINUTES)
    }

    fn absolute(&self, path: &str) -> std::path::PathBuf {
        Path::new(&self.workspace).join(path)
    }
}

/// Returns an error with the editor's message, which is untrusted text.
fn editor_error(action: &str, path: &str, error: &str) -> FilesError {
    let (path, error) = (text::excerpt(path, 200), text::excerpt(error, EditedFiles::EDITOR_ERROR));
    FilesError::Editor(format!("the editor could not {action} '{path}': {error}"))
}

impl WorkspaceFiles for EditedFiles {
    fn read(&self, path: String, offset: u64, max: u32) -> FilesFuture<'_, Vec<u8>> {
        match &self.editor {
            Some(editor) if editor.can_read() => Box::pin(self.read_in_editor(&**editor, path, offset, max)),
            _ => self.files.read(path, offset, max),
        }
    }

    fn walk(&self, glob: String, after: Option<String>, limit: u32) -> FilesFuture<'_, Vec<FileEntry>> {
        self.files.walk(glob, after, limit)
    }

    fn search(&self, query: TextQuery, bounds: SearchBounds) -> FilesFuture<'_, TextResults> {
        match &self.editor {
            Some(editor) if editor.can_read() => Box::pin(self.search_in_editor(&**editor, query, bounds)),
            _ => self.files.search(query, bounds),
        }
    }

    fn find(&self, query: NameQuery, bounds: SearchBounds) -> FilesFuture<'_, NameResults> {
        self.files.find(query, bounds)
    }

    fn write(&self, path: String, contents: Vec<u8>) -> FilesFuture<'_, ()> {
        Box::pin(async move {
            self.read_in_editor.lock().take();
            let contents = match &self.editor {
                Some(editor) if editor.can_write() => self.write_in_editor(&**editor, &path, contents).await?,
                _ => Some(contents),
            };
            match contents {
                Some(contents) => self.files.write(path, contents).await,
                None => Ok(()),
            }
        })
    }

    fn write_may_ask(&self) -> bool {
        self.editor.as_ref().is_some_and(|editor| editor.can_write())
    }

    fn delete(&self, path: String) -> FilesFuture<'_, ()> {
        Box::pin(async move {
            self.read_in_editor.lock().take();
            self.files.delete(path).await
        })
    }
}

impl EditedFiles {
    /// Restores earlier contents of a file. A file that does not exist is created with the permission bits `mode`.
    pub(crate) async fn restore(&self, path: &str, contents: Vec<u8>, mode: Option<u32>) -> Result<(), FilesError> {
        self.read_in_editor.lock().take();
        let contents = match &self.editor {
            Some(editor) if editor.can_write() => self.write_in_editor(&**editor, path, contents).await?,
            _ => Some(contents),
        };
        match contents {
            Some(contents) => self.files.restore(path.to_owned(), contents, mode).await,
            None => Ok(()),
        }
    }
}
