//! Passes messages to the task of a session. `connection` has a handle for each open session.

use std::sync::Arc;

use patchbay_session::{OptionKind, Session};
use tokio::sync::{mpsc, oneshot};

use super::position::Position;
use crate::params::ContentBlock;
use patchbay_jsonrpc::{LinePermit, Responder, RpcError};

/// Limit of the messages that wait for the session's task. A client that sends more has to wait.
const WAITING: usize = 64;

/// How a client opened a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// `session/new`: the client has created the session.
    New,
    /// `session/load`: the conversation is replayed.
    Load,
    /// `session/resume`: without a replay, or with everything after the client's position.
    Resume(Option<Position>),
}

pub(super) enum SessionMessage {
    /// The client opened the session, and the task responds. The strings are lines about MCP servers that are left out.
    Opened(Responder, Opening, Vec<String>),
    /// A prompt with its key, and the permit of its line, which is released once the prompt is submitted.
    Prompt(Responder, Vec<ContentBlock>, Option<String>, LinePermit),
    /// An option is set to another value.
    SetOption(Responder, OptionKind, String),
    /// Everything that runs is stopped.
    Cancel,
    /// The session is closed, and the task ends.
    Close(Option<Responder>, oneshot::Sender<()>),
}

/// Sends messages to the task of a session.
#[derive(Clone)]
pub(crate) struct SessionHandle {
    messages: mpsc::Sender<SessionMessage>,
    session: Arc<Session>,
}

impl SessionHandle {
    pub(super) fn new(session: Arc<Session>) -> (Self, mpsc::Receiver<SessionMessage>) {
        let (messages, receiver) = mpsc::channel(WAITING);
        (Self { messages, session }, receiver)
    }

    /// Passes the request that opened the session.
    pub(crate) async fn opened(&self, responder: Responder, opening: Opening, left_out: Vec<String>) {
        self.send(SessionMessage::Opened(responder, opening, left_out)).await;
    }

    pub(crate) async fn prompt(
        &self,
        responder: Responder,
        blocks: Vec<ContentBlock>,
        key: Option<String>,
        permit: LinePermit,
    ) {
        self.send(SessionMessage::Prompt(responder, blocks, key, permit)).await;
    }

    /// Passes a new value of an option.
    pub(crate) async fn set_option(&self, responder: Responder, kind: OptionKind, value: String) {
        self.send(SessionMessage::SetOption(responder, kind, value)).await;
    }

    /// Stops everything that runs, and ends every open prompt as cancelled.
    pub(crate) async fn cancel(&self) {
        self.send(SessionMessage::Cancel).await;
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.session.is_idle()
    }

    pub(crate) fn stop(&self) {
        self.session.stop_all();
    }

    /// Returns whether this handle belongs to `session`.
    pub(crate) fn is_of(&self, session: &Arc<Session>) -> bool {
        Arc::ptr_eq(&self.session, session)
    }

    /// Passes `session/close`. The task responds when the session is closed, which can take seconds.
    pub(crate) async fn begin_close(&self, responder: Responder) {
        let (done, _) = oneshot::channel();
        self.send(SessionMessage::Close(Some(responder), done)).await;
    }

    /// Closes the session and waits until it is closed.
    pub(crate) async fn close(&self) {
        let (done, ended) = oneshot::channel();
        self.send(SessionMessage::Close(None, done)).await;
        // An error means that the task has ended.
        let _ = ended.await;
    }

    /// Sends a message. If the task has ended, the message is refused here.
    async fn send(&self, message: SessionMessage) {
        if let Err(mpsc::error::SendError(message)) = self.messages.send(message).await {
            message.refuse().await;
        }
    }
}

impl SessionMessage {
    /// Responds to a message for a session that is closed.
    pub(super) async fn refuse(self) {
        let closed = || RpcError::of_host(patchbay_core::Code::SessionClosed, "the session was closed.");
        match self {
            Self::Opened(responder, ..) | Self::Prompt(responder, ..) | Self::SetOption(responder, ..) => {
                responder.respond(Err(closed())).await;
            }
            Self::Close(Some(responder), _) => responder.respond(Ok(serde_json::json!({}))).await,
            Self::Close(None, _) | Self::Cancel => {}
        }
    }
}
