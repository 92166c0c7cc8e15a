//! Sends a line with the files that its words such as `@docs/a.png` name. The session reads the files and decides what may be
//! attached. `keys` calls it for Enter, the loop in `terminal` when the files are read.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchbay_core::Outcome;
use patchbay_session::{LineInput, NewAttachment};

use super::Front;

/// The typed text, and its files.
pub(super) type ReadingFiles = BoxFuture<'static, (String, Result<Vec<NewAttachment>, Outcome>)>;

impl Front {
    /// Begins to read the files of the text. Returns false if it has none; then it can be sent at once.
    pub(super) fn attach(&mut self) -> bool {
        if self.attaching.is_some() {
            return true;
        }
        let paths = self.composer.attached_paths();
        if paths.is_empty() || self.composer.text().starts_with('/') {
            return false;
        }
        let (session, typed) = (Arc::clone(&self.session), self.composer.text().to_owned());
        self.attaching = Some(Box::pin(async move {
            let mut files = Vec::new();
            for path in paths {
                let mut read = session.attach_path(&path.whole).await;
                if let (Ok(None), Some(shorter)) = (&read, &path.shorter) {
                    read = session.attach_path(shorter).await;
                }
                match read {
                    Ok(file) => files.extend(file),
                    Err(refused) => return (typed, Err(refused)),
                }
            }
            let input = LineInput { text: typed, attachments: files, ahead: false };
            let checked = session.check_attachments(&input).await;
            (input.text, checked.map(|()| input.attachments))
        }));
        true
    }

    /// Sends the text with its files. If a file is refused, the text stays; also if it was edited meanwhile.
    pub(super) fn attached(&mut self, typed: &str, read: Result<Vec<NewAttachment>, Outcome>) {
        self.attaching = None;
        (self.changed, self.urgent) = (true, true);
        if typed != self.composer.text() {
            return;
        }
        match read {
            Ok(attachments) => {
                let text = self.composer.take();
                self.edited();
                self.submit(LineInput { text, attachments, ahead: false });
            }
            Err(refused) => self.transcript.outcome(&refused, false),
        }
    }
}
