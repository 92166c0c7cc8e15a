//! The connection to one client. Messages that concern an open session are passed to the session's task, in the order of their
//! arrival; all others are answered here.

mod methods;
mod remote;
mod servers;
mod sessions;

use std::{io, sync::Arc, time::Duration};

use parking_lot::Mutex;
use patchbay_session::{Host, KeepSettings, SharedSessions};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    AcpOptions, RemoteClient, capabilities,
    params::{CancelRequest, ClientCapabilities, Initialize},
};
use patchbay_jsonrpc::{
    BoundedLines, Client, Incoming, LinePermit, OpenRequests, Outbox, ReadLine, RequestId, Responder, RpcError,
    UnhandledLine, params_of, read_ahead,
};

use sessions::OpenSessions;

/// Length limit of a line, in bytes. A message with the maximum number of attachments in base64 fits.
const LINE_BYTES: usize = 64 << 20;
/// Limit of the client's requests that have no response yet.
const OPEN_REQUESTS: usize = 1000;
/// How long a client may read nothing while its output queue is full. After that, it is treated as disconnected.
const STALLED: Duration = Duration::from_secs(60);
/// How long sessions may take to store the partial answers of stopped turns.
const CLOSING: Duration = Duration::from_secs(5);
/// How long to wait for a client that has closed its end to read the remaining data.
const FLUSHING: Duration = Duration::from_secs(2);

/// The state of a connection.
pub(crate) struct Connection {
    shared: Arc<SharedSessions>,
    /// The remote client; `None` for an editor that started this process.
    remote: Option<RemoteClient>,
    outbox: Outbox,
    client: Client,
    /// The client's requests that have no response yet.
    requests: OpenRequests,
    sessions: OpenSessions,
    /// The client's capabilities, or `None` before `initialize`.
    capabilities: Mutex<Option<ClientCapabilities>>,
    tasks: TaskTracker,
    version: String,
}

/// Serves a client until it closes its end, or until it is stopped.
pub(crate) async fn run<R, W>(host: Arc<Host>, input: R, output: W, options: AcpOptions<'_>) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let bytes = options.remote.as_ref().map(|remote| Arc::clone(&remote.bytes));
    let (outbox, writing) = Outbox::counted(output, bytes);
    let writing = tokio::spawn(writing);
    let shared = match &options.remote {
        Some(remote) => Arc::clone(&remote.sessions),
        // The client is the user's own editor: sessions end with it, and questions stay open as long as it is connected.
        None => SharedSessions::new(host, KeepSettings { idle: Duration::ZERO, question: Duration::MAX }),
    };
    let connection = Arc::new(Connection {
        shared,
        remote: options.remote,
        client: Client::new(outbox.clone()),
        outbox: outbox.clone(),
        requests: Default::default(),
        sessions: OpenSessions::default(),
        capabilities: Mutex::default(),
        tasks: TaskTracker::new(),
        version: options.version.to_owned(),
    });
    let ended = serve(&connection, input, &options.stopped).await;
    drop(connection);
    // Running turns may still hold a sender to this client.
    outbox.close();
    drop(outbox);
    let _ = tokio::time::timeout(FLUSHING, writing).await;
    ended
}

/// Handles the lines of a client until its end or until `stopped` is cancelled, then closes the sessions.
async fn serve<R: AsyncRead + Unpin>(
    connection: &Arc<Connection>,
    input: R,
    stopped: &CancellationToken,
) -> io::Result<()> {
    let outbox = &connection.outbox;
    let (lines, reading) = read_ahead(BoundedLines::new(input, LINE_BYTES), outbox, STALLED);
    let mut handling = std::pin::pin!(connection.handle(lines));
    let ended = tokio::select! {
        biased;
        () = outbox.closed() => Ok(()),
        () = stopped.cancelled() => Ok(()),
        () = connection.drained() => Ok(()),
        ended = reading => ended,
        // `handling` ends only after `reading` has ended.
        () = &mut handling => Ok(()),
    };
    let ending = async {
        handling.await;
        connection.client.end();
        // Sessions that do not end in time are stopped with the process; committed data is kept.
        let _ = tokio::time::timeout(CLOSING, connection.end()).await;
    };
    let mut ending = std::pin::pin!(ending);
    tokio::select! {
        () = &mut ending => {}
        () = outbox.stalled(FLUSHING) => {
            // The client no longer reads. Once the outbox is closed, no task waits for the client, and the sessions can end.
            outbox.close();
            ending.await;
        }
    }
    ended
}

impl Connection {
    fn host(&self) -> &Arc<Host> {
        self.shared.host()
    }

    /// Stops all turns, closes all sessions and waits for the tasks.
    async fn end(&self) {
        self.sessions.close_all(self.remote.is_none()).await;
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Handles lines, one after another.
    async fn handle(self: &Arc<Self>, mut lines: mpsc::Receiver<UnhandledLine>) {
        while let Some(UnhandledLine { line, permit }) = lines.recv().await {
            if self.outbox.is_closed() {
                continue;
            }
            match line {
                ReadLine::Line(line) => self.received(line, permit).await,
                ReadLine::TooLong => {
                    let message = format!("a line is over the limit of {LINE_BYTES} bytes.");
                    self.refuse(&RequestId::Null, RpcError::invalid_request(message)).await;
                }
                // The reading loop stops at the end, which also ends this loop.
                ReadLine::End => {}
            }
        }
    }

    async fn refuse(&self, id: &RequestId, error: RpcError) {
        // The client may have left; then the loop ends.
        let _ = self.outbox.respond(id, Err(error)).await;
    }

    async fn received(self: &Arc<Self>, line: Vec<u8>, permit: LinePermit) {
        match Incoming::parse(&line) {
            Incoming::Request { id, method } => self.request(id, &method, line, permit).await,
            Incoming::Notification { method } => self.notification(&method, &line).await,
            Incoming::Response { id } => self.client.answered(&id, line),
            Incoming::Invalid { id, error } => self.refuse(&id, error).await,
        }
    }

    async fn request(self: &Arc<Self>, id: RequestId, method: &str, line: Vec<u8>, permit: LinePermit) {
        if self.requests.lock().len() >= OPEN_REQUESTS {
            let message = format!("{OPEN_REQUESTS} requests are still running; wait for one.");
            return self.refuse(&id, RpcError::invalid_request(message)).await;
        }
        let Some(responder) = Responder::new(id.clone(), &self.outbox, &self.requests) else {
            return self.refuse(&id, RpcError::invalid_request("another request with this id is still running.")).await;
        };
        if let Err(error) = self.check_order(method) {
            return responder.respond(Err(error)).await;
        }
        if method == "initialize" {
            return responder.respond(self.initialize(&line).await).await;
        }
        self.call(responder, method, line, permit).await;
    }

    /// Checks that `initialize` is the first request, and is sent only once.
    fn check_order(&self, method: &str) -> Result<(), RpcError> {
        match (method == "initialize", self.capabilities.lock().is_some()) {
            (true, true) => Err(RpcError::invalid_request("the connection is already initialized.")),
            (false, false) => {
                Err(RpcError::invalid_request("the connection is not initialized; send initialize first."))
            }
            _ => Ok(()),
        }
    }

    async fn initialize(&self, line: &[u8]) -> Result<serde_json::Value, RpcError> {
        let params: Initialize = params_of(line)?;
        let mut result = capabilities::initialized(self.host(), &self.version).await;
        if let Some(remote) = &self.remote {
            result["_meta"] = json!({"patchbay": {"workspaces": remote.workspace_names()}});
        }
        *self.capabilities.lock() = Some(params.client_capabilities.unwrap_or_default());
        Ok(result)
    }

    /// Handles a notification. Unknown ones are ignored, as the protocol requires.
    async fn notification(&self, method: &str, line: &[u8]) {
        match method {
            "session/cancel" => self.cancel_session(line).await,
            "$/cancel_request" => {
                let Ok(CancelRequest { request_id }) = params_of(line) else { return };
                if let Some(cancelled) = self.requests.lock().get(&request_id) {
                    cancelled.cancel();
                }
            }
            _ => tracing::debug!("an unknown notification of the client"),
        }
    }
}
