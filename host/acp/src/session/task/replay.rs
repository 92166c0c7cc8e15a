//! Replays the stored session to a client that loads or resumes it: the conversation of the agent in view, including inherited
//! rows, and a card for each turn of another agent.

use patchbay_core::{Attachment, Code, Event, EventKind, MessageKind, Outcome};
use patchbay_session::{Received, ViewRows};
use serde_json::Value;

use super::{super::position::Position, SessionTask};

/// The part of a command's row that clients show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShownCommand {
    /// The line and its outcome.
    Whole,
    /// The outcome. The rows before it show the line.
    Outcome,
    /// Nothing. The rows before it show the turn that the command began.
    Nothing,
}

impl SessionTask {
    /// Sends the session, or the part after `after`. Earlier rows are processed as well, because later rows refer to
    /// them.
    pub(super) async fn replay(&mut self, after: Option<&Position>) {
        self.events = self.session.subscribe(1);
        // Read only once: if the answer ends during the replay, it is not lost, because its row follows.
        let is_answering = self.session.is_answering();
        let joined = match self.remote.is_some() && is_answering {
            true => self.session.agent_in_view_now().await.ok(),
            false => None,
        };
        let last = joined.as_ref().map_or_else(|| self.session.last_seq(), |joined| joined.seq);
        self.transcript.replay_began(self.session.view());
        self.plan.clear();
        self.transcript.set_skills(self.session.snapshot());
        self.window = self.session.model_in_use().await.map_or(0, |model| model.window);
        let rows = self.session.view_rows().await.unwrap_or_else(|error| {
            tracing::error!("cannot read the conversation of session {}: {error}", self.id);
            ViewRows::default()
        });
        let (mut read, mut last_notice, mut resuming) = (0, None, after);
        while read < last {
            let received = self.events.try_next().await;
            let Some(Received::Event(event)) = self.readable(received) else { break };
            read = event.seq;
            if let Some(after) = resuming.take_if(|after| after.row < read) {
                self.transcript.resume(after);
            }
            let mut updates = Vec::new();
            match rows.has(&event) {
                true => {
                    if resuming.is_none() {
                        self.read_pictures(&event).await;
                    }
                    last_notice = self.replay_row(event, last_notice, &mut updates);
                }
                false => self.replay_row_of_other(event, &mut updates).await,
            }
            self.transcript.set_row(read);
            if resuming.is_none() {
                self.send_all(updates).await;
            }
        }
        if let Some(after) = resuming {
            self.transcript.resume(after);
        }
        if let Some(joined) = joined {
            self.joined(&joined, after.is_none()).await;
        }
        let mut updates = Vec::new();
        self.transcript.replayed(!self.prompts.is_empty(), &mut updates);
        // Turns that still run continue after the response.
        if !is_answering {
            self.transcript.idle(&mut updates);
        }
        self.send_all(updates).await;
        self.send_plan().await;
    }

    /// Shows a row of the conversation. `last_notice` is the text of the previous row if that was a notice. Returns the same for
    /// the next row.
    pub(super) fn replay_row(
        &mut self,
        event: Event,
        last_notice: Option<String>,
        updates: &mut Vec<Value>,
    ) -> Option<String> {
        // Rows of ancestors are part of this conversation.
        let event = Event { agent: self.transcript.view(), ..event };
        let EventKind::Message { kind, content, data } = &event.kind else { return last_notice };
        match kind {
            MessageKind::User if event.kind.is_notification() => self.transcript.event(event, self.window, updates),
            MessageKind::User | MessageKind::Skill | MessageKind::Capture => {
                let files = event.kind.attachments();
                let text = if *kind == MessageKind::Skill { skill_line(data.as_ref()) } else { content.clone() };
                let lines = std::iter::once(text).filter(|text| !text.trim().is_empty());
                let lines: Vec<String> = lines.chain(files.iter().map(Attachment::placeholder)).collect();
                self.transcript.lost_before(&event, updates);
                self.transcript.stored_message(event.seq, &lines.join("\n"), key_of(data.as_ref()), updates);
            }
            MessageKind::Command => {
                let outcome = data.as_ref().and_then(|data| serde_json::from_value::<Outcome>(data.clone()).ok());
                let shown =
                    outcome.as_ref().map_or(ShownCommand::Whole, |outcome| of_command(outcome, last_notice.as_deref()));
                if shown == ShownCommand::Whole {
                    self.transcript.stored_message(event.seq, content, key_of(data.as_ref()), updates);
                }
                if let Some(outcome) = outcome.filter(|_| shown != ShownCommand::Nothing) {
                    self.transcript.outcome(&outcome, updates);
                }
            }
            MessageKind::Notice => {
                self.transcript.say(content, updates);
                return Some(content.clone());
            }
            _ => {
                if let Some(answer) = event.kind.answer() {
                    self.transcript.stored_thoughts(event.seq, &answer, updates);
                }
                self.transcript.event(event, self.window, updates);
            }
        }
        None
    }

    async fn replay_row_of_other(&mut self, event: Event, updates: &mut Vec<Value>) {
        let turn = match &event.kind {
            EventKind::Message { kind: MessageKind::User | MessageKind::Skill, .. } => {
                self.session.turn_from(event.seq).await.unwrap_or_else(|error| {
                    tracing::error!("cannot read a turn of session {}: {error}", self.id);
                    None
                })
            }
            _ => None,
        };
        match turn {
            Some(turn) => self.transcript.stored_turn(event.agent, event.seq, turn, updates),
            None => self.transcript.event(event, self.window, updates),
        }
    }
}

/// Returns the key with which the client sent the line of a row.
pub(super) fn key_of(data: Option<&Value>) -> Option<&str> {
    data?.get("key")?.as_str()
}

/// Returns the line that added the instructions of a skill, with the input if the row has it.
fn skill_line(data: Option<&Value>) -> String {
    let word = |key| data.and_then(|data| data.get(key)).and_then(Value::as_str).unwrap_or_default();
    format!("/skill {} {}", word("skill"), word("input")).trim_end().to_owned()
}

/// Returns which part of a command with this outcome is shown.
fn of_command(outcome: &Outcome, last_notice: Option<&str>) -> ShownCommand {
    match outcome.code {
        Code::Answered => ShownCommand::Nothing,
        // The failed turn has already shown this as a notice.
        _ if last_notice == Some(&*outcome.line()) => ShownCommand::Nothing,
        Code::SkillAdded => ShownCommand::Outcome,
        _ => ShownCommand::Whole,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn instructions_are_shown_as_the_line_that_added_them() {
        let shown = |data: Value| skill_line(Some(&data));
        assert_eq!(shown(json!({"skill": "planner", "input": "build it"})), "/skill planner build it");
        assert_eq!(shown(json!({"skill": "planner"})), "/skill planner");
    }

    #[test]
    fn turn_of_a_command_is_shown_once() {
        let failed = Outcome::error(Code::ProviderServer, "demo: it broke.");
        let notice = Some("Error: demo: it broke.".to_owned());
        for (outcome, last_notice, expected) in [
            (Outcome::ok(Code::Answered, ""), None, ShownCommand::Nothing),
            (failed.clone(), notice.clone(), ShownCommand::Nothing),
            (failed, None, ShownCommand::Whole),
            (Outcome::ok(Code::SkillAdded, "Skill 'x' is in the conversation."), None, ShownCommand::Outcome),
            (Outcome::ok(Code::ToolResult, "42"), notice, ShownCommand::Whole),
        ] {
            assert_eq!(of_command(&outcome, last_notice.as_deref()), expected, "{outcome:?}");
        }
    }
}
