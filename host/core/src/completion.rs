//! What goes to a model and what comes back, whatever API it speaks. `wit/provider/provider.wit` says the same to adapters.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person, and what tools answered.
    User,
    /// The model.
    Assistant,
}

/// Bytes, such as an image.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob {
    /// What they are, such as `image/png`.
    pub media_type: String,
    /// What they are called, where somebody said so.
    pub name: Option<String>,
    /// The bytes.
    pub data: Arc<[u8]>,
}

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blob({}, {} bytes)", self.media_type, self.data.len())
    }
}

/// A tool that a model wants called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// What its result refers to.
    pub id: String,
    /// The tool's full name, as the model wrote it.
    pub name: String,
    /// The input as the model wrote it: to be JSON, and perhaps none.
    pub input: String,
}

/// A piece of a tool's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Blob),
}

/// What a tool answered to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult {
    /// The [`ToolCall::id`] that it answers.
    pub call_id: String,
    /// The tool's full name.
    pub name: String,
    /// The answer.
    pub content: Vec<Piece>,
    /// Whether the tool failed.
    pub is_error: bool,
}

/// A block of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Text.
    Text(String),
    /// Bytes.
    Blob(Blob),
    /// What a model thought.
    Thinking(String),
    /// A tool that it wants called.
    ToolCall(ToolCall),
    /// What a tool answered.
    ToolResult(ToolResult),
    /// What only the adapter that made it reads.
    Opaque(String),
}

/// A block, and what the adapter attached to it for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The block.
    pub block: Block,
    /// Only ever given to the adapter and model that it came from.
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
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<Part>,
}

/// A tool as a model is shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolDeclaration {
    /// Its full name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its input, an object.
    pub input_schema: String,
}

/// How hard a model is to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    /// Not at all, or as little as the model can.
    None,
    /// A little.
    Low,
    /// More.
    Med,
    /// As much as it can.
    High,
}

impl ThinkingLevel {
    /// All of them, the least first.
    pub const ALL: [Self; 4] = [Self::None, Self::Low, Self::Med, Self::High];

    /// The word that people and adapters use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Low => "low",
            Self::Med => "med",
            Self::High => "high",
        }
    }

    /// The level that a word stands for; case counts.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == word)
    }
}

/// Which tools a model may call in an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it sees fit.
    #[default]
    Auto,
    /// None.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

/// What a model is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionRequest {
    /// The model's id, as its API knows it.
    pub model: String,
    /// The system context, in order.
    pub system: Vec<String>,
    /// The conversation: roles alternate, the last message is the user's, each tool call has its result in the next message.
    pub messages: Vec<Message>,
    /// The tools that there are.
    pub tools: Vec<ToolDeclaration>,
    /// Which of them it may call.
    pub tool_choice: ToolChoice,
    /// How hard it is to think; none: the provider's default.
    pub thinking: Option<ThinkingLevel>,
    /// Tokens of the answer at most; none: the provider's default.
    pub max_output_tokens: Option<u32>,
}

/// What kind of block begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Text.
    Text,
    /// What the model thinks.
    Thinking,
    /// A tool that it wants called; its input follows as deltas.
    ToolCall {
        /// What the result refers to.
        id: String,
        /// The tool's full name.
        name: String,
    },
    /// What only the adapter reads.
    Opaque(String),
}

/// A piece of an answer, as it comes. Blocks are numbered from 0 in the order of their starts; each ends once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEvent {
    /// The answer has begun; the model's name as the API gives it.
    Started(String),
    /// A block begins.
    BlockStart {
        /// Its number.
        index: u32,
        /// What it is.
        kind: BlockKind,
    },
    /// More of a block.
    BlockDelta {
        /// Its number.
        index: u32,
        /// More text, of thinking, or of a tool call's input.
        text: String,
    },
    /// A block is whole.
    BlockEnd {
        /// Its number.
        index: u32,
        /// What the adapter wants back with it.
        opaque: Option<String>,
    },
    /// What the answer has taken so far. Cumulative.
    Usage(TokenUsage),
    /// Something that this host does not know.
    Extra {
        /// What it calls itself.
        name: String,
        /// What it holds.
        value: String,
    },
}

/// Tokens that an answer took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    /// Of the input, what was read from a cache among them.
    pub input: u64,
    /// Of the output, thinking among them where the API counts it so.
    pub output: u64,
    /// Of thinking.
    pub thinking: u64,
    /// Of the input, read from a cache.
    pub cache_read: u64,
    /// Of the input, written to a cache.
    pub cache_write: u64,
}

impl TokenUsage {
    /// Input and output together.
    pub fn total(&self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The model is done.
    EndTurn,
    /// It waits for the tools that it called.
    ToolUse,
    /// Its answer is as long as it may be.
    MaxTokens,
    /// The conversation is as long as the model can read.
    ContextWindow,
    /// The model refuses.
    Refusal,
    /// The provider's filter cut it off.
    ContentFilter,
    /// For a reason that this host does not know.
    Other,
}

impl Stop {
    /// The stop that an adapter's word stands for; an unknown word is [`Stop::Other`].
    pub fn from_word(word: &str) -> Self {
        match word {
            "end-turn" => Self::EndTurn,
            "tool-use" => Self::ToolUse,
            "max-tokens" => Self::MaxTokens,
            "context-window" => Self::ContextWindow,
            "refusal" => Self::Refusal,
            "content-filter" => Self::ContentFilter,
            _ => Self::Other,
        }
    }
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finish {
    /// Why.
    pub stop: Stop,
    /// The API's own word, cleaned.
    pub raw: String,
}

/// What kind of failure a completion met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The key is missing, wrong or not allowed to.
    Authentication,
    /// Too many requests, or a quota that is used up.
    RateLimit,
    /// The provider says that the request is wrong.
    InvalidRequest,
    /// The provider knows no such model, or no such address.
    NotFound,
    /// The provider is in trouble.
    Server,
    /// It took too long.
    Timeout,
    /// A filter refused it.
    ContentFilter,
    /// No connection, or one that broke.
    Network,
    /// Something else.
    Unknown,
}

impl FailureKind {
    /// The stable word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::RateLimit => "rate-limit",
            Self::InvalidRequest => "invalid-request",
            Self::NotFound => "not-found",
            Self::Server => "server",
            Self::Timeout => "timeout",
            Self::ContentFilter => "content-filter",
            Self::Network => "network",
            Self::Unknown => "unknown",
        }
    }

    /// The kind that an adapter's word stands for; an unknown word is [`FailureKind::Unknown`].
    pub fn from_word(word: &str) -> Self {
        const ALL: [FailureKind; 8] = [
            FailureKind::Authentication,
            FailureKind::RateLimit,
            FailureKind::InvalidRequest,
            FailureKind::NotFound,
            FailureKind::Server,
            FailureKind::Timeout,
            FailureKind::ContentFilter,
            FailureKind::Network,
        ];
        ALL.into_iter().find(|kind| kind.as_str() == word).unwrap_or(Self::Unknown)
    }
}
