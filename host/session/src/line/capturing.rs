//! Handles captured lines: keeps them, and begins and ends capturing.

use std::sync::Arc;

use patchbay_core::{AgentId, Code, MessageKind, Outcome};
use patchbay_store::SessionChange;

use super::context::{LineContext, not_kept};
use crate::{
    Session,
    prepared::{NotCommitted, Prepare, Prepared},
};

impl Session {
    /// Returns whether lines to the agent in view are captured.
    pub fn is_capturing(&self) -> bool {
        self.is_capturing_agent(self.agent_in_view().id())
    }

    pub(crate) fn is_capturing_agent(&self, agent: AgentId) -> bool {
        self.captures.is_capturing(agent)
    }

    /// Notes that an agent no longer captures. The caller has already committed the change.
    pub(crate) fn capture_ended(&self, agent: AgentId) {
        self.captures.set(agent, false);
    }

    /// Returns the lines that `agent` captured since capturing began.
    ///
    /// # Errors
    /// The outcome of a command that could not read the lines.
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
    /// Keeps the line instead of sending it. A command that was submitted earlier may already have ended capturing.
    pub(crate) async fn capture(&self) -> Outcome {
        let (session, agent) = (Arc::clone(&self.session), self.agent.id());
        let row = self.message(MessageKind::Capture, &self.text, None);
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
