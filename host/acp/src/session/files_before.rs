//! Reads the files that the calls of an answer are about to replace, so that clients show what changes. `task` calls it.

use std::{path::Path, time::Duration};

use patchbay_core::{AssistantPart, AssistantRecord};
use patchbay_session::Session;
use tokio::time::{Instant, timeout_at};

use super::changes::{DIFF_BYTES, FileBefore, FilesBefore, replaced_file};

/// Limit of the files that are read for one answer.
const FILES: usize = 16;
/// How long the editor may take for all files of one answer. Updates of the session wait meanwhile.
const EDITOR_TIME: Duration = Duration::from_secs(2);

/// Returns the files that the calls of an answer, which is row `seq`, replace; none if they may have run already.
pub(super) async fn files_before(session: &Session, seq: u64, answer: &AssistantRecord) -> FilesBefore {
    let (mut files, deadline) = (FilesBefore::new(), Instant::now() + EDITOR_TIME);
    for path in answer.parts.iter().filter_map(AssistantPart::tool_call).filter_map(|call| replaced_file(&call)) {
        if files.contains_key(&path) {
            continue;
        }
        let before =
            if files.len() < FILES { file_before(session, &path, deadline).await } else { FileBefore::Unknown };
        files.insert(path, before);
    }
    // Results are rows. Without a later row, at most one call has run, and a file that it has replaced is the same as its input.
    if session.last_seq() > seq { FilesBefore::new() } else { files }
}

async fn file_before(session: &Session, path: &str, deadline: Instant) -> FileBefore {
    // The rules for attached files decide which files can be shown: none of git or Patchbay, and none that git ignores.
    let content = match session.linked_file(path).await {
        Ok(Some(content)) => content,
        Ok(None) => return FileBefore::Missing,
        Err(_) => return FileBefore::Unknown,
    };
    // A call that writes through the editor replaces what is not saved there.
    let text = match session.editor().filter(|editor| editor.can_read() && editor.can_write()) {
        Some(editor) => {
            let path = Path::new(session.workspace()).join(path.trim_start_matches("./"));
            timeout_at(deadline, editor.read(&path)).await.ok().and_then(Result::ok)
        }
        None => String::from_utf8(content).ok(),
    };
    text.filter(|text| text.len() <= DIFF_BYTES).map_or(FileBefore::Unknown, FileBefore::Text)
}
