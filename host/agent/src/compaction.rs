//! Summarises a conversation that approaches the context window of its model. The rows stay; only the requests
//! become shorter. Called by `turn`.

use patchbay_core::{
    MessageKind,
    completion::{Block, CompletionRequest, Message, Part, Role, ToolDeclaration},
};
use patchbay_store::MessageRow as Row;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    conversation::Conversation,
    shorten::shorten,
    tokens::{BYTES_PER_TOKEN, tokens},
};

/// When a conversation is summarised. `[compaction]` in `config.toml` sets it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CompactionSettings {
    /// How full the model's context window may become, in percent, before the conversation is summarised. The rest leaves room for
    /// the answer, and for an estimate that is too low.
    #[schemars(range(min = 1, max = 100))]
    pub threshold_percent: u8,
    /// Context window, in tokens, for models whose window is neither in the provider's catalogue nor in
    /// `[providers.NAME]`. Most current models have at least this.
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

/// Estimates the tokens of a request: the number that the model reported, plus an estimate of the rest.
pub(crate) fn estimate(conversation: &Conversation, system: &[String], tools: &[ToolDeclaration]) -> u64 {
    let around = || {
        let system: usize = system.iter().map(String::len).sum();
        let tools: usize =
            tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.len()).sum();
        (system + tools) as u64
    };
    match conversation.counted {
        Some(counted) => counted.saturating_add(conversation.uncounted / BYTES_PER_TOKEN),
        None => around() / BYTES_PER_TOKEN + estimate_messages(conversation),
    }
}

/// Estimates the tokens of a conversation from its text, ignoring the count reported by the model.
pub(crate) fn estimate_messages(conversation: &Conversation) -> u64 {
    tokens(&conversation.messages)
}

/// The longest summary that is requested from a model, in words, however large its window is: several times the usual length.
const SUMMARY_WORDS: u64 = 4_000;

/// Returns the instruction to summarise for a model with a window of `window` tokens. `focus` names the subjects that
/// the summary should keep above all; it may be empty.
pub(crate) fn instruction(window: u64, focus: &str) -> String {
    // In English, about a quarter of the window.
    let words = (window / 8).clamp(1, SUMMARY_WORDS);
    let mut text = format!(
        "Summarise the conversation so far.\n\nYour summary replaces it: the next request contains nothing else. \
         Say what the user wants and prefers, what was found out and decided, what was done and with which result, names, paths and \
         numbers to the letter, what is still to be done, and what is being worked on at this moment. Write plain text of at \
         most {words} words, no greeting, and call no tools."
    );
    if !focus.is_empty() {
        text += &format!("\n\nKeep above all what concerns this: {focus}");
    }
    text
}

/// Returns the size limit of a summary, in bytes, for a model with a window of `window` tokens: half of the window. A conversation
/// that begins with a longer summary could not be summarised again.
pub(crate) fn summary_bytes(window: u64) -> usize {
    usize::try_from((window / 2).saturating_sub(1).saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX)
}

pub(crate) struct CompactionPlan<'a> {
    /// The rows that are summarised.
    pub(crate) rows: &'a [Row],
    /// The first row that is still sent; `None` if all are replaced.
    pub(crate) keep_from: Option<u64>,
    /// Whether only the user's rows are sent from `keep_from` on.
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

/// Plans a summary of all rows when no turn runs; `None` if there was no answer since the last summary.
pub(crate) fn plan_whole(rows: &[Row]) -> Option<CompactionPlan<'_>> {
    let since = rows.iter().rposition(|row| row.kind == MessageKind::Compaction).map_or(0, |at| at + 1);
    let answered = rows[since..].iter().any(|row| row.kind == MessageKind::Assistant);
    answered.then_some(CompactionPlan { rows, keep_from: None, requests_only: false })
}

pub(crate) struct SummaryMessages {
    pub(crate) request: CompletionRequest,
    /// Estimated tokens of the conversation in it.
    pub(crate) size: u64,
    /// Whether the beginning of the conversation was left out, or anything was shortened.
    pub(crate) is_cut: bool,
}

/// Builds the request for a summary, with as much of the conversation's end as fits into `room` tokens. If the last
/// exchange alone does not fit, it is shortened. Apart from the messages, the request equals `like`, a request of the
/// turn, because the provider has usually cached their common beginning.
pub(crate) fn request(
    mut conversation: Vec<Message>,
    room: u64,
    like: &CompletionRequest,
    instruction: &str,
) -> SummaryMessages {
    let starts = 1..conversation.len().saturating_sub(1);
    let last = starts.rev().find(|at| begins_well(&conversation[*at])).unwrap_or_default();
    let is_shortened = tokens(&conversation[last..]) > room;
    if is_shortened {
        // The other half is reserved for earlier exchanges.
        let mut exchange = conversation.split_off(last);
        shorten(&mut exchange, if last == 0 { room } else { room / 2 });
        conversation.append(&mut exchange);
    }
    // Cut only before a user message without tool results.
    let (mut size, mut first) = (tokens(&conversation), 0);
    for next in 1..=last {
        if size > room && begins_well(&conversation[next]) {
            size -= tokens(&conversation[first..next]);
            first = next;
        }
    }
    conversation.drain(..first);
    let ask = Part::from(Block::Text(instruction.to_owned()));
    match conversation.last_mut() {
        Some(last) if last.role == Role::User => last.parts.push(ask),
        _ => conversation.push(Message { role: Role::User, parts: vec![ask] }),
    }
    let request = CompletionRequest { messages: conversation, ..like.clone() };
    SummaryMessages { request, size, is_cut: is_shortened || first > 0 }
}

fn begins_well(message: &Message) -> bool {
    message.role == Role::User && !message.parts.iter().any(|part| matches!(part.block, Block::ToolResult(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::{part_tokens, text_tokens};

    fn message(role: Role, bytes: usize) -> Message {
        Message { role, parts: vec![Block::Text("x".repeat(bytes)).into()] }
    }

    /// Returns the request for a summary of exchanges with a user's text and an answer of these lengths.
    fn summary_of(exchanges: &[(usize, usize)], room: u64) -> SummaryMessages {
        let exchange = |(said, answered)| [message(Role::User, said), message(Role::Assistant, answered)];
        let messages = exchanges.iter().copied().flat_map(exchange).collect();
        request(messages, room, &CompletionRequest::default(), "Summarise.")
    }

    #[test]
    fn oldest_exchanges_are_left_out_of_a_summary() {
        let exchanges = [(300, 300); 10];
        for (room, messages, is_cut) in [(5_000, 20, false), (1_000, 8, true), (300, 2, true)] {
            let made = summary_of(&exchanges, room);
            // The last message is the instruction.
            assert_eq!((made.request.messages.len(), made.is_cut), (messages + 1, is_cut), "{room}");
            assert_eq!(made.size, tokens(&made.request.messages[..messages]));
        }
    }

    #[test]
    fn long_last_exchange_leaves_room_for_earlier_ones() {
        let mut exchanges = vec![(300, 300); 10];
        exchanges.push((300, 3_000_000));
        let made = summary_of(&exchanges, 2_000);
        let lengths: Vec<u64> = made.request.messages.iter().map(|message| part_tokens(&message.parts[0])).collect();
        assert_eq!(lengths.len(), 13, "{lengths:?}");
        assert!(made.is_cut && made.size <= 2_000 && (850..=900).contains(&lengths[11]), "{lengths:?}");
        // A single exchange may use all of the room.
        let made = summary_of(&[(300, 3_000_000)], 2_000);
        assert!(made.is_cut && (1_950..=2_000).contains(&made.size), "{}", made.size);
    }

    #[test]
    fn summary_is_asked_for_and_kept_in_half_of_the_window() {
        for (window, words, bytes) in [(0, 1, 0), (4_096, 512, 6_141), (200_000, 4_000, 299_997)] {
            let asked = instruction(window, "");
            assert!(asked.contains(&format!("plain text of at most {words} words, no greeting")), "{asked}");
            assert_eq!(summary_bytes(window), bytes);
            assert!(text_tokens(bytes) <= (window / 2).max(1));
        }
        assert!(summary_bytes(u64::MAX) > 1 << 30);
        assert!(instruction(4_096, "names").ends_with("call no tools.\n\nKeep above all what concerns this: names"));
    }

    #[test]
    fn estimate_of_extreme_counts_does_not_overflow() {
        let messages = vec![message(Role::User, 1)];
        let (answers, slots) = (Vec::new(), Vec::new());
        let conversation = Conversation { messages, answers, counted: Some(u64::MAX), uncounted: 9, slots };
        assert_eq!(estimate(&conversation, &[], &[]), u64::MAX);
    }
}
