//! Reads the files that the user attaches to a message. Fronts name the paths; the rules of paths and contents are here.
//! `lines` stores the contents together with the message.

use std::{
    fmt::Display,
    fs::File,
    io::{ErrorKind, Read as _},
    path::Path,
    sync::Arc,
};

use patchbay_command::Line;
use patchbay_core::{Attachment, Code, Digest, Outcome, TEXT_MEDIA, media, text};
use patchbay_store::RetainedAttachments;
use patchbay_workspace::{FileError, Workspace, open_regular_file};

use crate::{
    Session,
    lines::{LineContext, not_kept},
};

/// Limit of a file in bytes.
const FILE_BYTES: u64 = 10 << 20;
/// Limit of a text file in bytes: larger ones are read by tools, a part at a time.
const TEXT_BYTES: usize = 256 << 10;
/// Limit of the files of one message.
const FILES: usize = 20;
/// Limit of the files of one message in bytes.
const MESSAGE_BYTES: usize = 32 << 20;
/// Length limit of a name in characters.
const NAME: usize = 200;
/// A folder whose files are never attached by `@path`; see `workspace_files`.
const OWN: &str = ".patchbay";

/// A file that was read to be attached to a message: an image, a PDF or a text.
#[derive(Clone)]
pub struct NewAttachment {
    name: String,
    media_type: &'static str,
    content: Arc<[u8]>,
}

/// A line to submit.
#[derive(Clone, Debug, Default)]
pub struct LineInput {
    /// The line as it was typed.
    pub text: String,
    /// Files for the model. Only messages have attachments, not commands.
    pub attachments: Vec<NewAttachment>,
    /// Whether the line runs before waiting lines; a held queue stays held. For fronts that run one line after another.
    pub ahead: bool,
}

/// A line that runs or waits, with its files.
#[derive(Debug, Default)]
pub(crate) struct AcceptedLine {
    pub(crate) text: String,
    /// Files that are not stored yet.
    pub(crate) new: Vec<NewAttachment>,
    /// Files that are stored.
    pub(crate) stored: Vec<Attachment>,
}

impl std::fmt::Debug for NewAttachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NewAttachment({}, {}, {} bytes)", self.name, self.media_type, self.content.len())
    }
}

impl From<&str> for LineInput {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }
}

impl NewAttachment {
    /// Takes a file with this content. The kind follows from the content alone.
    ///
    /// # Errors
    /// [`Code::AttachmentRefused`]: the file is too large, or of another kind.
    pub fn new(name: &str, content: Vec<u8>) -> Result<Self, Outcome> {
        let name = text::excerpt(name, NAME);
        let size = content.len() as u64;
        if size > FILE_BYTES {
            return Err(too_large(&name, size));
        }
        if let Some(media_type) = media::image_or_pdf(&content) {
            return Ok(Self { name, media_type, content: content.into() });
        }
        let Some(content) = media::as_text(&content) else {
            return Err(refused(format_args!("'{name}' is neither text, an image nor a PDF.")));
        };
        if content.len() > TEXT_BYTES {
            let message = format_args!(
                "'{name}' has {}; a text may have {} KiB. Name it in your message, so that the model reads it with a tool.",
                text::size(size),
                TEXT_BYTES >> 10
            );
            return Err(refused(message));
        }
        // A model reads what a terminal would show.
        let content = text::clean(content);
        Ok(Self { name, media_type: TEXT_MEDIA, content: content.into_bytes().into() })
    }

    /// Returns the reference that rows hold.
    pub(crate) fn reference(&self) -> Attachment {
        Attachment {
            name: self.name.clone(),
            media_type: self.media_type.to_owned(),
            digest: Digest::of(&self.content),
            size: self.content.len() as u64,
        }
    }
}

impl LineContext {
    /// Stores the attached files that are not stored yet, if the model reads them all. Returns what the commit that names them
    /// needs.
    ///
    /// # Errors
    /// The outcome of a line that is not sent: [`Code::AttachmentUnreadable`], or the store failed.
    pub(crate) async fn store_attachments(&mut self) -> Result<Option<RetainedAttachments>, Outcome> {
        self.check_readable().await?;
        if self.new_attachments.is_empty() {
            return Ok(None);
        }
        let (store, new) = (self.session.log().store().clone(), std::mem::take(&mut self.new_attachments));
        let (references, retained) = on_a_thread(move || {
            let references: Vec<Attachment> = new.iter().map(NewAttachment::reference).collect();
            let retained = store.store_attachments(new.iter().map(|attachment| &*attachment.content));
            Ok((references, retained.map_err(not_kept)?))
        })
        .await?;
        self.attachments.extend(references);
        Ok(Some(retained))
    }

    /// Checks that the model of the agent reads what is attached. If no model can be used, the turn reports it.
    async fn check_readable(&self) -> Result<(), Outcome> {
        let new = self.new_attachments.iter().map(|new| (&*new.name, new.media_type));
        let stored = self.attachments.iter().map(|stored| (&*stored.name, &*stored.media_type));
        let files: Vec<(&str, &str)> = new.chain(stored).filter(|(_, media_type)| *media_type != TEXT_MEDIA).collect();
        if files.is_empty() {
            return Ok(());
        }
        let Ok(choice) = self.session.model_of(&self.agent).await else { return Ok(()) };
        let known = self.session.host.providers.model(&choice.provider, &choice.model).await.unwrap_or_default();
        let Some((name, media_type)) =
            files.into_iter().find(|(_, media_type)| !known.input_media.iter().any(|read| read == media_type))
        else {
            return Ok(());
        };
        let (model, provider) = (text::excerpt(&choice.model, 80), &choice.provider);
        let message = format_args!(
            "model '{model}' is not known to read {media_type} ({name}); nothing was sent. Choose another one with /model, or \
             write its input_media into models of [providers.{provider}] in config.toml."
        );
        Err(Outcome::error(Code::AttachmentUnreadable, message))
    }
}

impl LineInput {
    /// Returns the names of the files.
    pub(crate) fn names(&self) -> Vec<String> {
        self.attachments.iter().map(|attachment| attachment.name.clone()).collect()
    }

    /// Checks the attachments together.
    ///
    /// # Errors
    /// The outcome of a line that is refused.
    pub(crate) fn check(&self) -> Result<(), Outcome> {
        let Self { text, attachments, .. } = self;
        if attachments.is_empty() {
            return Ok(());
        }
        if !matches!(Line::parse(text), Ok(Line::Conversation(_))) {
            return Err(refused("files are attached to messages, not to commands."));
        }
        if text.trim().is_empty() {
            return Err(refused("a message with attached files needs a text."));
        }
        if attachments.len() > FILES {
            let message = format_args!("{} files are attached; a message may have {FILES}.", attachments.len());
            return Err(refused(message));
        }
        let bytes: usize = attachments.iter().map(|attachment| attachment.content.len()).sum();
        if bytes > MESSAGE_BYTES {
            let (size, most) = (text::size(bytes as u64), MESSAGE_BYTES >> 20);
            return Err(refused(format_args!("the attached files have {size} in all; a message may have {most} MiB.")));
        }
        Ok(())
    }
}

impl Session {
    /// Reads a file that the user named to be attached, such as with `--attach`: any regular file but those of Patchbay.
    ///
    /// # Errors
    /// [`Code::AttachmentRefused`].
    pub async fn attach_file(&self, path: &Path) -> Result<NewAttachment, Outcome> {
        let (path, protected) = (path.to_owned(), self.host.protected.clone());
        on_a_thread(move || {
            let path_text = path.to_string_lossy();
            let name = text::excerpt(&path_text, NAME);
            if protected.cover(&path) {
                return Err(refused(format_args!("'{name}' is one of Patchbay's own files, or lies in its folders.")));
            }
            let file = match open_regular_file(&path) {
                Ok((file, _)) => file,
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    return Err(refused(format_args!("'{name}' is not a regular file.")));
                }
                Err(error) => return Err(unreadable(&name, &error)),
            };
            NewAttachment::new(&path_text, read(&name, &file)?)
        })
        .await
    }

    /// Reads the file of the workspace that a word such as `@docs/a.png` names; `path` is without the `@`. Returns `None` if
    /// there is no such file; the word is then plain text.
    ///
    /// # Errors
    /// [`Code::AttachmentRefused`]: the file may not be attached in this way.
    pub async fn attach_path(&self, path: &str) -> Result<Option<NewAttachment>, Outcome> {
        let path = path.trim_start_matches("./").to_owned();
        let (root, protected) = (self.workspace().to_owned(), self.host.protected.clone());
        on_a_thread(move || {
            let name = text::excerpt(&path, NAME);
            let workspace = Workspace::open_for_host(Path::new(&root), &protected)
                .map_err(|error| refused(format_args!("the workspace cannot be read: {}.", error.kind())))?;
            let file = match workspace.open_listed_file(&path) {
                Ok((file, _)) => file.into_std(),
                Err(FileError::Path { .. } | FileError::NotFound { .. } | FileError::Directory { .. }) => {
                    return Ok(None);
                }
                Err(error @ FileError::Ignored { .. }) => {
                    return Err(refused(format_args!("{error}; attach it with --attach or copy it first.")));
                }
                Err(error) => return Err(refused(format_args!("{error}."))),
            };
            if protected.cover(Path::new(&root)) || path.split('/').any(|part| part.eq_ignore_ascii_case(OWN)) {
                return Err(refused(format_args!("'{name}' is one of Patchbay's own files, or lies in its folders.")));
            }
            NewAttachment::new(&path, read(&name, &file)?).map(Some)
        })
        .await
    }
}

/// Reads a whole file.
fn read(name: &str, file: &File) -> Result<Vec<u8>, Outcome> {
    let unreadable = |error| unreadable(name, &error);
    let state = || file.metadata().and_then(|now| Ok((now.len(), now.modified()?)));
    let before = state().map_err(unreadable)?;
    if before.0 > FILE_BYTES {
        return Err(too_large(name, before.0));
    }
    let mut content = Vec::with_capacity(usize::try_from(before.0).unwrap_or_default());
    // One byte more, to notice a file that grows.
    file.take(FILE_BYTES + 1).read_to_end(&mut content).map_err(unreadable)?;
    let after = state().map_err(unreadable)?;
    if before != after || content.len() as u64 != after.0 {
        return Err(refused(format_args!("'{name}' changed while it was read; try again.")));
    }
    Ok(content)
}

/// Runs `work`, which reads files, on a thread for blocking work.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Outcome> + Send + 'static,
) -> Result<T, Outcome> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Outcome::error(Code::Internal, format_args!("a file was not read: {error}."))))
}

fn refused(message: impl Display) -> Outcome {
    Outcome::error(Code::AttachmentRefused, message)
}

fn too_large(name: &str, size: u64) -> Outcome {
    let (size, most) = (text::size(size), FILE_BYTES >> 20);
    refused(format_args!("'{name}' has {size}; an attached file may have {most} MiB."))
}

fn unreadable(name: &str, error: &std::io::Error) -> Outcome {
    refused(format_args!("'{name}' cannot be read: {}.", error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(result: Result<NewAttachment, Outcome>) -> String {
        let refused = result.unwrap_err();
        assert_eq!(refused.code, Code::AttachmentRefused);
        refused.line().into_owned()
    }

    #[test]
    fn kind_of_a_file_follows_from_its_content() {
        for (content, expected) in [
            (&b"\x89PNG\r\n\x1a\nrest"[..], "image/png"),
            (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
            (b"GIF89arest", "image/gif"),
            (b"GIF87arest", "image/gif"),
            (b"RIFF\x01\0\0\0WEBPVP8 ", "image/webp"),
            (b"%PDF-1.7\n", "application/pdf"),
            (b"<svg/>", TEXT_MEDIA),
            (b"GIF", TEXT_MEDIA),
            (b"", TEXT_MEDIA),
        ] {
            let attachment = NewAttachment::new("a.exe", content.to_vec()).unwrap();
            assert_eq!((attachment.media_type, &*attachment.content), (expected, content));
        }
        let expected = "Error: 'x.bin' is neither text, an image nor a PDF.";
        for content in [&b"\xfe\xff\0a"[..], b"a\0b", b"RIFF\xff\0\0\0WAVE"] {
            assert_eq!(message(NewAttachment::new("x.bin", content.to_vec())), expected);
        }
    }

    #[test]
    fn texts_and_names_are_cleaned() {
        let attachment = NewAttachment::new("a\u{1b}[2J\n\u{202e}b.txt", b"one\r\n\x1b[31mtwo".to_vec()).unwrap();
        assert_eq!((&*attachment.name, &*attachment.content), ("a[2J b.txt", &b"one\n[31mtwo"[..]));
        let reference = attachment.reference();
        assert_eq!((reference.digest, reference.size), (Digest::of(b"one\n[31mtwo"), 11));
        let long = NewAttachment::new(&"x".repeat(5_000), b"x".to_vec()).unwrap();
        assert_eq!(long.name.chars().count(), NAME + 1);
    }

    #[test]
    fn sizes_are_limited_each_and_together() {
        let image = |size: usize| {
            let mut content = b"%PDF-".to_vec();
            content.resize(size, 0);
            content
        };
        let most = usize::try_from(FILE_BYTES).unwrap();
        let whole = NewAttachment::new("a.pdf", image(most)).unwrap();
        let expected = "Error: 'a.pdf' has 10.5 MB; an attached file may have 10 MiB.";
        assert_eq!(message(NewAttachment::new("a.pdf", image(most + 1))), expected);
        let expected = "Error: 'a.txt' has 262 KB; a text may have 256 KiB. Name it in your message, so that the model reads it \
                        with a tool.";
        assert_eq!(message(NewAttachment::new("a.txt", vec![b'a'; TEXT_BYTES + 1])), expected);
        assert!(NewAttachment::new("a.txt", vec![b'a'; TEXT_BYTES]).is_ok());
        let check = |attachments: Vec<NewAttachment>| LineInput { attachments, ..LineInput::from("look") }.check();
        let rest = NewAttachment::new("b.pdf", image(2 << 20)).unwrap();
        assert!(check(vec![whole.clone(), whole.clone(), whole.clone(), rest.clone()]).is_ok());
        let refused = check(vec![whole.clone(), whole.clone(), whole, rest.clone(), rest.clone()]).unwrap_err();
        assert_eq!(refused.message, "the attached files have 35.7 MB in all; a message may have 32 MiB.");
        let command = LineInput { attachments: vec![rest], ..LineInput::from("/help x") };
        assert_eq!(command.check().unwrap_err().message, "files are attached to messages, not to commands.");
        let blank = LineInput { attachments: command.attachments.clone(), ..LineInput::from(" \n") };
        assert_eq!(blank.check().unwrap_err().message, "a message with attached files needs a text.");
        let small = NewAttachment::new("c.txt", b"c".to_vec()).unwrap();
        assert!(check(vec![small.clone(); 20]).is_ok());
        assert_eq!(check(vec![small; 21]).unwrap_err().message, "21 files are attached; a message may have 20.");
    }

    #[test]
    fn file_that_changes_while_it_is_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "before").unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(read("a.txt", &file).unwrap(), b"before");
        // The position is at the end: fewer bytes come than the file has.
        let refused = read("a.txt", &file).unwrap_err();
        assert_eq!(refused.message, "'a.txt' changed while it was read; try again.");
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(1 << 30).unwrap();
        let huge = File::open(&path).unwrap();
        assert!(read("a.txt", &huge).unwrap_err().message.starts_with("'a.txt' has 1,073.7 MB;"));
    }
}
