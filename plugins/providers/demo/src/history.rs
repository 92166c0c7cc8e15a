//! Reads the conversation of a request: last text, calls, results, thoughts, summary requests.

use patchbay_provider_sdk::{Block, CompletionRequest, Message, Piece, Role, ToolResult};

use crate::own::{self, Own, OwnMessage};

/// The beginning of the host's request for a summary.
const SUMMARISE: &str = "Summarise the conversation so far.";

/// Returns the texts of the user's last message with text, and the number of rounds of results after it.
pub(crate) fn last_said<'a>(messages: &[OwnMessage<'a>]) -> (Vec<&'a str>, usize) {
    let mut rounds = 0;
    for message in messages.iter().rev().filter(|message| message.role == Role::User) {
        let texts = own::texts(message.parts);
        if !texts.is_empty() {
            return (texts, rounds);
        }
        rounds += usize::from(own::results(message.parts).next().is_some());
    }
    (Vec::new(), rounds)
}

/// Formats a result as one text, in which blobs appear as media type and size.
pub(crate) fn content(result: &ToolResult) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Blob(blob) => format!("[{}, {} bytes]", blob.media_type, blob.size),
    };
    result.content.iter().map(piece).collect::<Vec<_>>().join("\n")
}

/// Returns the number of the next call. It is unique in the conversation, even if the beginning of the conversation is missing.
pub(crate) fn next_call(messages: &[Message]) -> u64 {
    let calls = blocks(messages).filter_map(|(_, block)| match block {
        Block::ToolCall(call) => Some(call),
        _ => None,
    });
    let (count, highest) = calls.fold((0_u64, 0_u64), |(count, highest), call| {
        let number = call.id.strip_prefix("call_").and_then(|number| number.parse::<u32>().ok());
        (count + 1, highest.max(number.unwrap_or(0).into()))
    });
    count.max(highest) + 1
}

/// Returns the thought of `model` about this number of messages.
pub(crate) fn thought(model: &str, level: &str, messages: usize) -> String {
    let s = if messages == 1 { "" } else { "s" };
    format!("{} at level {level} about {messages} message{s}.", thinking(model))
}

/// Returns the signature of a thought.
pub(crate) fn signature(messages: usize) -> String {
    format!("demo-signature-{messages}")
}

/// Returns true if a thought of this model was sent back without its signature, which follows from its text.
pub(crate) fn lost_a_signature(request: &CompletionRequest) -> bool {
    let mut parts = request.messages.iter().flat_map(|message| &message.parts);
    parts.any(|part| match &part.block {
        Block::Thinking(text) => {
            thought_about(&request.model, text).is_some_and(|messages| part.opaque != Some(signature(messages)))
        }
        _ => false,
    })
}

fn thought_about(model: &str, text: &str) -> Option<usize> {
    let rest = text.strip_prefix(thinking(model))?.strip_prefix(" at level ")?;
    let (level, rest) = rest.split_once(" about ")?;
    let messages = rest.split_once(" message")?.0.parse().ok()?;
    (thought(model, level, messages) == text).then_some(messages)
}

/// The word in the thoughts of each model. Thoughts of other models are not checked.
fn thinking(model: &str) -> &'static str {
    match model {
        "demo-small" => "Thinking small",
        "demo-big" => "Thinking big",
        _ => "Thinking",
    }
}

/// Returns the answer to the host's request for a summary, if the last message is one.
pub(crate) fn summary(messages: &[Message], own: &Own<'_>) -> Option<String> {
    let (last, before) = own.messages.split_last()?;
    let asked =
        last.parts.iter().position(|part| matches!(&part.block, Block::Text(text) if text.starts_with(SUMMARISE)))?;
    // The request may be in one message with a text of the user, because roles alternate.
    let said_with_it = own::texts(&last.parts[..asked]);
    let is_alone = messages.last().is_some_and(|whole| whole.parts.len() == last.parts.len() - asked);
    let count = messages.len() - usize::from(is_alone);
    let said = if said_with_it.is_empty() { last_said(before).0 } else { said_with_it };
    let said = said.iter().flat_map(|text| text.split_whitespace()).collect::<Vec<_>>().join(" ");
    let s = if count == 1 { "" } else { "s" };
    Some(format!("Summary: {count} message{s}, last: {}", clip(&said, 60)))
}

/// Counts the words of the whole request.
pub(crate) fn words(request: &CompletionRequest) -> u64 {
    let system: u64 = request.system.iter().map(|text| count(text)).sum();
    let tools = request.tools.iter();
    let tools: u64 = tools.map(|tool| 1 + count(&tool.description) + count(&tool.input_schema)).sum();
    let messages = blocks(&request.messages).map(|(_, block)| match block {
        Block::Text(text) | Block::Thinking(text) => count(text),
        Block::ToolCall(call) => 1 + count(&call.input),
        Block::ToolResult(result) => count(&content(result)),
        Block::Blob(_) | Block::Opaque(_) => 0,
    });
    system + tools + messages.sum::<u64>()
}

/// Counts the words of a text, which are its tokens.
pub(crate) fn count(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// Returns the first characters of a text.
pub(crate) fn clip(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}

fn blocks(messages: &[Message]) -> impl Iterator<Item = (Role, &Block)> {
    messages.iter().flat_map(|message| message.parts.iter().map(|part| (message.role, &part.block)))
}
