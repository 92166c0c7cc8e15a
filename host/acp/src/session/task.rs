//! The task of one session: passes prompts to the session, and sends its events as updates, in order.

use std::{collections::VecDeque, sync::Arc};

use patchbay_core::{Event, EventKind, LineId, MessageKind, Outcome};
use patchbay_session::{Received, Session, Subscription};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::{
    client_files::ClientFiles,
    commands::SentCommands,
    handle::{Opening, SessionHandle, SessionMessage},
    open_prompts::{OpenPrompt, StopReason, child_with_turn},
    permissions::{self, ClientApprover, PermissionMessage},
    transcript::SessionTranscript,
    update::{self, ChunkKind, chunk},
};
use crate::{
    connection::TITLE,
    params::{ClientCapabilities, ContentBlock},
    prompt,
    wire::{Client, Outbox, Responder},
};

/// Questions that wait for the task.
const QUESTIONS: usize = 8;

/// One open session of the client.
pub(crate) struct SessionTask {
    session: Arc<Session>,
    id: String,
    outbox: Outbox,
    client: Client,
    messages: mpsc::Receiver<SessionMessage>,
    questions: mpsc::Receiver<PermissionMessage>,
    events: Subscription,
    transcript: SessionTranscript,
    commands: SentCommands,
    prompts: VecDeque<OpenPrompt>,
    /// Tokens that the model in use can read.
    window: u64,
    shows_notices: bool,
    has_title: bool,
    asked: u64,
}

/// What wakes the task.
enum TaskWake {
    Message(Option<SessionMessage>),
    Event(Option<Received>),
    Question(PermissionMessage),
    Idle,
}

impl SessionTask {
    pub(crate) fn new(
        session: Arc<Session>,
        outbox: Outbox,
        client: Client,
        capabilities: &ClientCapabilities,
    ) -> (SessionHandle, Self) {
        let (handle, messages) = SessionHandle::new(Arc::clone(&session));
        let (sender, questions) = mpsc::channel(QUESTIONS);
        session.set_approver(Arc::new(ClientApprover(sender)));
        let id = session.id().to_string();
        if let Some(files) = ClientFiles::of(&client, id.clone(), capabilities) {
            session.set_editor(files);
        }
        let events = session.subscribe(session.last_seq() + 1);
        let shows_notices = capabilities.shows_notices();
        let transcript = SessionTranscript::new(session.workspace(), session.view(), shows_notices);
        let task = Self {
            session,
            id,
            outbox,
            client,
            messages,
            questions,
            events,
            transcript,
            commands: SentCommands::default(),
            prompts: VecDeque::new(),
            window: 0,
            shows_notices,
            has_title: false,
            asked: 0,
        };
        (handle, task)
    }

    /// Runs until the session is closed.
    pub(crate) async fn run(mut self) {
        let session = Arc::clone(&self.session);
        loop {
            let is_open = !self.prompts.is_empty();
            let wake = tokio::select! {
                biased;
                message = self.messages.recv() => TaskWake::Message(message),
                event = self.events.next() => TaskWake::Event(self.readable(event)),
                Some(question) = self.questions.recv() => TaskWake::Question(question),
                () = session.wait_idle(), if is_open => TaskWake::Idle,
            };
            match wake {
                TaskWake::Message(Some(SessionMessage::Opened(responder, opening))) => {
                    self.opened(responder, opening).await
                }
                TaskWake::Message(Some(SessionMessage::Prompt(responder, blocks))) => {
                    self.prompt(responder, blocks).await
                }
                TaskWake::Message(Some(SessionMessage::Cancel)) => self.cancel().await,
                TaskWake::Message(Some(SessionMessage::Close(responder, done))) => {
                    return self.close(responder, done).await;
                }
                TaskWake::Message(None) => return self.session.close().await,
                TaskWake::Event(Some(received)) => self.received(received).await,
                // The session ends with its process.
                TaskWake::Event(None) => return self.session.close().await,
                TaskWake::Question(question) => self.ask(question).await,
                TaskWake::Idle => self.idle().await,
            }
        }
    }

    fn readable<E: std::fmt::Display>(&self, event: Result<Option<Received>, E>) -> Option<Received> {
        event.unwrap_or_else(|error| {
            tracing::error!("the events of session {} cannot be read: {error}", self.id);
            None
        })
    }

    /// Answers the request that opened the session, then sends its commands: clients lose what comes before the answer.
    async fn opened(&mut self, responder: Responder, opening: Opening) {
        if opening == Opening::Load {
            self.replay().await;
        }
        let result = match opening {
            Opening::New => json!({ "sessionId": self.id }),
            Opening::Load | Opening::Resume => json!({}),
        };
        responder.respond(Ok(result)).await;
        self.commands.reset();
        self.send_commands().await;
        for notice in self.session.notices() {
            tracing::info!("{notice}");
        }
    }

    /// Sends the stored conversation of the agent in view.
    async fn replay(&mut self) {
        let last = self.session.last_seq();
        self.events = self.session.subscribe(1);
        self.transcript = SessionTranscript::new(self.session.workspace(), self.session.view(), self.shows_notices);
        self.window = self.session.model_in_use().await.map_or(0, |model| model.window);
        let mut read = 0;
        while read < last {
            let received = self.events.try_next().await;
            let Some(Received::Event(event)) = self.readable(received) else { break };
            read = event.seq;
            let mut updates = Vec::new();
            self.replay_row(event, &mut updates);
            self.send_all(updates).await;
        }
        let mut updates = Vec::new();
        self.transcript.idle(&mut updates);
        self.send_all(updates).await;
    }

    fn replay_row(&mut self, event: Event, updates: &mut Vec<Value>) {
        let in_view = event.agent == self.transcript.view();
        match &event.kind {
            EventKind::Message { kind, content, data } if in_view => {
                let is_notification = data.as_ref().is_some_and(|data| data.get("notification").is_some());
                match kind {
                    MessageKind::User if is_notification => self.transcript.event(event, self.window, updates),
                    MessageKind::User | MessageKind::Skill | MessageKind::Command | MessageKind::Capture => {
                        updates.push(chunk(ChunkKind::User, &format!("row {}", event.seq), content));
                        let outcome =
                            data.as_ref().and_then(|data| serde_json::from_value::<Outcome>(data.clone()).ok());
                        if let Some(outcome) = outcome.filter(|_| *kind == MessageKind::Command) {
                            self.transcript.outcome(&outcome, updates);
                        }
                    }
                    _ => self.transcript.event(event, self.window, updates),
                }
            }
            _ => {}
        }
    }

    async fn prompt(&mut self, responder: Responder, blocks: Vec<ContentBlock>) {
        let input = match prompt::line(&self.session, blocks).await {
            Ok(input) => input,
            Err(outcome) => return self.refuse(responder, &outcome).await,
        };
        self.window = self.session.model_in_use().await.map_or(0, |model| model.window);
        if self.prompts.is_empty() {
            self.transcript.prompt_began();
        }
        let is_command = input.text.starts_with('/');
        let submitted = self.session.submit_input(input);
        let line = submitted.id();
        self.prompts.push_back(OpenPrompt { responder, line, submitted, is_command, reason: None, child: None });
    }

    /// Answers a prompt that cannot be submitted, with the reason as text.
    async fn refuse(&mut self, responder: Responder, outcome: &Outcome) {
        let mut updates = Vec::new();
        if self.prompts.is_empty() {
            self.transcript.prompt_began();
        }
        self.transcript.outcome(outcome, &mut updates);
        self.send_all(updates).await;
        responder.respond(Ok(stop(StopReason::EndTurn))).await;
    }

    /// Stops everything that runs and takes back what waits. Prompts are answered when all agents are idle.
    async fn cancel(&mut self) {
        for prompt in &mut self.prompts {
            prompt.reason = Some(StopReason::Cancelled);
        }
        self.session.stop_all();
        let lines: Vec<LineId> = self.prompts.iter().map(|prompt| prompt.line).collect();
        for line in lines {
            if self.session.take_back(line).await.is_none() {
                self.session.stop(line);
            }
        }
    }

    async fn close(mut self, responder: Option<Responder>, done: oneshot::Sender<()>) {
        self.cancel().await;
        self.session.close().await;
        self.drain().await;
        self.answer_all().await;
        if let Some(responder) = responder {
            responder.respond(Ok(json!({}))).await;
        }
        // An error means that the connection has ended.
        let _ = done.send(());
        self.messages.close();
        while let Ok(message) = self.messages.try_recv() {
            message.refuse().await;
        }
    }

    async fn received(&mut self, received: Received) {
        let mut updates = Vec::new();
        let mut ended = None;
        match received {
            Received::Lagged(_) => self.transcript.lost(self.session.view(), &mut updates),
            Received::Event(event) => {
                match &event.kind {
                    EventKind::LineEnded { line, outcome } => ended = Some((*line, outcome.clone())),
                    EventKind::TurnEnded { outcome, .. } => {
                        let of_child = |prompt: &&mut OpenPrompt| prompt.child == Some(event.agent);
                        if let Some(prompt) = self.prompts.iter_mut().find(of_child) {
                            prompt.reason.get_or_insert(StopReason::of(outcome));
                        }
                    }
                    _ => {}
                }
                self.transcript.event(event, self.window, &mut updates);
            }
        }
        self.send_all(updates).await;
        if let Some((line, outcome)) = ended {
            self.line_ended(line, &outcome).await;
        }
    }

    /// Shows the outcome of a prompt's line. A command that began nothing is answered at once if other prompts are open; else it
    /// may still have given agents something to do, such as mail to read.
    async fn line_ended(&mut self, line: LineId, outcome: &Outcome) {
        let Some(at) = self.prompts.iter().position(|prompt| prompt.line == line) else { return };
        let mut updates = Vec::new();
        let reason = StopReason::of(outcome);
        let is_shown = outcome.code != patchbay_core::Code::Answered && reason != StopReason::Cancelled;
        if is_shown && !outcome.line().is_empty() {
            self.transcript.outcome(outcome, &mut updates);
        }
        self.send_all(updates).await;
        self.send_title().await;
        self.send_commands().await;
        let others = self.prompts.len() > 1;
        let prompt = &mut self.prompts[at];
        prompt.child = child_with_turn(outcome);
        if prompt.child.is_none() {
            prompt.reason.get_or_insert(reason);
        }
        let is_done =
            others && prompt.is_command && prompt.child.is_none() && outcome.code != patchbay_core::Code::Answered;
        if is_done && let Some(prompt) = self.prompts.remove(at) {
            let reason = prompt.reason.unwrap_or(StopReason::EndTurn);
            prompt.responder.respond(Ok(stop(reason))).await;
        }
    }

    /// Answers all prompts: no agent works.
    async fn idle(&mut self) {
        self.drain().await;
        // The events of lines that have ended may have been lost.
        while let Some(at) = self.prompts.iter().position(|prompt| prompt.reason.is_none() && prompt.child.is_none()) {
            let line = self.prompts[at].line;
            // After a turn that failed, lines wait until the user decides. A client has no way to show them, so that they would be
            // sent behind a later prompt.
            if self.session.take_back(line).await.is_some() {
                let mut updates = Vec::new();
                self.transcript.say(
                    "The turn before failed, so this message was not sent. To send it, give it again.",
                    &mut updates,
                );
                self.send_all(updates).await;
                self.prompts[at].reason = Some(StopReason::EndTurn);
                continue;
            }
            let outcome = (&mut self.prompts[at].submitted).await;
            self.line_ended(line, &outcome).await;
        }
        let mut updates = Vec::new();
        self.transcript.idle(&mut updates);
        self.send_all(updates).await;
        self.answer_all().await;
    }

    async fn drain(&mut self) {
        loop {
            let received = self.events.try_next().await;
            let Some(received) = self.readable(received) else { return };
            self.received(received).await;
        }
    }

    async fn answer_all(&mut self) {
        for prompt in std::mem::take(&mut self.prompts) {
            prompt.responder.respond(Ok(stop(prompt.reason.unwrap_or(StopReason::EndTurn)))).await;
        }
    }

    /// Asks the client on a task of its own, so that updates go on.
    async fn ask(&mut self, asked: PermissionMessage) {
        let asked = match asked {
            PermissionMessage::Asked(asked) => *asked,
            PermissionMessage::NotStored(line) => {
                let mut updates = Vec::new();
                self.transcript.say(&line, &mut updates);
                return self.send_all(updates).await;
            }
        };
        // The call's own row may come after the question.
        self.drain().await;
        let tool = asked.question.chain.first().map(String::as_str).unwrap_or_default();
        // Calls of other agents are no tool calls of the client.
        let is_in_view = asked.question.agent == self.transcript.view();
        let id = self.transcript.open_call(tool).filter(|_| is_in_view).unwrap_or_else(|| {
            self.asked += 1;
            format!("question-{}", self.asked)
        });
        tokio::spawn(permissions::ask(self.client.clone(), self.id.clone(), id, asked));
    }

    async fn send_commands(&mut self) {
        if let Some(update) = self.commands.update(&self.session) {
            self.send_all(vec![update]).await;
        }
    }

    /// Sends the title once the session has one.
    async fn send_title(&mut self) {
        if self.has_title {
            return;
        }
        if let Some(title) = self.session.title(TITLE).await {
            self.has_title = true;
            self.send_all(vec![update::title(&title)]).await;
        }
    }

    async fn send_all(&mut self, updates: Vec<Value>) {
        for update in updates {
            let params = json!({"sessionId": self.id, "update": update});
            if self.outbox.notify("session/update", &params).await.is_err() {
                return;
            }
        }
    }
}

/// Returns the result of a prompt.
fn stop(reason: StopReason) -> Value {
    json!({ "stopReason": reason.as_str() })
}
