//! The rows of an agent as the conversation that a model is sent. Pure, and whatever the rows are, what comes out is what the
//! contract promises adapters: roles alternate, the user's comes first and last, each call has one result in the next
//! message, names and ids are such as every API takes.

use std::collections::HashSet;

use patchbay_core::{
    AssistantRecord, CompactionRecord, MessageKind, ToolRecord,
    completion::{Block, Message, Part, Piece, Role, ToolCall, ToolResult},
};
use patchbay_store::MessageRow as Row;

use crate::parts;

/// Who is to read a conversation.
pub(crate) struct ReaderModel<'a> {
    /// The adapter.
    pub(crate) adapter: &'a str,
    /// The model.
    pub(crate) model: &'a str,
    /// Whether it can be sent a media type.
    pub(crate) reads: &'a dyn Fn(&str) -> bool,
}

/// A conversation, and how large it is.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) messages: Vec<Message>,
    /// What the last answer of the same model counted, itself included; None where there is none.
    pub(crate) counted: Option<u64>,
    /// Bytes of what came after that, or of all.
    pub(crate) uncounted: u64,
}

/// What is said of a call whose result is not there: the process died, or the turn was cancelled.
const NO_RESULT: &str = r#"{"tool_success":false,"error":"the call was interrupted, and its result is not known","error_code":"cancelled"}"#;

/// Characters of a tool's name, and of a call's id, that every API takes.
const NAME_CHARS: usize = 64;

/// Makes the conversation of `rows`, which are in order and may begin with rows that a compaction keeps.
pub(crate) fn conversation(rows: &[Row], reader: &ReaderModel<'_>) -> Conversation {
    let mut builder = ConversationBuilder { reader, messages: Vec::new(), open: Vec::new(), ids: HashSet::new() };
    let (mut counted, mut uncounted) = (None, 0_u64);
    let last = rows.iter().rposition(|row| row.kind == MessageKind::Compaction);
    if let Some(at) = last {
        builder.compaction(&rows[at]);
        uncounted += rows[at].content.len() as u64;
    }
    for (at, row) in rows.iter().enumerate() {
        if row.kind == MessageKind::Compaction || (last.is_some_and(|last| at < last) && !kept(row, rows, last)) {
            continue;
        }
        // What was counted before the summary was made counts what is no longer sent.
        let fresh = last.is_none_or(|last| at > last);
        match builder.row(row) {
            Some(answer) if fresh && answer.model == reader.model && answer.usage.total() > 0 => {
                (counted, uncounted) = (Some(answer.usage.total()), 0);
            }
            _ => uncounted += size(row),
        }
    }
    builder.close();
    Conversation { messages: builder.messages, counted, uncounted }
}

/// Whether a row before the compaction at `last` is still sent.
fn kept(row: &Row, rows: &[Row], last: Option<usize>) -> bool {
    let compaction = last.and_then(|last| rows.get(last)).and_then(data::<CompactionRecord>);
    compaction.and_then(|compaction| compaction.keep_from).is_some_and(|from| row.seq >= from)
}

fn size(row: &Row) -> u64 {
    let data = match (row.kind, &row.data) {
        (MessageKind::Assistant | MessageKind::Tool, Some(data)) => data.to_string().len(),
        _ => 0,
    };
    row.content.len().max(data) as u64
}

fn data<T: serde::de::DeserializeOwned>(row: &Row) -> Option<T> {
    serde_json::from_value(row.data.clone()?).ok()
}

struct ConversationBuilder<'a> {
    reader: &'a ReaderModel<'a>,
    messages: Vec<Message>,
    /// Calls that have no result yet: the id as it was recorded, and the call as it is sent.
    open: Vec<(String, ToolCall)>,
    /// Ids that were given out.
    ids: HashSet<String>,
}

impl ConversationBuilder<'_> {
    /// Adds a row; gives the answer that it was.
    fn row(&mut self, row: &Row) -> Option<AssistantRecord> {
        match row.kind {
            MessageKind::User | MessageKind::Skill => {
                self.close();
                self.text(&row.content);
            }
            MessageKind::Assistant => {
                self.close();
                // A row that this version cannot read is at least what it says.
                let Some(answer) = data::<AssistantRecord>(row) else {
                    self.push(Role::Assistant, vec![Block::Text(row.content.clone()).into()]);
                    return None;
                };
                self.answer(&answer);
                return Some(answer);
            }
            MessageKind::Tool => {
                if let Some(answer) = data::<ToolRecord>(row) {
                    self.result(&answer);
                }
            }
            MessageKind::Compaction | MessageKind::Command | MessageKind::Notice => {}
        }
        None
    }

    fn compaction(&mut self, row: &Row) {
        self.text(&format!("Summary of the conversation so far, which had become long:\n\n{}", row.content));
        if let Some(request) = data::<CompactionRecord>(row).and_then(|compaction| compaction.request) {
            self.text(&format!("What is being worked on:\n\n{request}"));
        }
    }

    fn text(&mut self, text: &str) {
        // No API takes an empty text.
        if !text.trim().is_empty() {
            self.push(Role::User, vec![Block::Text(text.to_owned()).into()]);
        }
    }

    fn answer(&mut self, answer: &AssistantRecord) {
        let own = answer.adapter == self.reader.adapter && answer.model == self.reader.model;
        let mut sent = Vec::new();
        for part in answer.parts.iter().filter_map(|part| parts::part(part, own)) {
            let Part { block, opaque } = part;
            let block = match block {
                // What was interrupted was never run.
                Block::ToolCall(_) if answer.interrupted => continue,
                Block::ToolCall(call) => {
                    let sendable = self.sendable(&call);
                    self.open.push((call.id, sendable.clone()));
                    Block::ToolCall(sendable)
                }
                Block::Text(text) if text.trim().is_empty() && opaque.is_none() => continue,
                other => other,
            };
            sent.push(Part { block, opaque });
        }
        self.push(Role::Assistant, sent);
    }

    /// A call in a form that every API takes.
    fn sendable(&mut self, call: &ToolCall) -> ToolCall {
        let wanted = word(&call.id);
        let mut id = wanted.clone();
        let mut more = 2;
        while !self.ids.insert(id.clone()) {
            let tail = format!("_{more}");
            let head: String = wanted.chars().take(NAME_CHARS - tail.len()).collect();
            (id, more) = (head + &tail, more + 1);
        }
        let object = serde_json::from_str::<serde_json::Map<_, _>>(&call.input).is_ok();
        let input = if object { call.input.clone() } else { "{}".to_owned() };
        ToolCall { id, name: word(&call.name), input }
    }

    fn result(&mut self, answer: &ToolRecord) {
        let Some(at) = self.open.iter().position(|(id, _)| *id == answer.call_id) else { return };
        let (_, call) = self.open.remove(at);
        let result = parts::result(answer, call, self.reader.reads);
        self.push(Role::User, vec![Block::ToolResult(result).into()]);
    }

    /// Gives every call that is still open a result.
    fn close(&mut self) {
        for (_, call) in std::mem::take(&mut self.open) {
            let content = vec![Piece::Text(NO_RESULT.to_owned())];
            let result = ToolResult { call_id: call.id, name: call.name, content, is_error: true };
            self.push(Role::User, vec![Block::ToolResult(result).into()]);
        }
    }

    /// Adds parts to the last message if it is of the same role, else a message.
    fn push(&mut self, role: Role, parts: Vec<Part>) {
        if parts.is_empty() {
            return;
        }
        match self.messages.last_mut() {
            Some(last) if last.role == role => last.parts.extend(parts),
            None if role == Role::Assistant => {
                let begin = Block::Text("(The conversation begins in the middle.)".to_owned());
                self.messages.push(Message { role: Role::User, parts: vec![begin.into()] });
                self.messages.push(Message { role, parts });
            }
            _ => self.messages.push(Message { role, parts }),
        }
    }
}

/// A model's word as a name or an id that every API takes.
fn word(text: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let word: String = text.chars().take(NAME_CHARS).map(fits).collect();
    if word.is_empty() { "_".to_owned() } else { word }
}

#[cfg(test)]
mod tests;
