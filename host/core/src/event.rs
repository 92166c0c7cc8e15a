//! Events: what happens in a session, for fronts to show and for other processes to read.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use crate::{AgentId, AssistantRecord, CompactionRecord, LineId, Outcome, SessionId, ToolRecord};

/// The version of the JSON of an [`Event`]. It grows when a kind or a field is added that older readers do not know.
const VERSION: u32 = 1;

/// Something that happened in a session.
///
/// As JSON it has a `version`. A reader of an older build reads kinds that it does not know as [`EventKind::Unknown`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The session.
    pub session: SessionId,
    /// The agent that it happened to.
    pub agent: AgentId,
    /// Its place in the session. Stored rows are numbered from 1 without gaps. A live event, which is not stored, has the
    /// number of the row that was the last one when it happened; 0 where there was none.
    pub seq: u64,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// A row of the store.
    Message {
        /// What kind of row.
        kind: MessageKind,
        /// Its text.
        content: String,
        /// What a program wants to know besides; [`EventKind::answer`] and its like read it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    /// Partial output of a running tool. Live only.
    Progress {
        /// The tool's full name.
        tool: String,
        /// The output.
        text: String,
    },
    /// More of an answer that is under way. Live only; the whole answer is a row.
    Delta {
        /// What it is a piece of.
        block: DeltaKind,
        /// The piece, cleaned.
        text: String,
        /// Where it belongs, so that a late or doubled piece is seen.
        at: DeltaPosition,
    },
    /// One line that the person should read meanwhile. Live only.
    Notice {
        /// The line.
        text: String,
    },
    /// A submitted line has ended. Live only; its rows come before it.
    LineEnded {
        /// The line.
        line: LineId,
        /// How it ended.
        outcome: Outcome,
    },
    /// An event that a newer build published, and that this one does not know.
    Unknown,
}

/// Where a piece of an answer belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaPosition {
    /// The turn: the number of the row that it began with.
    pub turn: u64,
    /// Which answer of the turn, from 0. A turn that calls tools has several.
    pub answer: u32,
    /// Which block of the answer, from 0.
    pub index: u32,
    /// Where the piece begins, in bytes: of text in the text of the whole answer, of thinking in its block.
    pub offset: u64,
}

/// What a piece of an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

impl EventKind {
    /// What a model answered, if this is the row of an answer.
    pub fn answer(&self) -> Option<AssistantRecord> {
        self.data(MessageKind::Assistant)
    }

    /// What a tool answered to a model, if this is the row of a tool's result.
    pub fn tool_result(&self) -> Option<ToolRecord> {
        self.data(MessageKind::Tool)
    }

    /// The summary, if this is the row of one.
    pub fn compaction(&self) -> Option<CompactionRecord> {
        self.data(MessageKind::Compaction)
    }

    fn data<T: for<'de> Deserialize<'de>>(&self, of: MessageKind) -> Option<T> {
        match self {
            Self::Message { kind, data: Some(data), .. } if *kind == of => T::deserialize(data).ok(),
            _ => None,
        }
    }
}

/// The JSON of an event.
#[derive(Serialize, Deserialize)]
struct EventJson<K> {
    version: u32,
    session: SessionId,
    agent: AgentId,
    seq: u64,
    kind: K,
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { session, agent, seq, kind } = self;
        EventJson { version: VERSION, session: *session, agent: *agent, seq: *seq, kind }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let EventJson { version, session, agent, seq, kind } = EventJson::<Value>::deserialize(deserializer)?;
        let kind = match EventKind::deserialize(kind) {
            Ok(kind) => kind,
            Err(_) if version > VERSION => EventKind::Unknown,
            Err(error) => return Err(D::Error::custom(error)),
        };
        Ok(Self { session, agent, seq, kind })
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Code, completion::TokenUsage};

    fn event(kind: EventKind) -> Event {
        Event { session: SessionId::from_bytes([1; 16]), agent: AgentId::from_bytes([2; 16]), seq: 7, kind }
    }

    #[test]
    fn an_event_survives_a_trip_as_json() {
        let at = DeltaPosition { turn: 3, answer: 1, index: 2, offset: 40 };
        let outcome = Outcome::error(Code::Timeout, "late.").with_data(json!({"a": [1]}));
        for kind in [
            EventKind::Message { kind: MessageKind::User, content: "hi".to_owned(), data: None },
            EventKind::Message { kind: MessageKind::Command, content: "/x".to_owned(), data: Some(json!({"ok": 1})) },
            EventKind::Progress { tool: "a__b".to_owned(), text: "…".to_owned() },
            EventKind::Delta { block: DeltaKind::Thinking, text: "hm".to_owned(), at },
            EventKind::Notice { text: "n".to_owned() },
            EventKind::LineEnded { line: LineId::from_bytes([3; 16]), outcome },
        ] {
            let event = event(kind);
            let json = serde_json::to_value(&event).unwrap();
            assert_eq!(json["version"], VERSION);
            assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
        }
    }

    #[test]
    fn a_kind_of_a_newer_version_is_unknown_and_of_this_one_an_error() {
        let mut json = serde_json::to_value(event(EventKind::Notice { text: String::new() })).unwrap();
        json["kind"] = json!({"event": "teleported", "to": "elsewhere"});
        assert!(serde_json::from_value::<Event>(json.clone()).unwrap_err().to_string().contains("teleported"));
        json["version"] = (VERSION + 1).into();
        assert_eq!(serde_json::from_value::<Event>(json).unwrap().kind, EventKind::Unknown);
    }

    #[test]
    fn rows_are_read_by_their_kind_alone() {
        let record = ToolRecord {
            call_id: "c".to_owned(),
            name: "a__b".to_owned(),
            error: Some(Code::Timeout),
            content: Vec::new(),
        };
        let row = |kind| EventKind::Message { kind, content: String::new(), data: serde_json::to_value(&record).ok() };
        assert_eq!(row(MessageKind::Tool).tool_result(), Some(record.clone()));
        assert_eq!(row(MessageKind::Command).tool_result(), None);
        // What cannot be read is not there: rows of all builds must load.
        assert_eq!(row(MessageKind::Assistant).answer(), None);
        let compaction = CompactionRecord {
            keep_from: Some(4),
            request: None,
            provider: "p".to_owned(),
            model: "m".to_owned(),
            usage: TokenUsage::default(),
        };
        let data = serde_json::to_value(&compaction).ok();
        let row = EventKind::Message { kind: MessageKind::Compaction, content: String::new(), data };
        assert_eq!(row.compaction(), Some(compaction));
    }
}
