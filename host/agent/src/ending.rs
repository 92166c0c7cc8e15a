//! The end of a turn: the change committed with its last row, and the report for the agent's parent. The session
//! creates a [`TurnEnding`] for each turn; the turn itself commits the change with the model's final answer.

use patchbay_core::{AgentId, Code, Outcome, TurnState, text};
use patchbay_store::{EndedTurn, NewMail, SessionChange};
use serde::Serialize;

/// Limit of a report's summary in characters.
const SUMMARY: usize = 2_000;

/// How one turn will be ended.
#[derive(Clone, Debug)]
pub struct TurnEnding {
    /// The agent that runs the turn.
    pub agent: AgentId,
    /// The number of the turn's first row.
    pub began: u64,
    /// The parent, if the turn is reported to it. Only turns that the `fork` tool or mail began are reported.
    pub report_to: Option<AgentId>,
}

impl TurnEnding {
    /// Adds the end of a turn whose final answer is `answer`. `failure` is the reason why it does not count
    /// as a result, such as a refusal.
    pub fn answered(&self, answer: &str, failure: Option<&str>, change: &mut SessionChange) {
        self.end(TurnState::Done, Some(Code::Answered), change);
        self.report("idle", answer, failure, true, change);
    }

    /// Adds the end of a turn without a final answer. `last` is the last text of the agent. If the user stopped the
    /// turn, its report wakes no agent.
    pub fn failed(&self, outcome: &Outcome, last: &str, change: &mut SessionChange) {
        self.end(TurnState::Done, Some(outcome.code), change);
        let error = text::clean_line(outcome.message_for_models());
        self.report("idle", last, Some(&error), outcome.code != Code::TurnCancelled, change);
    }

    /// Adds the end of a turn whose process ended. The report does not wake the parent right away, because a resumed session is
    /// held.
    pub fn interrupted(&self, last: &str, change: &mut SessionChange) {
        self.end(TurnState::Interrupted, Some(Code::TurnInterrupted), change);
        self.report("idle", last, Some(INTERRUPTED), true, change);
    }

    /// Adds the end of a turn whose agent is killed.
    pub fn killed(&self, last: &str, change: &mut SessionChange) {
        self.end(TurnState::Interrupted, Some(Code::AgentDead), change);
        self.report("dead", last, Some("killed"), true, change);
    }

    fn end(&self, state: TurnState, code: Option<Code>, change: &mut SessionChange) {
        change.ends_turns.push(EndedTurn { agent: self.agent, began: self.began, state, code });
    }

    /// Adds the report. `limits.mails` does not apply, because a parent must learn about each child.
    fn report(&self, status: &str, text: &str, error: Option<&str>, wakes: bool, change: &mut SessionChange) {
        let Some(to) = self.report_to else { return };
        let report = ChildReport { status, success: error.is_none(), summary: &summary(text), error };
        // Serialising a struct of strings cannot fail.
        let body = serde_json::to_string(&report).unwrap_or_default();
        change.mail.push(NewMail { from: self.agent, to, body, limit: None, wakes });
    }
}

/// The report that the parent reads, as JSON with its fields in this order.
#[derive(Serialize)]
struct ChildReport<'a> {
    status: &'a str,
    success: bool,
    summary: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// The message about a turn whose process ended.
pub const INTERRUPTED: &str = "The process ended during this turn. The partial answer is kept.";

fn summary(text: &str) -> String {
    text.trim().chars().take(SUMMARY).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parent_is_told_how_the_turn_ended() {
        let (child, parent) = (AgentId::from_bytes([1; 16]), AgentId::from_bytes([2; 16]));
        let ending = TurnEnding { agent: child, began: 7, report_to: Some(parent) };
        let told = |end: &dyn Fn(&mut SessionChange)| {
            let mut change = SessionChange::default();
            end(&mut change);
            assert_eq!((change.ends_turns.len(), change.ends_turns[0].began), (1, 7));
            let mail = change.mail.pop().unwrap();
            assert_eq!((mail.from, mail.to, mail.limit), (child, parent, None));
            (mail.body, mail.wakes)
        };
        let (body, wakes) = told(&|change| ending.answered(" Done. \n", None, change));
        assert_eq!((&*body, wakes), (r#"{"status":"idle","success":true,"summary":"Done."}"#, true));
        let (body, wakes) = told(&|change| ending.answered("", Some("The model's answer is empty."), change));
        let expected = r#"{"status":"idle","success":false,"summary":"","error":"The model's answer is empty."}"#;
        assert_eq!((&*body, wakes), (expected, true));
        let failure = Outcome::error(Code::ProviderServer, "it broke.");
        let (body, wakes) = told(&|change| ending.failed(&failure, "Half", change));
        let expected = r#"{"status":"idle","success":false,"summary":"Half","error":"it broke."}"#;
        assert_eq!((&*body, wakes), (expected, true));
        let failure = failure.with_message_for_models("it broke, in short.");
        assert!(told(&|change| ending.failed(&failure, "", change)).0.contains("it broke, in short."));
        let stopped = Outcome::refused(Code::TurnCancelled, "Cancelled.");
        assert!(!told(&|change| ending.failed(&stopped, "", change)).1);
        let (body, _) = told(&|change| ending.killed("", change));
        assert_eq!(body, r#"{"status":"dead","success":false,"summary":"","error":"killed"}"#);
        let long = "ä".repeat(SUMMARY + 1);
        let (body, _) = told(&|change| ending.answered(&long, None, change));
        assert_eq!(body.matches('ä').count(), SUMMARY);
        let mut unreported = SessionChange::default();
        TurnEnding { report_to: None, ..ending.clone() }.answered("Yes.", None, &mut unreported);
        assert!(unreported.mail.is_empty() && unreported.ends_turns.len() == 1);
    }
}
