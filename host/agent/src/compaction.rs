//! Summarises a conversation that approaches the context window of its model. The rows stay; only the requests become
//! shorter. `turn` calls it.

use patchbay_core::{
    MessageKind,
    completion::{Block, CompletionRequest, Message, Part, Piece, Role, ToolDeclaration},
};
use patchbay_store::MessageRow as Row;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conversation::Conversation;

/// When a conversation is summarised. `[compaction]` in `config.toml` sets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CompactionSettings {
    /// How full the model's context window may become, in percent, before the conversation is summarised. The rest is
    /// for the answer, and for errors of the estimate.
    #[schemars(range(min = 1, max = 100))]
    pub threshold_percent: u8,
    /// Context window in tokens of models for which neither the provider's catalogue nor `[providers.NAME]` gives
    /// one. Most current models have at least this.
    #[schemars(range(min = 1))]
    pub context_window: u64,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self { threshold_percent: 80, context_window: 128_000 }
    }
}

impl CompactionSettings {
    /// Returns the number of tokens at which a conversation is summarised, for a model with this context window.
    pub(crate) fn threshold(&self, window: Option<u64>) -> u64 {
        (window.unwrap_or(self.context_window) / 100).saturating_mul(self.threshold_percent.into())
    }
}

/// Bytes per token, a low estimate, so that the number of tokens is not underestimated.
const BYTES_PER_TOKEN: u64 = 3;
/// Tokens of an image, according to the providers' rules of thumb.
const TOKENS_PER_BLOB: u64 = 1_600;

/// Estimates the tokens of a request: the number that the model reported, plus an estimate of the rest.
pub(crate) fn estimate(conversation: &Conversation, system: &[String], tools: &[ToolDeclaration]) -> u64 {
    let around = || {
        let system: usize = system.iter().map(String::len).sum();
        let tools: usize =
            tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.len()).sum();
        (system + tools) as u64
    };
    match conversation.counted {
        Some(counted) => counted + conversation.uncounted / BYTES_PER_TOKEN,
        None => around() / BYTES_PER_TOKEN + estimate_messages(conversation),
    }
}

/// Estimates the tokens of a conversation alone, without what the model reported.
pub(crate) fn estimate_messages(conversation: &Conversation) -> u64 {
    conversation.messages.iter().map(tokens).sum()
}

/// Estimates the tokens of a message.
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

/// The instruction to summarise.
const REQUEST: &str = "Summarise the conversation so far.\n\nYour summary replaces it: the next request contains \
nothing else. Say what the person wants and prefers, what was found out and decided, what was done and with which result, \
names, paths and numbers to the letter, what is still to be done, and what is being worked on at this moment. Write plain \
text, no greeting, and call no tools.";

/// The rows to summarise.
pub(crate) struct CompactionPlan<'a> {
    /// The rows that the summary is made of.
    pub(crate) rows: &'a [Row],
    /// The first row that is still sent; `None` if all are replaced.
    pub(crate) keep_from: Option<u64>,
    /// Whether only the user's rows from there on are still sent.
    pub(crate) requests_only: bool,
}

/// Plans a summary of `rows` in a turn that began with row `turn`; `None` if there is nothing to summarise.
pub(crate) fn plan(rows: &[Row], turn: u64) -> Option<CompactionPlan<'_>> {
    let answered = |rows: &[Row]| rows.iter().any(|row| row.kind == MessageKind::Assistant);
    let begin = rows.iter().position(|row| row.seq >= turn && row.kind != MessageKind::Compaction)?;
    let (before, of_turn) = rows.split_at(begin);
    if answered(of_turn) {
        // Within a turn all rows are summarised. The request is repeated; its results so far are in the summary.
        return Some(CompactionPlan { rows, keep_from: Some(turn), requests_only: true });
    }
    answered(before).then_some(CompactionPlan { rows: before, keep_from: Some(turn), requests_only: false })
}

/// Plans a summary of all rows when no turn runs; `None` if no answer came since the last summary.
pub(crate) fn plan_whole(rows: &[Row]) -> Option<CompactionPlan<'_>> {
    let since = rows.iter().rposition(|row| row.kind == MessageKind::Compaction).map_or(0, |at| at + 1);
    let answered = rows[since..].iter().any(|row| row.kind == MessageKind::Assistant);
    answered.then_some(CompactionPlan { rows, keep_from: None, requests_only: false })
}

/// A request for a summary.
pub(crate) struct SummaryMessages {
    pub(crate) request: CompletionRequest,
    /// Whether the beginning of the conversation was left out.
    pub(crate) is_cut: bool,
}

/// Builds the request for a summary, with as much of the conversation's end as fits into `room` tokens. `focus`
/// is what it is to keep above all; it may be empty. Everything but the messages is as in `like`, a request of the turn, so that
/// the provider's cache has the beginning of it.
pub(crate) fn request(
    mut conversation: Vec<Message>,
    room: u64,
    like: &CompletionRequest,
    focus: &str,
) -> SummaryMessages {
    let mut size: u64 = conversation.iter().map(tokens).sum();
    let mut first = 0;
    // Cut before a message of the user that contains no tool result.
    while size > room && first + 2 < conversation.len() {
        size -= tokens(&conversation[first]);
        first += 1;
        while first + 2 < conversation.len() && !begins_well(&conversation[first]) {
            size -= tokens(&conversation[first]);
            first += 1;
        }
    }
    conversation.drain(..first);
    let ask = match focus {
        "" => REQUEST.to_owned(),
        focus => format!("{REQUEST}\n\nKeep above all what concerns this: {focus}"),
    };
    let ask = Part::from(Block::Text(ask));
    match conversation.last_mut() {
        Some(last) if last.role == Role::User => last.parts.push(ask),
        _ => conversation.push(Message { role: Role::User, parts: vec![ask] }),
    }
    SummaryMessages { request: CompletionRequest { messages: conversation, ..like.clone() }, is_cut: first > 0 }
}

fn begins_well(message: &Message) -> bool {
    message.role == Role::User && !message.parts.iter().any(|part| matches!(part.block, Block::ToolResult(_)))
}
