//! Identifies the prefix that each answer of a conversation was made with: the system context, the tools and the messages
//! before it. An API may bind the thinking of an answer to this prefix. Each answer is stored with a digest of its prefix,
//! and each request is compared with the digests of its answers. Called by `turn` and `summarise`.

use patchbay_core::{
    Digest, Hasher,
    completion::{Blob, Block, CompletionRequest, Message, Part, Piece, Role, ToolResult},
};

/// The first field of each digest. It must change whenever the encoding changes.
const ENCODING: &str = "patchbay prefix 1";

/// The position of a stored answer in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnswerPosition {
    /// Index of its message. Two answers share a message if nothing from the user came between them.
    pub(crate) message: usize,
    /// The digest that it was stored with; `None` in answers of earlier builds.
    pub(crate) prefix: Option<Digest>,
}

/// How a request relates to the requests that its answers were made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrefixBinding {
    /// Index into the messages. Every answer from there on was made with this request's system context and tools, and with
    /// exactly the messages before that answer. It never decreases for later requests with the same beginning.
    pub(crate) bound_from: usize,
    /// The digest for the answer to the request.
    pub(crate) prefix: Digest,
}

/// Compares `request` with the requests of its `answers`, which are in the order of their messages.
pub(crate) fn binding(request: &CompletionRequest, answers: &[AnswerPosition]) -> PrefixBinding {
    let mut hasher = begin(request);
    let mut bound_from = 0;
    let mut answers = answers.iter().peekable();
    for (index, message) in request.messages.iter().enumerate() {
        if message.role == Role::Assistant {
            let first = answers.next_if(|answer| answer.message == index);
            // If a message contains two answers, the second was made without the first.
            let is_only = answers.peek().is_none_or(|next| next.message != index);
            while answers.next_if(|answer| answer.message == index).is_some() {}
            let stored = first.filter(|_| is_only).and_then(|answer| answer.prefix);
            if stored.is_none_or(|stored| stored != hasher.clone().finish()) {
                bound_from = index + 1;
            }
        }
        add_message(&mut hasher, message);
    }
    PrefixBinding { bound_from, prefix: hasher.finish() }
}

/// Returns a hasher with the system context and the tools.
fn begin(request: &CompletionRequest) -> Hasher {
    let mut hasher = Hasher::default();
    hasher.field(ENCODING);
    add_count(&mut hasher, request.system.len());
    for text in &request.system {
        hasher.field(text);
    }
    add_count(&mut hasher, request.tools.len());
    for tool in &request.tools {
        hasher.field(&tool.name).field(&tool.description).field(&tool.input_schema);
    }
    hasher
}

fn add_message(hasher: &mut Hasher, message: &Message) {
    hasher.field(match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    });
    add_count(hasher, message.parts.len());
    message.parts.iter().for_each(|part| add_part(hasher, part));
}

/// Adds a part. Each kind has its own number of fields, and lists are preceded by their length. Therefore different
/// parts never hash the same bytes.
fn add_part(hasher: &mut Hasher, Part { block, opaque }: &Part) {
    let hasher = match block {
        Block::Text(text) => hasher.field("text").field(text),
        Block::Thinking(text) => hasher.field("thinking").field(text),
        Block::Opaque(data) => hasher.field("opaque").field(data),
        Block::Blob(blob) => add_blob(hasher, blob),
        Block::ToolCall(call) => hasher.field("call").field(&call.id).field(&call.name).field(&call.input),
        Block::ToolResult(result) => add_result(hasher, result),
    };
    add_option(hasher, opaque.as_deref());
}

fn add_result<'a>(hasher: &'a mut Hasher, result: &ToolResult) -> &'a mut Hasher {
    hasher.field("result").field(&result.call_id).field(&result.name).field([u8::from(result.is_error)]);
    add_count(hasher, result.content.len());
    for piece in &result.content {
        match piece {
            Piece::Text(text) => hasher.field("text").field(text),
            Piece::Blob(blob) => add_blob(hasher, blob),
        };
    }
    hasher
}

fn add_blob<'a>(hasher: &'a mut Hasher, blob: &Blob) -> &'a mut Hasher {
    hasher.field("blob").field(&blob.media_type);
    add_option(hasher, blob.name.as_deref());
    hasher.field(&blob.data)
}

fn add_option(hasher: &mut Hasher, text: Option<&str>) {
    add_count(hasher, usize::from(text.is_some()));
    if let Some(text) = text {
        hasher.field(text);
    }
}

fn add_count(hasher: &mut Hasher, count: usize) {
    hasher.field((count as u64).to_le_bytes());
}

#[cfg(test)]
mod tests;
