//! Reads the files that the user attaches to a message or command. Fronts name the paths. Path rules are checked here,
//! and content rules in `line::input`.

use std::{
    fs::File,
    io::{ErrorKind, Read as _},
    path::Path,
};

use patchbay_agent::Agent;
use patchbay_core::{Code, Outcome, TEXT_MEDIA, text};
use patchbay_workspace::{FileError, Workspace, open_regular_file};

use crate::{
    LineInput, NewAttachment, Session,
    line::{
        input::{FILE_BYTES, NAME, on_a_thread, refused, too_large},
        typed::TypedLine,
    },
};

/// A folder whose files are never attached by `@path`; see `workspace_files`.
const OWN: &str = ".patchbay";

impl Session {
    /// Checks the files of a message before it is submitted, for fronts that keep the text of a refused message. While a command
    /// that may choose another model is running, this does not check whether the model can read the files; the turn checks it
    /// when it begins.
    ///
    /// # Errors
    /// [`Code::AttachmentRefused`] and [`Code::AttachmentUnreadable`].
    pub async fn check_attachments(&self, input: &LineInput) -> Result<(), Outcome> {
        TypedLine::read(&input.text, &self.snapshot()).check_files(input, &self.snapshot())?;
        if self.queue.is_delayed() {
            return Ok(());
        }
        let files = input.attachments.iter().map(NewAttachment::name_and_type).collect();
        self.check_readable(&self.agent_in_view(), files).await
    }

    /// Checks that the model of `agent` can read `files`, each a name and a media type. If no model can be used, the check
    /// passes, and the turn reports the problem.
    pub(crate) async fn check_readable(&self, agent: &Agent, mut files: Vec<(&str, &str)>) -> Result<(), Outcome> {
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
            "model '{model}' is not known to read {media_type} ({name}); nothing was sent. Choose another model \
             with /model, or set its input_media under models in [providers.{provider}] of config.toml."
        );
        Err(Outcome::error(Code::AttachmentUnreadable, message))
    }

    /// Reads a file that the user explicitly attached, for example with `--attach`. Any regular file is
    /// accepted, except Patchbay's own files.
    ///
    /// # Errors
    /// [`Code::AttachmentRefused`].
    pub async fn attach_file(&self, path: &Path) -> Result<NewAttachment, Outcome> {
        let (path, protected) = (path.to_owned(), self.host.protected.clone());
        on_a_thread(move || {
            let path_text = path.to_string_lossy();
            let name = text::excerpt(&path_text, NAME);
            if protected.cover(&path) {
                return Err(refused(format_args!("'{name}' is one of Patchbay's own files, or is in its folders.")));
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

    /// Reads the file that a word such as `@docs/a.png` names; `path` is without the `@`. Relative paths are looked
    /// up in the workspace, and absolute paths may name any file. Returns `None` if the file does not exist, in
    /// which case the word is plain text.
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
    /// content with [`NewAttachment`].
    ///
    /// # Errors
    /// [`Code::AttachmentRefused`]: the file may not be attached in this way.
    pub async fn linked_file(&self, path: &str) -> Result<Option<Vec<u8>>, Outcome> {
        self.listed_file(path.trim_start_matches("./"), "copy it first").await
    }

    /// Reads a file of the workspace. `advice` tells the user how to attach a file that git ignores.
    async fn listed_file(&self, path: &str, advice: &'static str) -> Result<Option<Vec<u8>>, Outcome> {
        let path = path.to_owned();
        let (root, protected) = (self.workspace().to_owned(), self.host.protected.clone());
        on_a_thread(move || {
            let name = text::excerpt(&path, NAME);
            let workspace = Workspace::open_for_host(Path::new(&root), &protected)
                .map_err(|error| refused(format_args!("cannot read the workspace: {}.", error.kind())))?;
            let file = match workspace.open_listed_file(&path) {
                Ok((file, _)) => file.into_std(),
                Err(FileError::Path { .. } | FileError::NotFound { .. } | FileError::Directory { .. }) => {
                    return Ok(None);
                }
                Err(error @ FileError::Ignored { .. }) => return Err(refused(format_args!("{error}; {advice}."))),
                Err(error) => return Err(refused(format_args!("{error}."))),
            };
            if protected.cover(Path::new(&root)) || path.split('/').any(|part| part.eq_ignore_ascii_case(OWN)) {
                return Err(refused(format_args!("'{name}' is one of Patchbay's own files, or is in its folders.")));
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

fn read(name: &str, file: &File) -> Result<Vec<u8>, Outcome> {
    let unreadable = |error| unreadable(name, &error);
    let state = || file.metadata().and_then(|now| Ok((now.len(), now.modified()?)));
    let before = state().map_err(unreadable)?;
    if before.0 > FILE_BYTES {
        return Err(too_large(name, before.0));
    }
    let mut content = Vec::with_capacity(usize::try_from(before.0).unwrap_or_default());
    // Reads one byte more than the limit, to notice a file that grows.
    file.take(FILE_BYTES + 1).read_to_end(&mut content).map_err(unreadable)?;
    let after = state().map_err(unreadable)?;
    if before != after || content.len() as u64 != after.0 {
        return Err(refused(format_args!("'{name}' changed while it was read; try again.")));
    }
    Ok(content)
}

fn unreadable(name: &str, error: &std::io::Error) -> Outcome {
    if error.kind() == ErrorKind::NotFound {
        return refused(format_args!("file '{name}' not found."));
    }
    refused(format_args!("cannot read '{name}': {}.", error.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_changes_while_it_is_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, "before").unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(read("a.txt", &file).unwrap(), b"before");
        // The file's position is now at its end, so fewer bytes are read than the file contains.
        let refused = read("a.txt", &file).unwrap_err();
        assert_eq!(refused.message, "'a.txt' changed while it was read; try again.");
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(1 << 30).unwrap();
        let huge = File::open(&path).unwrap();
        assert!(read("a.txt", &huge).unwrap_err().message.starts_with("'a.txt' is 1,073.7 MB;"));
    }
}
