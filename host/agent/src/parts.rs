//! Converts stored parts of a conversation to the form that a model receives. Called by `conversation`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use patchbay_core::{
    AssistantPart, Attachment, Digest, ToolRecord, ToolRecordPart,
    completion::{Blob, Block, Part, Piece, ToolCall, ToolResult},
};

use crate::call_tool::CALL_TOOL;

/// Returns a part of an answer as a model receives it, or `None` if it is not sent. `own` indicates whether the answer
/// came from the same adapter and model. If not, thinking and adapter data are left out.
pub(crate) fn part(part: &AssistantPart, own: bool) -> Option<Part> {
    let (block, opaque) = match part {
        AssistantPart::Text { text, opaque } => (Block::Text(text.clone()), opaque),
        AssistantPart::ToolCall { id, name, input, opaque, call_tool } => {
            let (name, input) = match call_tool {
                Some(sent) => (CALL_TOOL, sent),
                None => (name.as_str(), input),
            };
            let call = ToolCall { id: id.clone(), name: name.to_owned(), input: input.clone() };
            (Block::ToolCall(call), opaque)
        }
        AssistantPart::Thinking { text, opaque } if own => (Block::Thinking(text.clone()), opaque),
        AssistantPart::Opaque { data, opaque } if own => (Block::Opaque(data.clone()), opaque),
        AssistantPart::Thinking { .. } | AssistantPart::Opaque { .. } => return None,
    };
    Some(Part { block, opaque: opaque.clone().filter(|_| own) })
}

/// Returns the result of `call`, and the stored contents that it needs, each with the index of the piece that is its
/// placeholder. `reads` indicates which media types the model accepts.
pub(crate) fn result(
    record: &ToolRecord,
    call: ToolCall,
    reads: &dyn Fn(&str) -> bool,
) -> (ToolResult, Vec<(usize, Attachment)>) {
    let unreadable = |media_type: &str| Piece::Text(format!("[{media_type}, which this model cannot read]"));
    let mut stored = Vec::new();
    let content = record.content.iter().enumerate().map(|(index, piece)| match piece {
        ToolRecordPart::Text { text } => Piece::Text(text.clone()),
        ToolRecordPart::Blob { media_type, data } => match STANDARD.decode(data) {
            Ok(bytes) if reads(media_type) => {
                Piece::Blob(Blob { media_type: media_type.clone(), name: None, data: bytes.into() })
            }
            _ => unreadable(media_type),
        },
        ToolRecordPart::StoredBlob { media_type, .. } if !reads(media_type) => unreadable(media_type),
        ToolRecordPart::StoredBlob { media_type, digest, size } => {
            let (name, media_type) = (String::new(), media_type.clone());
            let attachment = Attachment { name, media_type, digest: *digest, size: *size };
            let placeholder = Piece::Text(attachment.placeholder());
            stored.push((index, attachment));
            placeholder
        }
    });
    let content = content.collect();
    (ToolResult { call_id: call.id, name: call.name, content, is_error: record.error.is_some() }, stored)
}

/// Returns the part of a row that refers to these bytes, which are stored as an attachment.
pub(crate) fn stored_blob(media_type: &str, data: &[u8]) -> ToolRecordPart {
    ToolRecordPart::StoredBlob { media_type: media_type.to_owned(), digest: Digest::of(data), size: data.len() as u64 }
}
