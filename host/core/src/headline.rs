//! One-line reports about agents that are not in view: an agent's turn has ended, or it was killed. Fronts print them instead of
//! the agent's events.

use crate::{AgentId, Code, Event, EventKind, Outcome, text};

/// Length limit of the answer or the error in the line about another agent's turn, in characters.
const WORDS: usize = 60;

impl Event {
    /// Returns one line about the agent of this event, for a user who looks at another agent: its turn has ended, or it was
    /// killed. `None` for all other events.
    pub fn headline(&self) -> Option<String> {
        match &self.kind {
            EventKind::TurnEnded { outcome, .. } => turn_ended(self.agent, outcome),
            EventKind::AgentKilled => Some(format!("{} was killed.", self.agent.short())),
            _ => None,
        }
    }
}

fn turn_ended(agent: AgentId, outcome: &Outcome) -> Option<String> {
    let agent = agent.short();
    let words = text::excerpt(&outcome.message, WORDS);
    match outcome.code {
        // The `AgentKilled` event reports this.
        Code::AgentDead => None,
        Code::TurnCancelled => Some(format!("{agent} was stopped.")),
        _ if !outcome.is_ok() => Some(format!("{agent} failed: {words}")),
        _ if words.is_empty() => Some(format!("{agent} is done.")),
        _ => Some(format!("{agent} is done: {words}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SessionId, TurnCause, TurnState};

    fn headline(kind: EventKind) -> Option<String> {
        let (session, agent) = (SessionId::from_bytes([1; 16]), AgentId::from_bytes([0xa1; 16]));
        Event { session, agent, seq: 1, kind }.headline()
    }

    fn ended(outcome: Outcome) -> Option<String> {
        headline(EventKind::TurnEnded { turn: 1, cause: TurnCause::Fork, state: TurnState::Done, outcome })
    }

    #[test]
    fn headline_names_the_agent_and_how_its_turn_ended() {
        let words = |outcome| ended(outcome).unwrap();
        assert_eq!(words(Outcome::ok(Code::Answered, "Two.\n\nOr three.")), "a1a1a1a1 is done: Two. Or three.");
        assert_eq!(words(Outcome::ok(Code::Answered, "")), "a1a1a1a1 is done.");
        assert_eq!(
            words(Outcome::error(Code::ProviderRateLimit, "Rate limit exceeded.")),
            "a1a1a1a1 failed: Rate limit exceeded."
        );
        assert_eq!(words(Outcome::refused(Code::TurnCancelled, "Cancelled.")), "a1a1a1a1 was stopped.");
        assert_eq!(ended(Outcome::error(Code::AgentDead, "it was killed.")), None);
        assert_eq!(headline(EventKind::AgentKilled).unwrap(), "a1a1a1a1 was killed.");
        assert_eq!(headline(EventKind::ViewMoved), None);
    }

    #[test]
    fn headline_is_one_clean_bounded_line() {
        let long = format!("\u{1b}[2J{}", "word ".repeat(100));
        let line = ended(Outcome::ok(Code::Answered, long)).unwrap();
        assert!(line.starts_with("a1a1a1a1 is done: [2Jword") && line.chars().count() < 90, "{line}");
    }
}
