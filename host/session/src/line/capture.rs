//! Capturing: from `/capture` on, lines to an agent are kept for `/fork` and never sent to a model.
//!
//! Lines may be submitted before an earlier `/capture`, `/fork` or `/cancel` has ended, for example when several lines are
//! pasted. Therefore these commands and the lines after them get tickets. A line with a ticket runs after the previous line with
//! a ticket has ended, and only then is it certain whether the line is captured.

use std::collections::HashMap;

use parking_lot::Mutex;
use patchbay_core::AgentId;
use tokio::sync::oneshot;

#[derive(Default)]
pub(crate) struct Captures(Mutex<HashMap<AgentId, CaptureState>>);

#[derive(Default)]
struct CaptureState {
    capturing: bool,
    /// Whether the agent will capture when the lines with tickets have ended, if they succeed.
    expected: bool,
    /// Number of lines with tickets that have not ended.
    pending: usize,
    /// Resolves when the last line with a ticket has ended.
    last: Option<oneshot::Receiver<()>>,
}

/// How a line affects capturing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptureEffect {
    /// A message: captured or sent.
    Message,
    /// The command `/capture`, which begins capturing.
    Begins,
    /// The command `/fork` or `/cancel`, which ends capturing.
    Ends,
    None,
}

/// A line's place among the lines that affect capturing.
pub(crate) struct CaptureTicket {
    /// Resolves when the previous line with a ticket has ended.
    before: Option<oneshot::Receiver<()>>,
    /// Dropped when this line has ended; `None` if later lines do not wait for it.
    ended: Option<oneshot::Sender<()>>,
    /// Whether the line is expected to be captured.
    pub(crate) captured: bool,
}

impl CaptureTicket {
    /// Waits until the previous line with a ticket has ended.
    pub(crate) async fn wait(&mut self) {
        if let Some(before) = self.before.take() {
            // The sender is dropped without a value.
            let _ = before.await;
        }
    }
}

impl Captures {
    /// Returns the ticket of a line that is submitted now; `None` if it need not wait and no line has to wait for it.
    pub(crate) fn ticket(&self, agent: AgentId, effect: CaptureEffect) -> Option<CaptureTicket> {
        let mut states = self.0.lock();
        if effect == CaptureEffect::None || (effect == CaptureEffect::Message && !states.contains_key(&agent)) {
            return None;
        }
        let state = states.entry(agent).or_default();
        if state.pending == 0 {
            state.expected = state.capturing;
        }
        let captured = effect == CaptureEffect::Message && state.expected;
        match effect {
            CaptureEffect::Begins => state.expected = true,
            CaptureEffect::Ends => state.expected = false,
            // The line is for the model. If no earlier line has a ticket, it need not wait.
            CaptureEffect::Message if !captured && state.pending == 0 => return None,
            _ => {}
        }
        let (ended, next) = oneshot::channel();
        let before = state.last.replace(next);
        state.pending += 1;
        Some(CaptureTicket { before, ended: Some(ended), captured })
    }

    /// Notes that a line with a ticket has ended, or that it no longer affects capturing.
    pub(crate) fn ended(&self, agent: AgentId, ticket: &mut CaptureTicket) {
        let Some(ended) = ticket.ended.take() else { return };
        let mut states = self.0.lock();
        if let Some(state) = states.get_mut(&agent) {
            state.pending -= 1;
            if state.pending == 0 {
                state.last = None;
                if !state.capturing {
                    states.remove(&agent);
                }
            }
        }
        drop(ended);
    }

    pub(crate) fn is_capturing(&self, agent: AgentId) -> bool {
        self.0.lock().get(&agent).is_some_and(|state| state.capturing)
    }

    /// Notes a committed change.
    pub(crate) fn set(&self, agent: AgentId, capturing: bool) {
        let mut states = self.0.lock();
        let state = states.entry(agent).or_default();
        state.capturing = capturing;
        if !capturing && state.pending == 0 {
            states.remove(&agent);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGENT: AgentId = AgentId::from_bytes([1; 16]);

    #[test]
    fn lines_are_captured_between_the_commands_that_were_submitted() {
        let captures = Captures::default();
        assert!(captures.ticket(AGENT, CaptureEffect::Message).is_none());
        let mut begins = captures.ticket(AGENT, CaptureEffect::Begins).unwrap();
        let mut text = captures.ticket(AGENT, CaptureEffect::Message).unwrap();
        assert!(text.captured && begins.before.is_none() && text.before.is_some());
        let mut ends = captures.ticket(AGENT, CaptureEffect::Ends).unwrap();
        let mut after = captures.ticket(AGENT, CaptureEffect::Message).unwrap();
        assert!(!after.captured && after.before.is_some());
        captures.set(AGENT, true);
        captures.ended(AGENT, &mut begins);
        captures.ended(AGENT, &mut text);
        captures.set(AGENT, false);
        captures.ended(AGENT, &mut ends);
        captures.ended(AGENT, &mut after);
        assert!(captures.ticket(AGENT, CaptureEffect::Message).is_none());
        assert!(captures.0.lock().is_empty());
    }

    #[test]
    fn expectation_follows_what_the_lines_did() {
        let captures = Captures::default();
        let mut begins = captures.ticket(AGENT, CaptureEffect::Begins).unwrap();
        // The command failed.
        captures.ended(AGENT, &mut begins);
        assert!(captures.ticket(AGENT, CaptureEffect::Message).is_none());
        captures.set(AGENT, true);
        let mut fork = captures.ticket(AGENT, CaptureEffect::Ends).unwrap();
        captures.ended(AGENT, &mut fork);
        assert!(captures.ticket(AGENT, CaptureEffect::Message).unwrap().captured);
    }
}
