//! The answer that the agent in view is writing: which of its text the client has. Pieces may be late, come twice, or be missing;
//! the row of the answer has the whole text. Pure; `transcript` calls it.

use patchbay_core::{DeltaKind, DeltaPosition};

/// A piece of a message for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MessagePiece {
    /// The message that it belongs to.
    pub(super) message: String,
    pub(super) is_thought: bool,
    pub(super) text: String,
}

/// The state of the current answer.
#[derive(Debug, Default)]
pub(super) struct AnswerState {
    /// The turn and the index of the answer in it.
    at: Option<(u64, u32)>,
    /// Number of attempts that are known to be given up.
    given_up: u32,
    /// Bytes of the text that were sent.
    sent: usize,
    /// The block of thinking that was sent last, and how many bytes of it.
    thought: (u32, u64),
    /// Whether pieces of the text are missing; then the rest comes with the row.
    incomplete: bool,
    /// The number of the last answer's row. Pieces with a lower number belong to answers that are complete.
    last_row: u64,
}

/// What a piece or a row adds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Added {
    pub(super) piece: Option<MessagePiece>,
    /// Whether a text that was sent before is void: the model was asked again.
    pub(super) is_given_up: bool,
}

impl AnswerState {
    /// Notes that events were lost, or that another agent came into view.
    pub(super) fn lost(&mut self) {
        self.incomplete = true;
    }

    /// Forgets the answer of another agent. The first pieces of the new one may have been missed.
    pub(super) fn view_moved(&mut self) {
        *self = Self { last_row: self.last_row, ..Self::default() };
    }

    /// Takes a piece of an answer; `seq` is the number of the last row before it.
    pub(super) fn piece(&mut self, seq: u64, block: DeltaKind, at: DeltaPosition, text: &str) -> Added {
        if seq < self.last_row {
            return Added::default();
        }
        if self.at != Some((at.turn, at.answer)) {
            let last_row = self.last_row;
            *self = Self { at: Some((at.turn, at.answer)), given_up: at.given_up, last_row, ..Self::default() };
        }
        let is_given_up = self.give_up(at.given_up);
        let message = format!("{}.{}.{}", at.turn, at.answer, at.given_up);
        let piece = match block {
            DeltaKind::Thinking => {
                let (index, sent) = self.thought;
                let is_next = if at.index == index { at.offset == sent } else { at.index > index && at.offset == 0 };
                is_next.then(|| {
                    self.thought = (at.index, at.offset + text.len() as u64);
                    MessagePiece { message, is_thought: true, text: text.to_owned() }
                })
            }
            DeltaKind::Text => {
                self.incomplete |= at.offset > self.sent as u64;
                (!self.incomplete && at.offset == self.sent as u64).then(|| {
                    self.sent += text.len();
                    MessagePiece { message, is_thought: false, text: text.to_owned() }
                })
            }
        };
        Added { piece, is_given_up }
    }

    /// Notes that so many attempts at the answer are given up. Returns whether a text that was sent is void.
    pub(super) fn give_up(&mut self, given_up: u32) -> bool {
        if given_up <= self.given_up {
            return false;
        }
        self.given_up = given_up;
        (self.thought, self.incomplete) = ((0, 0), false);
        std::mem::take(&mut self.sent) > 0
    }

    /// Takes the row of an answer: adds the part of its text that was not sent.
    pub(super) fn row(&mut self, seq: u64, text: &str, given_up: u32) -> Added {
        let is_given_up = self.at.is_some() && self.give_up(given_up);
        let message = match self.at {
            Some((turn, answer)) => format!("{turn}.{answer}.{}", self.given_up),
            None => format!("row {seq}"),
        };
        let rest = text.get(self.sent..).unwrap_or_default();
        let piece = (!rest.is_empty()).then(|| MessagePiece { message, is_thought: false, text: rest.to_owned() });
        *self = Self { last_row: seq, ..Self::default() };
        Added { piece, is_given_up }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(answer: u32, offset: u64, given_up: u32) -> DeltaPosition {
        DeltaPosition { turn: 5, answer, index: 0, offset, given_up }
    }

    fn text(added: Added) -> Option<String> {
        added.piece.map(|piece| piece.text)
    }

    #[test]
    fn pieces_and_row_are_the_text_once() {
        let mut state = AnswerState::default();
        let first = state.piece(5, DeltaKind::Text, at(0, 0, 0), "One ").piece.unwrap();
        assert_eq!(first, MessagePiece { message: "5.0.0".to_owned(), is_thought: false, text: "One ".to_owned() });
        assert_eq!(text(state.piece(5, DeltaKind::Text, at(0, 0, 0), "One ")), None, "it came twice");
        assert_eq!(text(state.piece(5, DeltaKind::Text, at(0, 4, 0), "two")).as_deref(), Some("two"));
        assert_eq!(text(state.row(6, "One two three", 0)).as_deref(), Some(" three"));
        assert_eq!(text(state.piece(5, DeltaKind::Text, at(0, 7, 0), " three")), None, "it is late");
        assert_eq!(state.piece(6, DeltaKind::Text, at(1, 0, 0), "Next").piece.unwrap().message, "5.1.0");
        assert_eq!(text(state.row(7, "Next", 0)), None);
    }

    #[test]
    fn text_of_missing_pieces_comes_with_the_row() {
        let mut state = AnswerState::default();
        assert_eq!(text(state.piece(1, DeltaKind::Text, at(0, 0, 0), "One ")).as_deref(), Some("One "));
        assert_eq!(text(state.piece(1, DeltaKind::Text, at(0, 8, 0), "three")), None);
        assert_eq!(text(state.piece(1, DeltaKind::Text, at(0, 13, 0), " four")), None);
        assert_eq!(text(state.row(2, "One two three four", 0)).as_deref(), Some("two three four"));
        state.view_moved();
        state.lost();
        assert_eq!(text(state.row(3, "Whole", 0)).as_deref(), Some("Whole"));
    }

    #[test]
    fn attempts_that_are_given_up_are_void() {
        let mut state = AnswerState::default();
        state.piece(1, DeltaKind::Text, at(0, 0, 0), "Half of");
        let again = state.piece(1, DeltaKind::Text, at(0, 0, 1), "The ");
        assert_eq!((again.is_given_up, again.piece.unwrap().message), (true, "5.0.1".to_owned()));
        assert!(!state.give_up(1));
        // The event of the second failure and its pieces were lost.
        let row = state.row(2, "All of it", 2);
        assert_eq!((row.is_given_up, text(row)), (true, Some("All of it".to_owned())));
    }

    #[test]
    fn thinking_is_sent_in_order_and_never_twice() {
        let mut state = AnswerState::default();
        let mut think = |index, offset, words: &str| {
            let at = DeltaPosition { index, ..at(0, offset, 0) };
            state.piece(1, DeltaKind::Thinking, at, words).piece.map(|piece| (piece.is_thought, piece.text))
        };
        assert_eq!(think(0, 0, "Hm"), Some((true, "Hm".to_owned())));
        assert_eq!(think(0, 0, "Hm"), None);
        assert_eq!(think(0, 9, "lost before"), None);
        assert_eq!(think(0, 2, "m"), Some((true, "m".to_owned())));
        assert_eq!(think(2, 0, "Next"), Some((true, "Next".to_owned())));
        assert_eq!(think(0, 3, "late"), None);
    }
}
