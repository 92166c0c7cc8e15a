//! The JSON data of conversation rows: an answer, a tool result, or a summary. The agent writes it; fronts read it with
//! [`EventKind::answer`](crate::EventKind::answer) and similar methods.

use serde::{Deserialize, Serialize};

use crate::{
    Code, Digest,
    completion::{Stop, ThinkingLevel, TokenUsage, ToolCall},
};

/// A model's answer: the data of a row of kind `assistant`. The row's text is the text of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantRecord {
    /// The provider that gave the answer.
    pub provider: String,
    /// The adapter that produced the opaque parts; no other adapter receives them.
    pub adapter: String,
    /// The model that was requested.
    pub model: String,
    /// The model name that the API returned; `None` if it returned none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_model: Option<String>,
    /// The requested thinking level; `None` for the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<ThinkingLevel>,
    /// The selector that selected the model, such as `big`; `None` if the model was chosen by its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// Tokens that the answer used.
    pub usage: TokenUsage,
    /// Why the answer ended; `None` if it was interrupted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// The API's own word for the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// Whether the answer broke off or was cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// Digest of the system context, the tools and the messages that the answer was made with;
    /// `None` in answers of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<Digest>,
    /// The attempts at the answer that failed before.
    #[serde(default, skip_serializing_if = "FailedAttempts::is_empty")]
    pub failed_attempts: FailedAttempts,
    /// The blocks of the answer, in order.
    pub parts: Vec<AssistantPart>,
}

/// Attempts at an answer that failed and were followed by another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FailedAttempts {
    /// Number of attempts that broke off within the answer. The part received until then was shown and then discarded.
    pub given_up: u32,
    /// Tokens that all failed attempts used.
    pub usage: TokenUsage,
}

impl FailedAttempts {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A block of a model's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AssistantPart {
    /// A block of text in the answer.
    Text {
        /// The text of the block, as received.
        text: String,
        /// Adapter data for this block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<String>,
    },
    /// A block of the model's thinking.
    Thinking {
        /// The text of the thinking.
        text: String,
        /// Adapter data for this block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<String>,
    },
    /// A tool call that the model requested.
    ToolCall {
        /// The id that the result refers to.
        id: String,
        /// The tool's full name, including its skill or server.
        name: String,
        /// The input as the model wrote it; it may be invalid JSON.
        input: String,
        /// Adapter data for this block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<String>,
        /// The input of `call_tool`, if the model called the tool through it. Later requests contain the call in this form.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_tool: Option<String>,
    },
    /// A block that only the adapter reads.
    Opaque {
        /// The data, in the adapter's own format.
        data: String,
        /// Adapter data for this block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<String>,
    },
}

/// The result of a tool call: the data of a row of kind `tool`. The row's text is the part shown to the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRecord {
    /// The id of the model's tool call.
    pub call_id: String,
    /// The tool's full name, including its skill or server.
    pub name: String,
    /// Why the tool failed; `None` if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Code>,
    /// The parts of the result, in order.
    pub content: Vec<ToolRecordPart>,
}

/// A piece of a tool's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolRecordPart {
    /// Text that the model should read.
    Text {
        /// The text that the tool returned.
        text: String,
    },
    /// Binary content, such as an image, in rows of earlier builds.
    Blob {
        /// The media type of the bytes, such as `image/png`.
        media_type: String,
        /// The bytes, encoded as base64.
        data: String,
    },
    /// Binary content, such as an image, which is stored under its digest.
    StoredBlob {
        /// The media type of the bytes, such as `image/png`.
        media_type: String,
        /// The digest that names the stored bytes.
        digest: Digest,
        /// Size of the stored content, in bytes.
        size: u64,
    },
}

/// Details of a summary: the data of a row of kind `compaction`. The row's text is the summary itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionRecord {
    /// The number of the first earlier row that is still sent to the model; `None` if the summary replaces all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_from: Option<u64>,
    /// Whether only the user's rows from `keep_from` on are still sent. They contain the current request; its results so far are
    /// in the summary.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requests_only: bool,
    /// The text of the user's current request, in summaries of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The skills whose instructions are in the summarised rows, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// The provider that made the summary.
    pub provider: String,
    /// The model that made the summary.
    pub model: String,
    /// Tokens that the summary used.
    pub usage: TokenUsage,
}

impl AssistantPart {
    /// Returns the tool call, if this part is one.
    pub fn tool_call(&self) -> Option<ToolCall> {
        match self {
            Self::ToolCall { id, name, input, .. } => {
                Some(ToolCall { id: id.clone(), name: name.clone(), input: input.clone() })
            }
            _ => None,
        }
    }
}
