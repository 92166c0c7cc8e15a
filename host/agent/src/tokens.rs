//! Estimates of tokens: of texts, parts and files that a model reads.

use patchbay_core::{
    Attachment,
    completion::{Block, Message, Part, Piece},
};

/// Bytes per token, a low estimate, because the number of tokens must not be underestimated.
pub(crate) const BYTES_PER_TOKEN: u64 = 3;
/// Tokens of an image, according to the providers' rules of thumb.
const TOKENS_PER_BLOB: u64 = 1_600;

/// How many bytes a blob counts as in the estimate of a conversation.
pub(crate) const BLOB_BYTES: u64 = 4_800;

/// Estimates the tokens of messages.
pub(crate) fn tokens(messages: &[Message]) -> u64 {
    messages.iter().flat_map(|message| &message.parts).map(part_tokens).sum()
}

/// Estimates the tokens of a part.
pub(crate) fn part_tokens(part: &Part) -> u64 {
    let text = |text: &str| text_tokens(text.len());
    let piece = |piece: &Piece| match piece {
        Piece::Text(said) => text(said),
        Piece::Blob(_) => TOKENS_PER_BLOB,
    };
    let block = match &part.block {
        Block::Text(said) | Block::Thinking(said) | Block::Opaque(said) => text(said),
        Block::Blob(_) => TOKENS_PER_BLOB,
        Block::ToolCall(call) => text(&call.input) + text(&call.name),
        Block::ToolResult(result) => result.content.iter().map(piece).sum(),
    };
    // Thinking is sent as the adapter's data, which may contain more than its text.
    block.max(part.opaque.as_deref().map_or(0, text))
}

/// Estimates the tokens of a text of this many bytes.
pub(crate) fn text_tokens(bytes: usize) -> u64 {
    bytes as u64 / BYTES_PER_TOKEN + 1
}

/// Returns how many bytes a file counts as in the estimate of a conversation.
pub(crate) fn bytes(attachment: &Attachment) -> u64 {
    if attachment.is_text() { attachment.size } else { BLOB_BYTES }
}
