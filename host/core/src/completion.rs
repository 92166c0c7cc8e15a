//! Requests to a model and its streamed answers, independent of any API. `wit/provider/provider.wit` has the same types for
//! adapters.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::attachment;

/// The author of a message in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user; tool results are also sent in this role.
    User,
    /// The model, which answers the user.
    Assistant,
}

/// Binary content, such as an image.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob {
    /// The media type, such as `image/png`.
    pub media_type: String,
    /// The name of the file, if it is known.
    pub name: Option<String>,
    /// The bytes of the content, shared between copies.
    pub data: Arc<[u8]>,
}

impl Blob {
    /// Returns the text that replaces the content for a model, such as `[image left out: a.png]` if `reason` is ` left out`.
    pub fn placeholder_with(&self, reason: &str) -> String {
        attachment::placeholder(&self.media_type, self.name.as_deref(), reason)
    }
}

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blob({}, {} bytes)", self.media_type, self.data.len())
    }
}

/// A tool call that a model has requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id that the result refers to.
    pub id: String,
    /// The tool's full name, as the model wrote it.
    pub name: String,
    /// The input as the model wrote it; it should be a JSON object, but may be anything.
    pub input: String,
}

impl ToolCall {
    /// Returns the strings at these keys of the input; `None` for a missing key, or if the value is not a string.
    pub fn text_arguments<const N: usize>(&self, keys: [&str; N]) -> [Option<String>; N] {
        let mut input: serde_json::Value = serde_json::from_str(&self.input).unwrap_or_default();
        keys.map(|key| match input.get_mut(key).map(serde_json::Value::take) {
            Some(serde_json::Value::String(text)) => Some(text),
            _ => None,
        })
    }
}

/// A piece of a tool's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text that the model should read.
    Text(String),
    /// Binary content, such as an image.
    Blob(Blob),
}

/// The result of a tool call, as a model receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The [`ToolCall::id`] of the call.
    pub call_id: String,
    /// The full name of the called tool.
    pub name: String,
    /// The pieces of the result, in order.
    pub content: Vec<Piece>,
    /// Whether the call of the tool failed.
    pub is_error: bool,
}

/// A block, the unit that messages are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Text of the conversation.
    Text(String),
    /// Binary content, such as an image.
    Blob(Blob),
    /// The text of the model's thinking.
    Thinking(String),
    /// A tool call of the model.
    ToolCall(ToolCall),
    /// The result of a tool call.
    ToolResult(ToolResult),
    /// Data that only the adapter that made it can read.
    Opaque(String),
}

/// A block with the adapter's data for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The block that the part contains.
    pub block: Block,
    /// Adapter data, such as a signature. It is sent only to the adapter and model that it came from.
    pub opaque: Option<String>,
}

impl From<Block> for Part {
    fn from(block: Block) -> Self {
        Self { block, opaque: None }
    }
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The author of the message.
    pub role: Role,
    /// The blocks of the message, in order.
    pub parts: Vec<Part>,
}

/// A tool that a model may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolDeclaration {
    /// The full name, `SKILL__TOOL`.
    pub name: String,
    /// The tool's description; models choose tools by it.
    pub description: String,
    /// JSON Schema of the input, an object.
    pub input_schema: String,
}

/// How much a model thinks before it answers. Providers map the levels to token budgets or their own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ThinkingLevel {
    /// No thinking, or the model's minimum.
    None,
    /// The model thinks only a little.
    Low,
    /// The model thinks a medium amount.
    Med,
    /// Much thinking; the highest level that every model with levels has.
    High,
    /// More than high. Only some models have it.
    XHigh,
    /// The model's maximum. Only some models have it.
    Max,
}

impl ThinkingLevel {
    /// All levels, in ascending order.
    pub const ALL: [Self; 6] = [Self::None, Self::Low, Self::Med, Self::High, Self::XHigh, Self::Max];

    /// Whether every model accepts the level, at least by sending the nearest one that it has.
    pub fn is_common(self) -> bool {
        self <= Self::High
    }

    /// Returns the word that users and adapters use.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Parses a level; the comparison is case-sensitive.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

/// Which tools a model may call in an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides whether to call tools.
    #[default]
    Auto,
    /// The model must not call any tool.
    None,
    /// The model must call at least one tool.
    Required,
    /// The model must call this tool.
    Named(String),
}

/// The purpose of a request to a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum RequestPurpose {
    /// The request belongs to an agent's turn.
    #[default]
    Turn,
    /// A summary of a conversation. It need not be written to a cache, because no later request begins with it.
    Summary,
    /// The capability `inference` of a skill.
    Inference,
    /// A trial, to find out whether a model works.
    Validation,
}

impl RequestPurpose {
    /// Returns the word that adapters receive.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The host's hints about a request, in addition to its content. Adapters receive them as options
/// whose names begin with `host:`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHints {
    /// The purpose of the request.
    pub purpose: RequestPurpose,
    /// The same string for all requests of a session, which reveals nothing about the user; `None` outside sessions.
    pub cache_key: Option<String>,
    /// Index of a message. Every answer from that message on was made with exactly this system context, these tools and the
    /// messages before the answer. `None` if the request has no answers.
    pub bound_from: Option<usize>,
}

/// A request for a completion by a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletionRequest {
    /// The model's id, as its API knows it.
    pub model: String,
    /// Texts of the system context, in order.
    pub system: Vec<String>,
    /// The conversation. Roles alternate, the last message is the user's, and each tool call has
    /// its result in the next message.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    pub tools: Vec<ToolDeclaration>,
    /// Limits which of the tools the model may call.
    pub tool_choice: ToolChoice,
    /// The thinking level; `None` for the provider's default.
    pub thinking: Option<ThinkingLevel>,
    /// Maximum number of tokens in the answer; `None` for the provider's default.
    pub max_output_tokens: Option<u32>,
    /// The host's hints about the request.
    pub hints: RequestHints,
}

/// The kind of a block that starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// A part of the answer's text.
    Text,
    /// The model's thinking, as far as the provider shows it.
    Thinking,
    /// A tool call; its input follows as deltas.
    ToolCall {
        /// The id that the result refers to.
        id: String,
        /// The tool's full name, as the model knows it.
        name: String,
    },
    /// Data that only the adapter reads.
    Opaque(String),
}

/// A piece of a streamed answer. Blocks are numbered from 0 in the order of their starts; each ends once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The answer has started. Holds the model name that the API returned.
    Started(String),
    /// A new block of the answer starts.
    BlockStart {
        /// The number of the block in the answer, from 0.
        index: u32,
        /// The kind of block that starts.
        kind: BlockKind,
    },
    /// More content of a block has arrived.
    BlockDelta {
        /// The number of the block in the answer, from 0.
        index: u32,
        /// More text, thinking, or input of a tool call.
        text: String,
    },
    /// A block of the answer is complete.
    BlockEnd {
        /// The number of the block in the answer, from 0.
        index: u32,
        /// Adapter data that is sent back with the block in later requests.
        opaque: Option<String>,
    },
    /// Tokens used so far. Each event replaces the previous one.
    Usage(TokenUsage),
    /// An extension that this host does not know; it is logged and otherwise ignored.
    Extra {
        /// The name of the provider's extension.
        name: String,
        /// The value of the provider's extension.
        value: String,
    },
}

/// Tokens that one answer used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    /// Input tokens, including those read from a cache.
    pub input: u64,
    /// Output tokens; includes thinking if the API counts it as output.
    pub output: u64,
    /// Tokens that the model used for thinking.
    pub thinking: u64,
    /// Input tokens that were read from a cache.
    pub cache_read: u64,
    /// Input tokens that were written to a cache.
    pub cache_write: u64,
}

impl TokenUsage {
    /// Returns input plus output.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// Returns input plus output without cached input, which is the number that counts for a session's limit.
    pub fn uncached(&self) -> u64 {
        self.input.saturating_sub(self.cache_read).saturating_add(self.output)
    }

    /// Returns the sum of both usages, field by field.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            thinking: self.thinking.saturating_add(other.thinking),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }
}

/// The reason why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::EnumString)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Stop {
    /// The model finished its turn.
    EndTurn,
    /// The model waits for the results of its tool calls.
    ToolUse,
    /// The answer reached its length limit.
    MaxTokens,
    /// The conversation fills the model's context window.
    ContextWindow,
    /// The model refused to answer.
    Refusal,
    /// The provider's content filter cut the answer off.
    ContentFilter,
    /// A reason that this host does not know.
    Other,
}

impl Stop {
    /// Parses an adapter's word; an unknown word is [`Stop::Other`].
    pub fn from_word(word: &str) -> Self {
        word.parse().unwrap_or(Self::Other)
    }
}

/// How an answer ended, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// The reason, as one of the kinds that the host distinguishes.
    pub stop: Stop,
    /// The API's own word for the reason, cleaned.
    pub raw: String,
}

/// The kind of a failed completion. It determines whether the request is retried, and the [`Code`](crate::Code) of the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumString)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum FailureKind {
    /// The key is missing, invalid or lacks permission.
    Authentication,
    /// Too many requests, or an exhausted quota.
    RateLimit,
    /// The provider rejected the request.
    InvalidRequest,
    /// The provider does not know the model or the address.
    NotFound,
    /// The provider reported an internal error.
    Server,
    /// The provider took too long.
    Timeout,
    /// The provider's content filter rejected the request or the answer.
    ContentFilter,
    /// The connection could not be opened, or broke.
    Network,
    /// A failure of any other kind.
    Unknown,
}

impl FailureKind {
    /// Returns the stable word that adapters use.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Parses an adapter's word; an unknown word is [`FailureKind::Unknown`].
    pub fn from_word(word: &str) -> Self {
        word.parse().unwrap_or(Self::Unknown)
    }
}
