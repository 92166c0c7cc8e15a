//! What the rows of a conversation say besides their text, as JSON.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use patchbay_core::{
    Code,
    completion::{Blob, Block, Part, Piece, Stop, ThinkingLevel, TokenUsage, ToolCall, ToolResult},
};
use serde::{Deserialize, Serialize};

/// An answer of a model: data of a row of kind `assistant`, whose text is the answer's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
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
    pub parts: Vec<AnswerPart>,
}

/// A block of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AnswerPart {
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

impl AnswerPart {
    /// The part as a model is sent it. `own`: to the adapter and model that it came from. To any other nothing of what was
    /// thought goes, nor of what only the adapter reads.
    pub(crate) fn to_part(&self, own: bool) -> Option<Part> {
        let (block, opaque) = match self {
            Self::Text { text, opaque } => (Block::Text(text.clone()), opaque),
            Self::ToolCall { id, name, input, opaque } => {
                let call = ToolCall { id: id.clone(), name: name.clone(), input: input.clone() };
                (Block::ToolCall(call), opaque)
            }
            Self::Thinking { text, opaque } if own => (Block::Thinking(text.clone()), opaque),
            Self::Opaque { data, opaque } if own => (Block::Opaque(data.clone()), opaque),
            Self::Thinking { .. } | Self::Opaque { .. } => return None,
        };
        Some(Part { block, opaque: opaque.clone().filter(|_| own) })
    }
}

/// What a tool answered to a model: data of a row of kind `tool`, whose text is what a person may see of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolAnswer {
    /// The call that it answers.
    pub call_id: String,
    /// The tool's full name.
    pub name: String,
    /// Why it failed, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Code>,
    /// The answer.
    pub content: Vec<ToolPiece>,
}

/// A piece of a tool's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolPiece {
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

impl ToolPiece {
    pub(crate) fn blob(media_type: &str, data: &[u8]) -> Self {
        Self::Blob { media_type: media_type.to_owned(), data: STANDARD.encode(data) }
    }
}

impl ToolAnswer {
    /// The answer as a model is sent it; `reads` tells which media types it can be sent.
    pub(crate) fn to_result(&self, call_id: String, name: String, reads: &dyn Fn(&str) -> bool) -> ToolResult {
        let content = self.content.iter().map(|piece| match piece {
            ToolPiece::Text { text } => Piece::Text(text.clone()),
            ToolPiece::Blob { media_type, data } => match STANDARD.decode(data) {
                Ok(bytes) if reads(media_type) => {
                    Piece::Blob(Blob { media_type: media_type.clone(), name: None, data: bytes.into() })
                }
                _ => Piece::Text(format!("[{media_type}, which this model cannot be sent]")),
            },
        });
        ToolResult { call_id, name, content: content.collect(), is_error: self.error.is_some() }
    }
}

/// A summary: data of a row of kind `compaction`, whose text it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
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
