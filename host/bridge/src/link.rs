//! State that outlives a connection to the server: open sessions, requests without a response, and messages that wait.
//!
//! After a reconnect, the bridge first resumes the sessions that were open, because the server refuses messages about sessions
//! that are not open. It sends the position of the last update that reached the editor, and the server continues with the next
//! one. Then all requests without a response are sent again, in order. This is safe: a prompt has a key by which the server
//! recognises a line that it has already accepted, and the other methods can be repeated. The server's questions end with their
//! connection, and the server repeats the questions that are still open. Their ids contain the connection's number, because a
//! late answer must not reach another question.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use patchbay_jsonrpc::{Incoming, Outbox, RequestId, RpcError};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    BridgeError,
    open::{BridgedSession, META, Unanswered},
    paths::{Mapping, may_have_paths},
};

/// Size limit of the messages that wait for a connection, in bytes, including sent messages that are kept for resending.
const WAITING_BYTES: usize = 1 << 20;
/// Prefix of the ids of the bridge's own requests.
const OWN: &str = "bridge:";

/// The state of the bridge.
pub(crate) struct Link {
    editor: Outbox,
    /// Number of the connection, from 1.
    connection: u64,
    /// Number of the bridge's own requests without a response. The editor's messages wait until it is 0. `None` without
    /// a connection.
    reopening: Option<usize>,
    workspace: RemoteFolder,
    /// The editor's folder until a request names one.
    own_folder: String,
    initialize: Option<Value>,
    sessions: BTreeMap<String, BridgedSession>,
    unanswered: VecDeque<Unanswered>,
    /// Notifications that wait for the connection, each with the id of the last unanswered request before it.
    waiting: Vec<(Option<RequestId>, String)>,
    /// The ids of the server's requests that the editor has not answered, in the editor's form.
    asked: BTreeSet<String>,
}

/// The workspace on the server: a name until the response to `initialize` contains its path.
enum RemoteFolder {
    Named(String),
    Folder(String),
}

/// What to do after a message from the server.
pub(crate) enum Passed {
    Done,
    /// Send this back to the server.
    Reply(String),
    /// The sessions are open again. Send these messages, which have been waiting.
    Reopened(Vec<String>),
    /// The workspace cannot be used, or the server does not speak the protocol.
    End(BridgeError),
}

impl Link {
    pub(crate) fn new(editor: Outbox, workspace: String, own_folder: String) -> Self {
        let workspace =
            if workspace.starts_with('/') { RemoteFolder::Folder(workspace) } else { RemoteFolder::Named(workspace) };
        Self {
            editor,
            connection: 0,
            reopening: None,
            workspace,
            own_folder,
            initialize: None,
            sessions: BTreeMap::new(),
            unanswered: VecDeque::new(),
            waiting: Vec::new(),
            asked: BTreeSet::new(),
        }
    }

    /// Handles a message from the editor. Returns the message to send to the server; `None` if it has to wait, or if nothing is
    /// sent.
    pub(crate) async fn receive_from_editor(&mut self, line: Vec<u8>) -> Option<String> {
        let refuse = |id: &RequestId, error| {
            let (editor, id) = (self.editor.clone(), id.clone());
            async move {
                let _ = editor.respond(&id, Err(error)).await;
                None
            }
        };
        match Incoming::parse(&line) {
            Incoming::Invalid { id, error } => refuse(&id, error).await,
            Incoming::Response { id } => self.response_of_editor(&id, &line),
            Incoming::Notification { .. } => self.send_or_wait(String::from_utf8(line).ok()?).await,
            Incoming::Request { id, method } => {
                let Ok(mut message) = serde_json::from_slice::<Value>(&line) else {
                    return refuse(&id, RpcError::parse_error("a number in this message is too large.")).await;
                };
                drop(line);
                match self.request_of_editor(id.clone(), method, &mut message) {
                    Ok(line) => self.send_or_wait(line).await,
                    Err(error) => {
                        let _ = self.editor.respond(&id, Err(error)).await;
                        None
                    }
                }
            }
        }
    }

    fn request_of_editor(&mut self, id: RequestId, method: String, message: &mut Value) -> Result<String, RpcError> {
        if !message["params"].is_object() {
            message["params"] = json!({});
        }
        let params = &mut message["params"];
        let session = params["sessionId"].as_str().map(str::to_owned);
        let mut folders = Vec::new();
        let mcp_servers = params["mcpServers"].clone();
        match method.as_str() {
            "initialize" => self.initialize = Some(params.clone()),
            "session/new" | "session/load" | "session/resume" | "session/list" => {
                let workspace = self.folder()?.to_owned();
                if let Some(cwd) = params["cwd"].as_str() {
                    if !cwd.starts_with('/') {
                        return Err(RpcError::invalid_params("cwd is not an absolute path."));
                    }
                    folders = spellings(cwd);
                }
                params["cwd"] = json!(workspace);
                if let (Some(session), true) = (&session, method != "session/list") {
                    // The session's updates may arrive before the response.
                    self.sessions.insert(session.clone(), BridgedSession::new(folders.clone(), mcp_servers.clone()));
                }
            }
            _ => {
                let own = [self.own_folder.clone()];
                let from = session.as_ref().and_then(|session| self.sessions.get(session));
                let from = from.map_or(&own[..], |session| &session.folders);
                let mapping = Mapping { from, to: self.folder()? };
                mapping.request(params).map_err(|path| outside(&path, &from.join(", ")))?;
            }
        }
        let mut key = Value::Null;
        if method == "session/prompt" {
            key = json!(Uuid::new_v4().to_string());
            params["_meta"][META]["key"] = key.clone();
        }
        let line = message.to_string();
        let kept = (self.waiting_bytes() + line.len() <= WAITING_BYTES).then(|| line.clone());
        self.unanswered.push_back(Unanswered { id, method, line: kept, session, folders, mcp_servers, key });
        Ok(line)
    }

    /// Returns the editor's response in the server's form; `None` if it answers a request of an earlier connection, which has
    /// ended.
    fn response_of_editor(&mut self, id: &RequestId, line: &[u8]) -> Option<String> {
        let RequestId::Text(id) = id else { return None };
        if !self.asked.remove(id) {
            return None;
        }
        let (_, id) = id.split_once(':')?;
        let mut message: Value = serde_json::from_slice(line).ok()?;
        message["id"] = serde_json::from_str(id).ok()?;
        Some(message.to_string())
    }

    /// Returns a message if it can be sent now, and keeps it otherwise.
    async fn send_or_wait(&mut self, line: String) -> Option<String> {
        if self.reopening == Some(0) {
            return Some(line);
        }
        self.wait(line).await;
        None
    }

    /// Keeps a message until the sessions are open. Beyond the limit, requests are refused and notifications are dropped. A
    /// request that `unanswered` already keeps is not kept twice.
    async fn wait(&mut self, line: String) {
        if self.unanswered.back().is_some_and(|last| last.line.as_ref() == Some(&line)) {
            return;
        }
        if self.waiting_bytes() + line.len() <= WAITING_BYTES {
            // Kept with the last request before it: a `session/cancel` must not stop a later prompt.
            self.waiting.push((self.unanswered.back().map(|last| last.id.clone()), line));
        } else if let Incoming::Request { id, .. } = Incoming::parse(line.as_bytes()) {
            self.unanswered.retain(|open| open.id != id);
            let message = format!("the server is not connected, and {WAITING_BYTES} bytes are already waiting for it.");
            let _ = self.editor.respond(&id, Err(lost(message))).await;
        }
    }

    fn waiting_bytes(&self) -> usize {
        let kept = self.unanswered.iter().filter_map(|open| open.line.as_ref());
        kept.chain(self.waiting.iter().map(|(_, line)| line)).map(String::len).sum()
    }

    /// Tells the editor that one of its messages was too long to be read.
    pub(crate) async fn refuse_long(&self) {
        let error = RpcError::invalid_request("a message is over 64 MiB.");
        let _ = self.editor.respond(&RequestId::Null, Err(error)).await;
    }

    /// Begins a new connection. Returns the messages to send first.
    pub(crate) fn reconnected(&mut self) -> Vec<String> {
        self.connection += 1;
        let mut lines = Vec::new();
        let mut own = |method: &str, params: Value| {
            let id = format!("{OWN}{}:{}", self.connection, lines.len());
            lines.push(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        };
        let is_open = |method: &str| self.unanswered.iter().any(|open| open.method == method);
        if let (Some(params), false) = (&self.initialize, is_open("initialize")) {
            own("initialize", params.clone());
            for (id, session) in &self.sessions {
                let is_opening = self.unanswered.iter().any(|open| open.is_opening(id));
                if let (Ok(folder), false) = (self.folder(), is_opening) {
                    let servers = if session.mcp_servers.is_array() { session.mcp_servers.clone() } else { json!([]) };
                    let meta = json!({META: {"after": session.position}});
                    own(
                        "session/resume",
                        json!({"sessionId": id, "cwd": folder, "mcpServers": servers, "_meta": meta}),
                    );
                }
            }
        }
        self.reopening = Some(lines.len());
        if lines.is_empty() {
            lines = self.waited();
        }
        lines
    }

    /// Returns the messages to send once the sessions are open: each unanswered request, with the notifications that followed it.
    fn waited(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut waiting = std::mem::take(&mut self.waiting).into_iter().peekable();
        let mut add_waiting = |lines: &mut Vec<String>, after: Option<&RequestId>| {
            while let Some((_, line)) = waiting.next_if(|(follows, _)| follows.as_ref() == after) {
                lines.push(line);
            }
        };
        add_waiting(&mut lines, None);
        for open in &self.unanswered {
            lines.extend(open.line.as_ref().map(|line| self.continued(open, line)));
            add_waiting(&mut lines, Some(&open.id));
        }
        lines
    }

    /// Returns the message that repeats a request. If a session was already partly loaded, the message only requests the rest.
    fn continued(&self, open: &Unanswered, line: &str) -> String {
        let session = open.session.as_ref().filter(|id| open.is_opening(id)).and_then(|id| self.sessions.get(id));
        let Some(session) = session.filter(|session| !session.position.is_null()) else { return line.to_owned() };
        let Ok(mut message) = serde_json::from_str::<Value>(line) else { return line.to_owned() };
        message["method"] = json!("session/resume");
        message["params"]["_meta"][META]["after"] = session.position.clone();
        message.to_string()
    }

    /// Ends requests that cannot be sent again and the server's open questions, because the connection is lost.
    pub(crate) async fn disconnected(&mut self) {
        self.reopening = None;
        // The server sends these updates again.
        self.sessions.values_mut().for_each(|session| session.unfinished.clear());
        let (kept, lost_requests) =
            std::mem::take(&mut self.unanswered).into_iter().partition(|open| open.line.is_some());
        self.unanswered = kept;
        let lost_requests: VecDeque<Unanswered> = lost_requests;
        for request in lost_requests {
            let message = "the connection to the server was lost, and the message is too long to resend.";
            let _ = self.editor.respond(&request.id, Err(lost(message))).await;
        }
        for id in std::mem::take(&mut self.asked) {
            let _ = self.editor.notify("$/cancel_request", &json!({"requestId": id})).await;
        }
        self.say_to_prompts("\n(The connection to the server was lost. Reconnecting …)\n").await;
    }

    /// Fails all unanswered requests with `why`, because the bridge ends.
    pub(crate) async fn give_up(&mut self, why: &str) {
        for request in std::mem::take(&mut self.unanswered) {
            let _ = self.editor.respond(&request.id, Err(lost(why))).await;
        }
    }

    /// Shows `text` in each session with a running prompt.
    async fn say_to_prompts(&self, text: &str) {
        let running: BTreeSet<&String> = self
            .unanswered
            .iter()
            .filter(|open| open.method == "session/prompt")
            .filter_map(|open| open.session.as_ref())
            .collect();
        for session in running {
            let update = json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}});
            let _ = self.editor.notify("session/update", &json!({"sessionId": session, "update": update})).await;
        }
    }

    /// Handles a message from the server.
    pub(crate) async fn receive_from_server(&mut self, line: String) -> Passed {
        match Incoming::parse(line.as_bytes()) {
            Incoming::Invalid { .. } => Passed::End(BridgeError::Protocol),
            Incoming::Notification { method } => {
                self.notification_of_server(&method, line).await;
                Passed::Done
            }
            Incoming::Request { id, .. } => self.request_of_server(&id, &line).await,
            Incoming::Response { id } => self.response_of_server(&id, line).await,
        }
    }

    async fn notification_of_server(&mut self, method: &str, line: String) {
        let Ok(mut message) = serde_json::from_str::<Value>(&line) else { return };
        if method == "$/cancel_request" {
            let id = self.editor_id(&message["params"]["requestId"]);
            self.asked.remove(&id);
            message["params"]["requestId"] = json!(id);
            let _ = self.editor.send_line(message.to_string()).await;
            return;
        }
        let mut line = line;
        let params = &mut message["params"];
        let id = params["sessionId"].as_str().unwrap_or_default().to_owned();
        if may_have_paths(&line)
            && let Ok(folder) = self.folder()
        {
            let from = [folder.to_owned()];
            Mapping { from: &from, to: self.editor_folder(Some(&id)) }.notification(params);
            line = message.to_string();
        }
        let params = &message["params"];
        let mut lines = if self.is_sent_prompt(&id, &params["update"]) { Vec::new() } else { vec![line] };
        if let Some(session) = self.sessions.get_mut(&id) {
            session.advance(params);
            session.unfinished.append(&mut lines);
            if params["_meta"][META]["more"] == true {
                return;
            }
            lines = std::mem::take(&mut session.unfinished);
        }
        for line in lines {
            let _ = self.editor.send_line(line).await;
        }
    }

    /// Returns whether an update repeats a prompt that the editor sent and therefore already shows.
    fn is_sent_prompt(&self, session: &str, update: &Value) -> bool {
        let key = &update["_meta"][META]["key"];
        let is_open = self.unanswered.iter().any(|open| !key.is_null() && open.key == *key);
        is_open && !self.unanswered.iter().any(|open| open.is_opening(session))
    }

    async fn request_of_server(&mut self, id: &RequestId, line: &str) -> Passed {
        let Ok(mut message) = serde_json::from_str::<Value>(line) else { return Passed::End(BridgeError::Protocol) };
        let folder = self.folder().unwrap_or_default().to_owned();
        let session = message["params"]["sessionId"].as_str().map(str::to_owned);
        let mapping = Mapping { from: std::slice::from_ref(&folder), to: self.editor_folder(session.as_deref()) };
        // A question is shown even if it names a path outside the workspace; a request for a file or program there is refused.
        if message["method"] == "session/request_permission" {
            mapping.notification(&mut message["params"]);
        } else if let Err(path) = mapping.request(&mut message["params"]) {
            let error = outside(&path, &folder);
            return Passed::Reply(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
        }
        let id = self.editor_id(&json!(id));
        message["id"] = json!(id);
        self.asked.insert(id);
        let _ = self.editor.send_line(message.to_string()).await;
        Passed::Done
    }

    async fn response_of_server(&mut self, id: &RequestId, line: String) -> Passed {
        if let RequestId::Text(id) = id
            && id.starts_with(OWN)
        {
            return self.own_response(&line);
        }
        let Some(at) = self.unanswered.iter().position(|open| open.id == *id) else { return Passed::Done };
        let Some(request) = self.unanswered.remove(at) else { return Passed::Done };
        let Ok(mut message) = serde_json::from_str::<Value>(&line) else { return Passed::End(BridgeError::Protocol) };
        let is_error = message.get("error").is_some();
        match (request.method.as_str(), request.session) {
            ("initialize", _) if !is_error => {
                if let Err(error) = self.find_workspace(&message["result"]) {
                    let _ = self.editor.respond(id, Err(RpcError::invalid_params(&error))).await;
                    return Passed::End(error);
                }
            }
            ("session/new", _) if !is_error => {
                let Some(session) = message["result"]["sessionId"].as_str() else {
                    return Passed::End(BridgeError::Protocol);
                };
                let mut open = BridgedSession::new(request.folders, request.mcp_servers);
                open.advance(&message["result"]);
                self.sessions.insert(session.to_owned(), open);
            }
            ("session/load" | "session/resume", Some(session)) if is_error => {
                self.sessions.remove(&session);
            }
            ("session/close" | "session/delete", Some(session)) if !is_error => {
                self.sessions.remove(&session);
            }
            ("session/list", _) if !is_error => {
                let cwd = request.folders.first().unwrap_or(&self.own_folder);
                let folder = self.folder().unwrap_or_default();
                if let Some(sessions) = message["result"]["sessions"].as_array_mut() {
                    sessions.retain(|session| session["cwd"] == folder);
                    sessions.iter_mut().for_each(|session| session["cwd"] = json!(cwd));
                }
            }
            (_, Some(session)) => {
                if let Some(open) = self.sessions.get_mut(&session) {
                    open.advance(&message["result"]);
                }
            }
            _ => {}
        }
        let _ = self.editor.send_line(message.to_string()).await;
        Passed::Done
    }

    /// Handles the response to one of the bridge's own requests, which reopen sessions.
    fn own_response(&mut self, line: &str) -> Passed {
        let Ok(message) = serde_json::from_str::<Value>(line) else { return Passed::End(BridgeError::Protocol) };
        // The session may have been removed meanwhile. The server still responds to the requests that are sent again for it.
        if let Some(error) = message["error"]["message"].as_str() {
            tracing::warn!("after a reconnect, the server refused: {}", patchbay_core::text::excerpt(error, 200));
        }
        match self.reopening {
            Some(open @ 1..) => {
                self.reopening = Some(open - 1);
                if open == 1 { Passed::Reopened(self.waited()) } else { Passed::Done }
            }
            // The response belongs to no request of this connection.
            _ => Passed::Done,
        }
    }

    /// Looks up the named workspace's folder in the server's response to `initialize`.
    fn find_workspace(&mut self, result: &Value) -> Result<(), BridgeError> {
        let RemoteFolder::Named(name) = &self.workspace else { return Ok(()) };
        let known = result["_meta"][META]["workspaces"].as_object();
        match known.and_then(|known| known.get(name)?.as_str()) {
            Some(folder) if folder.starts_with('/') => {
                self.workspace = RemoteFolder::Folder(folder.to_owned());
                Ok(())
            }
            _ => {
                let mut names: Vec<&str> = known.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
                names.sort_unstable();
                let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                let name = patchbay_core::text::excerpt(name, 80);
                Err(BridgeError::Workspace { name, known: patchbay_core::text::excerpt(&known, 400) })
            }
        }
    }

    /// Returns the workspace's path on the server.
    fn folder(&self) -> Result<&str, RpcError> {
        match &self.workspace {
            RemoteFolder::Folder(folder) => Ok(folder),
            RemoteFolder::Named(_) => {
                Err(RpcError::invalid_request("the connection is not initialized; send initialize first."))
            }
        }
    }

    fn editor_folder(&self, session: Option<&str>) -> &str {
        let session = session.and_then(|session| self.sessions.get(session));
        // The response to `session/new` may come after its first updates.
        let opening = || self.unanswered.iter().find_map(|open| open.folders.first());
        session.and_then(|session| session.folders.first()).or_else(opening).unwrap_or(&self.own_folder)
    }

    /// Returns the id of a server's request in the editor's form.
    fn editor_id(&self, id: &Value) -> String {
        format!("{}:{id}", self.connection)
    }
}

fn outside(path: &str, folder: &str) -> RpcError {
    let [path, folder] = [path, folder].map(|path| patchbay_core::text::excerpt(path, 200));
    RpcError::invalid_params(format_args!("{path} is outside of the workspace {folder}."))
}

fn lost(message: impl std::fmt::Display) -> RpcError {
    RpcError::new(-32603, message)
}

/// Returns a folder as the editor wrote it, and as the system resolves it: editors use both.
fn spellings(folder: &str) -> Vec<String> {
    let resolved = std::fs::canonicalize(folder).ok().and_then(|path| path.into_os_string().into_string().ok());
    let mut spellings = vec![folder.to_owned()];
    spellings.extend(resolved.filter(|resolved| resolved != folder));
    spellings
}
