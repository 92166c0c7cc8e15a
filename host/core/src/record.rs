//! The JSON data of conversation rows: an answer, the result of a tool, a summary. The agent writes it; fronts read it with
//! [`EventKind::answer`](crate::EventKind::answer) and similar methods.

use serde::{Deserialize, Serialize};

use crate::{
    Code,
    completion::{Stop, ThinkingLevel, TokenUsage, ToolCall},
};

/// A model's answer: the data of a row of kind `assistant`. The row's text is the text of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantRecord {
    /// The provider that gave the answer.
    pub provider: String,
    /// The adapter that produced the opaque parts; no other adapter receives them.
    pub adapter: String,
    /// The requested model.
    pub model: String,
    /// The model name that the API returned; `None` if it returned none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_model: Option<String>,
    /// The requested thinking level; `None` for the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<ThinkingLevel>,
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
    /// The blocks of the answer, in order.
    pub parts: Vec<AssistantPart>,
}

/// A block of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AssistantPart {
    /// Text of the answer.
    Text {
        /// The text.
        text: String,
        /// Adapter data for this block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<String>,
    },
    /// The model's thinking.
    Thinking {
        /// The text of the thinking.
        text: String,
        /// Adapter data for this block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<String>,
    },
    /// A tool call.
    ToolCall {
        /// The id that the result refers to.
        id: String,
        /// The tool's full name.
        name: String,
        /// The input as the model wrote it; it may be invalid JSON.
        input: String,
        /// Adapter data for this block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<String>,
    },
    /// A block that only the adapter reads.
    Opaque {
        /// The adapter's data.
        data: String,
        /// Adapter data for this block.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<String>,
    },
}

/// The result of a tool call: the data of a row of kind `tool`. The row's text is what the user sees of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRecord {
    /// The id of the tool call.
    pub call_id: String,
    /// The tool's full name.
    pub name: String,
    /// Why the tool failed; `None` if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Code>,
    /// The result, in order.
    pub content: Vec<ToolRecordPart>,
}

/// A piece of a tool's result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolRecordPart {
    /// Text for the model.
    Text {
        /// The text.
        text: String,
    },
    /// Binary content, such as an image.
    Blob {
        /// The media type of the bytes, such as `image/png`.
        media_type: String,
        /// The bytes in base64.
        data: String,
    },
}

/// A summary: the data of a row of kind `compaction`, whose text is the summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionRecord {
    /// The number of the first earlier row that is still sent to the model; `None` if the summary replaces all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_from: Option<u64>,
    /// The user's current request; `None` if its rows are still sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
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
