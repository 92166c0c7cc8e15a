//! The methods about sessions. Some are answered here, others are passed to the session's task.

use std::{path::Path, sync::Arc};

use jiff::Timestamp;
use patchbay_core::{Code, SessionId};
use patchbay_session::{Seat, SessionError, workspace_path};
use patchbay_store::StoreError;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::{Connection, servers::UsableServers};
use crate::{
    errors,
    params::{ListSessions, LoadSession, NewSession, OfSession, Prompt, SetConfigOption},
    session::{Opening, SessionHandle, SessionTask, TITLE, option_kind},
};
use patchbay_jsonrpc::{LinePermit, Responder, RpcError, params_of};

/// Sessions on one page of `session/list`.
const PAGE: usize = 50;
/// Length limit of an option's value, in bytes.
const OPTION_VALUE: usize = 1024;

impl Connection {
    /// Calls a method. Slow methods run on a task. Work for a session's own task is passed to it before this returns,
    /// which keeps the messages of one session in order.
    pub(super) async fn call(self: &Arc<Self>, responder: Responder, method: &str, line: Vec<u8>, permit: LinePermit) {
        match method {
            "session/new" => self.spawn(responder, line, permit, Self::new_session),
            "session/load" => self.spawn(responder, line, permit, |connection, responder, params| {
                connection.open_session(responder, params, Opening::Load)
            }),
            "session/resume" => self.spawn(responder, line, permit, |connection, responder, params| {
                connection.open_session(responder, params, Opening::Resume(None))
            }),
            "session/list" => self.spawn(responder, line, permit, async |connection, responder, params| {
                responder.respond(connection.list(params).await).await;
            }),
            "session/delete" => self.spawn(responder, line, permit, Self::delete),
            "session/prompt" => match self
                .check_lines()
                .and_then(|()| self.check_draining())
                .and_then(|()| self.with_session(&line, |params: &Prompt| &params.session_id))
            {
                Ok((handle, mut params)) => {
                    drop(line);
                    match params.take_key() {
                        Ok(key) => {
                            // Keys identify prompts that are sent again after a lost connection. An editor that started this
                            // process cannot lose its connection.
                            let key = key.filter(|_| self.remote.is_some());
                            handle.prompt(responder, params.prompt.0, key, permit).await;
                        }
                        Err(error) => responder.respond(Err(error)).await,
                    }
                }
                Err(error) => responder.respond(Err(error)).await,
            },
            "session/set_config_option" => {
                let found = self.with_session(&line, |params: &SetConfigOption| &params.session_id);
                match found.and_then(|(handle, params)| Ok((handle, option_kind(&params.config_id)?, value(params)?))) {
                    Ok((handle, kind, value)) => handle.set_option(responder, kind, value).await,
                    Err(error) => responder.respond(Err(error)).await,
                }
            }
            "session/close" => match self.begin_close(&line) {
                Ok(handle) => handle.begin_close(responder).await,
                Err(error) => responder.respond(Err(error)).await,
            },
            "session/set_mode" => responder.respond(Err(errors::no_modes())).await,
            "authenticate" => {
                responder.respond(Err(RpcError::invalid_params("this agent needs no authentication."))).await;
            }
            method => responder.respond(Err(RpcError::unknown_method(method))).await,
        }
    }

    /// Runs a method on its own task. It is stopped if the client cancels the request.
    fn spawn<P, F, R>(self: &Arc<Self>, responder: Responder, line: Vec<u8>, permit: LinePermit, run: F)
    where
        P: DeserializeOwned + Send + 'static,
        F: FnOnce(Arc<Self>, Responder, P) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let connection = Arc::clone(self);
        self.tasks.spawn(async move {
            let params = match params_of(&line) {
                Ok(params) => params,
                Err(error) => return responder.respond(Err(error)).await,
            };
            drop((line, permit));
            let cancelled = responder.cancelled().clone();
            // A responder that is dropped answers that the request was cancelled.
            let _ = cancelled.run_until_cancelled(run(connection, responder, params)).await;
        });
    }

    /// Returns the open session that the parameters name, and the parameters.
    fn with_session<P: DeserializeOwned>(
        &self,
        line: &[u8],
        id: impl Fn(&P) -> &str,
    ) -> Result<(SessionHandle, P), RpcError> {
        let params = params_of(line)?;
        let handle = self.find(id(&params))?;
        Ok((handle, params))
    }

    fn find(&self, id: &str) -> Result<SessionHandle, RpcError> {
        let handle = id.parse().ok().and_then(|id| self.sessions.get(id));
        handle.ok_or_else(|| errors::session_not_found(id))
    }

    /// Returns the open session that the parameters of `session/close` name. Later messages no longer find it.
    fn begin_close(&self, line: &[u8]) -> Result<SessionHandle, RpcError> {
        self.check_lines()?;
        let OfSession { session_id } = params_of(line)?;
        let handle = session_id.parse().ok().and_then(|id| self.sessions.begin_close(id));
        handle.ok_or_else(|| errors::session_not_found(&session_id))
    }

    /// Passes `session/cancel` on. A session that is not open has nothing to cancel. A notification cannot return an error, so it
    /// is ignored if the client lacks the right.
    pub(super) async fn cancel_session(&self, line: &[u8]) {
        if self.check_lines().is_err() {
            return;
        }
        let Ok(params) = params_of::<OfSession>(line) else { return };
        if let Ok(handle) = self.find(&params.session_id) {
            handle.cancel().await;
        }
    }

    async fn new_session(self: Arc<Self>, responder: Responder, params: NewSession) {
        let opened = async {
            self.check_lines()?;
            let workspace = self.workspace(&params.cwd)?;
            let servers = self.servers(params.mcp_servers)?;
            let permit = self.sessions.take_permit()?;
            let seat = self.shared.create(&workspace, self.identity()).await.map_err(session_error)?;
            Ok((seat, servers, permit))
        };
        match opened.await {
            Ok((seat, servers, permit)) => self.start(seat, servers, Some(permit), responder, Opening::New).await,
            Err(error) => responder.respond(Err(error)).await,
        }
    }

    async fn open_session(self: Arc<Self>, responder: Responder, mut params: LoadSession, opening: Opening) {
        let opening = match opening {
            Opening::Resume(_) => Opening::Resume(params.take_after().filter(|_| self.remote.is_some())),
            opening => opening,
        };
        let opened = async {
            let workspace = self.workspace(&params.cwd)?;
            let servers = self.servers(params.mcp_servers)?;
            let id: SessionId = params.session_id.parse().map_err(|_| errors::session_not_found(&params.session_id))?;
            if let Some(handle) = self.sessions.closing(id) {
                // The client did not wait for the response to `session/close`.
                handle.close().await;
            }
            let permit = match self.sessions.get(id) {
                Some(_) => None,
                None => Some(self.sessions.take_permit()?),
            };
            self.check_workspace(id, &workspace).await?;
            let seat = self.shared.open(id, self.identity()).await.map_err(session_error)?;
            Ok((seat, servers, permit))
        };
        match opened.await {
            Ok((seat, servers, permit)) => self.start(seat, servers, permit, responder, opening).await,
            Err(error) => responder.respond(Err(error)).await,
        }
    }

    /// Passes a session to its task, which responds to the request. A session that is already open keeps its task.
    async fn start(
        &self,
        seat: Seat,
        servers: UsableServers,
        permit: Option<OwnedSemaphorePermit>,
        responder: Responder,
        opening: Opening,
    ) {
        let session = Arc::clone(seat.shared().session());
        // If a remote client names no servers, the servers named by other clients stay.
        if self.remote.is_none() || !servers.used.is_empty() {
            session.connect_mcp(servers.used);
        }
        let capabilities = self.capabilities.lock().clone().unwrap_or_default();
        let started = self.sessions.get_or_open(&session, permit, || {
            SessionTask::new(seat, self.outbox.clone(), self.client.clone(), &capabilities)
        });
        let (handle, task) = match started {
            Ok(started) => started,
            Err(error) => return responder.respond(Err(error)).await,
        };
        if let Some(task) = task {
            let (sessions, shared) = (self.sessions.clone(), Arc::clone(&self.shared));
            self.tasks.spawn(async move {
                task.run().await;
                sessions.remove(&session);
                shared.forget_closed();
            });
        }
        handle.opened(responder, opening, servers.left_out).await;
    }

    /// Checks that `cwd` is the session's workspace, because tools work there whatever folder the client shows.
    async fn check_workspace(&self, id: SessionId, cwd: &Path) -> Result<(), RpcError> {
        let stored = self.host().store().session(id).await;
        // If the client may not use the workspace, the session is refused as if it did not exist.
        let is_hidden = stored.as_ref().is_ok_and(|session| !self.may_use(&session.workspace));
        let stored = if is_hidden { Err(StoreError::SessionNotFound(id)) } else { stored };
        let session = stored.map_err(|error| session_error(error.into()))?;
        match workspace_path(cwd) {
            Ok(workspace) if workspace == session.workspace => Ok(()),
            // The folder of a session may be gone; its conversation can still be read.
            Err(_) if cwd.as_os_str() == session.workspace.as_str() => Ok(()),
            _ => Err(RpcError::invalid_params(format_args!(
                "session {id} has the workspace {}; pass it as cwd.",
                patchbay_core::text::clean_line(&session.workspace)
            ))),
        }
    }

    async fn list(&self, params: ListSessions) -> Result<Value, RpcError> {
        let first = match params.cursor.as_deref() {
            None => 0,
            Some(cursor) => cursor.parse::<usize>().map_err(|_| RpcError::invalid_params("unknown cursor."))?,
        };
        let cwd = params.cwd.as_deref().map(|cwd| self.workspace(cwd)).transpose()?;
        let cwd = cwd.map(|cwd| workspace_path(&cwd).unwrap_or_else(|_| cwd.to_string_lossy().into_owned()));
        let mut sessions = self.host().store().sessions().await.map_err(|error| session_error(error.into()))?;
        // Editors create a session for each window and thread, and many of them stay empty.
        sessions.retain(|session| session.messages > 0 && self.may_use(&session.workspace));
        if let Some(cwd) = cwd {
            sessions.retain(|session| session.workspace == cwd);
        }
        let more = sessions.len() > first.saturating_add(PAGE);
        let mut listed = Vec::new();
        for session in sessions.into_iter().skip(first).take(PAGE) {
            let title = self.host().first_words(session.id, TITLE).await.map_err(session_error)?;
            let updated = Timestamp::from_second(session.used_at).unwrap_or_default();
            listed.push(json!({
                "sessionId": session.id.to_string(),
                "cwd": session.workspace,
                "title": title,
                "updatedAt": updated.to_string(),
            }));
        }
        let next = more.then(|| (first + PAGE).to_string());
        Ok(json!({ "sessions": listed, "nextCursor": next }))
    }

    async fn delete(self: Arc<Self>, responder: Responder, params: OfSession) {
        let deleted = async {
            self.check_lines()?;
            // The protocol requires that deleting a session that does not exist succeeds.
            let Ok(id) = params.session_id.parse() else { return Ok(json!({})) };
            if let Some(handle) = self.sessions.begin_close(id).or_else(|| self.sessions.closing(id)) {
                handle.close().await;
            }
            if self.remote.is_some() {
                match self.host().store().session(id).await {
                    Ok(session) if self.may_use(&session.workspace) => self.shared.close(id).await,
                    _ => return Ok(json!({})),
                }
            }
            match self.host().remove_session(id).await {
                Err(error) if error.code() != Code::SessionNotFound => Err(session_error(error)),
                _ => Ok(json!({})),
            }
        };
        responder.respond(deleted.await).await;
    }
}

/// Returns the new value of an option. A long value is refused here, because no choice is that long.
fn value(SetConfigOption { value, .. }: SetConfigOption) -> Result<String, RpcError> {
    let too_long =
        || RpcError::invalid_params(format_args!("a value is over {OPTION_VALUE} bytes; use one of the choices."));
    if value.len() <= OPTION_VALUE { Ok(value) } else { Err(too_long()) }
}

/// Converts the error of a session, and keeps its stable code.
fn session_error(error: SessionError) -> RpcError {
    let (code, message) = (error.code(), error.to_string());
    let of_host = RpcError::of_host(code, message);
    match code {
        Code::SessionNotFound => RpcError { code: -32002, ..of_host },
        Code::FolderUnusable => RpcError { code: -32602, ..of_host },
        _ => of_host,
    }
}
