//! Converts the result of a call to content of the host. Unsupported content becomes a line that names it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use patchbay_sandbox::Content;
use rmcp::model::{ContentBlock, ResourceContents};
use serde::Deserialize;
use serde_json::Value;

use super::request::ServerRequestError;

/// Maximum number of parts that a result may have.
const PARTS: usize = 1_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultParts {
    #[serde(default)]
    content: Vec<Value>,
    #[serde(default)]
    structured_content: Option<Value>,
    #[serde(default)]
    is_error: bool,
}

/// The result of a call: content, or the tool's own error message.
pub(super) enum CallResult {
    Content(Vec<Content>),
    Failed(String),
}

pub(super) fn read(result: Value) -> Result<CallResult, ServerRequestError> {
    let parts = serde_json::from_value(result)
        .map_err(|error| ServerRequestError::Answer(format!("the result of the call is invalid: {error}")))?;
    let ResultParts { content, structured_content, is_error } = parts;
    let left_out = content.len().saturating_sub(PARTS);
    let mut pieces: Vec<_> = content.into_iter().take(PARTS).map(piece).collect();
    if left_out > 0 {
        pieces.push(Content::Text(format!("[{left_out} more parts are left out]")));
    }
    if is_error {
        let texts: Vec<_> = pieces.iter().map(ToString::to_string).collect();
        let message = texts.join("\n");
        let message = if message.trim().is_empty() { "the tool failed without a message.".to_owned() } else { message };
        return Ok(CallResult::Failed(message));
    }
    Ok(CallResult::Content(match structured_content {
        Some(value) if is_only(&pieces, &value) => vec![Content::Json(value)],
        _ => pieces,
    }))
}

/// Returns whether the content adds nothing to the structured result, because servers repeat that as text for older clients.
fn is_only(pieces: &[Content], structured: &Value) -> bool {
    match pieces {
        [] => true,
        [Content::Text(text)] => serde_json::from_str::<Value>(text).is_ok_and(|value| value == *structured),
        _ => false,
    }
}

fn piece(block: Value) -> Content {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or("unknown").to_owned();
    match serde_json::from_value(block) {
        Ok(ContentBlock::Text(text)) => Content::Text(text.text),
        Ok(ContentBlock::Image(image)) => blob(&kind, &image.data, image.mime_type),
        Ok(ContentBlock::Audio(audio)) => blob(&kind, &audio.data, audio.mime_type),
        Ok(ContentBlock::Resource(embedded)) => match embedded.resource {
            ResourceContents::TextResourceContents { text, .. } => Content::Text(text),
            ResourceContents::BlobResourceContents { blob: data, mime_type, .. } => {
                blob(&kind, &data, mime_type.unwrap_or_else(|| "application/octet-stream".to_owned()))
            }
            _ => left_out(&kind),
        },
        Ok(ContentBlock::ResourceLink(link)) => {
            let media_type = link.mime_type.map(|media_type| format!(" ({media_type})")).unwrap_or_default();
            Content::Text(format!("{}: {}{media_type}", link.name, link.uri))
        }
        Ok(_) | Err(_) => left_out(&kind),
    }
}

fn left_out(kind: &str) -> Content {
    Content::Text(format!("[content of the kind '{kind}' is left out]"))
}

fn blob(kind: &str, data: &str, media_type: String) -> Content {
    match STANDARD.decode(data) {
        Ok(data) => Content::Blob { media_type, data },
        Err(_) => Content::Text(format!("[content of the kind '{kind}' is left out: its data is not base64]")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn content(result: Value) -> Vec<Content> {
        match read(result).unwrap() {
            CallResult::Content(content) => content,
            CallResult::Failed(message) => panic!("{message}"),
        }
    }

    fn text(text: &str) -> Content {
        Content::Text(text.to_owned())
    }

    #[test]
    fn blocks_become_content_and_unknown_ones_are_named() {
        let read = content(json!({"content": [
            {"type": "text", "text": "a"},
            {"type": "image", "data": "YWJj", "mimeType": "image/png"},
            {"type": "audio", "data": "!", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "x:1", "text": "b"}},
            {"type": "resource", "resource": {"uri": "x:1", "blob": "YWJj"}},
            {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt", "mimeType": "text/plain"},
            {"type": "hologram", "data": 5},
            7,
        ]}));
        let blob = |media_type: &str| Content::Blob { media_type: media_type.to_owned(), data: b"abc".to_vec() };
        let expected = [
            text("a"),
            blob("image/png"),
            text("[content of the kind 'audio' is left out: its data is not base64]"),
            text("b"),
            blob("application/octet-stream"),
            text("a.txt: file:///a.txt (text/plain)"),
            text("[content of the kind 'hologram' is left out]"),
            text("[content of the kind 'unknown' is left out]"),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn structured_result_replaces_its_repetition_only() {
        let value = json!({"sum": 3});
        let both =
            |text: &str| content(json!({"content": [{"type": "text", "text": text}], "structuredContent": value}));
        assert_eq!(both(r#"{ "sum": 3 }"#), [Content::Json(value.clone())]);
        assert_eq!(both("The sum is 3."), [text("The sum is 3.")]);
        assert_eq!(content(json!({"structuredContent": value})), [Content::Json(value.clone())]);
        assert_eq!(content(json!({})), []);
    }

    #[test]
    fn failure_has_the_words_of_the_tool_and_parts_are_bounded() {
        let failed = |content: Value| match read(json!({"content": content, "isError": true})).unwrap() {
            CallResult::Failed(message) => message,
            CallResult::Content(content) => panic!("{content:?}"),
        };
        assert_eq!(failed(json!([{"type": "text", "text": "No such file."}])), "No such file.");
        assert_eq!(failed(json!([])), "the tool failed without a message.");
        assert!(read(json!({"content": 5})).is_err());
        let many = content(json!({"content": vec![json!({"type": "text", "text": ""}); PARTS + 5]}));
        assert_eq!((many.len(), &many[PARTS]), (PARTS + 1, &text("[5 more parts are left out]")));
    }
}
