//! Reads the files that the calls of an answer are about to replace. Clients use them to show
//! the changes. Called by `task`.

use std::{path::Path, time::Duration};

use patchbay_core::{AgentId, AssistantPart, AssistantRecord};
use patchbay_session::{Editor, LineClient, Session};
use tokio::time::{Instant, timeout_at};

use super::changes::{DIFF_BYTES, FileBefore, FilesBefore, replaced_file};

/// Limit of the files that are read before the calls of one answer run.
const FILES: usize = 16;
/// How long the editor may take for all files of one answer. Updates of the session wait meanwhile.
const EDITOR_TIME: Duration = Duration::from_secs(2);

/// Returns the files that the calls of `answer`, which is row `seq` of `agent`, replace; none if the calls may have run already.
pub(super) async fn files_before(
    session: &Session,
    client: &LineClient,
    agent: AgentId,
    seq: u64,
    answer: &AssistantRecord,
) -> FilesBefore {
    let (mut files, deadline) = (FilesBefore::new(), Instant::now() + EDITOR_TIME);
    for path in answer.parts.iter().filter_map(AssistantPart::tool_call).filter_map(|call| replaced_file(&call)) {
        if files.contains_key(&path) {
            continue;
        }
        let before =
            if files.len() < FILES { file_before(session, client, &path, deadline).await } else { FileBefore::Unknown };
        files.insert(path, before);
    }
    if files.is_empty() {
        return files;
    }
    // Results are rows of the agent. Without a later row, at most one call has run. If it has replaced its file, the
    // file already equals the call's input, and `diffs` shows no change.
    let has_later_row = session.has_row_after(agent, seq).await.unwrap_or_else(|error| {
        tracing::error!("cannot read the rows of session {}: {error}", session.id());
        true
    });
    if has_later_row { FilesBefore::new() } else { files }
}

async fn file_before(session: &Session, client: &LineClient, path: &str, deadline: Instant) -> FileBefore {
    // The rules are the same as for attachments: files of git or Patchbay, and files that git ignores, are not shown.
    let content = match session.linked_file(path).await {
        Ok(Some(content)) => content,
        Ok(None) => return FileBefore::Missing,
        Err(_) => return FileBefore::Unknown,
    };
    // A call that writes through the editor replaces the editor's unsaved text.
    let text = match client.editor.as_ref().filter(|editor| editor.can_read() && editor.can_write()) {
        Some(editor) => {
            let path = Path::new(session.workspace()).join(path.trim_start_matches("./"));
            text_in_editor(&**editor, &path, deadline).await
        }
        None => String::from_utf8(content).ok(),
    };
    text.filter(|text| text.len() <= DIFF_BYTES).map_or(FileBefore::Unknown, FileBefore::Text)
}

/// Returns the text of a file in the editor; `None` if the editor refuses, or has not responded by `deadline`.
async fn text_in_editor(editor: &dyn Editor, path: &Path, deadline: Instant) -> Option<String> {
    timeout_at(deadline, editor.read(path)).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;

    use super::*;

    /// An editor with this response. With `None`, it never responds.
    struct FixedEditor(Option<Result<String, String>>);

    impl Editor for FixedEditor {
        fn can_read(&self) -> bool {
            true
        }

        fn can_write(&self) -> bool {
            true
        }

        fn read<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, Result<String, String>> {
            match self.0.clone() {
                Some(answer) => Box::pin(async { answer }),
                None => Box::pin(std::future::pending()),
            }
        }

        fn write<'a>(&'a self, _: &'a Path, _: &'a str) -> BoxFuture<'a, Result<(), String>> {
            Box::pin(async { Ok(()) })
        }
    }

    #[tokio::test]
    async fn editor_that_refuses_or_is_late_gives_no_text() {
        for (answer, expected) in [
            (Some(Ok("not saved".to_owned())), Some("not saved")),
            (Some(Err("the buffer is locked".to_owned())), None),
            (None, None),
        ] {
            let text = text_in_editor(&FixedEditor(answer.clone()), Path::new("/w/a.txt"), Instant::now()).await;
            assert_eq!(text.as_deref(), expected, "{answer:?}");
        }
    }
}
