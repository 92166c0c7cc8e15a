//! What the stored rows of a conversation hold besides their text, as JSON: an answer, the result of a tool, a summary.
//! The agent writes them; [`EventKind::answer`](crate::EventKind::answer) and its like read them for fronts.

use serde::{Deserialize, Serialize};

use crate::{
    Code,
    completion::{Stop, ThinkingLevel, TokenUsage, ToolCall},
};

/// An answer of a model: data of a row of kind `assistant`, whose text is the answer's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantRecord {
    /// The provider that was asked.
    pub provider: String,
    /// The adapter that made the opaque parts; they are given to no other.
    pub adapter: String,
    /// The model that was asked for.
    pub model: String,
    /// The model as the API calls it, where it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_model: Option<String>,
    /// The thinking level that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<ThinkingLevel>,
    /// What it took.
    pub usage: TokenUsage,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// The API's own word for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
    /// Whether it broke off, or was cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// What it is made of, in order.
    pub parts: Vec<AssistantPart>,
}

/// A block of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AssistantPart {
    /// What the model says.
    Text {
        /// Its text.
        text: String,
        /// What the adapter attached.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<String>,
    },
    /// What it thinks.
    Thinking {
        /// Its text.
        text: String,
        /// What the adapter attached.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<String>,
    },
    /// A tool that it wants called.
    ToolCall {
        /// What the result refers to.
        id: String,
        /// The tool's full name.
        name: String,
        /// The input, as it was written.
        input: String,
        /// What the adapter attached.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<String>,
    },
    /// What only the adapter reads.
    Opaque {
        /// What it holds.
        data: String,
        /// What the adapter attached.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opaque: Option<String>,
    },
}

/// What a tool answered to a model: data of a row of kind `tool`, whose text is what a person may see of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolRecord {
    /// The call that it answers.
    pub call_id: String,
    /// The tool's full name.
    pub name: String,
    /// Why it failed, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Code>,
    /// The answer.
    pub content: Vec<ToolRecordPart>,
}

/// A piece of a tool's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolRecordPart {
    /// Text.
    Text {
        /// It.
        text: String,
    },
    /// Bytes.
    Blob {
        /// What they are.
        media_type: String,
        /// They, in base64.
        data: String,
    },
}

/// A summary: data of a row of kind `compaction`, whose text it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionRecord {
    /// The first row before this one that is still sent; none: all are summarised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_from: Option<u64>,
    /// What the person wants done at the moment, where the rows that say so are summarised, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The provider that made it.
    pub provider: String,
    /// The model that made it.
    pub model: String,
    /// What it took.
    pub usage: TokenUsage,
}

impl AssistantPart {
    /// The tool that the model wants called, if this is one.
    pub fn tool_call(&self) -> Option<ToolCall> {
        match self {
            Self::ToolCall { id, name, input, .. } => {
                Some(ToolCall { id: id.clone(), name: name.clone(), input: input.clone() })
            }
            _ => None,
        }
    }
}
