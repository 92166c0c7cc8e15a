//! The endpoint of streamable HTTP. It reads requests that have been checked, with a size limit, and passes them to `rmcp`, which
//! implements the transport. `front` uses it on the loopback address, and `patchbay serve` uses it for remote clients.

use std::{
    convert::Infallible,
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited, combinators::BoxBody};
use hyper::body::Body;
use patchbay_jsonrpc::is_parsable;
use rmcp::transport::{
    StreamableHttpServerConfig, StreamableHttpService,
    streamable_http_server::{
        SessionId, SessionManager as _,
        session::local::{LocalSessionManager, SessionConfig},
    },
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    super::{MESSAGE_BYTES, SessionSource, handler::ToolServer},
    client_sessions::{ClientSessions, IDLE, SESSIONS},
    session_uses::{SessionRequest, SessionUses},
};

/// The answer to a request. Its body may be a stream of events.
pub type HttpReply = Response<BoxBody<Bytes, Infallible>>;

/// Time limit for receiving the body of a request.
const BODY_TIME: Duration = Duration::from_secs(30);
/// The header with the id of a session, used by revisions before 2026-07-28.
const SESSION_HEADER: &str = "mcp-session-id";

/// The client sessions of one server, and their requests.
pub struct McpEndpoint {
    sessions: Arc<ClientSessions>,
    connections: Arc<LocalSessionManager>,
    uses: Arc<SessionUses>,
    service: StreamableHttpService<ToolServer, LocalSessionManager>,
}

impl McpEndpoint {
    /// Returns an endpoint that opens sessions from `source`. When `stopped` is cancelled, its sessions and streams end.
    pub fn new(source: Arc<dyn SessionSource>, stopped: CancellationToken) -> Self {
        let sessions = ClientSessions::new(source);
        let mut connections = LocalSessionManager::default();
        let mut config = SessionConfig::default();
        config.keep_alive = Some(IDLE);
        connections.session_config = config;
        let connections = Arc::new(connections);
        let served = Arc::clone(&sessions);
        let service = StreamableHttpService::new(
            move || Ok(ToolServer::over_http(Arc::clone(&served))),
            Arc::clone(&connections),
            StreamableHttpServerConfig::default()
                .with_cancellation_token(stopped)
                // The gate has already checked the host, and knows the names of the server.
                .disable_allowed_hosts()
                .with_max_request_body_bytes(MESSAGE_BYTES),
        );
        Self { sessions, connections, uses: Arc::default(), service }
    }

    /// Ends client sessions that have not been used for a while. `rmcp` ends the sessions of connections.
    pub fn expire_sessions(&self) {
        self.sessions.expire(Instant::now());
    }

    /// Returns whether a client has a session.
    pub fn has_sessions(&self) -> bool {
        // If the lock is taken, a session is beginning or ending.
        self.sessions.is_any() || self.connections.sessions.try_read().ok().is_none_or(|open| !open.is_empty())
    }

    /// Returns whether a call is running. It continues without its client if the connection is cut.
    pub fn is_calling(&self) -> bool {
        self.sessions.is_calling()
    }

    /// Answers a request whose head has been checked.
    pub async fn answer<B>(&self, request: Request<B>) -> HttpReply
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send,
    {
        let (head, body) = request.into_parts();
        let (session, answer) = match self.begin_in_session(&head) {
            Ok(session) => (session, self.answer_in_session(head, body).await),
            Err(NoSuchSession) => {
                // Read the body to make the connection reusable.
                let _ = read(body).await;
                (None, json_error(StatusCode::NOT_FOUND, "MCP session not found; begin a new one"))
            }
        };
        // The closure keeps the session in use until the body is dropped.
        answer.map(|body| {
            let keep_in_use = move |error: Infallible| {
                let _ = &session;
                error
            };
            body.map_err(keep_in_use).boxed()
        })
    }

    /// Begins a request in the session that its header names; `None` if it names none.
    ///
    /// If the session does not exist, or is being closed to make room for another one. In the second case `rmcp` may still know the
    /// session, and would stop the request in the middle of an effect.
    fn begin_in_session(&self, head: &Parts) -> Result<Option<SessionRequest>, NoSuchSession> {
        let Some(id) = head.headers.get(SESSION_HEADER) else { return Ok(None) };
        let request = id.to_str().ok().and_then(|id| self.uses.begin(id));
        request.map(Some).ok_or(NoSuchSession)
    }

    async fn answer_in_session<B>(&self, head: Parts, body: B) -> HttpReply
    where
        B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send,
    {
        let body = match head.method {
            Method::POST => match read(body).await {
                Ok(body) => body,
                Err((status, message)) => return json_error(status, message),
            },
            _ => Bytes::new(),
        };
        let ends = head.method == Method::DELETE;
        let mut answer = self.service.handle(Request::from_parts(head, Full::new(body))).await;
        // Only the response to `initialize` has this header.
        let begun = answer.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok()).map(SessionId::from);
        if let Some(begun) = begun
            && !self.has_room(begun).await
        {
            return json_error(
                StatusCode::SERVICE_UNAVAILABLE,
                &format!("{SESSIONS} MCP sessions are in use; close one of them"),
            );
        }
        if ends && answer.status() == StatusCode::ACCEPTED {
            // The Python SDK treats any other status as a failure.
            *answer.status_mut() = StatusCode::NO_CONTENT;
            *answer.body_mut() = Full::default().boxed();
        }
        answer
    }

    /// Adds a session that has begun. If there are too many, closes the one that has been idle longest. If all others have running
    /// requests, closes the new session and returns false.
    async fn has_room(&self, begun: SessionId) -> bool {
        let closed = {
            let open = self.connections.sessions.read().await;
            self.uses.add(&begun, |id| open.contains_key(id))
        };
        let Some(closed) = closed else { return true };
        // An error means that it has ended.
        let _ = self.connections.close_session(&closed).await;
        closed != begun
    }
}

/// The session that a request names is not open.
#[derive(Debug, PartialEq, Eq)]
struct NoSuchSession;

/// Reads the body of a request.
async fn read<B>(body: B) -> Result<Bytes, (StatusCode, &'static str)>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send,
{
    let limited = Limited::new(body, MESSAGE_BYTES);
    let body = match tokio::time::timeout(BODY_TIME, limited.collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return Err((StatusCode::PAYLOAD_TOO_LARGE, "the message is longer than 4 MiB"));
        }
        Ok(Err(_)) => return Err((StatusCode::BAD_REQUEST, "the body of the request ended early")),
        Err(_) => return Err((StatusCode::REQUEST_TIMEOUT, "timed out while reading the request body")),
    };
    if !is_parsable(&body) {
        return Err((StatusCode::BAD_REQUEST, "the message has too many values"));
    }
    Ok(body)
}

/// Returns a JSON-RPC error for a message whose id is not known.
fn json_error(status: StatusCode, message: &str) -> HttpReply {
    let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": message}});
    text(status, "application/json", error.to_string())
}

pub(super) fn text(status: StatusCode, media_type: &'static str, text: String) -> HttpReply {
    let mut answer = Response::new(Full::new(Bytes::from(text)).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(media_type));
    answer
}

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;
    use patchbay_sandbox::Content;
    use tokio::sync::Notify;

    use super::{
        super::super::{ClientCall, OfferedTool, ServedError, ServedSession},
        *,
    };

    struct NeverOpens;

    impl SessionSource for NeverOpens {
        fn open(&self) -> BoxFuture<'_, Result<Arc<dyn ServedSession>, ServedError>> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn session_that_is_being_closed_begins_no_request() {
        let endpoint = McpEndpoint::new(Arc::new(NeverOpens), CancellationToken::new());
        let begins = |id: Option<&str>| {
            let request = id.into_iter().fold(Request::builder(), |request, id| request.header(SESSION_HEADER, id));
            let (head, ()) = request.body(()).unwrap().into_parts();
            endpoint.begin_in_session(&head).map(|request| request.is_some())
        };
        let (id, _transport) = endpoint.connections.create_session().await.unwrap();
        assert_eq!(begins(Some(&id)), Err(NoSuchSession), "`rmcp` has it, but it has no place");
        assert!(endpoint.has_room(Arc::clone(&id)).await);
        assert_eq!((begins(Some(&id)), begins(None)), (Ok(true), Ok(false)));
    }

    /// A session whose calls wait until the test ends them.
    #[derive(Clone, Default)]
    struct Waits(Arc<Notify>);

    impl SessionSource for Waits {
        fn open(&self) -> BoxFuture<'_, Result<Arc<dyn ServedSession>, ServedError>> {
            Box::pin(async { Ok(Arc::new(self.clone()) as Arc<dyn ServedSession>) })
        }
    }

    impl ServedSession for Waits {
        fn tools(&self) -> BoxFuture<'_, Vec<OfferedTool>> {
            Box::pin(async { Vec::new() })
        }

        fn call<'a>(&'a self, _: ClientCall<'a>) -> BoxFuture<'a, Result<Vec<Content>, ServedError>> {
            Box::pin(async {
                self.0.notified().await;
                Ok(Vec::new())
            })
        }

        fn workspace(&self) -> &str {
            "/"
        }
    }

    #[tokio::test]
    async fn call_counts_until_it_ends_also_without_its_client() {
        let waits = Waits::default();
        let endpoint = McpEndpoint::new(Arc::new(waits.clone()), CancellationToken::new());
        let post = async |session: Option<&str>, message: serde_json::Value| {
            let request = Request::post("/mcp")
                .header(header::HOST, "localhost")
                .header(header::ACCEPT, "application/json, text/event-stream")
                .header(header::CONTENT_TYPE, "application/json");
            let request = session.into_iter().fold(request, |request, id| request.header(SESSION_HEADER, id));
            endpoint.answer(request.body(Full::new(Bytes::from(message.to_string()))).unwrap()).await
        };
        let until = async |calling: bool| {
            let waiting = async {
                while endpoint.is_calling() != calling {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
        };
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let begun = post(None, json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})).await;
        let id = begun.headers().get(SESSION_HEADER).map(|id| id.to_str().unwrap().to_owned());
        let Some(id) = id else { panic!("{:?}", begun.into_body().collect().await.unwrap().to_bytes()) };
        post(Some(&id), json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        assert!(!endpoint.is_calling());
        let params = json!({"name": "any__tool", "arguments": {}});
        let cut = post(Some(&id), json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})).await;
        until(true).await;
        drop(cut);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(endpoint.is_calling(), "the client left, and the call runs");
        waits.0.notify_one();
        until(false).await;
    }
}
