//! The task of one session: passes prompts to the session, and sends its events as updates, in order.

mod options;
mod others;
mod plan;
mod prompts;
mod replay;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use patchbay_core::{Event, EventKind, LineId, MessageKind, Outcome, Task};
use patchbay_session::{LineClient, Received, Seat, SeatEvent, Session, Subscription};
use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinError, JoinSet},
};

use self::others::AskedHere;
use super::{
    client_files::ClientFiles,
    client_terminal::{ClientTerminal, NewTerminal},
    commands::SentCommands,
    config_options::SentOptions,
    files_before::files_before,
    handle::{Opening, SessionHandle, SessionMessage},
    open_prompts::{OpenPrompt, StopReason},
    tool_calls::STORED_PICTURE_BYTES,
    transcript::SessionTranscript,
    update,
};
use crate::params::ClientCapabilities;
use patchbay_jsonrpc::{Client, Outbox, Responder, RpcError};

/// Length limit of a session's title, in characters.
pub(crate) const TITLE: usize = 80;
/// Limit of the client's new terminals that wait to be shown.
const TERMINALS: usize = 8;

/// One open session of the client.
pub(crate) struct SessionTask {
    session: Arc<Session>,
    id: String,
    outbox: Outbox,
    client: Client,
    messages: mpsc::Receiver<SessionMessage>,
    terminals: mpsc::Receiver<NewTerminal>,
    events: Subscription,
    transcript: SessionTranscript,
    commands: SentCommands,
    options: SentOptions,
    /// The plan that was last sent to the client.
    plan: Vec<Task>,
    /// Number of requests to set an option that are not answered yet.
    options_in_progress: usize,
    prompts: VecDeque<OpenPrompt>,
    side_tasks: JoinSet<SideTaskEnd>,
    seat: Seat,
    /// The questions that the client was asked, by number, each with the tool call that shows it.
    asked: BTreeMap<u64, AskedHere>,
    /// The context that a remote client adds to its lines; `None` for the editor that started this process.
    remote: Option<Arc<LineClient>>,
    /// The context window of the model in use, in tokens.
    window: u64,
    has_title: bool,
    /// Whether the notices for the start of the session were sent.
    is_greeted: bool,
}

enum TaskWake {
    Message(Option<SessionMessage>),
    Event(Option<Received>),
    Seat(SeatEvent),
    Closing,
    Terminal(NewTerminal),
    SideTask(Result<SideTaskEnd, JoinError>),
    Idle,
}

/// The result of a side task.
enum SideTaskEnd {
    /// A prompt that the client sent twice has ended, or the client has cancelled it.
    Repeated(Responder, Result<StopReason, RpcError>),
    /// An attempt to set an option has ended.
    OptionSet(Responder, Result<(), Outcome>),
    /// The client has cancelled the prompt of this line.
    GivenUp(LineId),
    /// The client was asked, and has answered or left.
    Asked,
}

impl SessionTask {
    pub(crate) fn new(
        seat: Seat,
        outbox: Outbox,
        client: Client,
        capabilities: &ClientCapabilities,
    ) -> (SessionHandle, Self) {
        let session = Arc::clone(seat.shared().session());
        let (handle, messages) = SessionHandle::new(Arc::clone(&session));
        let id = session.id().to_string();
        let editor = ClientFiles::of(&client, id.clone(), capabilities);
        let (opened, terminals) = mpsc::channel(TERMINALS);
        let terminal = ClientTerminal::of(&client, &id, session.workspace(), capabilities, opened);
        let remote = match seat.identity() {
            Some(identity) => Some(Arc::new(LineClient {
                identity: Some(identity.clone()),
                editor: editor.map(|editor| editor as _),
                tools: terminal.into_iter().collect(),
                key: None,
            })),
            None => {
                if let Some(files) = editor {
                    session.set_editor(files);
                }
                session.set_front_tools(terminal);
                None
            }
        };
        let last = session.last_seq();
        let events = session.subscribe(last + 1);
        let mut transcript = SessionTranscript::new(session.workspace(), session.view(), capabilities.shows_notices());
        transcript.set_row(last);
        let task = Self {
            session,
            id,
            outbox,
            client,
            messages,
            terminals,
            events,
            transcript,
            commands: SentCommands::default(),
            options: SentOptions::default(),
            plan: Vec::new(),
            options_in_progress: 0,
            prompts: VecDeque::new(),
            side_tasks: JoinSet::new(),
            seat,
            asked: BTreeMap::new(),
            remote,
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
                event = self.seat.next() => TaskWake::Seat(event),
                Some(terminal) = self.terminals.recv() => TaskWake::Terminal(terminal),
                Some(end) = self.side_tasks.join_next() => TaskWake::SideTask(end),
                () = session.wait_idle(), if is_open => TaskWake::Idle,
                () = session.closing() => TaskWake::Closing,
            };
            match wake {
                TaskWake::Message(Some(SessionMessage::Opened(responder, opening, left_out))) => {
                    self.opened(responder, opening, left_out).await
                }
                TaskWake::Message(Some(SessionMessage::Prompt(responder, blocks, key, _room))) => {
                    self.prompt(responder, blocks, key).await;
                }
                TaskWake::Message(Some(SessionMessage::SetOption(responder, kind, value))) => {
                    self.set_option(responder, kind, value);
                }
                TaskWake::Message(Some(SessionMessage::Cancel)) => self.cancel().await,
                TaskWake::Message(Some(SessionMessage::Close(responder, done))) => {
                    return self.close(responder, done).await;
                }
                TaskWake::Event(Some(received)) => self.received(received).await,
                // The connection is over, or the session has no more events.
                TaskWake::Message(None) | TaskWake::Event(None) => return self.leave().await,
                TaskWake::Seat(event) => self.learned(event).await,
                // Another client has deleted the session, or the server is shutting down.
                TaskWake::Closing => return self.closed_elsewhere().await,
                TaskWake::Terminal(terminal) => self.show_terminal(terminal).await,
                TaskWake::SideTask(end) => self.side_task_ended(end).await,
                TaskWake::Idle => self.idle().await,
            }
            self.seat.set_prompts(self.prompts.len());
        }
    }

    fn readable<E: std::fmt::Display>(&self, event: Result<Option<Received>, E>) -> Option<Received> {
        event.unwrap_or_else(|error| {
            tracing::error!("cannot read the events of session {}: {error}", self.id);
            None
        })
    }

    /// Responds to the request that opened the session. The commands are sent after the response, because clients ignore
    /// earlier updates about a session that they do not know yet.
    async fn opened(&mut self, responder: Responder, opening: Opening, left_out: Vec<String>) {
        let mut left_out = left_out;
        match &opening {
            Opening::Load => self.replay(None).await,
            Opening::Resume(Some(after)) if !self.is_greeted => {
                self.replay(Some(after)).await;
                // The client has shown these notices before.
                self.is_greeted = true;
                left_out.clear();
            }
            Opening::Resume(_) if !self.is_greeted => self.join_answer().await,
            Opening::New | Opening::Resume(_) => {}
        }
        let mut result = json!({ "configOptions": self.all_options().await });
        if opening == Opening::New {
            result["sessionId"] = json!(self.id);
        }
        self.respond(responder, Ok(result)).await;
        self.commands.reset();
        self.send_commands().await;
        self.has_title = false;
        self.send_title().await;
        if !std::mem::replace(&mut self.is_greeted, true) {
            let mut updates = Vec::new();
            self.session.notices().iter().for_each(|line| self.transcript.notice(line, false, &mut updates));
            self.send_all(updates).await;
        }
        let mut updates = Vec::new();
        left_out.iter().for_each(|line| self.transcript.notice(line, true, &mut updates));
        self.send_all(updates).await;
    }

    async fn close(mut self, responder: Option<Responder>, done: oneshot::Sender<()>) {
        match self.remote {
            // The turns continue, and the questions wait for another client.
            Some(_) if responder.is_none() => {}
            Some(_) if !self.seat.is_alone() => self.stop_own().await,
            _ => {
                self.cancel().await;
                self.session.close().await;
            }
        }
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
                    EventKind::LineEnded { line, outcome } => ended = Some((*line, outcome.clone(), event.seq)),
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
                    let before =
                        files_before(&self.session, &self.line_client(), event.agent, event.seq, &answer).await;
                    self.transcript.set_files_before(before);
                }
                if event.agent == self.transcript.view() {
                    self.read_pictures(&event).await;
                }
                let (seq, is_row) = (event.seq, matches!(event.kind, EventKind::Message { .. }));
                let is_of_others = self.is_of_others(&event);
                // A row that is shown with the end of its line counts as sent only then.
                let is_shown_later = !is_of_others && self.is_for_the_end_of_a_line(&event);
                match is_of_others {
                    true => drop(self.replay_row(event, None, &mut updates)),
                    false => self.transcript.event(event, self.window, &mut updates),
                }
                if is_row && !is_shown_later {
                    self.transcript.set_row(seq);
                }
            }
        }
        self.send_all(updates).await;
        if may_change_plan {
            self.send_plan().await;
        }
        if let Some((line, outcome, row)) = ended {
            self.transcript.set_row(row);
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

    /// Shows a terminal in its tool call.
    async fn show_terminal(&mut self, NewTerminal { call, id, shown }: NewTerminal) {
        // The event with the call's row may still wait to be handled.
        self.drain().await;
        let mut updates = Vec::new();
        self.transcript.terminal_opened(self.session.id(), call, &id, &mut updates);
        self.send_all(updates).await;
        // An error means that the call was stopped.
        let _ = shown.send(());
    }

    async fn side_task_ended(&mut self, end: Result<SideTaskEnd, JoinError>) {
        match end {
            Ok(SideTaskEnd::OptionSet(responder, set)) => self.answer_set_option(responder, set).await,
            Ok(SideTaskEnd::GivenUp(line)) => self.give_up(line).await,
            // `show_questions` handles the rest once the question is no longer open.
            Ok(SideTaskEnd::Asked) => {}
            Ok(SideTaskEnd::Repeated(responder, reason)) => {
                self.drain().await;
                self.respond(responder, reason.map(StopReason::result)).await;
            }
            // The prompt or the question that the task waited for was answered.
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

    /// Sends updates that belong together. For a remote client, only the last one has the new position; if the
    /// connection is lost before it arrives, the client drops the others.
    async fn send_all(&mut self, updates: Vec<Value>) {
        let last = updates.len().saturating_sub(1);
        for (at, update) in updates.into_iter().enumerate() {
            let mut params = json!({"sessionId": self.id, "update": update});
            match at == last {
                true => self.add_position(&mut params),
                false if self.remote.is_some() => update::extend(&mut params, "more", json!(true)),
                false => {}
            }
            if self.outbox.notify("session/update", &params).await.is_err() {
                return;
            }
        }
    }

    /// Responds to a request, with the client's new position.
    async fn respond(&mut self, responder: Responder, mut result: Result<Value, RpcError>) {
        result.iter_mut().for_each(|result| self.add_position(result));
        responder.respond(result).await;
    }

    fn add_position(&self, message: &mut Value) {
        if self.remote.is_some() {
            update::extend(message, "position", json!(self.transcript.position()));
        }
    }
}
