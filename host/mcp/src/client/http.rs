//! A connection over streamable HTTP. Each message is sent as a request through egress, which applies its rules for addresses and
//! secrets. The response is one message or a stream of events.

use std::{collections::HashMap, future::Future, io, sync::Arc, time::Duration};

use parking_lot::Mutex;
use patchbay_core::{Name, text};
use patchbay_egress::{
    Answer, Credential, Credentials, Egress, EgressError, Origin, Placed, Placement, Request, Secret, Target,
};
use patchbay_policy::HostPattern;
use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult},
    transport::Transport,
};
use tokio::{sync::mpsc, task::AbortHandle, time::timeout};

use super::{
    events::EventReader,
    inbox::{Inbox, Judged},
    request::transport_failure,
    secret_names::names_secret,
};

/// How many messages can wait until `rmcp` reads them. More are not read from the network.
const WAITING: usize = 16;
/// Length limit of the id of a session.
const SESSION_ID: usize = 256;
/// How long an event stream may stay open after the response. Then it is closed.
const END_TIME: Duration = Duration::from_millis(100);
/// How long to wait for the server to end a session.
const CLOSE_TIME: Duration = Duration::from_secs(1);
const SESSION_HEADER: &str = "mcp-session-id";
const VERSION_HEADER: &str = "mcp-protocol-version";
/// Headers that a client cannot supply, because the connection sets them.
const OWN_HEADERS: [&str; 4] = ["accept", "content-type", SESSION_HEADER, VERSION_HEADER];

/// The address of a server, and what its requests carry.
#[derive(Clone)]
pub struct HttpEndpoint {
    /// The URL: https, or http to this machine.
    pub url: String,
    /// The operator's credential, sent as `Authorization: Bearer`.
    pub credential: Option<Name>,
    /// Headers that the front's client supplied. If a header's name suggests a secret, such as `Authorization`, its
    /// value is removed from every response and error.
    pub headers: Vec<(String, String)>,
    /// The operator's credentials.
    pub credentials: Arc<Credentials>,
    /// Sends the requests to the server.
    pub egress: Egress,
    /// The owner of the requests in egress. Owners never share connections.
    pub owner: String,
}

#[cfg(test)]
impl HttpEndpoint {
    /// Returns the endpoint of a server that listens on this machine, without credentials.
    pub(super) fn for_test(listener: &tokio::net::TcpListener) -> Self {
        let without_secrets = Credentials::open(std::path::Path::new("without-secrets"), Default::default());
        Self {
            url: format!("http://{}/mcp", listener.local_addr().unwrap()),
            credential: None,
            headers: Vec::new(),
            credentials: Arc::new(without_secrets),
            egress: Egress::new(patchbay_egress::EgressLimits::default()),
            owner: "mcp:test".to_owned(),
        }
    }
}

impl std::fmt::Debug for HttpEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpEndpoint").field("owner", &self.owner).finish_non_exhaustive()
    }
}

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
    /// The tasks of requests that have no response yet.
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
    /// Sends a request and passes its response on. A failure is passed on as an error response, which keeps the connection open.
    async fn request(&self, message: ClientJsonRpcMessage, id: RequestId) {
        let answered = match self.post(&message).await {
            Ok(answer) => self.read(answer, &id).await,
            Err(problem) => Err(problem),
        };
        // If the response has already been passed on, `rmcp` ignores this error.
        let problem = answered.err().unwrap_or_else(|| "it sent no response".to_owned());
        let error = transport_failure(problem);
        // An error means that the connection is closed.
        let _ = self.sender.send(JsonRpcMessage::error(error, Some(id.clone()))).await;
        self.inbox.forget(&id);
        self.streams.lock().remove(&id);
    }

    /// Sends a message. Returns the response once its head has arrived, if its status is a success.
    async fn post(&self, message: &ClientJsonRpcMessage) -> Result<Answer, String> {
        let body = serde_json::to_vec(message).map_err(|error| error.to_string())?;
        let answer = self.send("POST", body).await?;
        let is_open = self.session.lock().id.is_some();
        match answer.status {
            200..=299 => {}
            404 if is_open => {
                self.inbox.note_end("has ended the session".to_owned());
                return Err("it has ended the session".to_owned());
            }
            status => return Err(format!("it responded with HTTP status {status}")),
        }
        if let Some(session) = header(&answer, SESSION_HEADER)
            && !is_open
        {
            if session.len() > SESSION_ID || !session.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) {
                return Err("it sent an invalid session id".to_owned());
            }
            self.session.lock().id = Some(session.to_owned());
        }
        Ok(answer)
    }

    /// Reads the messages of the response to the request `id`.
    async fn read(&self, mut answer: Answer, id: &RequestId) -> Result<(), String> {
        let media = header(&answer, "content-type").unwrap_or_default().split(';').next().unwrap_or_default();
        match media.trim() {
            "text/event-stream" => self.read_events(answer, id).await,
            "application/json" => {
                let mut body = Vec::new();
                while let Some(chunk) = answer.chunk().await.map_err(|error| error.to_string())? {
                    body.extend(chunk);
                    if body.len() > self.limit {
                        return Err(self.too_long());
                    }
                }
                self.judge(&body, id).await.map(drop)
            }
            other => Err(format!(
                "it responded with the media type '{}' instead of 'application/json' or 'text/event-stream'",
                text::excerpt(other, 60)
            )),
        }
    }

    /// Reads the messages of an event stream up to the response to the request `id`. A stream that stayed open any longer would
    /// keep its egress permit.
    async fn read_events(&self, mut answer: Answer, id: &RequestId) -> Result<(), String> {
        let mut reader = EventReader::new(self.limit);
        let mut is_answered = false;
        while !is_answered && let Some(chunk) = answer.chunk().await.map_err(|error| error.to_string())? {
            for data in reader.push(&chunk).map_err(|_| self.too_long())? {
                is_answered |= self.judge(&data, id).await?;
            }
        }
        // If the stream ends soon, its connection can be reused. A notification may also follow the response.
        let rest = async {
            while let Ok(Some(chunk)) = answer.chunk().await {
                for data in reader.push(&chunk).map_err(|_| self.too_long())? {
                    self.judge(&data, id).await?;
                }
            }
            Ok(())
        };
        timeout(END_TIME, rest).await.unwrap_or(Ok(()))
    }

    fn too_long(&self) -> String {
        format!("it sent a message of more than {} bytes", self.limit)
    }

    /// Passes a message on. Returns whether it is the response to the request `id`.
    async fn judge(&self, data: &[u8], id: &RequestId) -> Result<bool, String> {
        match self.inbox.judge(data) {
            Judged::Message(message) => {
                if let JsonRpcMessage::Response(response) = &*message
                    && let ServerResult::InitializeResult(result) = &response.result
                {
                    self.session.lock().version = Some(text::excerpt(result.protocol_version.as_str(), SESSION_ID));
                }
                let answered = match &*message {
                    JsonRpcMessage::Response(response) => Some(&response.id),
                    JsonRpcMessage::Error(error) => error.id.as_ref(),
                    _ => None,
                };
                // Compared as text: `rmcp` accepts a number that is sent back as a string.
                let is_response = answered.is_some_and(|answered| answered.to_string() == id.to_string());
                // An error means that the connection is closed.
                let _ = self.sender.send(*message).await;
                Ok(is_response)
            }
            Judged::Handled(wait) => {
                tokio::time::sleep(wait).await;
                Ok(false)
            }
            Judged::End => Err(format!("it {}", self.inbox.ended().unwrap_or_default())),
        }
    }

    fn abort_requests(&self) {
        for (_, stream) in self.streams.lock().drain() {
            stream.abort();
        }
    }

    /// Sends a request. If the server rejects a secret from a key command, retries once with a new secret.
    async fn send(&self, method: &str, body: Vec<u8>) -> Result<Answer, String> {
        let HttpEndpoint { url, credential, headers, credentials, egress, owner } = &self.endpoint;
        let target = Target::parse(url).map_err(|error| error.to_string())?;
        let origin = target.origin().clone();
        let granted = HostPattern::exactly(origin.host(), (!origin.is_default_port()).then(|| origin.port()));
        let granted = granted.ok_or_else(|| "its host cannot be used".to_owned())?;
        let target = target.allow(granted).map_err(|error| error.to_string())?;
        let GivenHeaders { mut secrets, plain } = given(headers, &origin)?;
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
        headers.extend(plain);
        {
            let session = self.session.lock();
            headers.extend(session.id.clone().map(|id| (SESSION_HEADER.to_owned(), id)));
            headers.extend(session.version.clone().map(|version| (VERSION_HEADER.to_owned(), version)));
        }
        let scrub = credentials.secrets().scrub(&origin).await;
        let mut request = Request {
            method: method.to_owned(),
            headers,
            body: body.into(),
            secrets,
            scrub,
            ..Request::get(owner.clone(), target)
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

/// The headers that a client supplied.
#[derive(Debug)]
struct GivenHeaders {
    secrets: Vec<Placed>,
    plain: Vec<(String, String)>,
}

/// Splits the headers of a client into secrets for `origin` and plain headers. A value that is too short for a secret is sent as a
/// plain header, because removing it from responses would remove other text, too.
fn given(headers: &[(String, String)], origin: &Origin) -> Result<GivenHeaders, String> {
    let mut given = GivenHeaders { secrets: Vec::new(), plain: Vec::new() };
    for (name, value) in headers {
        if OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            continue;
        }
        if !names_secret(name) || is_short(value) {
            given.plain.push((name.clone(), value.clone()));
            continue;
        }
        let (prefix, value) = without_scheme(name, value);
        // The error does not contain the value.
        let secret =
            Secret::new(value).map_err(|error| format!("the header '{}': {error}", text::excerpt(name, 60)))?;
        let placement = Placement::Header { name: name.clone(), prefix: prefix.to_owned() };
        given.secrets.push(Placed { secret, placement, origin: origin.clone() });
    }
    Ok(given)
}

fn is_short(value: &str) -> bool {
    value.chars().count() < Secret::SHORTEST
}

/// Splits the value of `Authorization` into its scheme, such as `Bearer `, and the secret, because a server can send the secret
/// back without the scheme. Values of other headers have no scheme.
fn without_scheme<'a>(name: &str, value: &'a str) -> (&'a str, &'a str) {
    let scheme_end = value.find(' ').filter(|_| name.eq_ignore_ascii_case("authorization"));
    let secret = scheme_end.map(|at| value[at..].trim_start()).filter(|secret| !is_short(secret));
    secret.map_or(("", value), |secret| value.split_at(value.len() - secret.len()))
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
                // Locked until the task is added. Otherwise the task could end, and remove its entry, before there is one.
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
        self.poster.abort_requests();
        if self.poster.session.lock().id.is_some() {
            // Servers may refuse the request.
            let _ = timeout(CLOSE_TIME, self.poster.send("DELETE", Vec::new())).await;
        }
        Ok(())
    }
}

impl Drop for HttpTransport {
    fn drop(&mut self) {
        // If a start takes too long, the transport is dropped without being closed.
        self.poster.abort_requests();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::{super::PATIENCE, *};

    /// A server that has read the request of a transport.
    struct Requested {
        transport: HttpTransport,
        server: TcpStream,
    }

    impl Requested {
        /// Sends a request with the id 7 through a new transport.
        async fn new() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut transport = HttpTransport::new(HttpEndpoint::for_test(&listener), Arc::default(), 1 << 20);
            let ping = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
            transport.send(serde_json::from_value(ping).unwrap()).await.unwrap();
            let (mut server, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                assert!(timeout(PATIENCE, server.read_buf(&mut request)).await.unwrap().unwrap() > 0);
            }
            Self { transport, server }
        }

        /// Sends an event with a response, then a comment. Returns the id of the response that the transport receives.
        async fn respond(&mut self, id: Value) -> String {
            let response = json!({"jsonrpc": "2.0", "id": id, "result": {}});
            let event = format!("data: {response}\n\n: the stream stays open\n\n");
            self.server.write_all(event.as_bytes()).await.unwrap();
            match timeout(PATIENCE, self.transport.receive()).await.unwrap() {
                Some(JsonRpcMessage::Response(response)) => response.id.to_string(),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Waits until the client closes the connection.
    async fn closed(mut server: TcpStream) {
        let mut rest = Vec::new();
        // A reset is an end, too.
        let _ = timeout(PATIENCE, server.read_to_end(&mut rest)).await.expect("the connection is closed");
    }

    #[tokio::test]
    async fn event_stream_is_closed_after_its_response() {
        for id in [json!(7), json!("7")] {
            let mut requested = Requested::new().await;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            // A response to a request that was not sent comes first.
            let other = json!({"jsonrpc": "2.0", "id": 8, "result": {}});
            requested.server.write_all(format!("{head}data: {other}\n\n").as_bytes()).await.unwrap();
            assert_eq!(requested.respond(id).await, "7");
            closed(requested.server).await;
        }
    }

    #[tokio::test]
    async fn dropped_transport_stops_its_requests() {
        let Requested { transport, server } = Requested::new().await;
        drop(transport);
        closed(server).await;
    }

    fn origin() -> Origin {
        "https://mcp.example.org".parse().unwrap()
    }

    fn given_of(headers: &[(&str, &str)]) -> Result<GivenHeaders, String> {
        let headers: Vec<_> = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        given(&headers, &origin())
    }

    /// Returns the name and the prefix of each secret.
    fn placed(given: &GivenHeaders) -> Vec<(String, String)> {
        let placed = given.secrets.iter().map(|placed| match placed.placement.clone() {
            Placement::Header { name, prefix } => (name, prefix),
            Placement::Query(name) => panic!("'{name}' is in the query"),
        });
        placed.collect()
    }

    fn pair(name: &str, prefix: &str) -> (String, String) {
        (name.to_owned(), prefix.to_owned())
    }

    #[test]
    fn only_headers_with_names_of_secrets_are_secrets() {
        let given = given_of(&[
            ("X-Version", "1"),
            ("X-Team", "platform tools"),
            ("X-API-Key", "abcdefgh"),
            ("X-Auth", "short"),
            ("cookie", "session=abcdefgh"),
            ("Accept", "text/html"),
            ("MCP-Session-Id", "other"),
        ])
        .unwrap();
        assert_eq!(placed(&given), [pair("X-API-Key", ""), pair("cookie", "")]);
        let plain: Vec<&str> = given.plain.iter().map(|(name, _)| &**name).collect();
        assert_eq!(plain, ["X-Version", "X-Team", "X-Auth"]);
    }

    #[test]
    fn scheme_of_authorization_is_not_part_of_the_secret() {
        let given = given_of(&[("authorization", "Bearer abcdefgh")]).unwrap();
        assert_eq!(placed(&given), [pair("authorization", "Bearer ")]);
        let given = given_of(&[("Authorization", "Bearer abc"), ("X-Token", "Bearer abcdefgh")]).unwrap();
        assert_eq!(placed(&given), [pair("Authorization", ""), pair("X-Token", "")]);
    }

    #[test]
    fn invalid_secret_is_refused_without_its_value() {
        let error = given_of(&[("X-Token", "abcdefgh\n")]).unwrap_err();
        assert!(error.starts_with("the header 'X-Token': a secret must be printable ASCII"), "{error}");
        assert!(!error.contains("abcdefgh"), "{error}");
    }
}
