//! The client's prompts that have no response yet. Each has the line that it became, and later its stop reason.

use patchbay_core::{AgentId, Code, LineId, Outcome, completion::Stop};
use patchbay_session::Submitted;
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use patchbay_jsonrpc::{Responder, RpcError};

/// The stop reason in the response to a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    EndTurn,
    MaxTokens,
    MaxTurnRequests,
    Refusal,
    Cancelled,
}

impl StopReason {
    /// Returns the result of a prompt.
    pub(super) fn result(self) -> Value {
        json!({ "stopReason": self.as_str() })
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::MaxTurnRequests => "max_turn_requests",
            Self::Refusal => "refusal",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the reason for a turn or a command that ended with `outcome`.
    pub(super) fn of(outcome: &Outcome) -> Self {
        match outcome.code {
            Code::Answered => match outcome.turn().and_then(|turn| turn.stop) {
                Some(Stop::MaxTokens | Stop::ContextWindow) => Self::MaxTokens,
                Some(Stop::Refusal | Stop::ContentFilter) => Self::Refusal,
                _ => Self::EndTurn,
            },
            Code::TurnRounds | Code::LimitRequests => Self::MaxTurnRequests,
            Code::LimitTokens | Code::LimitBudget => Self::MaxTokens,
            Code::ProviderContentFilter => Self::Refusal,
            Code::TurnCancelled => Self::Cancelled,
            _ => Self::EndTurn,
        }
    }
}

/// A prompt that has no response yet.
pub(super) struct OpenPrompt {
    pub(super) responder: Responder,
    pub(super) line: LineId,
    pub(super) submitted: Submitted,
    /// The line as it was typed, until its row is stored.
    pub(super) typed: Option<String>,
    /// The key with which the client sent it.
    pub(super) key: Option<String>,
    /// Whether it is a command. Its response does not wait for the work that other prompts began.
    pub(super) is_command: bool,
    /// The stop reason, once the line has ended or is cancelled.
    pub(super) reason: Option<StopReason>,
    /// Whether its line has ended. Agents may still work on its turns.
    pub(super) has_ended: bool,
    /// The child that the line created. The prompt began its first turn.
    pub(super) child: Option<AgentId>,
    /// Whether the child's first turn has ended.
    pub(super) has_child_ended: bool,
    /// Whether the client has cancelled the request. The response is still sent only when the line has ended.
    pub(super) is_given_up: bool,
    /// Waits for the client to cancel the request.
    pub(super) _watch: AbortOnDrop,
}

impl OpenPrompt {
    /// Returns whether its response will say that it was cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        self.reason == Some(StopReason::Cancelled)
    }

    /// Returns whether the turn that it began has ended.
    pub(super) fn has_stopped(&self) -> bool {
        self.has_ended && (self.child.is_none() || self.has_child_ended)
    }

    /// Returns the responder and the response.
    pub(super) fn into_answer(self) -> (Responder, Result<Value, RpcError>) {
        let reason = self.reason.unwrap_or(StopReason::EndTurn);
        let result = if self.is_given_up { Err(RpcError::cancelled()) } else { Ok(reason.result()) };
        (self.responder, result)
    }
}

/// A task that is aborted when this is dropped.
pub(super) struct AbortOnDrop(pub(super) AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::TurnData;

    use super::*;

    #[test]
    fn reason_is_that_of_the_turn() {
        for (stop, expected) in [
            (Stop::EndTurn, "end_turn"),
            (Stop::ToolUse, "end_turn"),
            (Stop::MaxTokens, "max_tokens"),
            (Stop::ContextWindow, "max_tokens"),
            (Stop::Refusal, "refusal"),
            (Stop::ContentFilter, "refusal"),
            (Stop::Other, "end_turn"),
        ] {
            let data = TurnData { stop: Some(stop), ..TurnData::default() };
            assert_eq!(StopReason::of(&Outcome::ok(Code::Answered, "x").with_data(data)).as_str(), expected);
        }
        for (code, expected) in [
            (Code::TurnRounds, "max_turn_requests"),
            (Code::LimitTokens, "max_tokens"),
            (Code::LimitBudget, "max_tokens"),
            (Code::TurnCancelled, "cancelled"),
            (Code::ProviderServer, "end_turn"),
            (Code::UnknownCommand, "end_turn"),
        ] {
            assert_eq!(StopReason::of(&Outcome::error(code, "x")).as_str(), expected);
        }
    }
}
