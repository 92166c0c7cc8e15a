//! The agents of the session: which one is shown, what is said of the others, and what happens when the view moves. The loop
//! in `terminal` passes events of agents and outcomes of commands.

use std::time::{Duration, Instant};

use patchbay_core::{AgentId, Code, Event, EventKind, MessageKind, Outcome, text};

use super::{Front, marks};
use crate::{ReplError, words};

/// Length limit in characters of waiting lines that are named in one line.
const LINES: usize = 200;

/// The commands that move the view. Their outcome is printed before what the agent then in view has said.
const MOVES_VIEW: [&str; 3] = ["/fork", "/kill", "/switch"];

/// Whether a line is a command that may move the view.
pub(super) fn moves_view(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|name| MOVES_VIEW.contains(&name))
}

impl Front {
    /// The view has moved to `agent`. Nothing of it is printed before [`Front::join_if_due`].
    pub(super) fn view_moved(&mut self, agent: AgentId) {
        self.transcript.end();
        self.events.only_deltas_of([agent]);
        self.view.id = agent;
        self.questions.set_view(agent);
        self.busy.set_view(agent, false);
        self.queue = self.session.queue();
        self.joining = true;
    }

    /// Prints what the agent has said that has come into view, unless the outcome of the command comes first.
    pub(super) async fn join_if_due(&mut self) -> Result<(), ReplError> {
        if !self.joining || self.submitted.values().any(|line| line.moves_view) {
            return Ok(());
        }
        let now = self.session.agent_in_view_now().await.map_err(|error| ReplError::Store(error.to_string()))?;
        // If the view has moved again, its event follows.
        if now.id == self.view.id {
            self.joining = false;
            self.busy.set_view(now.id, now.answer.is_some());
            self.transcript.join(&now, Instant::now());
            self.view = now;
            self.take_queue();
            self.outdated = true;
            (self.changed, self.urgent) = (true, true);
        }
        Ok(())
    }

    /// Reads the waiting lines of the agent in view.
    pub(super) fn take_queue(&mut self) {
        self.queue = self.session.queue();
        for line in &self.queue.lines {
            self.texts.entry(line.id).or_insert_with(|| line.text.clone());
        }
    }

    /// Reads what the status row says of the agent in view, if it may have changed.
    pub(super) async fn update_status(&mut self) -> Result<(), ReplError> {
        if std::mem::take(&mut self.outdated) {
            self.model = self.session.model_in_use().await;
            let unread = self.session.unread_mail().await.map_err(|error| ReplError::Store(error.to_string()))?;
            self.view.unread = unread;
        }
        if std::mem::take(&mut self.lagged) {
            let tree = self.session.agent_tree().await.map_err(|error| ReplError::Store(error.to_string()))?;
            let working = tree.living.iter().filter(|agent| agent.state.is_turn()).map(|agent| agent.id);
            self.busy.set_turns(working, Instant::now());
        }
        Ok(())
    }

    /// Shows an event that is about an agent: in full for the one in view, at most one line for the others.
    pub(super) fn agent_event(&mut self, event: &Event, now: Instant) {
        let in_view = event.agent == self.view.id;
        match &event.kind {
            EventKind::TurnEnded { outcome, .. } => {
                let took = self.busy.end_turn(event.agent, now);
                // All of an answer is printed from its row.
                let message = if outcome.is_ok() { String::new() } else { outcome.message.clone() };
                self.told.insert(event.agent, (outcome.code, message));
                self.outdated = true;
                if in_view {
                    self.ring_if_long(took);
                    if outcome.code != Code::AgentDead {
                        self.transcript.outcome_after(took, outcome, true);
                    }
                    return;
                }
            }
            EventKind::AgentKilled => {
                self.view.is_dead |= in_view;
                // The outcome of the command says it.
                if self.busy.runs_command("/kill") {
                    return;
                }
                if in_view {
                    self.transcript.end();
                }
            }
            EventKind::MailArrived { .. } => self.outdated |= in_view,
            // A notification and the result of a tool may read mail.
            EventKind::Message { kind: MessageKind::User | MessageKind::Tool, .. } if in_view => self.outdated = true,
            // What the host says of the turn of another agent is not shown; other notices are for the user.
            EventKind::Notice { text } if !in_view && !self.busy.runs_turn(event.agent) => self.transcript.notice(text),
            _ => {}
        }
        if let Some(line) = event.headline() {
            self.transcript.other_agent(&line);
        }
    }

    /// Whether the outcome of a line of `agent` was told when its turn ended.
    pub(super) fn was_told(&self, agent: AgentId, outcome: &Outcome) -> bool {
        let told = self.told.get(&agent);
        told.is_some_and(|(code, message)| *code == outcome.code && (outcome.is_ok() || *message == outcome.message))
    }

    /// Rings the bell after long work if the window is not in front, and notifies the desktop.
    pub(super) fn ring_if_long(&mut self, took: Option<Duration>) {
        if !self.focused && took.is_some_and(|took| took >= marks::LONG) {
            self.area.mark(marks::BELL);
            self.area.mark(marks::NOTIFICATION);
        }
    }

    /// Gives the waiting lines of killed agents back to the composer, or names them if it has a text.
    pub(super) fn give_back(&mut self, killed: &Outcome) {
        let lines = killed.killed_lines();
        if lines.is_empty() {
            return;
        }
        if self.composer.is_empty() {
            self.composer.set(&text::clean(&lines.join("\n")));
            self.edited();
        } else {
            self.transcript.notice(&not_sent(lines));
        }
    }

    /// Stops the agents that work, says how many, and leaves.
    pub(super) fn quit(&mut self, outcome: &Outcome) {
        let stopped = self.session.stop_all();
        if stopped > 0 {
            self.transcript.end();
            self.transcript.notice(&words::stopped(stopped));
        }
        self.transcript.outcome(outcome, true);
        self.leaving = true;
    }
}

/// Names lines that will not be sent.
fn not_sent(lines: &[String]) -> String {
    let s = if lines.len() == 1 { "" } else { "s" };
    let was = if lines.len() == 1 { "was" } else { "were" };
    let texts = lines.iter().map(|line| text::excerpt(line, LINES)).collect::<Vec<_>>().join("; ");
    format!("{} waiting line{s} {was} not sent: {}", lines.len(), text::excerpt(&texts, LINES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_move_the_view_are_known_by_their_names() {
        let lines = ["/switch root", "/kill", "/fork \"x\"", "/forks", "/agents", "hello /kill"];
        assert_eq!(lines.map(moves_view), [true, true, true, false, false, false]);
    }

    #[test]
    fn lines_that_are_not_sent_are_named() {
        let not_sent = |lines: &[&str]| not_sent(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
        assert_eq!(not_sent(&["one"]), "1 waiting line was not sent: one");
        assert_eq!(not_sent(&["one\ntwo", "three"]), "2 waiting lines were not sent: one two; three");
    }
}
