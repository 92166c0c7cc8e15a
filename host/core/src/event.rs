use serde::{Deserialize, Serialize};

use crate::{AgentId, SessionId};

/// Something that happened in a session, for a front to render.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Where it happened.
    pub session: SessionId,
    /// To whom.
    pub agent: AgentId,
    /// Its place in the session: each stored event has the next number. A live one, which is not stored, carries the
    /// number of the stored event before it.
    pub seq: u64,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// A row of the store.
    Message {
        /// What kind of row.
        kind: MessageKind,
        /// Its text.
        content: String,
        /// What a program wants to know besides.
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<serde_json::Value>,
    },
    /// Partial output of a running tool. Live only.
    Progress {
        /// The tool's full name.
        tool: String,
        /// What it says.
        text: String,
    },
    /// More of an answer that is under way. Live only; the whole answer is a row.
    Delta {
        /// What it is a piece of.
        block: DeltaKind,
        /// The piece, cleaned.
        text: String,
    },
    /// What the person should know meanwhile, in one line. Live only.
    Notice {
        /// What it says.
        text: String,
    },
}

/// What a piece of an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeltaKind {
    /// What the model says.
    Text,
    /// What it thinks.
    Thinking,
}

/// The kinds of rows. `command` and `notice` are no part of the conversation that a model is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// What a person said.
    User,
    /// A skill's instructions, put into the conversation.
    Skill,
    /// What a model answered.
    Assistant,
    /// What a tool answered to a model.
    Tool,
    /// A summary that takes the place of what was said before.
    Compaction,
    /// A command and its result.
    Command,
    /// What the host has to say beside the conversation.
    Notice,
}

impl MessageKind {
    /// The word the store keeps.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Skill => "skill",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Compaction => "compaction",
            Self::Command => "command",
            Self::Notice => "notice",
        }
    }

    /// The kind that a stored word stands for.
    pub fn from_word(word: &str) -> Option<Self> {
        const ALL: [MessageKind; 7] = [
            MessageKind::User,
            MessageKind::Skill,
            MessageKind::Assistant,
            MessageKind::Tool,
            MessageKind::Compaction,
            MessageKind::Command,
            MessageKind::Notice,
        ];
        ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}
