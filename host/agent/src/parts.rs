//! Converts stored parts of a conversation to the form that a model receives. `conversation` calls it.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use patchbay_core::{
    AssistantPart, ToolRecord, ToolRecordPart,
    completion::{Blob, Block, Part, Piece, ToolCall, ToolResult},
};

use crate::call_tool::CALL_TOOL;

/// Returns a part of an answer as a model receives it, or `None` if it is not sent. `own` says whether the answer came from
/// the same adapter and model; others receive neither thinking nor adapter data.
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

/// Returns the result of a tool as the answer to `call`. `reads` says which media types the model accepts.
pub(crate) fn result(record: &ToolRecord, call: ToolCall, reads: &dyn Fn(&str) -> bool) -> ToolResult {
    let content = record.content.iter().map(|piece| match piece {
        ToolRecordPart::Text { text } => Piece::Text(text.clone()),
        ToolRecordPart::Blob { media_type, data } => match STANDARD.decode(data) {
            Ok(bytes) if reads(media_type) => {
                Piece::Blob(Blob { media_type: media_type.clone(), name: None, data: bytes.into() })
            }
            _ => Piece::Text(format!("[{media_type}, which this model cannot be sent]")),
        },
    });
    ToolResult { call_id: call.id, name: call.name, content: content.collect(), is_error: record.error.is_some() }
}

/// Encodes bytes for a row.
pub(crate) fn blob(media_type: &str, data: &[u8]) -> ToolRecordPart {
    ToolRecordPart::Blob { media_type: media_type.to_owned(), data: STANDARD.encode(data) }
}
