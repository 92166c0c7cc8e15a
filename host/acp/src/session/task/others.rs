//! Events that concern all clients of a session: its questions, the other clients' lines, and how this client joins and leaves.

use std::sync::Arc;

use patchbay_core::{Event, EventKind, LineId, MessageKind};
use patchbay_session::{LineClient, OpenQuestion, SeatEvent};
use tokio::task::AbortHandle;

use super::{
    super::{
        open_prompts::{OpenPrompt, StopReason},
        permissions,
    },
    SessionTask, SideTaskEnd,
    replay::key_of,
};

/// How many attempts are made to show an unfinished answer. An attempt fails if a row is stored meanwhile. After that, the rest of
/// the answer is sent with its row.
const JOINS: u32 = 5;

/// A question that the client was asked.
pub(super) struct AskedHere {
    question: Arc<OpenQuestion>,
    tool_call: String,
    asking: AbortHandle,
}

impl SessionTask {
    pub(super) async fn learned(&mut self, event: SeatEvent) {
        match event {
            SeatEvent::Questions(open) => self.show_questions(open).await,
            SeatEvent::Told(line) => {
                let mut updates = Vec::new();
                self.transcript.notice(&line, false, &mut updates);
                self.send_all(updates).await;
            }
        }
    }

    /// Sends new questions to the client, and withdraws answered ones.
    async fn show_questions(&mut self, open: Vec<Arc<OpenQuestion>>) {
        let over = self.asked.keys().copied().filter(|id| !open.iter().any(|question| question.id == *id));
        for id in over.collect::<Vec<_>>() {
            let Some(AskedHere { question, tool_call, asking }) = self.asked.remove(&id) else { continue };
            asking.abort();
            let mut updates = Vec::new();
            self.transcript.question_answered(&tool_call, question.is_allowed(), &mut updates);
            self.send_all(updates).await;
        }
        let may_answer = self.seat.identity().is_none_or(|identity| identity.may.answers);
        for question in open.into_iter().filter(|_| may_answer) {
            if !self.asked.contains_key(&question.id) {
                self.ask(question).await;
            }
        }
    }

    /// Asks the client in a side task; updates continue meanwhile.
    async fn ask(&mut self, asked: Arc<OpenQuestion>) {
        // The event with the call's row may still wait to be handled.
        self.drain().await;
        let (agent, topic) = (asked.question.agent, asked.question.subject.topic());
        let mut updates = Vec::new();
        let shown = self.transcript.question(agent, &asked.question.chain, &topic, &mut updates);
        self.send_all(updates).await;
        let (client, session, identity) = (self.client.clone(), self.id.clone(), self.seat.identity().cloned());
        let (question, tool_call) = (Arc::clone(&asked), shown.call.id.clone());
        let asking = self.side_tasks.spawn(async move {
            permissions::ask(client, &session, &shown, &question, identity.as_ref()).await;
            SideTaskEnd::Asked
        });
        self.asked.insert(asked.id, AskedHere { question: asked, tool_call, asking });
    }

    /// Returns whether this is a row about a line of another client, or a notice that no prompt of this client shows.
    pub(super) fn is_of_others(&mut self, event: &Event) -> bool {
        let EventKind::Message { kind, content, data } = &event.kind else { return false };
        if self.remote.is_none() || event.agent != self.transcript.view() {
            return false;
        }
        match kind {
            MessageKind::User if event.kind.is_notification() => false,
            MessageKind::User | MessageKind::Skill | MessageKind::Capture | MessageKind::Command => {
                let key = key_of(data.as_ref());
                let is_own = |prompt: &&mut OpenPrompt| match &prompt.key {
                    Some(own) => key == Some(own.as_str()),
                    // The row of `/skill` contains the instructions, not the typed line.
                    None => {
                        let is_typed = |typed: &String| typed == content || *kind == MessageKind::Skill;
                        prompt.typed.as_ref().is_some_and(is_typed)
                    }
                };
                let own = self.prompts.iter_mut().find(is_own);
                match own {
                    Some(prompt) if prompt.key.is_some() => {
                        prompt.typed = None;
                        false
                    }
                    Some(prompt) if *kind == MessageKind::Skill => prompt.typed.is_none(),
                    Some(prompt) => prompt.typed.take().is_none(),
                    // While this client sets an option, the row of a command is about that option.
                    None => *kind != MessageKind::Command || self.options_in_progress == 0,
                }
            }
            MessageKind::Notice => self.prompts.is_empty() || data.is_some(),
            MessageKind::Assistant | MessageKind::Tool | MessageKind::Compaction => false,
        }
    }

    /// Returns whether this row is shown later, when the line of an open prompt ends.
    pub(super) fn is_for_the_end_of_a_line(&self, event: &Event) -> bool {
        let EventKind::Message { kind: MessageKind::Command | MessageKind::Notice, .. } = event.kind else {
            return false;
        };
        event.agent == self.transcript.view() && !self.prompts.is_empty()
    }

    /// Returns the client whose editor and tools are used. A remote client without open prompts offers none.
    pub(super) fn line_client(&self) -> Arc<LineClient> {
        match &self.remote {
            None => self.session.front(),
            Some(client) if !self.prompts.is_empty() => Arc::clone(client),
            Some(_) => Arc::default(),
        }
    }

    /// Sends the text of an answer that the model is writing. The pieces that follow continue it.
    pub(super) async fn join_answer(&mut self) {
        if self.remote.is_none() {
            return;
        }
        for _ in 0..JOINS {
            let last = self.session.last_seq();
            self.events = self.session.subscribe(last + 1);
            match self.session.agent_in_view_now().await {
                Ok(now) if now.seq == last => return self.joined(&now, true).await,
                Ok(_) => {}
                Err(error) => tracing::error!("cannot join the answer of session {}: {error}", self.id),
            }
        }
    }

    /// Shows the unfinished answer of the agent in view. A new client is also shown the waiting lines.
    pub(super) async fn joined(&mut self, now: &patchbay_session::AgentInView, is_new: bool) {
        let mut updates = Vec::new();
        self.transcript.join(now.id, now.seq, now.answer.as_ref(), &mut updates);
        for line in self.session.queue().lines.into_iter().filter(|_| is_new) {
            let text = patchbay_core::text::excerpt(&line.text, 200);
            self.transcript.notice(&format!("Waiting line: {text}"), false, &mut updates);
        }
        self.send_all(updates).await;
    }

    /// Stops only the lines of this client.
    pub(super) async fn stop_own(&mut self) {
        let lines: Vec<LineId> = self.prompts.iter().map(|prompt| prompt.line).collect();
        for line in lines {
            if self.session.take_back(line).await.is_none() {
                self.session.stop(line);
            }
        }
        self.prompts.iter_mut().for_each(|prompt| prompt.reason = Some(StopReason::Cancelled));
    }

    /// Ends the task because the connection is over. A remote client leaves the session open; the editor that started this process
    /// closes it.
    pub(super) async fn leave(self) {
        if self.remote.is_none() {
            self.session.close().await;
        }
    }

    /// Ends the task because the session was closed elsewhere. Open prompts are answered as cancelled.
    pub(super) async fn closed_elsewhere(mut self) {
        self.session.close().await;
        self.drain().await;
        for prompt in &mut self.prompts {
            prompt.reason.get_or_insert(StopReason::Cancelled);
        }
        self.answer_all().await;
        self.messages.close();
        while let Ok(message) = self.messages.try_recv() {
            message.refuse().await;
        }
    }
}
