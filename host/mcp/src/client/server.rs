//! One server as a source of tools. It is started when it is first needed, and restarted with growing pauses when it ends. A
//! program that keeps failing is given up.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use parking_lot::Mutex;
use patchbay_sandbox::{Content, ProgressSink};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    connection::{self, ServerConnection},
    http::{HttpEndpoint, HttpTransport},
    inbox::Inbox,
    listing::ToolList,
    process::{Launch, ProcessTransport},
    refresh::ListRefresh,
    request::ServerRequestError,
};

/// After how many failed starts in a row a program stays stopped. A server over HTTP can come back at any time.
const FAILURES: u32 = 5;
/// The pause after the second failure in a row. Each further failure doubles it.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause before a server is started again.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// How long a connection must have been open before its end no longer counts as a failed start.
const SETTLED: Duration = Duration::from_secs(60);
/// How long the standard error of a server is still read after the server has failed.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// How long a server may take to end.
const CLOSE_TIME: Duration = Duration::from_secs(3);

/// The address of a server: a program or a URL.
#[derive(Clone, Debug)]
pub enum ServerAddress {
    /// A program that is started, and communicates over standard input and output.
    Process(Launch),
    /// A running server that is called over HTTP.
    Http(Box<HttpEndpoint>),
}

/// The limits that apply to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Time limit for the start: the handshake and the list of tools.
    pub start: Duration,
    /// Time limit for reading a list that has changed.
    pub list: Duration,
    /// Maximum size of one message, in bytes.
    pub message_bytes: usize,
}

/// Why a server is not available, or a call has no result. The message names the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// The server is not available, for this reason.
    #[error("{0}")]
    Unavailable(String),
    /// The server is not running and will not be started again.
    #[error("{0}")]
    GivenUp(String),
    /// The server broke the protocol.
    #[error("{0}")]
    Protocol(String),
    /// The tool or the server reported this failure.
    #[error("{0}")]
    Failed(String),
}

/// A server that has completed its handshake.
pub struct ReadyServer {
    connection: ServerConnection,
    /// The latest list of tools, with notes on the ones that were left out.
    tools: Mutex<Arc<ToolList>>,
    /// Locked while the list is read again.
    refresh: tokio::sync::Mutex<ListRefresh>,
    since: Instant,
}

#[derive(Clone)]
struct StartFailure {
    problem: String,
    /// The last lines of standard error.
    printed: Vec<String>,
}

type Start = Shared<BoxFuture<'static, Result<Arc<ReadyServer>, StartFailure>>>;

/// An MCP server, which may or may not be running.
pub struct McpServer {
    name: String,
    address: ServerAddress,
    limits: ServerLimits,
    state: Mutex<ServerState>,
    stopped: CancellationToken,
    /// Ends the server when this is dropped.
    _ends: DropGuard,
}

#[derive(Default)]
struct ServerState {
    /// The start in progress, or its result.
    start: Option<Start>,
    /// Starts that failed in a row.
    failures: u32,
    /// The earliest time of the next start.
    not_before: Option<Instant>,
    /// Why the server is not available.
    problem: String,
    /// The last output of the server, if it is not available.
    printed: Vec<String>,
}

/// The part of a server's handshake that `patchbay mcp check` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAbout {
    /// The server's own name for itself, with its version.
    pub title: String,
    /// The revision of the protocol.
    pub revision: String,
    /// The first line on standard output that was not a message.
    pub stray: Option<String>,
}

impl McpServer {
    /// Returns the server `name`, which is started when it is first needed.
    pub fn new(name: &str, address: ServerAddress, limits: ServerLimits) -> Self {
        let stopped = CancellationToken::new();
        let ends = stopped.clone().drop_guard();
        Self { name: name.to_owned(), address, limits, state: Mutex::default(), stopped, _ends: ends }
    }

    /// Returns the name of the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the tools. A list that has changed is read again; if that fails or takes too long, the previous list is returned.
    /// Starts the server if it is not running. The start continues even if this future is dropped.
    ///
    /// # Errors
    /// [`ServerError::Unavailable`], [`ServerError::GivenUp`].
    pub async fn tools(&self) -> Result<Arc<ToolList>, ServerError> {
        let ready = self.ready().await?;
        self.refresh(&ready).await;
        Ok(Arc::clone(&ready.tools.lock()))
    }

    /// Returns the latest list of tools; `None` if the server is not running or not ready yet.
    pub fn running_tools(&self) -> Option<Arc<ToolList>> {
        let ready = self.running()?;
        Some(Arc::clone(&ready.tools.lock()))
    }

    /// Reads the list of tools again if that is due.
    async fn refresh(&self, ready: &ReadyServer) {
        let mut refresh = ready.refresh.lock().await;
        let changes = ready.connection.inbox.list_changes();
        if !refresh.is_due(changes, Instant::now()) {
            return;
        }
        refresh.begin(Instant::now());
        match timeout(self.limits.list, ready.connection.list()).await {
            Ok(Ok(tools)) => {
                *ready.tools.lock() = Arc::new(tools);
                refresh.succeeded(changes, Instant::now());
            }
            Ok(Err(error)) => {
                tracing::warn!(
                    "cannot list the tools of the MCP server '{}', so the earlier list stays in use: \
                    {error}",
                    self.name
                );
                refresh.failed(Instant::now());
            }
            Err(_) => tracing::warn!(
                "listing the tools of the MCP server '{}' takes too long, so the earlier list \
                stays in use",
                self.name
            ),
        }
    }

    /// Calls a tool. Dropping the future cancels the call at the server.
    ///
    /// # Errors
    /// Every failure is reported as [`ServerError`].
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        progress: &dyn ProgressSink,
    ) -> Result<Vec<Content>, ServerError> {
        let ready = self.ready().await?;
        let called = ready.connection.call(tool, arguments, progress).await;
        connection::content(called.map_err(|error| self.failed(&ready, error))?).map_err(ServerError::Failed)
    }

    /// Returns the server's description of itself, if it runs.
    pub fn about(&self) -> Option<ServerAbout> {
        let ready = self.running()?;
        let ServerConnection { title, revision, inbox, .. } = &ready.connection;
        Some(ServerAbout { title: title.clone(), revision: revision.clone(), stray: inbox.first_stray() })
    }

    /// Returns the last lines that the server printed on standard error, cleaned. They can contain secrets of the operator, so
    /// models must not see them.
    pub fn printed(&self) -> Vec<String> {
        let state = self.state.lock();
        match state.start.as_ref().and_then(Shared::peek) {
            Some(Ok(ready)) => ready.connection.inbox.printed(),
            Some(Err(failure)) => failure.printed.clone(),
            None => state.printed.clone(),
        }
    }

    /// Ends the server, and waits until it has ended.
    pub async fn close(&self) {
        self.stopped.cancel();
        let start = self.state.lock().start.take();
        let Some(start) = start else { return };
        let Ok(Ok(ready)) = timeout(CLOSE_TIME, start).await else { return };
        // A running call still has a reference. In this case, the connection is dropped when that call ends.
        if let Ok(ready) = Arc::try_unwrap(ready) {
            ready.connection.close(CLOSE_TIME).await;
        }
    }

    /// Returns the server if it is ready and has not ended.
    fn running(&self) -> Option<Arc<ReadyServer>> {
        let state = self.state.lock();
        let ready = state.start.as_ref()?.peek()?.as_ref().ok()?;
        (!ready.connection.is_closed()).then(|| Arc::clone(ready))
    }

    /// Returns the server, which is started if it is not running.
    async fn ready(&self) -> Result<Arc<ReadyServer>, ServerError> {
        let start = self.start()?;
        start.await.map_err(|failure| self.unavailable(&failure.problem))
    }

    /// Returns the start in progress or its result, or begins a new start.
    fn start(&self) -> Result<Start, ServerError> {
        let mut state = self.state.lock();
        if let Some(start) = &state.start {
            match start.peek() {
                None => return Ok(start.clone()),
                Some(Ok(ready)) if !ready.connection.is_closed() => return Ok(start.clone()),
                Some(Ok(ready)) => {
                    let did = ready.connection.inbox.ended().unwrap_or_else(|| "ended".to_owned());
                    let (printed, is_settled) = (ready.connection.inbox.printed(), ready.since.elapsed() >= SETTLED);
                    state.ended(format!("it {did}"), printed, is_settled);
                }
                Some(Err(failure)) => {
                    let StartFailure { problem, printed } = failure.clone();
                    state.ended(problem, printed, false);
                }
            }
        }
        if self.stopped.is_cancelled() {
            return Err(self.unavailable("the session is closed"));
        }
        if state.failures >= FAILURES && matches!(self.address, ServerAddress::Process(_)) {
            let problem = format!("{}; it failed {FAILURES} times and is not restarted in this session", state.problem);
            return Err(ServerError::GivenUp(self.not_available(&problem)));
        }
        if let Some(wait) = state.not_before.and_then(|at| at.checked_duration_since(Instant::now()))
            && !wait.is_zero()
        {
            let seconds = wait.as_secs() + 1;
            return Err(self.unavailable(&format!("{}; it is restarted in {seconds} s", state.problem)));
        }
        let starting = start(self.address.clone(), self.limits, self.stopped.clone());
        let start: Start = (Box::pin(starting) as BoxFuture<'static, _>).shared();
        state.start = Some(start.clone());
        // The start continues even if its caller stops waiting.
        tokio::spawn(start.clone());
        Ok(start)
    }

    fn unavailable(&self, problem: &str) -> ServerError {
        ServerError::Unavailable(self.not_available(problem))
    }

    fn not_available(&self, problem: &str) -> String {
        format!("the MCP server '{}' is not available: {problem}", self.name)
    }

    /// Converts the error of a request.
    fn failed(&self, ready: &ReadyServer, error: ServerRequestError) -> ServerError {
        let name = &self.name;
        match error {
            ServerRequestError::Refused(words) => {
                ServerError::Failed(format!("the MCP server '{name}' refused the request: {words}"))
            }
            ServerRequestError::Lost(problem) => self.unavailable(&problem),
            ServerRequestError::Answer(problem) => ServerError::Protocol(format!("the MCP server '{name}': {problem}")),
            ServerRequestError::Closed => {
                let did = ready.connection.inbox.ended().unwrap_or_else(|| "ended".to_owned());
                ServerError::Unavailable(format!("the MCP server '{name}' {did} before it had responded"))
            }
        }
    }
}

impl ServerState {
    /// Notes that the server has ended, and when it may be started again.
    fn ended(&mut self, problem: String, printed: Vec<String>, is_settled: bool) {
        self.start = None;
        self.failures = if is_settled { 0 } else { self.failures.saturating_add(1) };
        self.not_before = Some(Instant::now() + pause_after(self.failures));
        self.problem = problem;
        self.printed = printed;
    }
}

/// Returns the pause after `failures` starts that failed in a row.
fn pause_after(failures: u32) -> Duration {
    // The first restart is immediate.
    let doublings = failures.checked_sub(2);
    doublings.map_or(Duration::ZERO, |count| (PAUSE * 2_u32.saturating_pow(count)).min(MAX_PAUSE))
}

/// Starts a process if necessary, completes the handshake, and reads the list of tools.
async fn start(
    address: ServerAddress,
    limits: ServerLimits,
    stopped: CancellationToken,
) -> Result<Arc<ReadyServer>, StartFailure> {
    let inbox = Arc::new(Inbox::default());
    let is_process = matches!(address, ServerAddress::Process(_));
    let starting = async {
        // `rmcp` cancels its token when the connection ends, so it receives a child token.
        let (kept, limit, stopped) = (Arc::clone(&inbox), limits.message_bytes, stopped.child_token());
        let connection = match address {
            ServerAddress::Process(launch) => {
                launch.prepare().await?;
                let transport = ProcessTransport::launch(&launch, Arc::clone(&inbox), limit);
                ServerConnection::open(transport.map_err(|error| error.to_string())?, kept, stopped).await?
            }
            ServerAddress::Http(endpoint) => {
                ServerConnection::open(HttpTransport::new(*endpoint, Arc::clone(&inbox), limit), kept, stopped).await?
            }
        };
        let changes = inbox.list_changes();
        let tools = Mutex::new(Arc::new(connection.list().await.map_err(|error| error.to_string())?));
        let refresh = tokio::sync::Mutex::new(ListRefresh::new(is_process, changes, Instant::now()));
        Ok(Arc::new(ReadyServer { connection, tools, refresh, since: Instant::now() }))
    };
    let late = || Err(format!("it was not ready within {} ms (start_ms)", limits.start.as_millis()));
    let started = match stopped.run_until_cancelled(timeout(limits.start, starting)).await {
        Some(started) => started.unwrap_or_else(|_| late()),
        None => Err("the session is closed".to_owned()),
    };
    match started {
        Ok(ready) => Ok(ready),
        Err(problem) => {
            // The server's last output often contains the reason.
            if is_process {
                let _ = timeout(LAST_WORDS, inbox.errors_closed().cancelled()).await;
            }
            Err(StartFailure { problem, printed: inbox.printed() })
        }
    }
}

impl fmt::Debug for McpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServer").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use serde_json::json;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::{super::PATIENCE, *};

    /// How a server answers `tools/list`.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Listing {
        Answers,
        Fails,
        Hangs,
    }

    /// A server over HTTP that announces a change of its list with each answer to a call.
    struct Changing {
        listing: Mutex<Listing>,
        listings: AtomicUsize,
    }

    impl Changing {
        async fn start(list: Duration) -> (Arc<Self>, McpServer) {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let endpoint = HttpEndpoint::for_test(&listener);
            let server = Arc::new(Self { listing: Mutex::new(Listing::Answers), listings: AtomicUsize::new(0) });
            let serving = Arc::clone(&server);
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let serving = Arc::clone(&serving);
                    tokio::spawn(async move { serving.answer(stream).await });
                }
            });
            let limits = ServerLimits { start: PATIENCE, list, message_bytes: 1 << 20 };
            (server, McpServer::new("test", ServerAddress::Http(Box::new(endpoint)), limits))
        }

        /// Answers one request. Each listing has one more tool than the one before.
        async fn answer(&self, mut stream: TcpStream) {
            let mut request = Vec::new();
            let message = loop {
                if stream.read_buf(&mut request).await.unwrap_or_default() == 0 {
                    return;
                }
                let text = String::from_utf8_lossy(&request);
                let Some((_, body)) = text.split_once("\r\n\r\n") else { continue };
                if let Ok(message) = serde_json::from_str::<Value>(body) {
                    break message;
                }
            };
            let Some(id) = message.get("id") else {
                let accepted = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                return stream.write_all(accepted.as_bytes()).await.unwrap_or_default();
            };
            let mut answer = json!({"jsonrpc": "2.0", "id": id});
            if message["method"] == "tools/list" {
                let count = 1 + self.listings.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
                let listing = *self.listing.lock();
                match listing {
                    Listing::Answers => {
                        let tool =
                            |number: usize| json!({"name": format!("t{number}"), "inputSchema": {"type": "object"}});
                        answer["result"] = json!({"tools": (0..count).map(tool).collect::<Vec<_>>()});
                    }
                    Listing::Fails => answer["error"] = json!({"code": -32603, "message": "no"}),
                    Listing::Hangs => return std::future::pending::<()>().await,
                }
            } else if message["method"] == "initialize" {
                answer["result"] = json!({
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                    "serverInfo": {"name": "test", "version": "1"},
                });
            } else {
                answer["result"] = json!({"content": []});
            }
            let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            // The announcement comes first, because what follows the response may not be read.
            let changed = match message["method"] == "tools/call" {
                true => format!("data: {changed}\n\n"),
                false => String::new(),
            };
            let answer = format!("{head}{changed}data: {answer}\n\n");
            stream.write_all(answer.as_bytes()).await.unwrap_or_default();
        }

        fn listings(&self) -> usize {
            self.listings.load(std::sync::atomic::Ordering::Acquire)
        }
    }

    struct Unread;

    impl ProgressSink for Unread {
        fn report(&self, _: &str) {}
    }

    /// Makes the server announce a change.
    async fn change(mcp: &McpServer) {
        mcp.call("t0", Map::new(), &Unread).await.unwrap();
    }

    async fn tools(mcp: &McpServer) -> usize {
        mcp.tools().await.unwrap().tools.len()
    }

    #[tokio::test]
    async fn changed_list_is_read_again_after_a_failure() {
        let (server, mcp) = Changing::start(PATIENCE).await;
        let first = tools(&mcp).await;
        change(&mcp).await;
        *server.listing.lock() = Listing::Fails;
        assert_eq!(tools(&mcp).await, first, "the list of before stays");
        *server.listing.lock() = Listing::Answers;
        let listed = server.listings();
        assert_eq!(tools(&mcp).await, listed + 1);
    }

    #[tokio::test]
    async fn hanging_list_costs_one_turn_only() {
        let (server, mcp) = Changing::start(Duration::from_millis(200)).await;
        let first = tools(&mcp).await;
        change(&mcp).await;
        *server.listing.lock() = Listing::Hangs;
        let listed = server.listings();
        let ready = mcp.running().unwrap();
        let is_due = async || ready.refresh.lock().await.is_due(ready.connection.inbox.list_changes(), Instant::now());
        assert!(is_due().await, "the change was announced");
        for _ in 0..3 {
            assert_eq!(tools(&mcp).await, first);
            assert!(!is_due().await);
        }
        assert_eq!(mcp.running_tools().unwrap().tools.len(), first);
        // On a busy machine, the request may be stopped before it arrives.
        assert!(server.listings() <= listed + 1, "{} {listed}", server.listings());
    }

    #[tokio::test]
    async fn only_programs_are_given_up() {
        let limits = ServerLimits { start: PATIENCE, list: PATIENCE, message_bytes: 1 << 20 };
        let words = vec!["no-such-program".to_owned()];
        let launch = Launch { words, variables: Vec::new(), folder: std::env::temp_dir(), package: None, unset: None };
        let program = McpServer::new("test", ServerAddress::Process(launch), limits);
        let (_server, http) = Changing::start(PATIENCE).await;
        for (mcp, is_given_up) in [(program, true), (http, false)] {
            *mcp.state.lock() = ServerState { failures: FAILURES, ..ServerState::default() };
            let failed = mcp.tools().await.err();
            assert_eq!(matches!(failed, Some(ServerError::GivenUp(_))), is_given_up, "{failed:?}");
        }
    }

    #[test]
    fn pause_grows_up_to_its_limit() {
        let pauses = [0, 1, 2, 3, 4, 5, 7, 8, 9, u32::MAX].map(|failures| pause_after(failures).as_secs());
        assert_eq!(pauses, [0, 0, 1, 2, 4, 8, 32, 60, 60, 60]);
    }
}
