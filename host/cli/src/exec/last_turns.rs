//! Remembers how the last turn of each agent ended, which decides the exit code of `exec` and whether a line succeeded.

use std::collections::HashMap;

use patchbay_core::{AgentId, Event, EventKind, Outcome};

#[derive(Default)]
pub(super) struct LastTurns {
    /// Agents without a finished turn are missing.
    ended: HashMap<AgentId, TurnResult>,
}

/// How a turn of an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnResult {
    Answered,
    /// The turn ran to its end, but without a usable answer, for example with a refusal or an empty text.
    NoAnswer,
    Failed,
}

impl LastTurns {
    /// Notes an event, if it ends a turn. A kill counts as a failed turn if the agent has not finished one yet.
    pub(super) fn note(&mut self, event: &Event) {
        match &event.kind {
            EventKind::TurnEnded { outcome, .. } => {
                self.ended.insert(event.agent, TurnResult::of(outcome));
            }
            EventKind::AgentKilled => {
                self.ended.entry(event.agent).or_insert(TurnResult::Failed);
            }
            _ => {}
        }
    }

    /// Returns whether the last turn of `agent` ran to its end; `None` if none of its turns has ended.
    pub(super) fn succeeded(&self, agent: AgentId) -> Option<bool> {
        self.ended.get(&agent).map(|result| *result != TurnResult::Failed)
    }

    /// Returns whether the last turn of `agent` has an answer; `None` if none of its turns has ended.
    pub(super) fn has_answer(&self, agent: AgentId) -> Option<bool> {
        self.ended.get(&agent).map(|result| *result == TurnResult::Answered)
    }
}

impl TurnResult {
    fn of(outcome: &Outcome) -> Self {
        match outcome.turn().and_then(|turn| turn.failure.as_ref()) {
            _ if !outcome.is_ok() => Self::Failed,
            Some(_) => Self::NoAnswer,
            None => Self::Answered,
        }
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::{Code, SessionId, TurnCause, TurnData, TurnState};

    use super::*;

    #[test]
    fn turn_without_a_result_has_no_answer() {
        let agent = AgentId::random();
        let event = |kind| Event { session: SessionId::random(), agent, seq: 1, kind };
        let mut turns = LastTurns::default();
        let failure = Some("The model refuses.".to_owned());
        assert_eq!((turns.succeeded(agent), turns.has_answer(agent)), (None, None));
        for (outcome, succeeded, has_answer) in [
            (Outcome::ok(Code::Answered, "Yes.").with_data(TurnData::default()), true, true),
            (Outcome::ok(Code::Answered, "No.").with_data(TurnData { failure, ..TurnData::default() }), true, false),
            (Outcome::error(Code::ProviderServer, "it broke."), false, false),
        ] {
            let (cause, state) = (TurnCause::Person, TurnState::Done);
            turns.note(&event(EventKind::TurnEnded { turn: 1, cause, state, outcome }));
            assert_eq!((turns.succeeded(agent), turns.has_answer(agent)), (Some(succeeded), Some(has_answer)));
        }
        // A later kill does not change how the turn ended.
        turns.note(&event(EventKind::AgentKilled));
        assert_eq!(turns.succeeded(agent), Some(false));
        let mut killed = LastTurns::default();
        killed.note(&event(EventKind::AgentKilled));
        assert_eq!((killed.succeeded(agent), killed.has_answer(agent)), (Some(false), Some(false)));
    }
}
