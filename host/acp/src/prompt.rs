//! The blocks of a prompt as a line with attachments. The first text that is not blank decides whether the line is a command.

use std::path::PathBuf;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use patchbay_core::{Code, Outcome};
use patchbay_session::{LineInput, NewAttachment, Session};
use url::Url;

use crate::params::{ContentBlock, Resource};

/// Returns the line of a prompt.
///
/// # Errors
/// The outcome of a prompt that cannot be submitted.
pub(crate) async fn line(session: &Session, blocks: Vec<ContentBlock>) -> Result<LineInput, Outcome> {
    let (mut texts, mut attachments) = (Vec::new(), Vec::new());
    for block in blocks {
        match &*block.kind {
            "text" => texts.extend(block.text.filter(|text| !text.trim().is_empty())),
            "image" => {
                let name = block.uri.as_deref().and_then(file_name).unwrap_or_else(|| "image".to_owned());
                attachments.push(NewAttachment::new(&name, decoded(block.data.as_deref())?)?);
            }
            "resource" => {
                let Some(resource) = block.resource else { return Err(refused("a resource has no contents.")) };
                attachments.push(embedded(resource)?);
            }
            "resource_link" => {
                let uri = block.uri.unwrap_or_default();
                match linked(session, &uri).await {
                    Some(attachment) => attachments.push(attachment?),
                    // The model can read it with a tool, or ask.
                    None => texts.push(format!("[{}]({uri})", block.name.unwrap_or_default())),
                }
            }
            "audio" => return Err(refused("audio cannot be attached.")),
            kind => {
                return Err(refused(format_args!(
                    "a block of the kind '{}' is not known.",
                    patchbay_core::text::excerpt(kind, 40)
                )));
            }
        }
    }
    let is_command = texts.first().is_some_and(|text| text.starts_with('/'));
    if is_command {
        texts.truncate(1);
    }
    Ok(LineInput { text: texts.join("\n\n"), attachments, ahead: false })
}

fn refused(message: impl std::fmt::Display) -> Outcome {
    Outcome::error(Code::AttachmentRefused, message)
}

fn decoded(data: Option<&str>) -> Result<Vec<u8>, Outcome> {
    BASE64_STANDARD.decode(data.unwrap_or_default()).map_err(|_| refused("an attachment is not base64."))
}

fn embedded(resource: Resource) -> Result<NewAttachment, Outcome> {
    let name = file_name(&resource.uri).unwrap_or(resource.uri);
    let content = match resource.text {
        Some(text) => text.into_bytes(),
        None => decoded(resource.blob.as_deref())?,
    };
    NewAttachment::new(&name, content)
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
