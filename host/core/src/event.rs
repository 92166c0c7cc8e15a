//! Events of a session. Fronts show them; other processes read their JSON.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use crate::{
    AgentId, AssistantRecord, Attachment, CompactionRecord, LineId, Outcome, SessionId, ToolRecord, TurnCause,
    TurnState,
};

/// The version of an [`Event`]'s JSON. It is raised when a kind or field is added that older readers do not know.
const VERSION: u32 = 6;

/// A change to a session, as fronts receive it.
///
/// Its JSON has a `version`. An older build reads kinds that it does not know as [`EventKind::Unknown`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The session that the event belongs to.
    pub session: SessionId,
    /// The agent that the event is about.
    pub agent: AgentId,
    /// Position in the session. Stored rows are numbered from 1 without gaps. A live event has the number of the last stored
    /// row at that time, or 0 if there was none.
    pub seq: u64,
    /// The change that the event reports.
    pub kind: EventKind,
}

/// The kinds of events, with their data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// A row was stored in the conversation.
    Message {
        /// The kind of the stored row.
        kind: MessageKind,
        /// The text of the stored row.
        content: String,
        /// Structured data of the row; [`EventKind::answer`] and similar methods parse it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    /// Partial output of a running tool. Live only.
    Progress {
        /// The tool's full name, including its skill or server.
        tool: String,
        /// The output that the tool has reported.
        text: String,
    },
    /// A piece of an answer that is still being received. Live only; the complete answer is a row.
    Delta {
        /// Whether the piece is text or thinking.
        block: DeltaKind,
        /// The text of the piece, cleaned.
        text: String,
        /// The position of the piece, which lets receivers detect late and duplicate pieces.
        at: DeltaPosition,
    },
    /// One line that the user should read now. Live only.
    Notice {
        /// The text of the notice, cleaned.
        text: String,
    },
    /// A request to a provider failed and is sent again after a wait. Live only.
    Retrying(Retrying),
    /// An answer broke off and is requested again after a wait. Discard the text received so far. Live only.
    GivenUp {
        /// The turn: the number of its first row.
        turn: u64,
        /// The answer's index in the turn, from 0. Its next pieces begin at offset 0 again.
        answer: u32,
        /// Number of attempts at the answer that were given up, including this one.
        given_up: u32,
        /// The failure, and the retry that follows.
        retry: Retrying,
    },
    /// A request from the agent to a model waits until fewer requests are under way, or no longer waits. Live only.
    RequestWaits {
        /// The limit that the request waits for; `None` once it no longer waits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<RequestLimit>,
    },
    /// A submitted line has ended. Live only; the line's rows are published before it.
    LineEnded {
        /// The id that the line was given when it was submitted.
        line: LineId,
        /// The outcome that the line ended with.
        outcome: Outcome,
    },
    /// A submitted line waits for its turn. Live only.
    LineQueued {
        /// The id of the line that waits.
        line: LineId,
        /// The line as it was typed.
        text: String,
    },
    /// A line no longer waits. Live only.
    LineDequeued {
        /// The id of the line that waited.
        line: LineId,
        /// The reason why it no longer waits.
        reason: DequeueReason,
    },
    /// The waiting lines of the agent were held or released. Live only.
    QueueHeld {
        /// Whether the lines wait until the user releases them. Otherwise they run one after another.
        held: bool,
    },
    /// A turn of the agent has begun. Live only.
    TurnBegan {
        /// The turn: the number of its first row.
        turn: u64,
        /// The cause that began the turn.
        cause: TurnCause,
    },
    /// A turn of the agent has ended. Live only; its rows are published before it.
    TurnEnded {
        /// The turn: the number of its first row.
        turn: u64,
        /// The cause that began the turn.
        cause: TurnCause,
        /// The state in which the turn ended.
        state: TurnState,
        /// The outcome that the turn ended with.
        outcome: Outcome,
    },
    /// The agent was created. Live only; its rows are published before it.
    AgentForked {
        /// The agent that was forked.
        parent: AgentId,
        /// Whether the user created it.
        foreground: bool,
    },
    /// The agent was killed. Live only.
    AgentKilled,
    /// The agent is now in view. Live only.
    ViewMoved,
    /// Mail arrived in the inbox of the agent. Live only.
    MailArrived {
        /// The agent that sent the mail.
        from: AgentId,
    },
    /// An event of a newer build that this build does not know.
    Unknown,
}

/// A retry of a failed request. As text, it is the line that fronts without a live display print:
/// `Rate limit exceeded: openai. Retrying in 60 s (attempt 1 of at most 15).`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retrying {
    /// The name of the provider that failed.
    pub provider: String,
    /// The kind of failure, such as `Rate limit exceeded`.
    pub what: String,
    /// The error reported by the provider or the system, cleaned and in a few words, such as `connection refused`.
    pub cause: String,
    /// The wait before the retry, in milliseconds.
    pub wait_ms: u64,
    /// The number of the retry, from 1.
    pub attempt: u32,
    /// The maximum number of retries of one completion after failures of this kind.
    pub of: u32,
}

impl Retrying {
    /// Returns the line about an answer that broke off: `The answer broke off; asking again (attempt 2 of 5).` If `is_printed`,
    /// part of the answer was printed where it can no longer be marked, and the line says that this part is discarded.
    pub fn broke_off(&self, is_printed: bool) -> String {
        let [next, most] = [self.attempt, self.of].map(|retries| retries.saturating_add(1));
        let given_up = if is_printed { " Ignore the part that was already printed." } else { "" };
        format!("The answer broke off; asking again (attempt {next} of {most}).{given_up}")
    }
}

impl fmt::Display for Retrying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, what, wait_ms, attempt, of, .. } = self;
        // Rounded up: the wait is never longer than announced.
        let seconds = wait_ms.div_ceil(1000);
        write!(f, "{what}: {provider}. Retrying in {seconds} s (attempt {attempt} of at most {of}).")
    }
}

/// How many requests to models may be under way at the same time. As text, it is the end of a front's busy row:
/// `demo accepts 2 requests at a time`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestLimit {
    /// The provider that accepts fewer requests than the session may send, because it reported a rate limit or an overload;
    /// `None` for the limit of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The number of requests that may run at the same time.
    pub at_once: u32,
}

impl fmt::Display for RequestLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { provider, at_once } = self;
        let s = if *at_once == 1 { "" } else { "s" };
        match provider {
            Some(provider) => write!(f, "{provider} accepts {at_once} request{s} at a time"),
            None => write!(f, "the session sends {at_once} request{s} at a time"),
        }
    }
}

/// Why a line no longer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DequeueReason {
    /// The line has begun to run.
    Began,
    /// The line is a message that has joined the running turn.
    Joined,
    /// The line was taken back, or stopped while it waited; it never ran.
    TakenBack,
}

/// The position of a piece in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaPosition {
    /// The turn: the number of its first row.
    pub turn: u64,
    /// The answer's index in the turn, from 0. A turn that calls tools has several.
    pub answer: u32,
    /// The block's index in the answer, from 0.
    pub index: u32,
    /// Byte offset of the piece. Text is counted from the beginning of the answer's text, thinking from the beginning of its
    /// block.
    pub offset: u64,
    /// Number of attempts at the answer that were given up before this one.
    #[serde(default)]
    pub given_up: u32,
}

/// The kind of block that a piece belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeltaKind {
    /// A part of the answer's text.
    Text,
    /// The model's thinking, as far as the provider shows it.
    Thinking,
}

/// The kinds of rows. Rows of kind `command`, `notice` and `capture` are not sent to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum MessageKind {
    /// A message that the user sent.
    User,
    /// The instructions of a skill.
    Skill,
    /// An answer from the model.
    Assistant,
    /// The result of a tool call of the model.
    Tool,
    /// A summary that replaces earlier rows in requests to the model.
    Compaction,
    /// A command and its outcome.
    Command,
    /// A message from the host, such as the reason why a turn ended.
    Notice,
    /// A line that was captured for `/fork`.
    Capture,
}

impl EventKind {
    /// Returns the line that the user should read now, if this is a notice or a retry. Fronts that show retries
    /// in another way do not call it.
    pub fn notice(&self) -> Option<String> {
        match self {
            Self::Notice { text } => Some(text.clone()),
            Self::Retrying(retrying) => Some(retrying.to_string()),
            _ => None,
        }
    }

    /// Returns the answer, if this is a row of kind `assistant`.
    pub fn answer(&self) -> Option<AssistantRecord> {
        self.data(MessageKind::Assistant)
    }

    /// Returns the result of a tool, if this is a row of kind `tool`.
    pub fn tool_result(&self) -> Option<ToolRecord> {
        self.data(MessageKind::Tool)
    }

    /// Returns the summary, if this is a row of kind `compaction`.
    pub fn compaction(&self) -> Option<CompactionRecord> {
        self.data(MessageKind::Compaction)
    }

    /// Returns the files that are attached, if this is a row of kind `user` or `skill`.
    pub fn attachments(&self) -> Vec<Attachment> {
        match self {
            Self::Message { kind: MessageKind::User | MessageKind::Skill, data, .. } => {
                Attachment::from_data(data.as_ref())
            }
            _ => Vec::new(),
        }
    }

    /// Returns whether this row notifies an agent of mail: it has kind `user` but was written by the host.
    pub fn is_notification(&self) -> bool {
        matches!(self, Self::Message { kind: MessageKind::User, data: Some(data), .. } if data.get("notification").is_some())
    }

    fn data<T: for<'de> Deserialize<'de>>(&self, of: MessageKind) -> Option<T> {
        match self {
            Self::Message { kind, data: Some(data), .. } if *kind == of => T::deserialize(data).ok(),
            _ => None,
        }
    }
}

/// Returns the line that fronts show for a mail notification. The row also contains the messages, for the model.
pub fn notification_line(content: &str) -> &str {
    content.lines().next().unwrap_or_default()
}

/// The JSON form of an event.
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
    /// Returns the word that the store uses.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Parses the store's word; `None` if it is unknown.
    pub fn from_word(word: &str) -> Option<Self> {
        word.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Code;

    fn event(kind: EventKind) -> Event {
        Event { session: SessionId::from_bytes([1; 16]), agent: AgentId::from_bytes([2; 16]), seq: 7, kind }
    }

    fn retrying() -> Retrying {
        let (provider, what, cause) = ("openai", "Rate limit exceeded", "too many requests");
        let [provider, what, cause] = [provider, what, cause].map(str::to_owned);
        Retrying { provider, what, cause, wait_ms: 60_000, attempt: 1, of: 15 }
    }

    #[test]
    fn retry_is_announced_in_whole_seconds() {
        let words = "Rate limit exceeded: openai. Retrying in 60 s (attempt 1 of at most 15).";
        assert_eq!(EventKind::Retrying(retrying()).notice().as_deref(), Some(words));
        let later = Retrying { wait_ms: 1_001, attempt: 2, ..retrying() };
        assert_eq!(later.to_string(), "Rate limit exceeded: openai. Retrying in 2 s (attempt 2 of at most 15).");
        let broken = Retrying { of: 4, ..retrying() };
        let line = "The answer broke off; asking again (attempt 2 of 5).";
        assert_eq!(broken.broke_off(false), line);
        assert_eq!(broken.broke_off(true), format!("{line} Ignore the part that was already printed."));
        assert_eq!(EventKind::Notice { text: "n".to_owned() }.notice().as_deref(), Some("n"));
        assert_eq!(EventKind::QueueHeld { held: true }.notice(), None);
    }

    #[test]
    fn notification_is_shown_as_its_first_line() {
        let line = "[Notification: You have 1 unread message in your inbox]";
        assert_eq!(notification_line(line), line);
        assert_eq!(notification_line(&format!("{line}\n\nMessages:\n{{}}")), line);
        assert_eq!(notification_line(""), "");
    }

    #[test]
    fn limit_of_requests_is_worded_for_the_busy_row() {
        let limit = |provider: Option<&str>, at_once| {
            RequestLimit { provider: provider.map(str::to_owned), at_once }.to_string()
        };
        assert_eq!(limit(Some("demo"), 2), "demo accepts 2 requests at a time");
        assert_eq!(limit(Some("demo"), 1), "demo accepts 1 request at a time");
        assert_eq!(limit(None, 16), "the session sends 16 requests at a time");
    }

    #[test]
    fn an_event_survives_a_trip_as_json() {
        let at = DeltaPosition { turn: 3, answer: 1, index: 2, offset: 40, given_up: 1 };
        let outcome = Outcome::error(Code::Timeout, "late.").with_data(json!({"a": [1]}));
        for kind in [
            EventKind::Message { kind: MessageKind::User, content: "hi".to_owned(), data: None },
            EventKind::Message { kind: MessageKind::Command, content: "/x".to_owned(), data: Some(json!({"ok": 1})) },
            EventKind::Progress { tool: "a__b".to_owned(), text: "…".to_owned() },
            EventKind::Delta { block: DeltaKind::Thinking, text: "hm".to_owned(), at },
            EventKind::Notice { text: "n".to_owned() },
            EventKind::Retrying(retrying()),
            EventKind::GivenUp { turn: 3, answer: 1, given_up: 2, retry: retrying() },
            EventKind::RequestWaits { limit: Some(RequestLimit { provider: Some("openai".to_owned()), at_once: 2 }) },
            EventKind::RequestWaits { limit: None },
            EventKind::LineEnded { line: LineId::from_bytes([3; 16]), outcome },
            EventKind::LineQueued { line: LineId::from_bytes([3; 16]), text: "hi".to_owned() },
            EventKind::LineDequeued { line: LineId::from_bytes([3; 16]), reason: DequeueReason::TakenBack },
            EventKind::QueueHeld { held: true },
            EventKind::TurnBegan { turn: 4, cause: TurnCause::Mail },
            EventKind::TurnEnded {
                turn: 4,
                cause: TurnCause::Fork,
                state: TurnState::Interrupted,
                outcome: Outcome::ok(Code::Answered, "done"),
            },
            EventKind::AgentForked { parent: AgentId::from_bytes([4; 16]), foreground: true },
            EventKind::AgentKilled,
            EventKind::ViewMoved,
            EventKind::MailArrived { from: AgentId::from_bytes([4; 16]) },
        ] {
            let event = event(kind);
            let json = serde_json::to_value(&event).unwrap();
            assert_eq!(json["version"], VERSION);
            assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
        }
    }

    #[test]
    fn unknown_kinds_are_accepted_only_from_newer_versions() {
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
        // Data that cannot be parsed is treated as absent, because rows written by any build must load.
        assert_eq!(row(MessageKind::Assistant).answer(), None);
        let compaction = CompactionRecord {
            keep_from: Some(4),
            requests_only: true,
            skills: vec!["guide".to_owned()],
            provider: "p".to_owned(),
            model: "m".to_owned(),
            ..CompactionRecord::default()
        };
        let data = serde_json::to_value(&compaction).ok();
        let row = EventKind::Message { kind: MessageKind::Compaction, content: String::new(), data };
        assert_eq!(row.compaction(), Some(compaction));
    }
}
