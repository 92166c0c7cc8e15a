//! The position up to which a client has received a session. The server sends it with each update, and a client that
//! reconnects returns it to receive the rest. Clients treat it as opaque.

use patchbay_core::AgentId;
use patchbay_session::{AnswerAttempt, AnswerReceived};
use serde::{Deserialize, Serialize};

/// A position in the updates of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// The number of the last row whose updates were all sent.
    pub(super) row: u64,
    /// The agent in view when the update was sent.
    pub(super) agent: AgentId,
    /// Number of this front's own messages, such as command outcomes. Their ids must not be used again.
    pub(super) said: u64,
    /// How much was sent of the answer that the agent is writing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<PositionInAnswer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PositionInAnswer {
    turn: u64,
    answer: u32,
    given_up: u32,
    /// Number of bytes of the answer's text that were sent.
    text: u64,
    /// The last thinking block, and how many of its bytes were sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thinking: Option<(u32, u64)>,
}

impl Position {
    pub(super) fn new(row: u64, agent: AgentId, said: u64, received: Option<AnswerReceived>) -> Self {
        let answer = received.map(|AnswerReceived { attempt, text, thinking }| {
            let AnswerAttempt { turn, answer, given_up } = attempt;
            PositionInAnswer { turn, answer, given_up, text: text as u64, thinking }
        });
        Self { row, agent, said, answer }
    }

    /// Returns how much was sent of the answer of `view`.
    pub(super) fn received(&self, view: AgentId) -> Option<AnswerReceived> {
        let PositionInAnswer { turn, answer, given_up, text, thinking } = self.answer.filter(|_| self.agent == view)?;
        let attempt = AnswerAttempt { turn, answer, given_up };
        Some(AnswerReceived { attempt, text: usize::try_from(text).ok()?, thinking })
    }
}
