//! A connection over streamable HTTP. Each message is a request of egress, under its rules for addresses and secrets; the answer
//! is one message or a stream of events.

use std::{collections::HashMap, future::Future, io, sync::Arc, time::Duration};

use parking_lot::Mutex;
use patchbay_core::{Name, text};
use patchbay_egress::{
    Answer, Credential, Credentials, Egress, EgressError, Origin, Placed, Placement, Request, Secret, Target,
};
use patchbay_policy::HostPattern;
use rmcp::{
    RoleClient,
    model::{
        ClientJsonRpcMessage, ClientNotification, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
        ServerResult,
    },
    transport::Transport,
};
use tokio::{sync::mpsc, task::AbortHandle, time::timeout};

use super::{
    events::EventReader,
    inbox::{Inbox, Judged},
};

/// Messages that wait until `rmcp` reads them. Further ones are not read from the network.
const WAITING: usize = 16;
/// Length limit of the id of a session.
const SESSION_ID: usize = 256;
/// How long the end of a session may take.
const CLOSE_TIME: Duration = Duration::from_secs(1);
const SESSION_HEADER: &str = "mcp-session-id";
const VERSION_HEADER: &str = "mcp-protocol-version";

/// The address of a server, and what its requests carry.
#[derive(Clone)]
pub struct HttpEndpoint {
    /// The URL: https, or http to this machine.
    pub url: String,
    /// The operator's credential, sent as `Authorization: Bearer`.
    pub credential: Option<Name>,
    /// Headers that the client of a front gave. Their values are treated as secrets.
    pub headers: Vec<(String, String)>,
    /// The operator's credentials.
    pub credentials: Arc<Credentials>,
    /// Sends the requests.
    pub egress: Egress,
    /// The owner of the connections: no other server shares them.
    pub owner: String,
}

impl std::fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpEndpoint").field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// A connection over HTTP.
pub(super) struct HttpTransport {
    poster: Arc<Poster>,
    messages: mpsc::Receiver<ServerJsonRpcMessage>,
}

struct Poster {
    endpoint: HttpEndpoint,
    inbox: Arc<Inbox>,
    sender: mpsc::Sender<ServerJsonRpcMessage>,
    /// Limit of a message in bytes.
    limit: usize,
    session: Mutex<HttpSession>,
    /// The tasks of requests without an answer.
    streams: Mutex<HashMap<RequestId, AbortHandle>>,
}

#[derive(Default)]
struct HttpSession {
    id: Option<String>,
    version: Option<String>,
}

impl HttpTransport {
    /// Returns a transport to `endpoint`. Nothing is sent yet. Messages of more than `limit` bytes end the connection.
    pub(super) fn new(endpoint: HttpEndpoint, inbox: Arc<Inbox>, limit: usize) -> Self {
        let (sender, messages) = mpsc::channel(WAITING);
        let (session, streams) = (Mutex::default(), Mutex::default());
        Self { poster: Arc::new(Poster { endpoint, inbox, sender, limit, session, streams }), messages }
    }
}

impl Poster {
    /// Sends a request and passes its answer on. A failure is an answer, too: the connection stays.
    async fn request(&self, message: ClientJsonRpcMessage, id: RequestId) {
        let answered = match self.post(&message).await {
            Ok(answer) => self.read(answer).await,
            Err(problem) => Err(problem),
        };
        // After an answer, this means nothing to `rmcp`.
        let problem = answered.err().unwrap_or_else(|| "the server sent no answer".to_owned());
        let error = ErrorData::internal_error(problem, None);
        // An error means that the connection is closed.
        let _ = self.sender.send(JsonRpcMessage::error(error, Some(id.clone()))).await;
        self.streams.lock().remove(&id);
    }

    /// Sends a message. Returns the answer once its head has arrived and is a success.
    async fn post(&self, message: &ClientJsonRpcMessage) -> Result<Answer, String> {
        let body = serde_json::to_vec(message).map_err(|error| error.to_string())?;
        let answer = self.send("POST", body).await?;
        let is_open = self.session.lock().id.is_some();
        match answer.status {
            200..=299 => {}
            404 if is_open => {
                self.inbox.note_end("has ended the session".to_owned());
                return Err("the server has ended the session".to_owned());
            }
            status => return Err(format!("the server answered with the HTTP status {status}")),
        }
        if let Some(session) = header(&answer, SESSION_HEADER)
            && !is_open
        {
            if session.len() > SESSION_ID || !session.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) {
                return Err("the id of the session is invalid".to_owned());
            }
            self.session.lock().id = Some(session.to_owned());
        }
        Ok(answer)
    }

    /// Reads the messages of an answer.
    async fn read(&self, mut answer: Answer) -> Result<(), String> {
        let media = header(&answer, "content-type").unwrap_or_default().split(';').next().unwrap_or_default();
        match media.trim() {
            "text/event-stream" => self.read_events(answer).await,
            "application/json" => {
                let mut body = Vec::new();
                while let Some(chunk) = answer.chunk().await.map_err(|error| error.to_string())? {
                    body.extend(chunk);
                    if body.len() > self.limit {
                        return Err(self.too_long());
                    }
                }
                self.judge(&body).await
            }
            other => Err(format!("the server answered with '{}'", text::excerpt(other, 60))),
        }
    }

    async fn read_events(&self, mut answer: Answer) -> Result<(), String> {
        let mut reader = EventReader::new(self.limit);
        while let Some(chunk) = answer.chunk().await.map_err(|error| error.to_string())? {
            for data in reader.push(&chunk).map_err(|_| self.too_long())? {
                self.judge(&data).await?;
            }
        }
        Ok(())
    }

    fn too_long(&self) -> String {
        format!("a message has more than {} bytes", self.limit)
    }

    /// Passes a message on.
    async fn judge(&self, data: &[u8]) -> Result<(), String> {
        match self.inbox.judge(data) {
            Judged::Message(message) => {
                if let JsonRpcMessage::Response(response) = &*message
                    && let ServerResult::InitializeResult(result) = &response.result
                {
                    self.session.lock().version = Some(text::excerpt(result.protocol_version.as_str(), SESSION_ID));
                }
                // An error means that the connection is closed.
                let _ = self.sender.send(*message).await;
            }
            Judged::Handled(wait) => tokio::time::sleep(wait).await,
            Judged::End => return Err(self.inbox.ended().unwrap_or_default()),
        }
        Ok(())
    }

    /// Sends a request, once more with another secret if the server rejects that of a key command.
    async fn send(&self, method: &str, body: Vec<u8>) -> Result<Answer, String> {
        let HttpEndpoint { url, credential, headers, credentials, egress, owner } = &self.endpoint;
        let target = Target::parse(url).map_err(|error| error.to_string())?;
        let origin = target.origin().clone();
        let granted = HostPattern::exactly(origin.host(), (!origin.is_default_port()).then(|| origin.port()));
        let granted = granted.ok_or_else(|| "its host cannot be used".to_owned())?;
        let target = target.allow(granted).map_err(|error| error.to_string())?;
        let mut secrets = given(headers, &origin)?;
        if let Some(name) = credential {
            let Credential { origin, secret } = credentials.get(name).await.map_err(|error| error.for_plugin())?;
            let placement = Placement::Header { name: "authorization".to_owned(), prefix: "Bearer ".to_owned() };
            let config = credentials.config(name).map_err(|error| error.for_plugin())?;
            config.check(name, &placement).map_err(|error| error.to_string())?;
            secrets.push(Placed { secret, placement, origin });
        }
        let mut headers = vec![
            ("accept".to_owned(), "application/json, text/event-stream".to_owned()),
            ("content-type".to_owned(), "application/json".to_owned()),
        ];
        {
            let session = self.session.lock();
            headers.extend(session.id.clone().map(|id| (SESSION_HEADER.to_owned(), id)));
            headers.extend(session.version.clone().map(|version| (VERSION_HEADER.to_owned(), version)));
        }
        let scrub = credentials.secrets().scrub(&origin).await;
        let mut request = Request {
            owner: owner.clone(),
            method: method.to_owned(),
            target,
            headers,
            body: body.into(),
            timeout: None,
            secrets,
            scrub,
        };
        let failed = |error: EgressError| error.to_string();
        let answer = egress.open(request.clone()).await.map_err(failed)?;
        if answer.status == 401
            && let Some(name) = credential
            && let Some(placed) = request.secrets.last_mut()
            && let Some(other) = credentials.renew(name, &placed.secret).await.map_err(|error| error.for_plugin())?
        {
            placed.secret = other;
            request.scrub = credentials.secrets().scrub(&origin).await;
            return egress.open(request).await.map_err(failed);
        }
        Ok(answer)
    }
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.iter().find(|(there, _)| there == name).map(|(_, value)| &**value)
}

/// Returns the headers of a client as secrets for `origin`.
fn given(headers: &[(String, String)], origin: &Origin) -> Result<Vec<Placed>, String> {
    let placed = |(name, value): &(String, String)| {
        // The error shows nothing of the value.
        let secret =
            Secret::new(value).map_err(|error| format!("the header '{}': {error}", text::excerpt(name, 60)))?;
        let placement = Placement::Header { name: name.clone(), prefix: String::new() };
        Ok(Placed { secret, placement, origin: origin.clone() })
    };
    headers.iter().map(placed).collect()
}

impl Transport<RoleClient> for HttpTransport {
    type Error = io::Error;

    fn send(&mut self, message: ClientJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let poster = Arc::clone(&self.poster);
        poster.inbox.sends(&message);
        if let JsonRpcMessage::Notification(notification) = &message
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(id) = &cancelled.params.request_id
            && let Some(stream) = poster.streams.lock().remove(id)
        {
            stream.abort();
        }
        let sending = match &message {
            JsonRpcMessage::Request(request) => {
                let id = request.id.clone();
                let requesting = Arc::clone(&poster);
                // Locked until the task is noted, so that it cannot end before.
                let mut streams = poster.streams.lock();
                let task = tokio::spawn({
                    let id = id.clone();
                    async move { requesting.request(message, id).await }
                });
                streams.insert(id, task.abort_handle());
                None
            }
            _ => Some((Arc::clone(&poster), message)),
        };
        async move {
            match sending {
                Some((poster, message)) => poster.post(&message).await.map(drop).map_err(io::Error::other),
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        self.messages.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        for (_, stream) in self.poster.streams.lock().drain() {
            stream.abort();
        }
        if self.poster.session.lock().id.is_some() {
            // Servers may refuse it.
            let _ = timeout(CLOSE_TIME, self.poster.send("DELETE", Vec::new())).await;
        }
        Ok(())
    }
}
