//! Filters the messages of a server. `rmcp` starts a task for each request and each notification, and holds several copies of a
//! message while it determines its kind. It therefore receives only awaited responses and a bounded number of requests.
//! Notifications are handled here, and results stay JSON values that are parsed only as far as needed.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use patchbay_core::text;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, CustomResult, JsonRpcMessage, NumberOrString,
    ProgressToken, RequestId, ServerJsonRpcMessage, ServerResult,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use patchbay_jsonrpc::{VALUES, is_parsable};

/// How many unanswered requests a server may have.
const OPEN_REQUESTS: usize = 16;
/// Limit of lines in a row that are not messages. Some servers print greetings to standard output.
const STRAY_LINES: u32 = 1_000;
/// How many messages a server may send in a burst. A server that sends more is read more slowly.
const BURST: u32 = 2_000;
/// How many messages a server may send per second after a burst.
const MESSAGES_PER_SECOND: u32 = 500;
/// How many partial outputs of a call can wait to be reported. More are dropped.
const WAITING_PROGRESS: usize = 16;
/// How many lines of a server's standard error are kept, and their length in characters.
const ERROR_LINES: usize = 10;
const ERROR_LINE_CHARS: usize = 300;

/// The state of a connection to a server, shared by its tasks.
#[derive(Default)]
pub(super) struct Inbox {
    /// The requests to the server that have no response yet. Their ids are text, because `rmcp` accepts a number that is sent back
    /// as a string.
    awaited: Mutex<HashMap<String, AwaitedResponse>>,
    /// The server's own requests that are not answered yet.
    open: Mutex<HashSet<RequestId>>,
    /// How often the server has announced that its list of tools changed.
    list_changes: AtomicU64,
    progress: Mutex<HashMap<NumberOrString, mpsc::Sender<String>>>,
    state: Mutex<InboxState>,
    /// The last lines of standard error.
    printed: Mutex<VecDeque<String>>,
    /// Cancelled when standard error is closed.
    errors_closed: CancellationToken,
}

/// A response that is expected.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AwaitedResponse {
    /// The response to a request of the handshake. `rmcp` parses its result.
    Handshake,
    /// The response to any other request. Its result stays JSON.
    Other,
}

#[derive(Default)]
struct InboxState {
    stray: u32,
    /// The first line that was not a message.
    first_stray: Option<String>,
    messages: u32,
    since: Option<Instant>,
    /// Why the connection ended.
    ended: Option<String>,
}

/// The decision about a message.
pub(super) enum Judged {
    /// The message is passed on to `rmcp`.
    Message(Box<ServerJsonRpcMessage>),
    /// It was handled or ignored. Read the next one after this time.
    Handled(Duration),
    /// The connection ends; [`Inbox::ended`] says why.
    End,
}

/// The fields that determine the kind of a message.
#[derive(Deserialize)]
struct EnvelopeParts<'a> {
    id: Option<RequestId>,
    #[serde(borrow)]
    method: Option<std::borrow::Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ResponseParts {
    result: Value,
}

#[derive(Deserialize)]
struct ProgressMessage {
    params: ProgressParts,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParts {
    progress_token: NumberOrString,
    #[serde(default)]
    message: Option<String>,
}

impl Inbox {
    /// Judges a message: a line, or the data of an event.
    pub(super) fn judge(&self, json: &[u8]) -> Judged {
        let json = json.trim_ascii();
        if json.is_empty() {
            return self.handled();
        }
        if !is_parsable(json) {
            return self.end(format!("sent a message with more than {VALUES} values"));
        }
        let Ok(envelope) = serde_json::from_slice::<EnvelopeParts<'_>>(json) else { return self.stray(json) };
        self.state.lock().stray = 0;
        match envelope {
            EnvelopeParts { id: None, method: Some(method) } => {
                self.notification(&method, json);
                self.handled()
            }
            EnvelopeParts { id: Some(id), method: Some(_) } => self.request(id, json),
            EnvelopeParts { id: Some(id), method: None } => self.response(id, json),
            EnvelopeParts { id: None, method: None } => self.error_without_id(json),
        }
    }

    /// Judges a response. A second response, or one to a request that was not sent, is ignored.
    fn response(&self, id: RequestId, json: &[u8]) -> Judged {
        let awaited = self.awaited.lock().remove(&id.to_string());
        let Some(awaited) = awaited else { return self.handled() };
        if awaited == AwaitedResponse::Handshake {
            return self.typed(json);
        }
        match serde_json::from_slice::<ResponseParts>(json) {
            Ok(ResponseParts { result }) => {
                let result = ServerResult::CustomResult(CustomResult::new(result));
                Judged::Message(Box::new(JsonRpcMessage::response(result, id)))
            }
            // The response is an error.
            Err(_) => self.typed(json),
        }
    }

    /// Judges an error without an id. It can only refer to a request of the handshake, and is otherwise ignored.
    fn error_without_id(&self, json: &[u8]) -> Judged {
        let is_handshake = self.awaited.lock().values().any(|awaited| *awaited == AwaitedResponse::Handshake);
        match self.typed(json) {
            Judged::Message(_) if !is_handshake => self.handled(),
            judged => judged,
        }
    }

    fn request(&self, id: RequestId, json: &[u8]) -> Judged {
        let mut open = self.open.lock();
        if open.len() >= OPEN_REQUESTS || !open.insert(id) {
            drop(open);
            return self.end(format!("has {OPEN_REQUESTS} open requests, or uses an id twice"));
        }
        drop(open);
        self.typed(json)
    }

    /// Passes a message on in the types of `rmcp`. The data of an error is removed: it is not used, and would make the error look
    /// like a failure of the transport.
    fn typed(&self, json: &[u8]) -> Judged {
        match serde_json::from_slice::<ServerJsonRpcMessage>(json) {
            Ok(JsonRpcMessage::Error(mut error)) => {
                error.error.data = None;
                Judged::Message(Box::new(JsonRpcMessage::Error(error)))
            }
            Ok(message) => Judged::Message(Box::new(message)),
            Err(_) => self.stray(json),
        }
    }

    fn notification(&self, method: &str, json: &[u8]) {
        match method {
            "notifications/tools/list_changed" => drop(self.list_changes.fetch_add(1, Ordering::AcqRel)),
            "notifications/progress" => {
                let Ok(ProgressMessage { params }) = serde_json::from_slice(json) else { return };
                let ProgressParts { progress_token, message: Some(message) } = params else { return };
                if let Some(sender) = self.progress.lock().get(&progress_token) {
                    // If the channel is full, the message is dropped.
                    let _ = sender.try_send(message);
                }
            }
            _ => {}
        }
    }

    /// Counts a line that is not a message. Too many in a row end the connection.
    fn stray(&self, line: &[u8]) -> Judged {
        let mut state = self.state.lock();
        state.stray += 1;
        let excerpt = || text::excerpt(&String::from_utf8_lossy(&line[..line.len().min(1_000)]), 120);
        state.first_stray.get_or_insert_with(excerpt);
        if state.stray < STRAY_LINES {
            drop(state);
            return self.handled();
        }
        drop(state);
        self.end(format!("wrote {STRAY_LINES} lines that are not messages"))
    }

    /// Counts a message. If there were too many, reading slows down.
    fn handled(&self) -> Judged {
        let mut state = self.state.lock();
        state.messages += 1;
        if state.messages < BURST {
            return Judged::Handled(Duration::ZERO);
        }
        let now = Instant::now();
        let since = *state.since.get_or_insert(now);
        // Allow the messages of one second, then wait for the rest of that second.
        if state.messages < BURST + MESSAGES_PER_SECOND {
            return Judged::Handled(Duration::ZERO);
        }
        state.messages = BURST;
        state.since = None;
        Judged::Handled(Duration::from_secs(1).saturating_sub(now - since))
    }

    /// Ends the connection, because the server `did` something. If it has already ended, the first reason is kept.
    pub(super) fn end(&self, did: String) -> Judged {
        self.note_end(did);
        Judged::End
    }

    pub(super) fn note_end(&self, did: String) {
        self.state.lock().ended.get_or_insert(did);
    }

    /// Describes the server's action that ended the connection, or returns `None` if it is
    /// open or was closed by this side.
    pub(super) fn ended(&self) -> Option<String> {
        self.state.lock().ended.clone()
    }

    /// Returns the first line of the server that was not a message.
    pub(super) fn first_stray(&self) -> Option<String> {
        self.state.lock().first_stray.clone()
    }

    /// Notes a message that is sent to the server.
    pub(super) fn sends(&self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => {
                let awaited = match request.request {
                    ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_) => {
                        AwaitedResponse::Handshake
                    }
                    _ => AwaitedResponse::Other,
                };
                self.awaited.lock().insert(request.id.to_string(), awaited);
            }
            JsonRpcMessage::Notification(sent) => {
                // Any notification means that the handshake is over.
                self.awaited.lock().retain(|_, awaited| *awaited == AwaitedResponse::Other);
                if let ClientNotification::CancelledNotification(cancelled) = &sent.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.forget(id);
                }
            }
            JsonRpcMessage::Response(response) => drop(self.open.lock().remove(&response.id)),
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.open.lock().remove(id);
                }
            }
        }
    }

    /// Notes that nothing waits for the response to the request `id` anymore.
    pub(super) fn forget(&self, id: &RequestId) {
        self.awaited.lock().remove(&id.to_string());
    }

    /// Returns how often the server has announced that its list of tools changed.
    pub(super) fn list_changes(&self) -> u64 {
        self.list_changes.load(Ordering::Acquire)
    }

    /// Returns a channel with the partial output of the request with `token`. [`Inbox::end_progress`] closes it.
    pub(super) fn progress(&self, token: &ProgressToken) -> mpsc::Receiver<String> {
        let (sender, receiver) = mpsc::channel(WAITING_PROGRESS);
        self.progress.lock().insert(token.0.clone(), sender);
        receiver
    }

    pub(super) fn end_progress(&self, token: &ProgressToken) {
        self.progress.lock().remove(&token.0);
    }

    /// Notes a line of standard error.
    pub(super) fn prints(&self, line: &[u8]) {
        let line = text::excerpt(&String::from_utf8_lossy(line), ERROR_LINE_CHARS);
        if line.is_empty() {
            return;
        }
        let mut printed = self.printed.lock();
        if printed.len() >= ERROR_LINES {
            printed.pop_front();
        }
        printed.push_back(line);
    }

    /// Returns the token that is cancelled when standard error is closed.
    pub(super) fn errors_closed(&self) -> &CancellationToken {
        &self.errors_closed
    }

    /// Returns the last lines of standard error, the oldest first.
    pub(super) fn printed(&self) -> Vec<String> {
        self.printed.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::client::request::{transport_failure, transport_problem};

    fn judge(inbox: &Inbox, message: &Value) -> Judged {
        inbox.judge(message.to_string().as_bytes())
    }

    /// Notes that this message is sent.
    fn sends(inbox: &Inbox, message: Value) {
        inbox.sends(&serde_json::from_value(message).unwrap());
    }

    #[test]
    fn results_stay_values_and_notifications_stay_here() {
        let inbox = Inbox::default();
        sends(&inbox, json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list"}));
        let Judged::Message(message) = judge(&inbox, &json!({"jsonrpc": "2.0", "id": 3, "result": {"tools": 5}}))
        else {
            panic!("no message");
        };
        let JsonRpcMessage::Response(response) = *message else { panic!("{message:?}") };
        let ServerResult::CustomResult(CustomResult(value)) = response.result else { panic!("{:?}", response.result) };
        assert_eq!(value, json!({"tools": 5}));
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        assert!(matches!(judge(&inbox, &changed), Judged::Handled(_)));
        assert_eq!(inbox.list_changes(), 1);
        sends(&inbox, json!({"jsonrpc": "2.0", "id": 4, "method": "tools/list"}));
        let error = json!({"jsonrpc": "2.0", "id": 4, "error": {"code": -1, "message": "no", "data": true}});
        let Judged::Message(message) = judge(&inbox, &error) else { panic!("no message") };
        let JsonRpcMessage::Error(error) = *message else { panic!("{message:?}") };
        assert_eq!(transport_problem(&error.error), None, "it is an error of the server");
    }

    #[test]
    fn responses_that_nothing_awaits_stay_here() {
        let inbox = Inbox::default();
        let is_passed_on = |id: Value| {
            let response = json!({"jsonrpc": "2.0", "id": id, "result": {}});
            matches!(judge(&inbox, &response), Judged::Message(_))
        };
        for id in 1..=3 {
            sends(&inbox, json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"}));
        }
        let params = json!({"requestId": 2});
        sends(&inbox, json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
        inbox.forget(&RequestId::Number(3));
        assert!(is_passed_on(json!("1")), "a number that is sent back as a string");
        for id in 1..=4 {
            assert!(!is_passed_on(json!(id)), "{id}");
        }
    }

    #[test]
    fn error_without_id_is_passed_on_in_the_handshake_only() {
        let inbox = Inbox::default();
        let error = json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "no"}});
        let is_passed_on = || matches!(judge(&inbox, &error), Judged::Message(_));
        let about = json!({"name": "x", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": about});
        sends(&inbox, json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        assert!(is_passed_on());
        sends(&inbox, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        assert!(!is_passed_on());
    }

    #[test]
    fn failures_of_the_transport_differ_from_errors_of_the_server() {
        assert_eq!(
            transport_problem(&transport_failure("it sent no response".to_owned())).unwrap(),
            "it sent no \
            response"
        );
    }

    #[test]
    fn progress_is_bounded_and_reaches_its_call() {
        let inbox = Inbox::default();
        let token = ProgressToken(NumberOrString::Number(7));
        let mut receiver = inbox.progress(&token);
        for number in 0..100 {
            let params = json!({"progressToken": 7, "progress": number, "message": format!("{number}")});
            judge(&inbox, &json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}));
        }
        let received: Vec<_> = std::iter::from_fn(|| receiver.try_recv().ok()).collect();
        assert_eq!((received.len(), &*received[0]), (WAITING_PROGRESS, "0"));
    }

    #[test]
    fn flood_of_requests_and_stray_lines_end_the_connection() {
        let inbox = Inbox::default();
        let ping = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        for id in 0..OPEN_REQUESTS {
            assert!(matches!(judge(&inbox, &ping(id)), Judged::Message(_)));
        }
        assert!(matches!(judge(&inbox, &ping(OPEN_REQUESTS)), Judged::End));
        assert!(inbox.ended().unwrap().contains("open requests"));
        let inbox = Inbox::default();
        assert!(matches!(judge(&inbox, &ping(7)), Judged::Message(_)));
        assert!(matches!(judge(&inbox, &ping(7)), Judged::End), "the id is in use");
        let inbox = Inbox::default();
        for _ in 1..STRAY_LINES {
            assert!(matches!(inbox.judge(b"Server is ready!"), Judged::Handled(_)));
        }
        assert!(matches!(inbox.judge(b"Server is ready!"), Judged::End));
        assert_eq!(inbox.first_stray().unwrap(), "Server is ready!");
        let inbox = Inbox::default();
        assert!(matches!(inbox.judge(format!("[{}0]", "0,".repeat(VALUES + 1)).as_bytes()), Judged::End));
    }

    #[test]
    fn many_messages_are_read_slowly() {
        let log =
            json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}});
        let response = json!({"jsonrpc": "2.0", "id": 7, "result": {}});
        let error = json!({"jsonrpc": "2.0", "error": {"code": -32603, "message": "no"}});
        for message in [log, response, error] {
            let inbox = Inbox::default();
            let (began, mut waits) = (Instant::now(), Duration::ZERO);
            for _ in 0..BURST + 3 * MESSAGES_PER_SECOND {
                let Judged::Handled(wait) = judge(&inbox, &message) else { panic!("{message}") };
                waits += wait;
            }
            // On a busy machine, some of the time passes without waiting.
            assert!(waits + began.elapsed() > Duration::from_secs(2), "{waits:?} {message}");
        }
    }
}
