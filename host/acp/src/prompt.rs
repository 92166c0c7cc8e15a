//! The blocks of a prompt as a line with attachments. The first text that is not blank decides whether the line is a command.

use std::path::PathBuf;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use patchbay_core::{Code, Outcome};
use patchbay_session::{LineInput, NewAttachment, Session};
use url::Url;

use crate::params::{ContentBlock, Resource};

/// Returns the line of a prompt. The first text that is not blank decides: if it begins with `/`, it is a command, and everything
/// else is attached to the command; else all texts are one message.
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
                let name = block.uri.as_deref().and_then(file_name).unwrap_or_else(|| "image".to_owned());
                content.file(&name, block.mime_type.as_deref(), decoded(block.data.as_deref())?)?;
            }
            "audio" if is_command => {
                content.file("audio", block.mime_type.as_deref(), decoded(block.data.as_deref())?)?;
            }
            "audio" => return Err(refused("audio is for commands; models do not receive it. Nothing was sent.")),
            "resource" => {
                let Some(resource) = block.resource else { return Err(refused("a resource has no contents.")) };
                let Resource { uri, mime_type, text, blob } = resource;
                let name = file_name(&uri).unwrap_or(uri);
                let bytes = match text {
                    Some(text) => text.into_bytes(),
                    None => decoded(blob.as_deref())?,
                };
                content.file(&name, mime_type.as_deref(), bytes)?;
            }
            "resource_link" => {
                let uri = block.uri.unwrap_or_default();
                match linked(session, &uri).await {
                    Some(attachment) => content.attachments.push(attachment?),
                    // The model can read it with a tool, or ask.
                    None => content.text(format!("[{}]({uri})", block.name.unwrap_or_default()))?,
                }
            }
            kind => {
                return Err(refused(format_args!(
                    "a block of the kind '{}' is not known.",
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
    Ok(LineInput { text, attachments, ahead: false })
}

/// What a prompt has besides a command.
struct PromptContent {
    is_command: bool,
    /// The texts of a message.
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

/// Reads a linked file of the workspace; `None` for any other link.
async fn linked(session: &Session, uri: &str) -> Option<Result<NewAttachment, Outcome>> {
    let path: PathBuf = Url::parse(uri).ok().filter(|url| url.scheme() == "file")?.to_file_path().ok()?;
    let below = path.strip_prefix(session.workspace()).ok()?.to_str()?.to_owned();
    session.attach_path(&below).await.transpose()
}

/// Returns the last part of a URI's path.
fn file_name(uri: &str) -> Option<String> {
    let url = Url::parse(uri).ok()?;
    let name = url.path_segments()?.next_back()?.to_owned();
    (!name.is_empty()).then_some(name)
}
