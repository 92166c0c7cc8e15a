//! The updates of a session as JSON. The functions here are the only place that knows their form.

use serde_json::{Value, json};

/// Returns an update with a piece of a message. Pieces with the same `message` belong together.
pub(super) fn chunk(kind: ChunkKind, message: &str, text: &str) -> Value {
    json!({"sessionUpdate": kind.as_str(), "messageId": message, "content": {"type": "text", "text": text}})
}

/// Adds an extension of Patchbay to an update, a result, or the parameters of a notification.
pub(super) fn extend(message: &mut Value, name: &str, value: Value) {
    message["_meta"]["patchbay"][name] = value;
}

/// The kind of message that a chunk belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkKind {
    User,
    Agent,
    Thought,
}

impl ChunkKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::User => "user_message_chunk",
            Self::Agent => "agent_message_chunk",
            Self::Thought => "agent_thought_chunk",
        }
    }
}

/// The state of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
}

impl CallStatus {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// Returns an update with the new state of a tool call, and its content if there is any.
pub(super) fn call_status(id: &str, status: CallStatus, content: Option<Vec<Value>>) -> Value {
    let mut update = json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": status.as_str()});
    if let Some(content) = content {
        update["content"] = content.into();
    }
    update
}

/// Returns text as content of a tool call.
pub(super) fn call_text(text: &str) -> Value {
    json!({"type": "content", "content": {"type": "text", "text": text}})
}

/// Returns the notice of one line, for clients that show notices.
pub(super) fn notice(line: &str, is_error: bool) -> Value {
    json!({"sessionUpdate": "notice", "severity": if is_error { "error" } else { "info" }, "title": line})
}

/// Returns the tokens in the context of the agent in view, and the size of its model's window.
pub(super) fn usage(used: u64, size: u64) -> Value {
    json!({"sessionUpdate": "usage_update", "used": used, "size": size})
}

/// Returns the title of the session.
pub(super) fn title(title: &str) -> Value {
    json!({"sessionUpdate": "session_info_update", "title": title})
}
