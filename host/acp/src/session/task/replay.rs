//! The stored session, for a client that loads it: the conversation of the agent in view, with what it inherits, and a card for each
//! turn of another agent.

use patchbay_core::{Attachment, Event, EventKind, MessageKind, Outcome};
use patchbay_session::{Lineage, Received};
use serde_json::Value;

use super::{
    super::update::{ChunkKind, chunk},
    SessionTask,
};

impl SessionTask {
    /// Sends the stored rows.
    pub(super) async fn replay(&mut self) {
        let last = self.session.last_seq();
        self.events = self.session.subscribe(1);
        self.transcript.replay_began(self.session.view());
        self.transcript.set_skills(self.session.snapshot());
        self.window = self.session.model_in_use().await.map_or(0, |model| model.window);
        let lineage = self.session.lineage().await.unwrap_or_else(|error| {
            tracing::error!("the conversation of session {} cannot be read: {error}", self.id);
            Lineage::default()
        });
        let mut read = 0;
        while read < last {
            let received = self.events.try_next().await;
            let Some(Received::Event(event)) = self.readable(received) else { break };
            read = event.seq;
            let mut updates = Vec::new();
            match lineage.has(&event) {
                true => self.replay_row(event, &mut updates),
                false => self.replay_row_of_other(event, &mut updates).await,
            }
            self.send_all(updates).await;
        }
        let mut updates = Vec::new();
        self.transcript.replayed(!self.prompts.is_empty(), &mut updates);
        // Turns that still run go on after the answer.
        if !self.session.is_answering() {
            self.transcript.idle(&mut updates);
        }
        self.send_all(updates).await;
    }

    fn replay_row(&mut self, event: Event, updates: &mut Vec<Value>) {
        // Rows of ancestors are part of this conversation.
        let event = Event { agent: self.transcript.view(), ..event };
        let EventKind::Message { kind, content, data } = &event.kind else { return };
        let is_notification = data.as_ref().is_some_and(|data| data.get("notification").is_some());
        match kind {
            MessageKind::User if is_notification => self.transcript.event(event, self.window, updates),
            MessageKind::User | MessageKind::Skill | MessageKind::Command | MessageKind::Capture => {
                let files = event.kind.attachments();
                let lines = std::iter::once(content.clone()).filter(|text| !text.trim().is_empty());
                let lines: Vec<String> = lines.chain(files.iter().map(Attachment::placeholder)).collect();
                updates.push(chunk(ChunkKind::User, &format!("row {}", event.seq), &lines.join("\n")));
                let outcome = data.as_ref().and_then(|data| serde_json::from_value::<Outcome>(data.clone()).ok());
                if let Some(outcome) = outcome.filter(|_| *kind == MessageKind::Command) {
                    self.transcript.outcome(&outcome, updates);
                }
            }
            MessageKind::Notice => self.transcript.say(content, updates),
            _ => self.transcript.event(event, self.window, updates),
        }
    }

    async fn replay_row_of_other(&mut self, event: Event, updates: &mut Vec<Value>) {
        let turn = match &event.kind {
            EventKind::Message { kind: MessageKind::User | MessageKind::Skill, .. } => {
                self.session.turn_from(event.seq).await.unwrap_or_else(|error| {
                    tracing::error!("a turn of session {} cannot be read: {error}", self.id);
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
