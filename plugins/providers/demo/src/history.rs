//! What the conversation so far tells: who said what last, which calls and thoughts there were.

use patchbay_provider_sdk::{Block, CompletionRequest, Message, Part, Piece, Role, ToolResult};

/// What the host's request for a summary begins with.
const SUMMARISE: &str = "Summarise the conversation so far.";

/// The texts of the last message in which the person says something, and how many rounds of results have come since.
pub(crate) fn last_said(messages: &[Message]) -> (Vec<&str>, usize) {
    let mut rounds = 0;
    for message in messages.iter().rev().filter(|message| message.role == Role::User) {
        let texts = texts(&message.parts);
        if !texts.is_empty() {
            return (texts, rounds);
        }
        rounds += usize::from(results(message).next().is_some());
    }
    (Vec::new(), rounds)
}

/// The results that a message holds.
pub(crate) fn results(message: &Message) -> impl Iterator<Item = &ToolResult> {
    message.parts.iter().filter_map(|part| match &part.block {
        Block::ToolResult(result) => Some(result),
        _ => None,
    })
}

/// A result as one text; what is no text by its kind and size.
pub(crate) fn content(result: &ToolResult) -> String {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Blob(blob) => format!("[{}, {} bytes]", blob.media_type, blob.size),
    };
    result.content.iter().map(piece).collect::<Vec<_>>().join("\n")
}

/// The number of the next call, unique in the conversation even where its beginning was left out.
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

/// What `model` thinks of that many messages.
pub(crate) fn thought(model: &str, level: &str, messages: usize) -> String {
    let s = if messages == 1 { "" } else { "s" };
    format!("{} at level {level} about {messages} message{s}.", thinking(model))
}

/// What is attached to that thought.
pub(crate) fn signature(messages: usize) -> String {
    format!("demo-signature-{messages}")
}

/// Whether a thought of this model has come back without what was attached to it. The text of a thought tells what that was.
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

/// Each model's own word: a thought of another model is not asked for its signature.
fn thinking(model: &str) -> &'static str {
    match model {
        "demo-small" => "Thinking small",
        "demo-big" => "Thinking big",
        _ => "Thinking",
    }
}

/// The answer to the host's request for a summary, if the last message is one.
pub(crate) fn summary(messages: &[Message]) -> Option<String> {
    let (last, before) = messages.split_last()?;
    let asked =
        last.parts.iter().position(|part| matches!(&part.block, Block::Text(text) if text.starts_with(SUMMARISE)))?;
    // A request may stand in one message with what the person said, since roles alternate.
    let said_with_it = texts(&last.parts[..asked]);
    let count = before.len() + usize::from(asked > 0);
    let said = if said_with_it.is_empty() { last_said(before).0 } else { said_with_it };
    let said = said.iter().flat_map(|text| text.split_whitespace()).collect::<Vec<_>>().join(" ");
    let s = if count == 1 { "" } else { "s" };
    Some(format!("Summary: {count} message{s}, last: {}", clip(&said, 60)))
}

/// Words of all that was given.
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

/// Words of a text, which are its tokens.
pub(crate) fn count(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// The first characters of a text.
pub(crate) fn clip(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or(text, |(end, _)| &text[..end])
}

fn blocks(messages: &[Message]) -> impl Iterator<Item = (Role, &Block)> {
    messages.iter().flat_map(|message| message.parts.iter().map(|part| (message.role, &part.block)))
}

/// The texts that say something.
fn texts(parts: &[Part]) -> Vec<&str> {
    let texts = parts.iter().filter_map(|part| match &part.block {
        Block::Text(text) if !text.trim().is_empty() => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
