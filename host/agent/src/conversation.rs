//! Builds the conversation that a model receives from an agent's rows. Whatever the rows are, the result satisfies the contract
//! with adapters: roles alternate, the first message is the user's, each call has one result in the next message, and every API
//! accepts the names and ids. Called by `turn`. If the conversation then ends with an answer, `turn` removes it.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
};

use patchbay_core::{
    AgentId, AssistantRecord, Attachment, CompactionRecord, Digest, MessageKind, MessageNotices, ToolRecord,
    completion::{Block, Message, Part, Piece, Role, ToolCall, ToolResult},
    json_bytes,
};
use patchbay_skill::INSTRUCTIONS_BYTES;
use patchbay_store::{Lineage, MessageRow as Row};
use serde_json::Value;

use crate::{
    Surroundings,
    binding::AnswerPosition,
    parts,
    shorten::shortened,
    tokens::{self, BLOB_BYTES},
};

/// The model that a conversation is built for.
pub(crate) struct ReaderModel<'a> {
    pub(crate) adapter: &'a str,
    pub(crate) model: &'a str,
    /// Whether the model accepts a media type.
    pub(crate) reads: &'a dyn Fn(&str) -> bool,
    /// The agents whose rows belong to the conversation.
    pub(crate) lineage: &'a [Lineage],
    /// What all agents of the session are told first: facts about its start, and the instructions of folders above the workspace.
    pub(crate) surroundings: &'a Surroundings,
}

/// A conversation and its size.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) messages: Vec<Message>,
    /// The stored answers that the messages contain, in order.
    pub(crate) answers: Vec<AnswerPosition>,
    /// Input plus output tokens that this model reported with its last answer; `None` without a usable report.
    pub(crate) counted: Option<u64>,
    /// Bytes of the rows that `counted` does not include.
    pub(crate) uncounted: u64,
    /// Placeholders of attached files, and of binary content in tool results, that the model can read, in order. The module
    /// `crate::attachments` replaces them with the contents.
    pub(crate) slots: Vec<AttachmentSlot>,
}

/// The position of an attached file, or of binary content in a tool result.
#[derive(Debug)]
pub(crate) struct AttachmentSlot {
    /// The index of the message.
    pub(crate) message: usize,
    /// The index of the part in the message.
    pub(crate) part: usize,
    /// The index of the piece in the part, which is then a tool result; `None` for an attached file.
    pub(crate) piece: Option<usize>,
    pub(crate) attachment: Attachment,
}

/// The result of a call whose own result is missing, because the process died or the turn was cancelled.
const NO_RESULT: &str = r#"{"tool_success":false,"error":"the call was interrupted, and its result is not known","error_code":"cancelled"}"#;

/// Length limit of tool names and call ids that every API accepts, in characters.
const NAME_CHARS: usize = 64;

/// The first suffix of a repeated call id: `id`, `id_2`, `id_3`.
const FIRST_REPEAT: u32 = 2;

/// How many bytes of a skill's row are sent. The instructions with the user's input and the lists of files and tools are never
/// longer; only rows of earlier builds are.
const SKILL_BYTES: usize = 2 * INSTRUCTIONS_BYTES;

/// Builds the conversation of `rows`, which are in order and may start with rows that a compaction keeps.
pub(crate) fn conversation(rows: &[Row], reader: &ReaderModel<'_>) -> Conversation {
    let mut builder = ConversationBuilder {
        reader,
        messages: Vec::new(),
        answers: Vec::new(),
        slots: Vec::new(),
        open: Vec::new(),
        ids: HashMap::new(),
        introduced: BTreeSet::new(),
    };
    let (mut counted, mut uncounted) = (None, 0_u64);
    let last = rows.iter().rposition(|row| row.kind == MessageKind::Compaction);
    let record = last.and_then(|at| data::<CompactionRecord>(&rows[at]));
    if let Some(at) = last {
        builder.compaction(&rows[at], record.as_ref());
        uncounted += rows[at].content.len() as u64;
    }
    for (at, row) in rows.iter().enumerate() {
        let is_kept = last.is_none_or(|last| at > last) || record.as_ref().is_some_and(|record| keeps(record, row));
        if row.kind == MessageKind::Compaction || !is_kept {
            continue;
        }
        // Counts reported before the summary include rows that are not sent now.
        let fresh = last.is_none_or(|last| at > last);
        match builder.row(row) {
            Some(answer) if fresh && answer.model == reader.model && answer.usage.total() > 0 => {
                // The usage reported by an interrupted answer may only cover its beginning.
                let unreported = if answer.interrupted { size(row) } else { 0 };
                (counted, uncounted) = (Some(answer.usage.total()), unreported);
            }
            _ => uncounted += size(row),
        }
    }
    builder.close();
    Conversation { messages: builder.messages, answers: builder.answers, counted, uncounted, slots: builder.slots }
}

/// Returns whether a row before the summary is still sent.
fn keeps(summary: &CompactionRecord, row: &Row) -> bool {
    let is_request = matches!(row.kind, MessageKind::User | MessageKind::Skill);
    summary.keep_from.is_some_and(|from| row.seq >= from) && (is_request || !summary.requests_only)
}

/// Returns the size of a row for the estimate of a conversation, in bytes: the size of the part that is sent to the
/// model. Answers and results are sent from their data; their text is for the user and may be much longer.
fn size(row: &Row) -> u64 {
    let files = Attachment::from_data(row.data.as_ref()).iter().map(tokens::bytes).sum::<u64>();
    let text = match (row.kind, &row.data) {
        (MessageKind::Assistant | MessageKind::Tool, Some(data)) => {
            let (blobs, encoded) = blobs(data);
            json_bytes(data).saturating_sub(encoded) + blobs * BLOB_BYTES
        }
        (MessageKind::Skill, _) => row.content.len().min(SKILL_BYTES) as u64,
        _ => row.content.len() as u64,
    };
    text + files
}

/// Returns the text of a skill's row as it is sent.
fn instructions(row: &Row) -> Cow<'_, str> {
    if row.content.len() <= SKILL_BYTES {
        return Cow::Borrowed(&row.content);
    }
    Cow::Owned(shortened(&row.content, SKILL_BYTES))
}

/// Returns the number of blobs in the data of a tool's row, and the size of their base64 there, in bytes.
fn blobs(data: &Value) -> (u64, u64) {
    let pieces = data["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let encoded = pieces.iter().filter_map(|piece| match piece["type"].as_str()? {
        "blob" => Some(piece["data"].as_str()?.len() as u64),
        "stored_blob" => Some(0),
        _ => None,
    });
    encoded.fold((0, 0), |(blobs, bytes), encoded| (blobs + 1, bytes + encoded))
}

/// Parses the data of a row; `None` if this build cannot.
pub(crate) fn data<T: serde::de::DeserializeOwned>(row: &Row) -> Option<T> {
    T::deserialize(row.data.as_ref()?).ok()
}

/// Returns the text that tells an agent its own id and its parent's.
fn introduction(agent: AgentId, parent: Option<AgentId>) -> String {
    let parent = parent.map_or_else(|| "You have no parent.".to_owned(), |parent| format!("Your parent is {parent}."));
    format!("You are the agent {agent}. {parent}")
}

struct ConversationBuilder<'a> {
    reader: &'a ReaderModel<'a>,
    messages: Vec<Message>,
    answers: Vec<AnswerPosition>,
    slots: Vec<AttachmentSlot>,
    /// Calls without a result: the recorded id, and the call as it is sent.
    open: Vec<(String, ToolCall)>,
    /// Call ids in use, each with the suffix to try first when the same id is requested again.
    ids: HashMap<String, u32>,
    /// The agents whose introduction was added.
    introduced: BTreeSet<AgentId>,
}

impl ConversationBuilder<'_> {
    /// Adds a row; returns its answer if it is of kind `assistant`.
    fn row(&mut self, row: &Row) -> Option<AssistantRecord> {
        match row.kind {
            MessageKind::User | MessageKind::Skill => {
                self.close();
                self.introduce(row.agent);
                MessageNotices::from_data(row.data.as_ref()).iter().for_each(|notice| self.text(notice));
                self.attachments(&Attachment::from_data(row.data.as_ref()));
                match row.kind {
                    MessageKind::Skill => self.text(&instructions(row)),
                    _ => self.text(&row.content),
                }
            }
            MessageKind::Assistant => {
                self.close();
                // A record that this version cannot parse still has its text.
                let Some(answer) = data::<AssistantRecord>(row) else {
                    self.push_answer(vec![Block::Text(row.content.clone()).into()], None);
                    return None;
                };
                self.answer(&answer);
                return Some(answer);
            }
            MessageKind::Tool => {
                if let Some(record) = data::<ToolRecord>(row) {
                    self.result(&record);
                }
            }
            MessageKind::Compaction | MessageKind::Command | MessageKind::Notice | MessageKind::Capture => {}
        }
        None
    }

    /// Adds the text that identifies the agent, before its first message. The ids are in messages, so the system context is the
    /// same for all agents. A child reads its parent's introduction first, then its own, so its conversation begins with the same
    /// bytes as its parent's. The first introduction of a conversation is followed by the texts that all agents of the session
    /// read.
    fn introduce(&mut self, agent: AgentId) {
        let Some(known) = self.reader.lineage.iter().find(|known| known.agent == agent) else { return };
        let is_first = self.introduced.is_empty();
        if self.introduced.insert(agent) {
            self.text(&introduction(agent, known.parent));
        }
        if is_first {
            self.reader.surroundings.texts().for_each(|text| self.text(text));
        }
    }

    fn compaction(&mut self, row: &Row, record: Option<&CompactionRecord>) {
        self.introduce(row.agent);
        self.text(&format!("Summary of the conversation so far, which had become long:\n\n{}", row.content));
        let Some(record) = record else { return };
        if !record.skills.is_empty() {
            let skills = record.skills.join(", ");
            self.text(&format!("Skills in use: {skills}. use_skill returns their instructions again."));
        }
        if let Some(request) = &record.request {
            self.text(&format!("What is being worked on:\n\n{request}"));
        } else if record.requests_only {
            // The user's rows follow, with all their parts.
            self.text("What is being worked on:");
        }
    }

    fn text(&mut self, text: &str) {
        // No API accepts an empty text.
        if !text.trim().is_empty() {
            self.push(Role::User, vec![Block::Text(text.to_owned()).into()]);
        }
    }

    /// Adds the files of a message, before its text.
    fn attachments(&mut self, attachments: &[Attachment]) {
        for attachment in attachments {
            if !attachment.is_text() && !(self.reader.reads)(&attachment.media_type) {
                self.text(&attachment.placeholder_with(", not readable by this model"));
                continue;
            }
            self.text(&attachment.placeholder());
            self.slot(None, attachment.clone());
        }
    }

    /// Adds a slot for content whose placeholder is the last part, or the piece with this index in the last part.
    fn slot(&mut self, piece: Option<usize>, attachment: Attachment) {
        if let Some((message, last)) = self.messages.len().checked_sub(1).zip(self.messages.last()) {
            let part = last.parts.len().saturating_sub(1);
            self.slots.push(AttachmentSlot { message, part, piece, attachment });
        }
    }

    fn answer(&mut self, answer: &AssistantRecord) {
        let own = answer.adapter == self.reader.adapter && answer.model == self.reader.model;
        let mut sent = Vec::new();
        for part in answer.parts.iter().filter_map(|part| parts::part(part, own)) {
            let Part { block, opaque } = part;
            let block = match block {
                // Calls of an interrupted answer were never run.
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
        self.push_answer(sent, answer.prefix);
    }

    /// Appends the parts of an answer, which was stored with the digest `prefix`.
    fn push_answer(&mut self, parts: Vec<Part>, prefix: Option<Digest>) {
        if !parts.is_empty() {
            self.push(Role::Assistant, parts);
            self.answers.push(AnswerPosition { message: self.messages.len().saturating_sub(1), prefix });
        }
    }

    /// Returns the call with a name, id and input that every API accepts.
    fn sendable(&mut self, call: &ToolCall) -> ToolCall {
        let wanted = word(&call.id);
        let mut id = wanted.clone();
        let mut more = self.ids.get(&wanted).copied().unwrap_or(FIRST_REPEAT);
        while self.ids.contains_key(&id) {
            let tail = format!("_{more}");
            let head: String = wanted.chars().take(NAME_CHARS - tail.len()).collect();
            (id, more) = (head + &tail, more + 1);
        }
        self.ids.insert(wanted, more);
        self.ids.entry(id.clone()).or_insert(FIRST_REPEAT);
        let object = serde_json::from_str::<serde_json::Map<_, _>>(&call.input).is_ok();
        let input = if object { call.input.clone() } else { "{}".to_owned() };
        ToolCall { id, name: word(&call.name), input }
    }

    fn result(&mut self, record: &ToolRecord) {
        let Some(at) = self.open.iter().position(|(id, _)| *id == record.call_id) else { return };
        let (_, call) = self.open.remove(at);
        let (result, stored) = parts::result(record, call, self.reader.reads);
        self.push(Role::User, vec![Block::ToolResult(result).into()]);
        for (piece, attachment) in stored {
            self.slot(Some(piece), attachment);
        }
    }

    /// Adds a result for every call that has none.
    fn close(&mut self) {
        for (_, call) in std::mem::take(&mut self.open) {
            let content = vec![Piece::Text(NO_RESULT.to_owned())];
            let result = ToolResult { call_id: call.id, name: call.name, content, is_error: true };
            self.push(Role::User, vec![Block::ToolResult(result).into()]);
        }
    }

    /// Appends parts to the last message if it has the same role, otherwise adds a message.
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

/// Converts a model's text to a name or id that every API accepts.
fn word(text: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let word: String = text.chars().take(NAME_CHARS).map(fits).collect();
    if word.is_empty() { "_".to_owned() } else { word }
}

#[cfg(test)]
mod tests;
