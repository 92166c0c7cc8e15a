//! The result of one line, as every front receives it: a code for programs and a message for the user.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{AgentId, Code, ForkedData, KilledData, OutcomeData, RewoundData, TurnData};

/// The prefix that a front prints before the message of an error.
const ERROR_PREFIX: &str = "Error: ";

/// Whether a line succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The line succeeded, and the message contains its result.
    Ok,
    /// The line failed; the message contains the reason and the next step.
    Error,
}

/// The result of a line. A front prints [`Outcome::line`]; a program reads `code` and `data`.
///
/// As JSON, `message` is the printed line with its prefix, for `exec --json` and the rows of a session.
///
/// ```
/// use patchbay_core::{Code, Outcome};
///
/// let outcome = Outcome::error(Code::SkillNotFound, "skill 'x' not found in snapshot.");
/// assert_eq!(outcome.message, "skill 'x' not found in snapshot.");
/// assert_eq!(outcome.line(), "Error: skill 'x' not found in snapshot.");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Success or failure; `exec` derives its exit code from it.
    pub status: Status,
    /// A stable code for the kind of outcome.
    pub code: Code,
    /// Text for the user, without `Error: `. It may have several lines and never ends with a newline.
    pub message: String,
    /// Whether fronts print `Error: ` before the message. False for a success, and for errors
    /// whose messages have no prefix.
    pub has_error_prefix: bool,
    /// Details for a program; `None` if the message contains them all.
    pub data: Option<OutcomeData>,
    /// The message for models and plugins, if they must not learn everything in `message`, such as a command from the
    /// configuration. Not part of the JSON.
    pub for_models: Option<String>,
}

impl Outcome {
    /// Returns the outcome of a line that succeeded.
    pub fn ok(code: Code, message: impl Into<String>) -> Self {
        Self {
            status: Status::Ok,
            code,
            message: message.into(),
            has_error_prefix: false,
            data: None,
            for_models: None,
        }
    }

    /// Returns the outcome of a line that failed. Fronts write `Error: ` before `message`.
    pub fn error(code: Code, message: impl std::fmt::Display) -> Self {
        Self { has_error_prefix: true, ..Self::refused(code, message.to_string()) }
    }

    /// Returns the outcome of a line that failed, whose message is printed without `Error: `.
    pub fn refused(code: Code, message: impl Into<String>) -> Self {
        Self { status: Status::Error, ..Self::ok(code, message) }
    }

    /// Returns the outcome whose [`Outcome::line`] is `line`.
    pub fn from_line(status: Status, code: Code, line: &str) -> Self {
        let rest = line.strip_prefix(ERROR_PREFIX).filter(|_| status == Status::Error);
        Self { status, has_error_prefix: rest.is_some(), ..Self::ok(code, rest.unwrap_or(line)) }
    }

    /// Adds details for programs.
    #[must_use]
    pub fn with_data(mut self, data: impl Into<OutcomeData>) -> Self {
        self.data = Some(data.into());
        self
    }

    /// Returns how the turn ended, if this is the outcome of a turn.
    pub fn turn(&self) -> Option<&TurnData> {
        match &self.data {
            Some(OutcomeData::Turn(turn)) => Some(turn),
            _ => None,
        }
    }

    /// Returns the details of a fork, if this is the outcome of one.
    pub fn forked(&self) -> Option<&ForkedData> {
        match &self.data {
            Some(OutcomeData::Forked(forked)) => Some(forked),
            _ => None,
        }
    }

    /// Returns the id of a forked child that begins with a turn.
    pub fn child_with_turn(&self) -> Option<AgentId> {
        self.forked().filter(|forked| forked.turn).map(|forked| forked.child_uuid)
    }

    /// Returns the waiting lines of agents that were killed.
    pub fn killed_lines(&self) -> &[String] {
        match &self.data {
            Some(OutcomeData::Killed(KilledData { lines, .. })) => lines,
            _ => &[],
        }
    }

    /// Returns the details of a rewind, if this is the outcome of one.
    pub fn rewound(&self) -> Option<&RewoundData> {
        match &self.data {
            Some(OutcomeData::Rewound(rewound)) => Some(rewound),
            _ => None,
        }
    }

    /// Sets the message for models and plugins, without `Error: `.
    #[must_use]
    pub fn with_message_for_models(mut self, message: impl Into<String>) -> Self {
        self.for_models = Some(message.into());
        self
    }

    /// Returns the message for models and plugins, without `Error: `.
    pub fn message_for_models(&self) -> &str {
        self.for_models.as_deref().unwrap_or(&self.message)
    }

    /// Returns the line for a model or plugin: like [`Outcome::line`], but with [`Outcome::message_for_models`].
    pub fn line_for_models(&self) -> Cow<'_, str> {
        self.prefixed(self.message_for_models())
    }

    /// Whether the line succeeded.
    pub fn is_ok(&self) -> bool {
        self.status == Status::Ok
    }

    /// Returns the line that a front prints: the message, after `Error: ` if the outcome has that prefix.
    pub fn line(&self) -> Cow<'_, str> {
        self.prefixed(&self.message)
    }

    fn prefixed<'a>(&self, message: &'a str) -> Cow<'a, str> {
        if self.has_error_prefix { format!("{ERROR_PREFIX}{message}").into() } else { message.into() }
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { status, code, data, .. } = self;
        OutcomeJson { status: *status, code: *code, message: self.line(), data: data.as_ref() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Outcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let OutcomeJson { status, code, message, data } = OutcomeJson::<serde_json::Value>::deserialize(deserializer)?;
        let data = data.map(|data| OutcomeData::read(code, data));
        Ok(Self { data, ..Self::from_line(status, code, &message) })
    }
}

/// The JSON of an [`Outcome`].
#[derive(Serialize, Deserialize)]
struct OutcomeJson<'a, D> {
    status: Status,
    code: Code,
    message: Cow<'a, str>,
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    data: Option<D>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_errors_have_the_prefix() {
        let error = Outcome::error(Code::Internal, "it broke.");
        assert_eq!((&*error.message, &*error.line(), error.is_ok()), ("it broke.", "Error: it broke.", false));
        let refused = Outcome::refused(Code::TurnCancelled, "Cancelled.");
        assert_eq!((&*refused.message, &*refused.line(), refused.is_ok()), ("Cancelled.", "Cancelled.", false));
        let ok = Outcome::ok(Code::Answered, "Yes.");
        assert_eq!((&*ok.message, &*ok.line(), ok.is_ok()), ("Yes.", "Yes.", true));
    }

    #[test]
    fn models_are_told_their_own_message() {
        let error = Outcome::error(Code::Internal, "it broke.");
        assert_eq!((error.message_for_models(), &*error.line_for_models()), ("it broke.", "Error: it broke."));
        let error = Outcome::error(Code::Internal, "it broke: vault read x").with_message_for_models("it broke");
        assert_eq!((error.message_for_models(), &*error.line_for_models()), ("it broke", "Error: it broke"));
        assert_eq!((&*error.message, &*error.line()), ("it broke: vault read x", "Error: it broke: vault read x"));
        let json = r#"{"status":"error","code":"internal","message":"Error: it broke: vault read x"}"#;
        assert_eq!(serde_json::to_string(&error).unwrap(), json);
    }

    #[test]
    fn json_has_the_printed_line() {
        let error = Outcome::error(Code::Internal, "it broke.").with_data(json!({"a": 1}));
        let json = r#"{"status":"error","code":"internal","message":"Error: it broke.","data":{"a":1}}"#;
        assert_eq!(serde_json::to_string(&error).unwrap(), json);
        assert_eq!(serde_json::from_str::<Outcome>(json).unwrap(), error);
        let ok = Outcome::ok(Code::Answered, "Yes.");
        assert_eq!(serde_json::to_string(&ok).unwrap(), r#"{"status":"ok","code":"answered","message":"Yes."}"#);
    }
}
