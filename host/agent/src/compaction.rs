//! A conversation that nears the end of what a model can read is summarised by that model. The rows stay; only what is sent
//! becomes shorter.

use patchbay_core::{
    MessageKind,
    completion::{Block, CompletionRequest, Message, Part, Piece, Role, ToolChoice, ToolDeclaration},
};
use patchbay_store::MessageRow as Row;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conversation::Conversation;

/// When a conversation is summarised. `[compaction]` in `config.toml` sets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CompactionSettings {
    /// How full the model's context window may become, in percent, before the conversation is summarised. The rest is room
    /// for the answer, and for what an estimate is off.
    #[schemars(range(min = 1, max = 100))]
    pub threshold_percent: u8,
    /// Tokens that a model can read whose window is told neither by its provider's catalogue nor by `[providers.NAME]`.
    /// Most models of today read as much.
    #[schemars(range(min = 1))]
    pub context_window: u64,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self { threshold_percent: 80, context_window: 128_000 }
    }
}

impl CompactionSettings {
    /// Tokens at which a model of this window has its conversation summarised.
    pub(crate) fn threshold(&self, window: Option<u64>) -> u64 {
        (window.unwrap_or(self.context_window) / 100).saturating_mul(self.threshold_percent.into())
    }
}

/// Bytes that a token stands for at least, in the texts that models are given: an estimate that errs to the safe side.
const BYTES_PER_TOKEN: u64 = 3;
/// Tokens of an image, by the providers' own rules of thumb.
const TOKENS_PER_BLOB: u64 = 1_600;

/// How large a request is, in tokens: what the model counted itself, and an estimate of the rest.
pub(crate) fn estimate(conversation: &Conversation, system: &[String], tools: &[ToolDeclaration]) -> u64 {
    let around = || {
        let system: usize = system.iter().map(String::len).sum();
        let tools: usize =
            tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.len()).sum();
        (system + tools) as u64
    };
    match conversation.counted {
        Some(counted) => counted + conversation.uncounted / BYTES_PER_TOKEN,
        None => around() / BYTES_PER_TOKEN + conversation.messages.iter().map(tokens).sum::<u64>(),
    }
}

/// How large a message is, in tokens.
fn tokens(message: &Message) -> u64 {
    let text = |text: &str| text.len() as u64 / BYTES_PER_TOKEN + 1;
    let piece = |piece: &Piece| match piece {
        Piece::Text(said) => text(said),
        Piece::Blob(_) => TOKENS_PER_BLOB,
    };
    let part = |part: &Part| match &part.block {
        Block::Text(said) | Block::Thinking(said) | Block::Opaque(said) => text(said),
        Block::Blob(_) => TOKENS_PER_BLOB,
        Block::ToolCall(call) => text(&call.input) + text(&call.name),
        Block::ToolResult(result) => result.content.iter().map(piece).sum(),
    };
    message.parts.iter().map(part).sum()
}

/// What the model is asked.
const REQUEST: &str = "Summarise the conversation so far.\n\nYour summary takes its place: whoever goes on with it has \
nothing else. Say what the person wants and prefers, what was found out and decided, what was done and with which result, \
names, paths and numbers to the letter, what is still to be done, and what is being worked on at this moment. Write plain \
text, no greeting, and call no tools.";

/// What is to be summarised.
pub(crate) struct CompactionPlan<'a> {
    /// The rows whose place the summary takes.
    pub(crate) rows: &'a [Row],
    /// The first row that is still sent.
    pub(crate) keep_from: Option<u64>,
    /// What the person wants done, where that is among the rows.
    pub(crate) request: Option<String>,
}

/// What of `rows` can be summarised, where the turn began with row `turn`; none where there is nothing.
pub(crate) fn plan(rows: &[Row], turn: u64) -> Option<CompactionPlan<'_>> {
    let answered = |rows: &[Row]| rows.iter().any(|row| row.kind == MessageKind::Assistant);
    let begin = rows.iter().position(|row| row.seq >= turn && row.kind != MessageKind::Compaction)?;
    let (before, of_turn) = rows.split_at(begin);
    if answered(of_turn) {
        // In the middle of a turn all is summarised: what was asked is said once more, what came of it is in the summary.
        let asked = of_turn.iter().filter(|row| matches!(row.kind, MessageKind::User | MessageKind::Skill));
        let request: Vec<&str> = asked.map(|row| row.content.as_str()).collect();
        return Some(CompactionPlan {
            rows,
            keep_from: None,
            request: Some(request.join("\n\n")).filter(|text| !text.is_empty()),
        });
    }
    answered(before).then_some(CompactionPlan { rows: before, keep_from: Some(turn), request: None })
}

/// The request for a summary: as much of the conversation's end as `window` tokens have room for, and what is asked.
pub(crate) fn request(mut conversation: Vec<Message>, window: u64, like: &CompletionRequest) -> CompletionRequest {
    let room = window - window / 5;
    let mut size: u64 = conversation.iter().map(tokens).sum();
    let mut first = 0;
    // Cut where the user speaks and no result of a tool stands alone.
    while size > room && first + 2 < conversation.len() {
        size -= tokens(&conversation[first]);
        first += 1;
        while first + 2 < conversation.len() && !begins_well(&conversation[first]) {
            size -= tokens(&conversation[first]);
            first += 1;
        }
    }
    conversation.drain(..first);
    let ask = Part::from(Block::Text(REQUEST.to_owned()));
    match conversation.last_mut() {
        Some(last) if last.role == Role::User => last.parts.push(ask),
        _ => conversation.push(Message { role: Role::User, parts: vec![ask] }),
    }
    CompletionRequest {
        messages: conversation,
        tool_choice: if like.tools.is_empty() { ToolChoice::Auto } else { ToolChoice::None },
        thinking: None,
        ..like.clone()
    }
}

fn begins_well(message: &Message) -> bool {
    message.role == Role::User && !message.parts.iter().any(|part| matches!(part.block, Block::ToolResult(_)))
}
