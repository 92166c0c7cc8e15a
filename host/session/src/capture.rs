//! Capturing: from `/capture` on, lines to an agent are kept for `/fork` and never sent to a model.
//!
//! Lines may be submitted before an earlier `/capture`, `/fork` or `/cancel` has ended, for example when several lines are
//! pasted. So these commands and the lines after them take tickets: a line with a ticket runs when the one before it has
//! ended, and whether it is captured is decided then.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use patchbay_core::{AgentId, Code, MessageKind, Outcome};
use patchbay_store::SessionChange;
use tokio::sync::oneshot;

use crate::{
    Session,
    lines::{LineContext, not_kept},
    prepared::{NotCommitted, Prepare, Prepared},
};

/// The agents that capture.
#[derive(Default)]
pub(crate) struct Captures(Mutex<HashMap<AgentId, CaptureState>>);

#[derive(Default)]
struct CaptureState {
    capturing: bool,
    /// Whether the agent will capture when the lines with tickets have ended, if they succeed.
    expected: bool,
    /// Number of lines with tickets that have not ended.
    pending: usize,
    /// Ends when the last line with a ticket has ended.
    last: Option<oneshot::Receiver<()>>,
}

/// How a line affects capturing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptureEffect {
    /// A message: captured or sent.
    Message,
    /// `/capture`.
    Begins,
    /// `/fork` or `/cancel`.
    Ends,
    /// Any other line.
    None,
}

/// A line's turn among the lines that affect capturing.
pub(crate) struct CaptureTicket {
    /// Ends when the line before has ended.
    before: Option<oneshot::Receiver<()>>,
    /// Dropped when this line has ended; `None` if later lines do not wait for it.
    ended: Option<oneshot::Sender<()>>,
    /// Whether the line is expected to be captured.
    pub(crate) captured: bool,
}

impl CaptureTicket {
    /// Waits until the line before has ended.
    pub(crate) async fn wait(&mut self) {
        if let Some(before) = self.before.take() {
            // The sender is dropped without a value.
            let _ = before.await;
        }
    }
}

impl Captures {
    /// Returns the ticket of a line that is submitted now; `None` if it need not wait and none waits for it.
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
            // A line to the model: without a line before it, it need not wait.
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

impl Session {
    /// Returns whether lines to the agent in view are captured.
    pub fn is_capturing(&self) -> bool {
        self.is_capturing_agent(self.agent_in_view().id())
    }

    pub(crate) fn is_capturing_agent(&self, agent: AgentId) -> bool {
        self.captures.is_capturing(agent)
    }

    /// Notes that an agent no longer captures. The caller has committed it.
    pub(crate) fn capture_ended(&self, agent: AgentId) {
        self.captures.set(agent, false);
    }

    /// Returns the lines that `agent` captured since capturing began.
    ///
    /// # Errors
    /// The outcome of a command that could not read them.
    pub(crate) async fn captured(&self, agent: AgentId) -> Result<Vec<String>, Outcome> {
        let captured = self.log().store().captured(agent).await;
        captured.map_err(|error| Outcome::error(error.code(), format_args!("{error}.")))
    }

    /// Returns the change of `/capture` (`begins`) or `/cancel`.
    pub(crate) fn change_capture(self: &Arc<Self>, agent: AgentId, begins: bool) -> Prepare {
        let session = Arc::clone(self);
        Box::pin(async move {
            let outcome = match (session.is_capturing_agent(agent), begins) {
                (false, true) => Outcome::ok(Code::CaptureStarted, "Capturing. End with /fork or /cancel."),
                (true, false) => Outcome::ok(Code::CaptureCancelled, "Capture cancelled."),
                (true, true) => {
                    let message = "already capturing. Use /fork to send or /cancel to discard.";
                    return Err(Outcome::error(Code::CaptureActive, message));
                }
                (false, false) => return Err(Outcome::error(Code::CaptureInactive, "not capturing.")),
            };
            let change = SessionChange {
                requires_alive: vec![agent],
                capture: Some((agent, begins)),
                ..SessionChange::default()
            };
            let applied = Box::new(move |_: &[_]| session.captures.set(agent, begins));
            Ok(Prepared { change, applied, ..Prepared::shown(outcome, serde_json::Value::Null) })
        })
    }
}

impl LineContext {
    /// Keeps the line instead of sending it. Capturing may have ended before, by a command that was submitted earlier.
    pub(crate) async fn capture(&self, line: &str) -> Outcome {
        let (session, agent) = (Arc::clone(&self.session), self.agent.id());
        let row = self.message(MessageKind::Capture, line, None);
        let prepare = async move {
            if !session.is_capturing_agent(agent) {
                let message = "capturing ended before this line. Nothing of this line was kept.";
                return Err(NotCommitted::Refused(Outcome::error(Code::CaptureInactive, message)));
            }
            let before = session.log().store().captured(agent).await?.len();
            let change = SessionChange { messages: vec![row], requires_alive: vec![agent], ..SessionChange::default() };
            Ok((change, before + 1))
        };
        match self.session.log().commit_prepared(prepare, |_, lines| lines).await {
            Ok(1) => Outcome::ok(Code::Captured, "Captured (1 line)."),
            Ok(lines) => Outcome::ok(Code::Captured, format!("Captured ({lines} lines).")),
            Err(NotCommitted::Refused(outcome)) => outcome,
            Err(NotCommitted::Store(error)) => not_kept(error),
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
        // It failed.
        captures.ended(AGENT, &mut begins);
        assert!(captures.ticket(AGENT, CaptureEffect::Message).is_none());
        captures.set(AGENT, true);
        let mut fork = captures.ticket(AGENT, CaptureEffect::Ends).unwrap();
        captures.ended(AGENT, &mut fork);
        assert!(captures.ticket(AGENT, CaptureEffect::Message).unwrap().captured);
    }
}
