//! The task of one session: passes prompts to the session, and sends its events as updates, in order.

mod options;
mod plan;
mod prompts;
mod replay;

use std::{collections::VecDeque, sync::Arc};

use patchbay_core::{Event, EventKind, LineId, MessageKind, Outcome, Task};
use patchbay_session::{Received, Session, Subscription};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinError, JoinSet},
};

use super::{
    client_files::ClientFiles,
    client_terminal::{ClientTerminal, NewTerminal},
    commands::SentCommands,
    config_options::SentOptions,
    files_before::files_before,
    handle::{Opening, SessionHandle, SessionMessage},
    open_prompts::{OpenPrompt, StopReason},
    permissions::{self, ClientApprover, PermissionMessage},
    tool_calls::STORED_PICTURE_BYTES,
    transcript::SessionTranscript,
    update,
};
use crate::params::ClientCapabilities;
use patchbay_jsonrpc::{Client, Outbox, Responder};

/// Length limit of a session's title, in characters.
pub(crate) const TITLE: usize = 80;
/// Limit of the questions that wait for the task, and of the terminals.
const QUESTIONS: usize = 8;

/// One open session of the client.
pub(crate) struct SessionTask {
    session: Arc<Session>,
    id: String,
    outbox: Outbox,
    client: Client,
    messages: mpsc::Receiver<SessionMessage>,
    questions: mpsc::Receiver<PermissionMessage>,
    terminals: mpsc::Receiver<NewTerminal>,
    events: Subscription,
    transcript: SessionTranscript,
    commands: SentCommands,
    options: SentOptions,
    /// The plan that the client has.
    plan: Vec<Task>,
    /// Number of options that are being set.
    setting: usize,
    prompts: VecDeque<OpenPrompt>,
    side_tasks: JoinSet<SideTaskEnd>,
    /// Tokens that the model in use can read.
    window: u64,
    has_title: bool,
    /// Whether the notices for the start of the session were sent.
    is_greeted: bool,
}

enum TaskWake {
    Message(Option<SessionMessage>),
    Event(Option<Received>),
    Question(PermissionMessage),
    Terminal(NewTerminal),
    SideTask(Result<SideTaskEnd, JoinError>),
    Idle,
}

/// The result of work that ran beside this task.
enum SideTaskEnd {
    /// An option was set, or not.
    OptionSet(Responder, Result<(), Outcome>),
    /// The client has given up the prompt of this line.
    GivenUp(LineId),
    /// A question about this tool call was answered.
    Answered { tool_call: String, is_allowed: bool },
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
        let (opened, terminals) = mpsc::channel(QUESTIONS);
        session.set_front_tools(ClientTerminal::of(&client, &id, session.workspace(), capabilities, opened));
        let events = session.subscribe(session.last_seq() + 1);
        let transcript = SessionTranscript::new(session.workspace(), session.view(), capabilities.shows_notices());
        let task = Self {
            session,
            id,
            outbox,
            client,
            messages,
            questions,
            terminals,
            events,
            transcript,
            commands: SentCommands::default(),
            options: SentOptions::default(),
            plan: Vec::new(),
            setting: 0,
            prompts: VecDeque::new(),
            side_tasks: JoinSet::new(),
            window: 0,
            has_title: false,
            is_greeted: false,
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
                Some(terminal) = self.terminals.recv() => TaskWake::Terminal(terminal),
                Some(end) = self.side_tasks.join_next() => TaskWake::SideTask(end),
                () = session.wait_idle(), if is_open => TaskWake::Idle,
            };
            match wake {
                TaskWake::Message(Some(SessionMessage::Opened(responder, opening))) => {
                    self.opened(responder, opening).await
                }
                TaskWake::Message(Some(SessionMessage::Prompt(responder, blocks, _room))) => {
                    self.prompt(responder, blocks).await;
                }
                TaskWake::Message(Some(SessionMessage::SetOption(responder, kind, value))) => {
                    self.set_option(responder, kind, value);
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
                TaskWake::Terminal(terminal) => self.show_terminal(terminal).await,
                TaskWake::SideTask(end) => self.side_task_ended(end).await,
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
        let options = self.all_options().await;
        let result = match opening {
            Opening::New => json!({"sessionId": self.id, "configOptions": options}),
            Opening::Load | Opening::Resume => json!({ "configOptions": options }),
        };
        responder.respond(Ok(result)).await;
        self.commands.reset();
        self.send_commands().await;
        self.has_title = false;
        self.send_title().await;
        if !std::mem::replace(&mut self.is_greeted, true) {
            let mut updates = Vec::new();
            self.session.notices().iter().for_each(|line| self.transcript.notice(line, false, &mut updates));
            self.send_all(updates).await;
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

    /// Reads the stored pictures of a tool's result, for the transcript.
    async fn read_pictures(&mut self, event: &Event) {
        if let Some(record) = event.kind.tool_result() {
            let pictures = self.session.pictures(&record, STORED_PICTURE_BYTES).await;
            self.transcript.set_pictures(pictures);
        }
    }

    async fn received(&mut self, received: Received) {
        let mut updates = Vec::new();
        let mut ended = None;
        let mut has_child_ended = false;
        let (may_change_options, may_change_plan);
        match received {
            Received::Lagged(_) => {
                (may_change_options, may_change_plan) = (true, true);
                self.transcript.lost(self.session.view(), &mut updates);
            }
            Received::Event(event) => {
                may_change_options = Session::may_change_options(&event.kind);
                may_change_plan =
                    matches!(event.kind, EventKind::Message { kind: MessageKind::Tool, .. } | EventKind::ViewMoved);
                match &event.kind {
                    EventKind::LineEnded { line, outcome } => ended = Some((*line, outcome.clone())),
                    EventKind::TurnEnded { outcome, .. } => {
                        let of_child = |prompt: &&mut OpenPrompt| prompt.child == Some(event.agent);
                        if let Some(prompt) = self.prompts.iter_mut().find(of_child) {
                            prompt.reason.get_or_insert(StopReason::of(outcome));
                            prompt.has_child_ended = true;
                            has_child_ended = true;
                        }
                    }
                    _ => {}
                }
                if event.agent == self.transcript.view()
                    && let Some(answer) = event.kind.answer()
                {
                    let before = files_before(&self.session, event.agent, event.seq, &answer).await;
                    self.transcript.set_files_before(before);
                }
                if event.agent == self.transcript.view() {
                    self.read_pictures(&event).await;
                }
                self.transcript.event(event, self.window, &mut updates);
            }
        }
        self.send_all(updates).await;
        if may_change_plan {
            self.send_plan().await;
        }
        if let Some((line, outcome)) = ended {
            self.line_ended(line, &outcome).await;
        }
        if has_child_ended {
            self.answer_cancelled().await;
        }
        if may_change_options {
            self.send_options().await;
        }
    }

    async fn drain(&mut self) {
        loop {
            let received = self.events.try_next().await;
            let Some(received) = self.readable(received) else { return };
            self.received(received).await;
        }
    }

    /// Asks the client on a separate task. Updates go on meanwhile.
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
        let (agent, topic) = (asked.question.agent, asked.question.subject.topic());
        let mut updates = Vec::new();
        let shown = self.transcript.question(agent, &asked.question.chain, &topic, &mut updates);
        self.send_all(updates).await;
        let (client, session) = (self.client.clone(), self.id.clone());
        self.side_tasks.spawn(async move {
            let is_allowed = permissions::ask(client, &session, &shown, asked).await;
            SideTaskEnd::Answered { tool_call: shown.call.id, is_allowed }
        });
    }

    /// Shows a terminal in its tool call.
    async fn show_terminal(&mut self, NewTerminal { call, id, shown }: NewTerminal) {
        // The call's own row may come after the terminal.
        self.drain().await;
        let mut updates = Vec::new();
        self.transcript.terminal_opened(self.session.id(), call, &id, &mut updates);
        self.send_all(updates).await;
        // An error means that the call was stopped.
        let _ = shown.send(());
    }

    async fn side_task_ended(&mut self, end: Result<SideTaskEnd, JoinError>) {
        match end {
            Ok(SideTaskEnd::OptionSet(responder, set)) => self.option_set(responder, set).await,
            Ok(SideTaskEnd::GivenUp(line)) => self.give_up(line).await,
            Ok(SideTaskEnd::Answered { tool_call, is_allowed }) => {
                let mut updates = Vec::new();
                self.transcript.question_answered(&tool_call, is_allowed, &mut updates);
                self.send_all(updates).await;
            }
            // The prompt that it waited for was answered.
            Err(error) if error.is_cancelled() => {}
            Err(error) => tracing::error!("a task of session {} panicked: {error}", self.id),
        }
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
