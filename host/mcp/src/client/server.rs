//! One server as a source of tools: started when it is first needed, restarted with a growing pause when it ends, and given up
//! when it fails again and again.

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
    request::ServerRequestError,
};

/// Starts that fail in a row. Then the server stays stopped.
const FAILURES: u32 = 5;
/// The pause after the second failure in a row; each further one doubles it.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a connection must have been open so that its end is not a failed start.
const SETTLED: Duration = Duration::from_secs(60);
/// How old the list of a server over HTTP may be when a turn begins.
const LIST_AGE: Duration = Duration::from_secs(60);
/// How long the standard error of a failed server is read on.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// How long a server may take to end.
const CLOSE_TIME: Duration = Duration::from_secs(3);

/// How a server is reached.
#[derive(Clone, Debug)]
pub enum ServerAddress {
    /// It is started, and speaks over standard input and output.
    Process(Launch),
    /// It runs, and answers over HTTP.
    Http(Box<HttpEndpoint>),
}

/// Limits of one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Time for the start: the handshake and the list of tools.
    pub start: Duration,
    /// Bytes of one message.
    pub message_bytes: usize,
}

/// Why a server is not there, or a call has no result. The message names the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// The server is not there.
    #[error("{0}")]
    Unavailable(String),
    /// The server broke the protocol.
    #[error("{0}")]
    Protocol(String),
    /// The tool or the server reported a failure: its words.
    #[error("{0}")]
    Failed(String),
}

/// A server that answered.
pub struct ReadyServer {
    connection: ServerConnection,
    /// Its tools, with what was left out, and when they were listed.
    tools: tokio::sync::Mutex<(Arc<ToolList>, Instant)>,
    since: Instant,
}

/// Why a start failed.
#[derive(Clone)]
struct StartFailure {
    problem: String,
    /// The last lines of standard error.
    printed: Vec<String>,
}

type Start = Shared<BoxFuture<'static, Result<Arc<ReadyServer>, StartFailure>>>;

/// An MCP server that may run or not.
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
    /// The running start, or its result.
    start: Option<Start>,
    /// Starts that failed in a row.
    failures: u32,
    /// No start before this time.
    not_before: Option<Instant>,
    /// Why it is not there.
    problem: String,
    /// What it printed last, if it is not there.
    printed: Vec<String>,
}

/// What `patchbay mcp check` shows of a server that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAbout {
    /// What the server calls itself, with its version.
    pub title: String,
    /// The revision of the protocol.
    pub revision: String,
    /// The first line on standard output that was no message.
    pub stray: Option<String>,
}

impl McpServer {
    /// Returns the server `name`, which is started when it is first needed.
    pub fn new(name: &str, address: ServerAddress, limits: ServerLimits) -> Self {
        let stopped = CancellationToken::new();
        let ends = stopped.clone().drop_guard();
        Self { name: name.to_owned(), address, limits, state: Mutex::default(), stopped, _ends: ends }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the tools, as the server declares them now. Starts it if it is not running; a start goes on when this is dropped.
    ///
    /// # Errors
    /// [`ServerError`].
    pub async fn tools(&self) -> Result<Arc<ToolList>, ServerError> {
        let ready = self.ready().await?;
        self.current_tools(&ready).await
    }

    /// Returns the tools if the server is running; `None` if it is not, or is not ready yet.
    pub async fn running_tools(&self) -> Option<Arc<ToolList>> {
        let ready = self.running()?;
        self.current_tools(&ready).await.ok()
    }

    async fn current_tools(&self, ready: &ReadyServer) -> Result<Arc<ToolList>, ServerError> {
        let mut tools = ready.tools.lock().await;
        // Over HTTP, a server can say that its list changed only while it answers a request.
        let is_due = matches!(self.address, ServerAddress::Http(_)) && tools.1.elapsed() >= LIST_AGE;
        if ready.connection.inbox.take_list_changed() || is_due {
            let listed = timeout(self.limits.start, ready.connection.list()).await;
            let listed = listed
                .unwrap_or_else(|_| Err(ServerRequestError::Answer("its list of tools takes too long".to_owned())));
            *tools = (Arc::new(listed.map_err(|error| self.failed(ready, error))?), Instant::now());
        }
        Ok(Arc::clone(&tools.0))
    }

    /// Calls a tool. Dropping the future cancels the call at the server.
    ///
    /// # Errors
    /// [`ServerError`].
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

    /// Returns what the server says about itself, if it runs.
    pub fn about(&self) -> Option<ServerAbout> {
        let ready = self.running()?;
        let ServerConnection { title, revision, inbox, .. } = &ready.connection;
        Some(ServerAbout { title: title.clone(), revision: revision.clone(), stray: inbox.first_stray() })
    }

    /// Returns the last lines that the server printed on standard error, cleaned. They can hold secrets of the operator: not for
    /// models.
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
        // A call that still runs has the connection; it ends with its own task.
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

    /// Returns the running start or its result, or begins one.
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
        if state.failures >= FAILURES {
            let problem =
                format!("{}; it failed {FAILURES} times and is not started again in this session", state.problem);
            return Err(self.unavailable(&problem));
        }
        if let Some(wait) = state.not_before.and_then(|at| at.checked_duration_since(Instant::now()))
            && !wait.is_zero()
        {
            let seconds = wait.as_secs() + 1;
            return Err(self.unavailable(&format!("{}; it is started again in {seconds} s", state.problem)));
        }
        let starting = start(self.address.clone(), self.limits, self.stopped.clone());
        let start: Start = (Box::pin(starting) as BoxFuture<'static, _>).shared();
        state.start = Some(start.clone());
        // The start goes on when a caller does not wait for it any longer.
        tokio::spawn(start.clone());
        Ok(start)
    }

    fn unavailable(&self, problem: &str) -> ServerError {
        let Self { name, .. } = self;
        ServerError::Unavailable(format!("the MCP server '{name}' is not available: {problem}"))
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
                ServerError::Unavailable(format!("the MCP server '{name}' {did} before it had answered"))
            }
        }
    }
}

impl ServerState {
    /// Notes that the server is not there, and when it may be started again.
    fn ended(&mut self, problem: String, printed: Vec<String>, is_settled: bool) {
        self.start = None;
        self.failures = if is_settled { 0 } else { self.failures + 1 };
        // The first restart is at once.
        let pause = if self.failures < 2 { Duration::ZERO } else { PAUSE * 2_u32.saturating_pow(self.failures - 2) };
        self.not_before = Some(Instant::now() + pause);
        self.problem = problem;
        self.printed = printed;
    }
}

/// Reaches a server: the process, the handshake, the list of tools.
async fn start(
    address: ServerAddress,
    limits: ServerLimits,
    stopped: CancellationToken,
) -> Result<Arc<ReadyServer>, StartFailure> {
    let inbox = Arc::new(Inbox::default());
    let is_process = matches!(address, ServerAddress::Process(_));
    let starting = async {
        // `rmcp` cancels the token that it gets when the connection ends.
        let (kept, limit, stopped) = (Arc::clone(&inbox), limits.message_bytes, stopped.child_token());
        let connection = match address {
            ServerAddress::Process(launch) => {
                let transport = ProcessTransport::launch(&launch, Arc::clone(&inbox), limit);
                ServerConnection::open(transport.map_err(|error| error.to_string())?, kept, stopped).await?
            }
            ServerAddress::Http(endpoint) => {
                ServerConnection::open(HttpTransport::new(*endpoint, Arc::clone(&inbox), limit), kept, stopped).await?
            }
        };
        let tools = connection.list().await.map_err(|error| error.to_string())?;
        let tools = tokio::sync::Mutex::new((Arc::new(tools), Instant::now()));
        Ok(Arc::new(ReadyServer { connection, tools, since: Instant::now() }))
    };
    let late = || Err(format!("it was not ready within {} ms (start_ms)", limits.start.as_millis()));
    let started = match stopped.run_until_cancelled(timeout(limits.start, starting)).await {
        Some(started) => started.unwrap_or_else(|_| late()),
        None => Err("the session is closed".to_owned()),
    };
    match started {
        Ok(ready) => Ok(ready),
        Err(problem) => {
            // What it printed last says why.
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
