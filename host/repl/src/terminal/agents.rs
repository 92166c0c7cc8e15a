//! The agents of the session: which one is shown, what the terminal prints about the others, and how the view moves.
//! The loop in `terminal` calls these methods with events of agents and outcomes of commands.

use std::time::Instant;

use patchbay_core::{AgentId, Code, Event, EventKind, MessageKind, Outcome, RewoundData, text};

use super::{Front, typed_paths};
use crate::{ReplError, words};

/// Length limit of the texts in a notice about unsent lines, in characters: of each, and of all together.
const LINES: usize = 200;

impl Front {
    /// Follows the view, which has moved to `agent`. [`Front::join_if_due`] later prints the agent's conversation.
    pub(super) fn view_moved(&mut self, agent: AgentId) {
        self.conversation.transcript.end();
        self.events.only_deltas_of([agent]);
        self.conversation.view.id = agent;
        self.conversation.questions.set_view(agent);
        self.activity.busy.set_view(agent, false);
        self.activity.queue = self.session.queue();
        self.conversation.is_joining = true;
    }

    /// Prints the conversation of the agent that has come into view, unless a command that may move the
    /// view has not ended: its outcome is printed first.
    pub(super) async fn join_if_due(&mut self) -> Result<(), ReplError> {
        if !self.conversation.is_joining || self.activity.is_view_moving() {
            return Ok(());
        }
        let now = self.session.agent_in_view_now().await.map_err(|error| ReplError::Store(error.to_string()))?;
        // If the view has moved again, another `ViewMoved` follows.
        if now.id == self.conversation.view.id {
            self.conversation.is_joining = false;
            self.activity.busy.set_view(now.id, now.answer.is_some());
            self.conversation.transcript.join(&now, Instant::now());
            self.conversation.view = now;
            self.activity.take_queue(&self.session);
            self.conversation.is_outdated = true;
            self.window.change_now();
        }
        Ok(())
    }

    /// Reads the status of the agent in view for the status row, if it may have changed.
    pub(super) async fn update_status(&mut self) -> Result<(), ReplError> {
        if std::mem::take(&mut self.conversation.is_outdated) {
            self.conversation.model = self.session.model_in_use().await;
            let unread = self.session.unread_mail().await.map_err(|error| ReplError::Store(error.to_string()))?;
            self.conversation.view.unread = unread;
            self.conversation.view.tasks =
                self.session.tasks().await.map_err(|error| ReplError::Store(error.to_string()))?;
        }
        if std::mem::take(&mut self.conversation.has_lagged) {
            let tree = self.session.agent_tree().await.map_err(|error| ReplError::Store(error.to_string()))?;
            let working = tree.living.iter().filter(|agent| agent.state.is_turn()).map(|agent| agent.id);
            self.activity.busy.set_turns(working, Instant::now());
        }
        Ok(())
    }

    /// If a turn of the agent in view ends, shows the whole outcome. Shows at most one line for an event of another agent, or if
    /// any agent is killed. `show` prints the other events of the agent in view.
    pub(super) fn agent_event(&mut self, event: &Event, now: Instant) {
        let in_view = event.agent == self.conversation.view.id;
        match &event.kind {
            EventKind::TurnEnded { outcome, .. } => {
                let took = self.activity.busy.end_turn(event.agent, now);
                self.conversation.tell(event.agent, outcome);
                self.conversation.is_outdated = true;
                if in_view {
                    self.window.ring_if_long(took);
                    if outcome.code != Code::AgentDead {
                        self.conversation.transcript.outcome_after(took, outcome, true);
                    }
                    return;
                }
            }
            EventKind::AgentKilled => {
                self.conversation.view.is_dead |= in_view;
                // The outcome of the command reports it.
                if self.activity.busy.runs_command("/kill") {
                    return;
                }
                if in_view {
                    self.conversation.transcript.end();
                }
            }
            EventKind::MailArrived { .. } => self.conversation.is_outdated |= in_view,
            // A notification (a row of kind `user`) or a tool may have marked mail as read; a tool may have changed the tasks.
            EventKind::Message { kind: MessageKind::User | MessageKind::Tool, .. } if in_view => {
                self.conversation.is_outdated = true
            }
            // Notices about another agent's turn are not shown; other notices are for the user.
            EventKind::Notice { text } if !in_view && !self.activity.busy.runs_turn(event.agent) => {
                self.conversation.transcript.notice(text)
            }
            _ => {}
        }
        if let Some(line) = event.headline() {
            self.conversation.transcript.other_agent(&line);
        }
    }

    /// Puts the waiting lines of killed agents back into the composer, or names them if it is not empty. After a rewind,
    /// puts the message that the conversation was rewound to back into the composer, if it is empty.
    pub(super) fn give_back(&mut self, outcome: &Outcome) {
        if let Some(rewound) = outcome.rewound() {
            return self.put_back(rewound);
        }
        let lines = outcome.killed_lines();
        if lines.is_empty() {
            return;
        }
        if self.input.composer.is_empty() {
            self.input.composer.set(&text::clean(&lines.join("\n")));
            self.edited();
        } else {
            self.conversation.transcript.notice(&not_sent(lines));
        }
    }

    /// Puts the message that the conversation was rewound to into the composer, unless the composer has text. The words
    /// that name the message's files attach them again.
    fn put_back(&mut self, rewound: &RewoundData) {
        if self.input.composer.is_empty() {
            rewound.attached.iter().for_each(|path| self.input.composer.choose(&typed_paths::word_of(path)));
            self.input.composer.set(&text::clean(&rewound.text));
            self.edited();
        }
    }

    /// Stops the agents that work, reports how many, and leaves.
    pub(super) fn quit(&mut self, outcome: &Outcome) {
        let stopped = self.session.stop_all();
        if stopped > 0 {
            self.conversation.transcript.end();
            self.conversation.transcript.notice(&words::stopped(stopped));
        }
        self.conversation.transcript.outcome(outcome, true);
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
    fn lines_that_are_not_sent_are_named() {
        let not_sent = |lines: &[&str]| not_sent(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
        assert_eq!(not_sent(&["one"]), "1 waiting line was not sent: one");
        assert_eq!(not_sent(&["one\ntwo", "three"]), "2 waiting lines were not sent: one two; three");
    }
}
