//! Lines submitted after a command that moves the view, such as `/fork`. They belong to the agent that is in view when the
//! command has ended, and wait until then. `accept` enters them.

use std::collections::VecDeque;

use parking_lot::Mutex;
use patchbay_core::{LineId, Outcome};
use tokio_util::sync::CancellationToken;

use super::queue::check_room;

/// The callback of a line that waits, which is called once, with the line's fate.
pub(crate) type BehindMove = Box<dyn FnOnce(AfterMove) + Send>;

/// The fate of a line that waited.
pub(crate) enum AfterMove {
    /// The line is accepted now, and begins when the token is cancelled.
    Accepted(CancellationToken),
    Stopped,
}

/// The command that is moving the view, and the lines that wait for it.
pub(crate) struct ViewMoves<T>(Mutex<Moves<T>>);

struct Moves<T> {
    moving: Option<LineId>,
    behind: VecDeque<LineBehind<T>>,
}

struct LineBehind<T> {
    id: LineId,
    moves: bool,
    /// Length of the line's text, in bytes.
    bytes: usize,
    line: T,
}

/// Why a line is not accepted immediately.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotNow<L> {
    /// The line waits for this command, the last one before it that moves the view.
    Behind(LineId),
    /// Too many lines are already waiting. Contains the line and its outcome.
    Full(L, Outcome),
}

impl<T> Default for ViewMoves<T> {
    fn default() -> Self {
        Self(Mutex::new(Moves { moving: None, behind: VecDeque::new() }))
    }
}

impl<T> ViewMoves<T> {
    /// Enters a line of `bytes` bytes. `moves` is true for a line that moves the view. Returns the line if no earlier line moves
    /// the view.
    ///
    /// # Errors
    /// [`NotNow`]. If the line has to wait, `waiting` converts it to the form in which it is kept.
    pub(crate) fn enter<L>(
        &self,
        id: LineId,
        moves: bool,
        bytes: usize,
        line: L,
        waiting: impl FnOnce(L) -> T,
    ) -> Result<L, NotNow<L>> {
        let Moves { moving, behind } = &mut *self.0.lock();
        let Some(first) = *moving else {
            *moving = moves.then_some(id);
            return Ok(line);
        };
        if let Err(full) = check_room(behind.iter().map(|behind| behind.bytes), bytes) {
            return Err(NotNow::Full(line, full));
        }
        let last = behind.iter().rev().find(|behind| behind.moves).map_or(first, |behind| behind.id);
        behind.push_back(LineBehind { id, moves, bytes, line: waiting(line) });
        Err(NotNow::Behind(last))
    }

    /// Records that a line has ended. If it moved the view, passes the waiting lines to `accept`, in their order, up to and
    /// including the next one that moves the view. No other line is entered meanwhile.
    pub(crate) fn ended(&self, id: LineId, mut accept: impl FnMut(T)) {
        let Moves { moving, behind } = &mut *self.0.lock();
        if *moving != Some(id) {
            return;
        }
        *moving = None;
        while let Some(next) = behind.pop_front() {
            *moving = next.moves.then_some(next.id);
            accept(next.line);
            if next.moves {
                return;
            }
        }
    }

    /// Notes that a line was stopped. If it was to move the view, passes all lines after it to `stop`: they were meant for an
    /// agent that does not come into view.
    pub(crate) fn stopped(&self, id: LineId, stop: impl FnMut(T)) {
        let Moves { moving, behind } = &mut *self.0.lock();
        if *moving == Some(id) {
            *moving = None;
            behind.drain(..).map(|behind| behind.line).for_each(stop);
        }
    }

    /// Returns whether a line is waiting.
    pub(crate) fn has(&self, id: LineId) -> bool {
        self.0.lock().behind.iter().any(|behind| behind.id == id)
    }

    /// Removes a line that waits; `None` if it does not.
    pub(crate) fn remove(&self, id: LineId) -> Option<T> {
        let behind = &mut self.0.lock().behind;
        let at = behind.iter().position(|behind| behind.id == id)?;
        behind.remove(at).map(|behind| behind.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wait_for_the_last_move_before_them() {
        let all = ViewMoves::default();
        let enter = |id, moves, line: char| match all.enter(id, moves, 4, line, |line| line) {
            Ok(line) => Ok(line),
            Err(NotNow::Behind(before)) => Err(before),
            Err(NotNow::Full(..)) => panic!("there is room"),
        };
        let [a, b, c, d, e, f] = [1, 2, 3, 4, 5, 6].map(|id| LineId::from_bytes([id; 16]));
        assert_eq!(enter(a, false, 'a'), Ok('a'));
        assert_eq!(enter(b, true, 'b'), Ok('b'));
        assert_eq!(enter(c, false, 'c'), Err(b));
        assert_eq!(enter(d, true, 'd'), Err(b));
        assert_eq!(enter(e, false, 'e'), Err(d));
        assert_eq!(enter(f, false, 'f'), Err(d));
        let ended = |id| {
            let mut accepted = String::new();
            all.ended(id, |line| accepted.push(line));
            accepted
        };
        assert_eq!([ended(a), ended(b), ended(c)], ["", "cd", ""]);
        assert_eq!((all.remove(f), all.remove(f)), (Some('f'), None));
        assert_eq!(ended(d), "e");
        assert_eq!(enter(b, true, 'b'), Ok('b'));
        assert_eq!((enter(d, true, 'd'), enter(e, false, 'e')), (Err(b), Err(d)));
        let mut stopped = String::new();
        all.stopped(a, |line| stopped.push(line));
        all.stopped(b, |line| stopped.push(line));
        assert_eq!(stopped, "de");
        assert_eq!(enter(c, false, 'c'), Ok('c'));
    }

    #[test]
    fn as_many_lines_wait_as_in_the_queue() {
        let moves = ViewMoves::default();
        let enter = |bytes| moves.enter(LineId::from_bytes([1; 16]), true, bytes, (), |()| ());
        assert!(enter(5).is_ok());
        assert!(matches!(enter((1 << 20) + 1), Err(NotNow::Full(..))));
        assert!((0..100).all(|_| matches!(enter(1), Err(NotNow::Behind(_)))));
        let Err(NotNow::Full((), full)) = enter(1) else { panic!("one more waits") };
        assert_eq!(full.code, patchbay_core::Code::QueueFull);
    }
}
