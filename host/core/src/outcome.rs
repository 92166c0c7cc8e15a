use serde::Serialize;

use crate::Code;

/// Whether a line did what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It did.
    Ok,
    /// It did not; the message says why and what to do next.
    Error,
}

/// What a line comes to. A front prints `message`; a program reads `code` and `data`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Whether it went well.
    pub status: Status,
    /// A stable word for what happened.
    pub code: Code,
    /// For a person; may have several lines, never a trailing line feed.
    pub message: String,
    /// For a program, where there is more to say than the message does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
}

impl Outcome {
    /// A line that went well.
    pub fn ok(code: Code, message: impl Into<String>) -> Self {
        Self { status: Status::Ok, code, message: message.into(), data: None }
    }

    /// A line that failed. `message` is what follows `Error: `.
    pub fn error(code: Code, message: impl std::fmt::Display) -> Self {
        Self { status: Status::Error, code, message: format!("Error: {message}"), data: None }
    }

    /// A line that failed, in words that stand alone, without `Error: ` before them.
    pub fn refused(code: Code, message: impl Into<String>) -> Self {
        Self { status: Status::Error, code, message: message.into(), data: None }
    }

    /// The same, with something for a program.
    #[must_use]
    pub fn with_data(mut self, data: serde_json::Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Whether the line went well.
    pub fn is_ok(&self) -> bool {
        self.status == Status::Ok
    }
}
