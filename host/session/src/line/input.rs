//! A line as a front submits it: its text and its files. The rules for contents are here; `attach` reads the files.

use std::{borrow::Cow, fmt::Display, sync::Arc};

use patchbay_core::{Attachment, Code, Digest, Outcome, TEXT_MEDIA, media, text};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::client::LineClient;

/// Size limit of a file in bytes.
pub(crate) const FILE_BYTES: u64 = 10 << 20;
/// Size limit of a text for a model in bytes. The model reads larger texts in parts, with a tool.
const TEXT_BYTES: usize = 256 << 10;
/// Maximum number of files of one line.
const FILES: usize = 20;
/// Size limit of all files of one line in bytes. They must fit in one request, which contains them as base64: 27 MiB.
const LINE_FILES_BYTES: usize = 20 << 20;
/// Size limit of the attached files that are kept in memory for all lines of the process, in bytes. Files of a line
/// that begins a turn are stored when the line waits or when its turn begins; files of any other command stay in memory until it
/// ends.
const MEMORY_BYTES: usize = 128 << 20;
/// Length limit of a name in characters.
pub(crate) const NAME: usize = 200;
/// Length limit of each of the two words of a media type.
const MEDIA_WORD: usize = 127;
/// The media type used for unknown content.
const UNKNOWN_MEDIA: &str = "application/octet-stream";
/// A file that was read to be attached. A message accepts images, PDFs and texts; a command accepts files of any kind.
#[derive(Clone)]
pub struct NewAttachment {
    name: String,
    media_type: Cow<'static, str>,
    content: Arc<[u8]>,
}

/// A line to submit, with its attachments.
#[derive(Clone, Debug, Default)]
pub struct LineInput {
    /// The line as it was typed.
    pub text: String,
    /// Files for the model, or for the tool that a command runs.
    pub attachments: Vec<NewAttachment>,
    /// Whether the line runs before waiting lines; a held queue stays held. For fronts that run one line after another.
    pub ahead: bool,
    /// Whether a message joins the running turn once it is the first of the waiting lines. It is then sent with the results of
    /// the next tool calls, and ends with that turn. If no tool is called, it begins a turn of its own. For fronts that show the
    /// queue.
    pub joins: bool,
    /// The client that submits the line; `None` for the front of the process, which the session knows.
    pub client: Option<Arc<LineClient>>,
}

/// The memory limit of the process for attached files that are not stored.
pub(crate) struct FileMemory(Arc<Semaphore>);

/// The part of [`FileMemory`] that one line uses. Dropping this releases the memory.
#[derive(Debug)]
pub(crate) struct UsedMemory {
    _permit: OwnedSemaphorePermit,
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
    /// Creates an attachment for a message. Its media type is detected from the content alone.
    ///
    /// # Errors
    /// [`Code::AttachmentRefused`]: the file is too large, or is neither text, an image nor a PDF.
    pub fn new(name: &str, content: Vec<u8>) -> Result<Self, Outcome> {
        let attachment = Self::for_command(name, None, content)?;
        let name = &attachment.name;
        if !attachment.is_for_models() {
            return Err(no_kind(name));
        }
        if attachment.media_type == TEXT_MEDIA && attachment.content.len() > TEXT_BYTES {
            let message = format_args!(
                "'{name}' is {}; the limit for text is {} KiB. Name it in your message to let the model read it with a tool.",
                text::size(attachment.content.len() as u64),
                TEXT_BYTES >> 10
            );
            return Err(refused(message));
        }
        Ok(attachment)
    }

    /// Creates an attachment for the tool of a command. `declared` is the media type according to the client. It is used for
    /// sounds, and if the content is neither text, an image nor a PDF.
    ///
    /// # Errors
    /// [`Code::AttachmentRefused`]: the file is too large.
    pub fn for_command(name: &str, declared: Option<&str>, content: Vec<u8>) -> Result<Self, Outcome> {
        let name = text::excerpt(name, NAME);
        let size = content.len() as u64;
        if size > FILE_BYTES {
            return Err(too_large(&name, size));
        }
        let declared = declared.filter(|declared| is_media_type(declared)).map(str::to_ascii_lowercase);
        if let Some(media_type) = media::image_or_pdf(&content) {
            return Ok(Self { name, media_type: media_type.into(), content: content.into() });
        }
        let is_sound = declared.as_ref().is_some_and(|declared| declared.starts_with("audio/"));
        match String::from_utf8(content) {
            Ok(content) if !is_sound && !content.contains('\0') => {
                // The model should read the same text that a terminal would show.
                let content = text::clean(&content).into_bytes().into();
                Ok(Self { name, media_type: TEXT_MEDIA.into(), content })
            }
            Ok(content) => Ok(Self::of_other_kind(name, declared, content.into_bytes())),
            Err(content) => Ok(Self::of_other_kind(name, declared, content.into_bytes())),
        }
    }

    fn of_other_kind(name: String, declared: Option<String>, content: Vec<u8>) -> Self {
        let media_type = declared.map_or(Cow::Borrowed(UNKNOWN_MEDIA), Cow::Owned);
        Self { name, media_type, content: content.into() }
    }

    /// Returns whether a message may have this attachment.
    fn is_for_models(&self) -> bool {
        self.media_type == TEXT_MEDIA || media::image_or_pdf(&self.content).is_some()
    }

    /// Returns the media type and the content, for a tool.
    pub(crate) fn to_blob(&self) -> (String, Vec<u8>) {
        (self.media_type.clone().into_owned(), self.content.to_vec())
    }

    /// Returns the name and the media type.
    pub(crate) fn name_and_type(&self) -> (&str, &str) {
        (&self.name, &self.media_type)
    }

    /// Returns the media type: an image type, `application/pdf`, [`TEXT_MEDIA`], the type that the client named, or
    /// `application/octet-stream`.
    pub fn media_type(&self) -> &str {
        &self.media_type
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.content.len() as u64
    }

    pub(crate) fn content(&self) -> &[u8] {
        &self.content
    }

    /// Returns the reference that rows contain.
    pub(crate) fn reference(&self) -> Attachment {
        Attachment {
            name: self.name.clone(),
            media_type: self.media_type.clone().into_owned(),
            digest: Digest::of(&self.content),
            size: self.size(),
        }
    }
}

impl LineInput {
    /// Returns the names of the files.
    pub(crate) fn names(&self) -> Vec<String> {
        self.attachments.iter().map(|attachment| attachment.name.clone()).collect()
    }

    /// Checks the kinds, the number and the size of the files, before any part of the line runs.
    ///
    /// # Errors
    /// The outcome of a line that is refused.
    pub(crate) fn check_files(&self, is_message: bool) -> Result<(), Outcome> {
        let attachments = &self.attachments;
        if let Some(attachment) = attachments.iter().find(|attachment| is_message && !attachment.is_for_models()) {
            return Err(no_kind(&attachment.name));
        }
        if attachments.len() > FILES {
            let message = format_args!("{} files are attached; the limit of a line is {FILES}.", attachments.len());
            return Err(refused(message));
        }
        let bytes: usize = attachments.iter().map(|attachment| attachment.content.len()).sum();
        if bytes > LINE_FILES_BYTES {
            let (size, most) = (text::size(bytes as u64), LINE_FILES_BYTES >> 20);
            return Err(refused(format_args!(
                "the attached files are {size} in total; the limit for one line is {most} \
                MiB."
            )));
        }
        Ok(())
    }
}

impl Default for FileMemory {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MEMORY_BYTES)))
    }
}

impl FileMemory {
    /// Reserves the memory for the files of a line; `None` if it has no files.
    ///
    /// # Errors
    /// [`Code::AttachmentRefused`]: other lines are using the memory.
    pub(crate) fn take(&self, files: &[NewAttachment]) -> Result<Option<UsedMemory>, Outcome> {
        let bytes: usize = files.iter().map(|file| file.content.len()).sum();
        if bytes == 0 {
            return Ok(None);
        }
        let taken = u32::try_from(bytes).ok().and_then(|bytes| Arc::clone(&self.0).try_acquire_many_owned(bytes).ok());
        match taken {
            Some(permit) => Ok(Some(UsedMemory { _permit: permit })),
            None => Err(refused(format_args!(
                "the attached files of all running lines would exceed {} MiB; wait until another line has ended, then send \
                 this line again.",
                MEMORY_BYTES >> 20
            ))),
        }
    }
}

/// Runs `work`, which reads files, on a thread for blocking work.
pub(crate) async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Outcome> + Send + 'static,
) -> Result<T, Outcome> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Outcome::error(Code::Internal, format_args!("a file was not read: {error}."))))
}

/// Returns whether a text is a media type without parameters, such as `audio/wav`.
fn is_media_type(text: &str) -> bool {
    let is_word = |word: &str| {
        (1..=MEDIA_WORD).contains(&word.len())
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    text.split_once('/').is_some_and(|(kind, name)| is_word(kind) && is_word(name))
}

fn no_kind(name: &str) -> Outcome {
    refused(format_args!("'{name}' is neither text, an image nor a PDF."))
}

pub(crate) fn refused(message: impl Display) -> Outcome {
    Outcome::error(Code::AttachmentRefused, message)
}

pub(crate) fn too_large(name: &str, size: u64) -> Outcome {
    let (size, most) = (text::size(size), FILE_BYTES >> 20);
    refused(format_args!("'{name}' is {size}; the limit for an attached file is {most} MiB."))
}

#[cfg(test)]
mod tests;
