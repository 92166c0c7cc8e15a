//! Lines that a user types while a question waits, but that do not answer it. They run after the current line has ended.

use std::collections::VecDeque;

use patchbay_core::Outcome;
use patchbay_session::check_queue_room;

/// The lines, in the order in which they were typed. They are limited like an agent's queue.
#[derive(Default)]
pub(super) struct LaterLines(VecDeque<String>);

impl LaterLines {
    /// Adds a line at the end.
    ///
    /// # Errors
    /// The outcome of the line, if too many lines or bytes wait already. The line is dropped.
    pub(super) fn add(&mut self, line: String) -> Result<(), Outcome> {
        check_queue_room(self.0.iter().map(String::len), line.len())?;
        self.0.push_back(line);
        Ok(())
    }

    /// Removes and returns the first line.
    pub(super) fn take_first(&mut self) -> Option<String> {
        self.0.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::Code;

    use super::*;

    #[test]
    fn lines_are_bounded() {
        let mut lines = LaterLines::default();
        for number in 0..100 {
            lines.add(number.to_string()).unwrap();
        }
        let full = lines.add("one more".to_owned()).unwrap_err();
        assert_eq!(full.code, Code::QueueFull);
        assert!(full.line().starts_with("Error: 100 lines wait"), "{}", full.line());
        assert_eq!(lines.take_first().as_deref(), Some("0"));
        lines.add("one more".to_owned()).unwrap();
        let mut lines = LaterLines::default();
        assert!(lines.add("x".repeat(1 << 20)).is_ok() && lines.add("y".to_owned()).is_err());
    }
}
