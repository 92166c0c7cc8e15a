//! Reads the files that the user attaches to a message or to a command. Fronts name the paths; the rules of paths and contents
//! are here. `lines` stores the contents together with a message; `invoke` passes those of a command to its tool.

use std::{
    borrow::Cow,
    fmt::Display,
    fs::File,
    io::{ErrorKind, Read as _},
    path::Path,
    sync::Arc,
};

use patchbay_agent::Agent;
use patchbay_command::{Line, Resolved, resolve};
use patchbay_core::{Attachment, Code, Digest, Outcome, TEXT_MEDIA, media, text};
use patchbay_skill::Snapshot;
use patchbay_store::RetainedAttachments;
use patchbay_workspace::{FileError, Workspace, open_regular_file};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{
    Session, builtin, invoke,
    lines::{LineContext, not_kept},
    order::CommandPlace,
};

/// Limit of a file in bytes.
const FILE_BYTES: u64 = 10 << 20;
/// Limit of a text for a model in bytes: larger ones are read by tools, a part at a time.
const TEXT_BYTES: usize = 256 << 10;
/// Limit of the files of one line.
const FILES: usize = 20;
/// Limit of the files of one line in bytes. A message must fit into a request, in which they are base64: 27 MiB.
const LINE_FILES_BYTES: usize = 20 << 20;
/// Limit of the files in memory of all lines of the process, in bytes. Those of a message are stored when it waits or its turn
/// begins; those of a command stay in memory until it has ended.
const MEMORY_BYTES: usize = 128 << 20;
/// Length limit of a name in characters.
const NAME: usize = 200;
/// Length limit of each of the two words of a media type.
const MEDIA_WORD: usize = 127;
/// The media type of content of which nothing is known.
const UNKNOWN_MEDIA: &str = "application/octet-stream";
/// A folder whose files are never attached by `@path`; see `workspace_files`.
const OWN: &str = ".patchbay";

/// A file that was read to be attached: to a message an image, a PDF or a text; to a command a file of any kind.
#[derive(Clone)]
pub struct NewAttachment {
    name: String,
    media_type: Cow<'static, str>,
    content: Arc<[u8]>,
}

/// A line to submit.
#[derive(Clone, Debug, Default)]
pub struct LineInput {
    /// The line as it was typed.
    pub text: String,
    /// Files for the model, or for the tool that a command runs.
    pub attachments: Vec<NewAttachment>,
    /// Whether the line runs before waiting lines; a held queue stays held. For fronts that run one line after another.
    pub ahead: bool,
}

/// The memory of the process for attached files that are not stored.
pub(crate) struct FileMemory(Arc<Semaphore>);

/// The part of [`FileMemory`] that one line uses. Dropping it gives the memory back.
#[derive(Debug)]
pub(crate) struct UsedMemory {
    _permit: OwnedSemaphorePermit,
}

/// A line that runs or waits, with its files.
#[derive(Debug, Default)]
pub(crate) struct AcceptedLine {
    pub(crate) text: String,
    /// Files that are not stored yet.
    pub(crate) new: Vec<NewAttachment>,
    /// The memory of these files; `None` without files.
    pub(crate) memory: Option<UsedMemory>,
    /// Files that are stored.
    pub(crate) stored: Vec<Attachment>,
    /// Whether `/model` is also accepted while a turn runs.
    pub(crate) during_turn: bool,
    /// Whether later lines that begin a turn wait for this one.
    pub(crate) delays: bool,
    /// Its place among the commands of the agent; `None` for a line that waits for none.
    pub(crate) place: Option<CommandPlace>,
    /// Says that the attached files are not used.
    pub(crate) unused_files: Option<String>,
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
    /// Takes a file with this content for a message. The kind follows from the content alone.
    ///
    /// # Errors
    /// [`Code::AttachmentRefused`]: the file is too large, or of another kind.
    pub fn new(name: &str, content: Vec<u8>) -> Result<Self, Outcome> {
        let attachment = Self::for_command(name, None, content)?;
        let name = &attachment.name;
        if !attachment.is_for_models() {
            return Err(no_kind(name));
        }
        if attachment.media_type == TEXT_MEDIA && attachment.content.len() > TEXT_BYTES {
            let message = format_args!(
                "'{name}' has {}; a text may have {} KiB. Name it in your message, so that the model reads it with a tool.",
                text::size(attachment.content.len() as u64),
                TEXT_BYTES >> 10
            );
            return Err(refused(message));
        }
        Ok(attachment)
    }

    /// Takes a file with this content for the tool of a command. `declared` is its media type as the client says, which counts
    /// for sounds, and where the content is neither text, an image nor a PDF.
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
                // A model reads what a terminal would show.
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

    /// Whether messages may have it.
    fn is_for_models(&self) -> bool {
        self.media_type == TEXT_MEDIA || media::image_or_pdf(&self.content).is_some()
    }

    /// Returns the media type and the content, for a tool.
    pub(crate) fn to_blob(&self) -> (String, Vec<u8>) {
        (self.media_type.clone().into_owned(), self.content.to_vec())
    }

    /// Returns the reference that rows hold.
    pub(crate) fn reference(&self) -> Attachment {
        Attachment {
            name: self.name.clone(),
            media_type: self.media_type.clone().into_owned(),
            digest: Digest::of(&self.content),
            size: self.content.len() as u64,
        }
    }
}

impl Default for FileMemory {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MEMORY_BYTES)))
    }
}

impl FileMemory {
    /// Takes the memory for the files of a line; `None` if it has no files.
    ///
    /// # Errors
    /// [`Code::AttachmentRefused`]: other lines use it.
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

impl LineContext {
    /// Stores the attached files that are not stored yet. Returns what the commit that names them needs.
    ///
    /// # Errors
    /// The outcome of a line that is not sent: the store failed.
    pub(crate) async fn store_attachments(&mut self) -> Result<Option<RetainedAttachments>, Outcome> {
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
        self.file_memory = None;
        self.attachments.extend(references);
        Ok(Some(retained))
    }

    /// Returns media type and content of the attached files, for the tool of a command.
    ///
    /// # Errors
    /// The outcome of a line whose stored files cannot be read.
    pub(crate) async fn blobs(&self) -> Result<Vec<(String, Vec<u8>)>, Outcome> {
        let mut blobs: Vec<_> = self.new_attachments.iter().map(NewAttachment::to_blob).collect();
        if !self.attachments.is_empty() {
            let (store, stored) = (self.session.log().store().clone(), self.attachments.clone());
            let read = move || {
                let read = |file: Attachment| match store.attachment(&file.digest).map_err(not_kept)? {
                    Some(content) => Ok((file.media_type, content)),
                    None => Err(refused(format_args!("'{}' is no longer stored; attach it again.", file.name))),
                };
                stored.into_iter().map(read).collect::<Result<Vec<_>, _>>()
            };
            blobs.extend(on_a_thread(read).await?);
        }
        Ok(blobs)
    }

    /// Checks that the model of the agent reads what is attached.
    ///
    /// # Errors
    /// [`Code::AttachmentUnreadable`].
    pub(crate) async fn check_readable(&self) -> Result<(), Outcome> {
        let new = self.new_attachments.iter().map(|new| (&*new.name, &*new.media_type));
        let stored = self.attachments.iter().map(|stored| (&*stored.name, &*stored.media_type));
        self.session.check_readable(&self.agent, new.chain(stored).collect()).await
    }
}

impl LineInput {
    /// Returns the names of the files.
    pub(crate) fn names(&self) -> Vec<String> {
        self.attachments.iter().map(|attachment| attachment.name.clone()).collect()
    }

    /// Removes the attachments of a built-in command that uses none. Returns a notice about them.
    pub(crate) fn drop_unused(&mut self, snapshot: &Snapshot) -> Option<String> {
        let name = self.unused_by(snapshot)?.to_owned();
        let files = std::mem::take(&mut self.attachments);
        Some(match &*files {
            [file] => format!("/{name} takes no attachments; '{}' was not used.", file.name),
            files => format!("/{name} takes no attachments; {} were not used.", files.len()),
        })
    }

    /// Returns the name of the line's built-in command, if the line has attachments and the command uses none.
    fn unused_by(&self, snapshot: &Snapshot) -> Option<&'static str> {
        if self.attachments.is_empty() {
            return None;
        }
        let Ok(Line::Command { name, argument }) = Line::parse(&self.text) else { return None };
        match resolve(name, builtin::TABLE, snapshot) {
            Ok(Resolved::BuiltIn(command)) if command.takes_files(snapshot, argument).is_none() => {
                Some(command.spec().name)
            }
            _ => None,
        }
    }

    /// Checks the attachments together, before anything of the line runs.
    ///
    /// # Errors
    /// The outcome of a line that is refused.
    pub(crate) fn check(&self, snapshot: &Snapshot) -> Result<(), Outcome> {
        if self.attachments.is_empty() || self.unused_by(snapshot).is_some() {
            return Ok(());
        }
        if let Ok(Line::Command { name, argument }) = Line::parse(&self.text) {
            check_command(snapshot, name, argument)?;
        }
        self.check_files()
    }

    /// Checks the kinds, the number and the size of the files.
    fn check_files(&self) -> Result<(), Outcome> {
        let Self { text, attachments, .. } = self;
        let is_message = matches!(Line::parse(text), Ok(Line::Conversation(_)));
        if let Some(attachment) = attachments.iter().find(|attachment| is_message && !attachment.is_for_models()) {
            return Err(no_kind(&attachment.name));
        }
        if attachments.len() > FILES {
            let message = format_args!("{} files are attached; a line may have {FILES}.", attachments.len());
            return Err(refused(message));
        }
        let bytes: usize = attachments.iter().map(|attachment| attachment.content.len()).sum();
        if bytes > LINE_FILES_BYTES {
            let (size, most) = (text::size(bytes as u64), LINE_FILES_BYTES >> 20);
            return Err(refused(format_args!("the attached files have {size} in all; a line may have {most} MiB.")));
        }
        Ok(())
    }
}

impl Session {
    /// Checks the files of a message before it is submitted, for fronts that keep the text of a refused message. If a command
    /// that may choose another model still runs, whether the model reads the files is checked when the turn begins.
    ///
    /// # Errors
    /// [`Code::AttachmentRefused`] and [`Code::AttachmentUnreadable`].
    pub async fn check_attachments(&self, input: &LineInput) -> Result<(), Outcome> {
        input.check(&self.snapshot())?;
        if self.queue.is_delayed() {
            return Ok(());
        }
        let files = input.attachments.iter().map(|new| (&*new.name, &*new.media_type)).collect();
        self.check_readable(&self.agent_in_view(), files).await
    }

    /// Checks that the model of `agent` reads `files`, each a name and a media type. If no model can be used, the turn reports
    /// it.
    async fn check_readable(&self, agent: &Agent, mut files: Vec<(&str, &str)>) -> Result<(), Outcome> {
        files.retain(|(_, media_type)| *media_type != TEXT_MEDIA);
        if files.is_empty() {
            return Ok(());
        }
        let Ok(choice) = self.model_of(agent).await else { return Ok(()) };
        let known = self.host.providers.model(&choice.provider, &choice.model).await.unwrap_or_default();
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

    /// Reads the file that a word such as `@docs/a.png` names; `path` is without the `@`. It is a file of the workspace, or any file
    /// if the path is absolute. Returns `None` if there is no such file; the word is then plain text.
    ///
    /// # Errors
    /// [`Code::AttachmentRefused`]: the file may not be attached in this way.
    pub async fn attach_path(&self, path: &str) -> Result<Option<NewAttachment>, Outcome> {
        if path.starts_with('/') {
            return match is_file(path).await {
                true => self.attach_file(Path::new(path)).await.map(Some),
                false => Ok(None),
            };
        }
        let path = path.trim_start_matches("./");
        match self.listed_file(path, "attach it with --attach or copy it first").await? {
            Some(content) => NewAttachment::new(path, content).map(Some),
            None => Ok(None),
        }
    }

    /// Returns whether a path, as in [`Session::attach_path`], names a file. Its content is not read.
    pub async fn names_file(&self, path: &str) -> bool {
        if path.starts_with('/') {
            return is_file(path).await;
        }
        let path = path.trim_start_matches("./").to_owned();
        let (root, protected) = (self.workspace().to_owned(), self.host.protected.clone());
        let found = on_a_thread(move || {
            let workspace = Workspace::open_for_host(Path::new(&root), &protected).ok();
            Ok(workspace.map(|workspace| match workspace.open_listed_file(&path) {
                Ok(_) | Err(FileError::Ignored { .. }) => true,
                Err(_) => false,
            }))
        });
        found.await.ok().flatten().unwrap_or(false)
    }

    /// Reads a file of the workspace that an editor names, by the rules of [`Session::attach_path`]. The caller attaches the
    /// content by [`NewAttachment`].
    ///
    /// # Errors
    /// [`Code::AttachmentRefused`]: the file may not be attached in this way.
    pub async fn linked_file(&self, path: &str) -> Result<Option<Vec<u8>>, Outcome> {
        self.listed_file(path.trim_start_matches("./"), "copy it first").await
    }

    /// Reads a file of the workspace. `advice` is what the user can do with a file that git ignores.
    async fn listed_file(&self, path: &str, advice: &'static str) -> Result<Option<Vec<u8>>, Outcome> {
        let path = path.to_owned();
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
                Err(error @ FileError::Ignored { .. }) => return Err(refused(format_args!("{error}; {advice}."))),
                Err(error) => return Err(refused(format_args!("{error}."))),
            };
            if protected.cover(Path::new(&root)) || path.split('/').any(|part| part.eq_ignore_ascii_case(OWN)) {
                return Err(refused(format_args!("'{name}' is one of Patchbay's own files, or lies in its folders.")));
            }
            read(&name, &file).map(Some)
        })
        .await
    }
}

/// Returns whether the absolute `path` leads to a regular file.
async fn is_file(path: &str) -> bool {
    let path = path.to_owned();
    on_a_thread(move || Ok(Path::new(&path).is_file())).await.unwrap_or(false)
}

/// Checks that a command has the input without which it cannot use files. A line that names no command is refused later.
fn check_command(snapshot: &Snapshot, name: &str, argument: &str) -> Result<(), Outcome> {
    let needs_input = match resolve(name, builtin::TABLE, snapshot) {
        Ok(Resolved::BuiltIn(command)) => command.takes_files(snapshot, argument) == Some(false),
        Ok(Resolved::Alias(skill)) => !invoke::takes_files(snapshot, skill.as_str(), argument),
        Err(_) => false,
    };
    if needs_input {
        return Err(refused(format_args!("/{name} takes attached files together with an input; nothing was run.")));
    }
    Ok(())
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

/// Returns whether a text is a media type without parameters, such as `audio/wav`.
fn is_media_type(text: &str) -> bool {
    let is_word = |word: &str| {
        (1..=MEDIA_WORD).contains(&word.len())
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    text.split_once('/').is_some_and(|(kind, name)| is_word(kind) && is_word(name))
}

/// Runs `work`, which reads files, on a thread for blocking work.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Outcome> + Send + 'static,
) -> Result<T, Outcome> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Outcome::error(Code::Internal, format_args!("a file was not read: {error}."))))
}

fn no_kind(name: &str) -> Outcome {
    refused(format_args!("'{name}' is neither text, an image nor a PDF."))
}

fn refused(message: impl Display) -> Outcome {
    Outcome::error(Code::AttachmentRefused, message)
}

fn too_large(name: &str, size: u64) -> Outcome {
    let (size, most) = (text::size(size), FILE_BYTES >> 20);
    refused(format_args!("'{name}' has {size}; an attached file may have {most} MiB."))
}

fn unreadable(name: &str, error: &std::io::Error) -> Outcome {
    if error.kind() == ErrorKind::NotFound {
        return refused(format_args!("there is no file '{name}'."));
    }
    refused(format_args!("'{name}' cannot be read: {}.", error.kind()))
}

#[cfg(test)]
mod tests;
