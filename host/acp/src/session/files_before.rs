//! Reads the files that the calls of an answer are about to replace, so that clients show what changes. `task` calls it.

use std::path::Path;

use patchbay_core::{AssistantPart, AssistantRecord};
use patchbay_session::Session;
use patchbay_workspace::Workspace;

use super::changes::{DIFF_BYTES, FileBefore, FilesBefore, replaced_file};

/// Limit of the files that are read for one answer.
const FILES: usize = 16;
/// Bytes of a file that are read: one more than is shown, to notice a longer file.
const READ_BYTES: u32 = DIFF_BYTES as u32 + 1;

/// Returns the files that the calls of an answer replace.
pub(super) async fn files_before(session: &Session, answer: &AssistantRecord) -> FilesBefore {
    let mut files = FilesBefore::new();
    for path in answer.parts.iter().filter_map(AssistantPart::tool_call).filter_map(|call| replaced_file(&call)) {
        if files.contains_key(&path) {
            continue;
        }
        let before = if files.len() < FILES { file_before(session, &path).await } else { FileBefore::Unknown };
        files.insert(path, before);
    }
    files
}

async fn file_before(session: &Session, path: &str) -> FileBefore {
    // The rules for attached files decide which files can be shown: none of git or Patchbay, and none that git ignores.
    match session.attach_path(path).await {
        Ok(Some(_)) => {}
        Ok(None) => return FileBefore::Missing,
        Err(_) => return FileBefore::Unknown,
    }
    let (root, path) = (session.workspace().to_owned(), path.trim_start_matches("./").to_owned());
    let read = tokio::task::spawn_blocking(move || read(&root, &path)).await;
    read.ok().flatten().map_or(FileBefore::Unknown, FileBefore::Text)
}

/// Returns the text of a file; `None` if it is too long or no text.
fn read(root: &str, path: &str) -> Option<String> {
    let bytes = Workspace::open(Path::new(root)).ok()?.read(path, 0, READ_BYTES).ok()?;
    String::from_utf8(bytes).ok().filter(|text| text.len() <= DIFF_BYTES)
}
