//! Sends a line with the files that its words such as `@docs/a.png` name. The session reads the files and decides which
//! ones may be attached. `keys` calls it for Enter, the loop in `terminal` when the files are read.

use std::sync::Arc;

use patchbay_core::{Outcome, text};
use patchbay_session::{LineInput, Session};

use super::{Front, input::FilesOfLine, typed_paths::PathInText};

impl Front {
    /// Begins to read the files that the text attaches. Returns false if there are none; the text can then be sent
    /// immediately. `joins` is passed on to the session.
    pub(super) fn attach(&mut self, joins: bool) -> bool {
        if self.input.attaching.is_some() {
            return true;
        }
        let (paths, others) = (self.input.composer.attached_paths(), self.input.composer.other_paths());
        if paths.is_empty() && others.is_empty() || self.input.composer.text().starts_with('/') {
            return false;
        }
        let (session, typed) = (Arc::clone(&self.session), self.input.composer.text().to_owned());
        self.input.attaching = Some(Box::pin(async move {
            let read = read(&session, &typed, &paths, &others, joins).await;
            (typed, read)
        }));
        true
    }

    /// Sends the text with its files. If a file is refused, or the text was edited in the meantime, the composer keeps the text.
    pub(super) fn attached(&mut self, typed: &str, read: Result<FilesOfLine, Outcome>) {
        self.input.attaching = None;
        self.window.change_now();
        if typed != self.input.composer.text() {
            return;
        }
        match read {
            Ok(FilesOfLine { input, unattached }) => {
                let text = self.input.composer.take();
                self.edited();
                self.submit(LineInput { text, ..input });
                if !unattached.is_empty() {
                    let names = unattached.join(", ");
                    self.conversation.transcript.notice(&format!(
                        "Not attached: {names}. Pasted text and lines of earlier sessions attach nothing; type the name after @."
                    ));
                }
            }
            Err(refused) => self.conversation.transcript.outcome(&refused, false),
        }
    }
}

/// Reads the files of `typed` at `paths`, and finds out which of the `others` are files.
async fn read(
    session: &Session,
    typed: &str,
    paths: &[PathInText],
    others: &[PathInText],
    joins: bool,
) -> Result<FilesOfLine, Outcome> {
    let mut attached = Vec::new();
    for path in paths {
        let mut file = session.attach_path(&path.whole).await?;
        if let (None, Some(shorter)) = (&file, &path.shorter) {
            file = session.attach_path(shorter).await?;
        }
        attached.extend(file);
    }
    let input = LineInput { text: typed.to_owned(), attachments: attached, joins, ..LineInput::default() };
    session.check_attachments(&input).await?;
    let mut unattached = Vec::new();
    for path in others {
        for name in [Some(&path.whole), path.shorter.as_ref()].into_iter().flatten() {
            if session.names_file(name).await {
                unattached.push(text::clean_line(name));
                break;
            }
        }
    }
    Ok(FilesOfLine { input, unattached })
}
