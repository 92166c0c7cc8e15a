//! The events of a session for a client that may join while answers are being written. The client receives the text so far, and
//! then no piece twice.

use std::{collections::BTreeMap, sync::Arc, vec};

use patchbay_core::{AgentId, DeltaKind, Event, EventKind};
use patchbay_session::{AnswerSoFar, Received, Session, Subscription};
use patchbay_store::StoreError;

/// The events of a session from a given row on.
pub(super) struct FollowedEvents {
    session: Arc<Session>,
    events: Subscription,
    /// Whether the client lacks pieces, as at the beginning and after lost events. The text so far will contain them.
    is_behind: bool,
    /// The answers in progress that were not sent to the client yet.
    joined: vec::IntoIter<(AgentId, AnswerSoFar)>,
    /// The text that the client has of each agent's answer.
    shown: ShownTexts,
}

/// The current attempt of each agent at an answer, and the length of its text so far, in bytes.
#[derive(Default)]
struct ShownTexts(BTreeMap<AgentId, ((u64, u32, u32), u64)>);

impl ShownTexts {
    /// Starts again with the text of these answers.
    fn join(&mut self, answers: &[(AgentId, AnswerSoFar)]) {
        let shown = |(agent, answer): &(AgentId, AnswerSoFar)| {
            (*agent, ((answer.turn, answer.answer, answer.given_up), answer.text.len() as u64))
        };
        self.0 = answers.iter().map(shown).collect();
    }

    /// Returns whether an event continues the text that the client has. A piece whose preceding text is missing does not
    /// continue it: its answer ended just before `answers_so_far` was called, so the client gets the whole answer as a row.
    fn continues(&mut self, event: &Event) -> bool {
        let (known, end) = self.0.get(&event.agent).copied().unwrap_or_default();
        match &event.kind {
            EventKind::Delta { block: DeltaKind::Text, text, at } => {
                let attempt = (at.turn, at.answer, at.given_up);
                let end = if attempt == known { end } else { 0 };
                if attempt < known || at.offset != end {
                    return false;
                }
                self.0.insert(event.agent, (attempt, end.saturating_add(text.len() as u64)));
                true
            }
            EventKind::Delta { at, .. } => (at.turn, at.answer, at.given_up) >= known,
            EventKind::GivenUp { turn, answer, given_up, .. } => (*turn, *answer, *given_up) > known,
            _ => true,
        }
    }
}

/// An event for a client, or the text of an answer so far.
pub(super) enum FollowedEvent {
    Received(Received),
    /// The text so far of the answer that an agent is writing. It replaces the pieces that the client has.
    Partial(AgentId, AnswerSoFar),
}

impl FollowedEvents {
    /// Follows the events after row `after`.
    pub(super) fn new(session: &Arc<Session>, after: u64) -> Self {
        let events = session.subscribe(after.saturating_add(1));
        Self {
            session: Arc::clone(session),
            events,
            is_behind: true,
            joined: Vec::new().into_iter(),
            shown: ShownTexts::default(),
        }
    }

    /// Waits for the next event; `None` when the session has ended. This is cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<FollowedEvent>, StoreError> {
        loop {
            if let Some((agent, answer)) = self.joined.next() {
                return Ok(Some(FollowedEvent::Partial(agent, answer)));
            }
            let received = if self.is_behind { self.events.try_next().await? } else { self.events.next().await? };
            match &received {
                // All earlier rows were sent. Rows that are committed from now on follow.
                None if self.is_behind => {
                    let answers = self.session.answers_so_far();
                    self.shown.join(&answers);
                    (self.is_behind, self.joined) = (false, answers.into_iter());
                    continue;
                }
                None => return Ok(None),
                Some(Received::Lagged(_)) => self.is_behind = true,
                Some(Received::Event(event)) => {
                    let is_piece = matches!(event.kind, EventKind::Delta { .. });
                    if (self.is_behind && is_piece) || !self.shown.continues(event) {
                        continue;
                    }
                }
            }
            return Ok(received.map(FollowedEvent::Received));
        }
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::{DeltaPosition, Retrying, SessionId};

    use super::*;

    #[test]
    fn pieces_without_their_beginning_are_dropped() {
        let [joined, other] = [1, 2].map(|byte| AgentId::from_bytes([byte; 16]));
        let so_far = AnswerSoFar { turn: 3, answer: 0, given_up: 0, text: "Good ".to_owned(), thinking: Vec::new() };
        let mut shown = ShownTexts::default();
        shown.join(&[(joined, so_far)]);
        let mut continues = |agent, turn, given_up, offset| {
            let at = DeltaPosition { turn, answer: 0, index: 0, offset, given_up };
            let kind = EventKind::Delta { block: DeltaKind::Text, text: "day".to_owned(), at };
            shown.continues(&Event { session: SessionId::from_bytes([9; 16]), agent, seq: 4, kind })
        };
        assert!(continues(joined, 3, 0, 5) && continues(joined, 3, 0, 8));
        assert!(!continues(joined, 3, 0, 12), "a piece is missing");
        // An answer that ended just before the text so far was read.
        assert!(!continues(other, 2, 0, 6));
        assert!(continues(other, 4, 0, 0) && continues(other, 4, 0, 3));
        assert!(!continues(other, 4, 1, 6) && continues(other, 4, 1, 0), "an attempt begins with its first piece");
    }

    #[test]
    fn pieces_of_the_text_so_far_are_known() {
        let [agent, other] = [1, 2].map(|byte| AgentId::from_bytes([byte; 16]));
        let so_far = AnswerSoFar { turn: 3, answer: 1, given_up: 1, text: "Good ".to_owned(), thinking: Vec::new() };
        let event = |agent, kind| Event { session: SessionId::from_bytes([9; 16]), agent, seq: 4, kind };
        let is_known = |event: Event| {
            let mut shown = ShownTexts::default();
            shown.join(&[(agent, so_far.clone())]);
            !shown.continues(&event)
        };
        let known = |of, answer, given_up, offset, block| {
            let at = DeltaPosition { turn: 3, answer, index: 0, offset, given_up };
            is_known(event(of, EventKind::Delta { block, text: "x".to_owned(), at }))
        };
        use DeltaKind::{Text, Thinking};
        assert!(known(agent, 1, 1, 0, Text) && known(agent, 1, 1, 4, Text));
        assert!(!known(agent, 1, 1, 5, Text), "it continues the text");
        assert!(known(agent, 1, 0, 90, Text) && known(agent, 1, 0, 0, Thinking), "of an attempt that was given up");
        assert!(!known(agent, 1, 2, 0, Text) && !known(agent, 2, 0, 0, Text) && !known(other, 1, 1, 0, Text));
        assert!(!known(agent, 1, 1, 0, Thinking), "thinking is not in the text");
        let retry = Retrying {
            provider: "demo".to_owned(),
            what: "Server error".to_owned(),
            cause: "it broke".to_owned(),
            wait_ms: 1,
            attempt: 1,
            of: 4,
        };
        let given_up = |given_up| {
            let retry = retry.clone();
            is_known(event(agent, EventKind::GivenUp { turn: 3, answer: 1, given_up, retry }))
        };
        assert!(given_up(1) && !given_up(2));
    }
}
