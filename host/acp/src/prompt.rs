//! The blocks of a prompt as a line with attachments. The first text that is not blank decides whether the line is a command.

use std::path::{Path, PathBuf};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use patchbay_core::{Code, Outcome};
use patchbay_session::{LineInput, NewAttachment, Session};
use url::Url;

use crate::params::{ContentBlock, Resource};

/// Returns the line of a prompt. The first text that is not blank decides: if it begins with `/`, it is a command, and
/// everything else is attached to the command; otherwise all texts are one message.
///
/// # Errors
/// The outcome of a prompt that cannot be submitted.
pub(crate) async fn line(session: &Session, blocks: Vec<ContentBlock>) -> Result<LineInput, Outcome> {
    let mut texts = blocks.iter().filter(|block| block.kind == "text").filter_map(|block| block.text.as_deref());
    let is_command = texts.find(|text| !text.trim().is_empty()).is_some_and(|text| text.starts_with('/'));
    let mut content = PromptContent { is_command, texts: Vec::new(), attachments: Vec::new() };
    let mut command = None;
    for block in blocks {
        match &*block.kind {
            "text" => match block.text.filter(|text| !text.trim().is_empty()) {
                Some(text) if is_command && command.is_none() => command = Some(text),
                Some(text) => content.text(text)?,
                None => {}
            },
            "image" => {
                let name = match block.uri.as_deref() {
                    Some(uri) => image_name(session.workspace(), uri).await,
                    None => None,
                };
                let name = name.as_deref().unwrap_or("image");
                content.file(name, block.mime_type.as_deref(), decoded(block.data.as_deref())?)?;
            }
            "audio" if is_command => {
                content.file("audio", block.mime_type.as_deref(), decoded(block.data.as_deref())?)?;
            }
            "audio" => return Err(refused("audio is for commands; models do not receive it. Nothing was sent.")),
            "resource" => {
                let Some(resource) = block.resource else { return Err(refused("a resource has no contents.")) };
                let Resource { uri, mime_type, text, blob } = resource;
                let name = resource_name(session.workspace(), &uri).await;
                let bytes = match text {
                    Some(text) => text.into_bytes(),
                    None => decoded(blob.as_deref())?,
                };
                content.file(&name, mime_type.as_deref(), bytes)?;
            }
            "resource_link" => {
                let uri = block.uri.unwrap_or_default();
                match linked(session, &uri).await? {
                    Some((name, bytes)) => content.file(&name, block.mime_type.as_deref(), bytes)?,
                    // The model can read it with a tool, or ask.
                    None => content.text(format!("[{}]({uri})", block.name.unwrap_or_default()))?,
                }
            }
            kind => {
                return Err(refused(format_args!(
                    "unknown kind of block: '{}'.",
                    patchbay_core::text::excerpt(kind, 40)
                )));
            }
        }
    }
    let PromptContent { texts, attachments, .. } = content;
    let text = command.unwrap_or_else(|| texts.join("\n\n"));
    if text.is_empty() && attachments.is_empty() {
        return Err(Outcome::error(Code::InvalidArgs, "the prompt has neither text nor files."));
    }
    Ok(LineInput { text, attachments, ..LineInput::default() })
}

/// The parts of a prompt that are not a command.
struct PromptContent {
    is_command: bool,
    texts: Vec<String>,
    attachments: Vec<NewAttachment>,
}

impl PromptContent {
    fn text(&mut self, text: String) -> Result<(), Outcome> {
        if self.is_command {
            return self.file("text", None, text.into_bytes());
        }
        self.texts.push(text);
        Ok(())
    }

    fn file(&mut self, name: &str, declared: Option<&str>, content: Vec<u8>) -> Result<(), Outcome> {
        self.attachments.push(match self.is_command {
            true => NewAttachment::for_command(name, declared, content)?,
            false => NewAttachment::new(name, content)?,
        });
        Ok(())
    }
}

fn refused(message: impl std::fmt::Display) -> Outcome {
    Outcome::error(Code::AttachmentRefused, message)
}

fn decoded(data: Option<&str>) -> Result<Vec<u8>, Outcome> {
    BASE64_STANDARD.decode(data.unwrap_or_default()).map_err(|_| refused("an attachment is not base64."))
}

/// Returns the path and the content of a linked file of the workspace; `None` for any other link.
async fn linked(session: &Session, uri: &str) -> Result<Option<(String, Vec<u8>)>, Outcome> {
    let Some(FileUri { path, .. }) = FileUri::parse(uri) else { return Ok(None) };
    let Some(below) = below_workspace(session.workspace(), &path).await else { return Ok(None) };
    Ok(session.linked_file(&below).await?.map(|content| (below, content)))
}

struct FileUri {
    /// The path of the URI, percent-decoded.
    path: PathBuf,
    /// The fragment after `#`, such as the lines `L10:20`.
    fragment: Option<String>,
}

impl FileUri {
    /// Returns `None` if the URI does not name a file on this machine.
    fn parse(uri: &str) -> Option<Self> {
        let url = Url::parse(uri).ok().filter(|url| url.scheme() == "file")?;
        let fragment = url.fragment().filter(|fragment| !fragment.is_empty()).map(str::to_owned);
        Some(Self { path: url.to_file_path().ok()?, fragment })
    }

    /// Returns the name for models: the path, relative to the workspace if the file is in it, and the fragment, such as
    /// `src/main.rs (L10:20)`.
    async fn name(self, workspace: &str) -> String {
        let Self { path, fragment } = self;
        let below = below_workspace(workspace, &path).await.filter(|below| !below.is_empty());
        let name = below.unwrap_or_else(|| path.to_string_lossy().into_owned());
        match fragment {
            Some(fragment) => format!("{name} ({fragment})"),
            None => name,
        }
    }
}

/// Returns the name of an embedded resource: the path of a file, or the whole URI.
async fn resource_name(workspace: &str, uri: &str) -> String {
    match FileUri::parse(uri) {
        Some(file) => file.name(workspace).await,
        None => uri.to_owned(),
    }
}

/// Returns the name of an image: the path of a file, otherwise the last segment of the URI. The whole URI is not used, because a
/// `data:` URI contains the image itself.
async fn image_name(workspace: &str, uri: &str) -> Option<String> {
    match FileUri::parse(uri) {
        Some(file) => Some(file.name(workspace).await),
        None => last_part(uri),
    }
}

/// Returns the last segment of a URI's path.
fn last_part(uri: &str) -> Option<String> {
    let url = Url::parse(uri).ok()?;
    let name = url.path_segments()?.next_back()?.to_owned();
    (!name.is_empty()).then_some(name)
}

/// Returns `path` relative to `workspace`, which is canonical; `None` for a path outside. The client may have opened the workspace
/// through a symbolic link, so links in the file's folder are resolved. A link in place of the file itself is not: the session has
/// its own rules for links.
async fn below_workspace(workspace: &str, path: &Path) -> Option<String> {
    if let Ok(below) = path.strip_prefix(workspace) {
        return below.to_str().map(str::to_owned);
    }
    let (folder, name) = (path.parent()?.to_owned(), path.file_name()?);
    let folder = tokio::task::spawn_blocking(move || folder.canonicalize()).await.ok()?.ok()?;
    folder.join(name).strip_prefix(workspace).ok()?.to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_have_decoded_paths_relative_to_the_workspace() {
        for (uri, name) in [
            ("file:///w/src/a%20b.rs", "src/a b.rs"),
            ("file:///w/src/a.rs#L10:20", "src/a.rs (L10:20)"),
            ("file:///w/src/a.rs?symbol=x#", "src/a.rs"),
            ("file://localhost/w/a", "a"),
            ("file:///elsewhere-not-there/a.rs#L1", "/elsewhere-not-there/a.rs (L1)"),
            ("file:///wide/a", "/wide/a"),
            ("https://example.org/a%20b?c#d", "https://example.org/a%20b?c#d"),
            ("zed:///agent/thread/1", "zed:///agent/thread/1"),
            ("x:y", "x:y"),
            ("no URI", "no URI"),
        ] {
            assert_eq!(resource_name("/w", uri).await, name, "{uri}");
        }
    }

    #[tokio::test]
    async fn images_have_short_names() {
        for (uri, name) in [
            ("file:///w/docs/a%20b.png", Some("docs/a b.png")),
            ("https://example.org/img/c.png", Some("c.png")),
            ("data:image/png;base64,iVBORw0KGgo=", None),
            ("", None),
        ] {
            assert_eq!(image_name("/w", uri).await.as_deref(), name, "{uri}");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn paths_through_a_link_to_the_workspace_are_below_it() {
        let folder = std::env::temp_dir().join(format!("patchbay-prompt-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("real/src")).unwrap();
        let folder = folder.canonicalize().unwrap();
        std::os::unix::fs::symlink(folder.join("real"), folder.join("link")).unwrap();
        let workspace = folder.join("real").to_str().unwrap().to_owned();
        let below = async |path: &str| below_workspace(&workspace, &folder.join(path)).await;
        assert_eq!(below("real/src/a.rs").await.as_deref(), Some("src/a.rs"));
        assert_eq!(below("link/src/a.rs").await.as_deref(), Some("src/a.rs"));
        assert_eq!(below("link/gone/a.rs").await, None);
        assert_eq!(below("other.rs").await, None);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
