//! Messages of a client, one per line. A line that is not a message is answered with an error, because the client would otherwise
//! wait forever. Open requests are limited in number, because `rmcp` starts a task for each request and keeps its response until
//! the client reads it.

use std::{collections::HashSet, future::Future, io, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rmcp::{
    RoleServer,
    model::{
        ClientJsonRpcMessage, ClientNotification, ErrorCode, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
    },
    transport::Transport,
};
use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{MESSAGE_BYTES, REQUESTS_AT_ONCE};
use patchbay_jsonrpc::{BoundedLines, ReadLine, is_parsable};

/// The code of an error for too many requests. JSON-RPC leaves the range from -32000 to -32099 to servers.
const TOO_MANY_REQUESTS: ErrorCode = ErrorCode(-32000);

/// How long the last message may take to be written.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// A connection over two streams of lines.
pub(super) struct LineTransport<R, W> {
    lines: BoundedLines<R>,
    output: Arc<Output<W>>,
    /// An error that is being written to the client. Reading pauses until it is written, because a client that does not
    /// read must not be able to cause more errors.
    refusing: Option<BoxFuture<'static, io::Result<()>>>,
}

/// The writing half, which tasks share.
struct Output<W> {
    writer: tokio::sync::Mutex<W>,
    /// The ids of unanswered requests.
    open: Mutex<HashSet<RequestId>>,
    /// Cancelled when writing to the client fails.
    broken: CancellationToken,
}

impl<W: AsyncWrite + Send + Unpin> Output<W> {
    /// Writes a message. If it answers a request, that request is closed first.
    async fn write(&self, message: &ServerJsonRpcMessage) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let mut writer = self.writer.lock().await;
        // The client may reuse the id as soon as it has read the response.
        if let Some(id) = answered(message) {
            self.open.lock().remove(id);
        }
        let written = match writer.write_all(&line).await {
            Ok(()) => writer.flush().await,
            Err(error) => Err(error),
        };
        if written.is_err() {
            self.broken.cancel();
        }
        written
    }
}

/// Returns the id of the request that `message` answers.
fn answered(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> LineTransport<R, W> {
    /// Returns a transport for the client that writes `input` and reads `output`.
    pub(super) fn new(input: R, output: W) -> Self {
        let writer = tokio::sync::Mutex::new(output);
        let output = Arc::new(Output { writer, open: Mutex::default(), broken: CancellationToken::new() });
        Self { lines: BoundedLines::new(input, MESSAGE_BYTES), output, refusing: None }
    }

    /// Returns the message of a line, `None` if it needs no answer, or the error for the client.
    fn message(&self, line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, Refusal> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        if !is_parsable(line) {
            return Err(Refusal::invalid("the message has too many values"));
        }
        let message = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(_) => return refusal(line),
        };
        match &message {
            JsonRpcMessage::Request(request) => self.begin(&request.id)?,
            // `rmcp` sends no answer to a cancelled request.
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.output.open.lock().remove(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Ok(Some(message))
    }

    /// Notes that the request `id` is open.
    fn begin(&self, id: &RequestId) -> Result<(), Refusal> {
        let mut open = self.output.open.lock();
        if open.contains(id) {
            // With the id, the error would answer the first request.
            return Err(Refusal::invalid("another request with this id is still running"));
        }
        if open.len() >= REQUESTS_AT_ONCE {
            let message = format!("{REQUESTS_AT_ONCE} requests are running; wait until one of them has ended");
            return Err(Refusal { id: Some(id.clone()), error: ErrorData::new(TOO_MANY_REQUESTS, message, None) });
        }
        open.insert(id.clone());
        Ok(())
    }
}

/// The error for a line that is not a message, or for one request too many.
#[derive(Debug, PartialEq)]
struct Refusal {
    id: Option<RequestId>,
    error: ErrorData,
}

impl Refusal {
    fn invalid(message: &'static str) -> Self {
        Self { id: None, error: ErrorData::invalid_request(message, None) }
    }
}

/// The error for JSON that is neither a request, a notification nor a response.
const NO_MESSAGE: &str = "the message is not valid JSON-RPC 2.0";

/// Returns why `line` is not a message. An unknown notification is ignored, as JSON-RPC requires.
fn refusal(line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, Refusal> {
    /// The fields that determine the kind of a message.
    #[derive(Deserialize)]
    struct Envelope {
        id: Option<RequestId>,
        method: Option<serde::de::IgnoredAny>,
    }
    match serde_json::from_slice::<Envelope>(line) {
        Ok(Envelope { id: None, method: Some(_) }) => Ok(None),
        Ok(Envelope { id, .. }) => Err(Refusal { id, error: ErrorData::invalid_request(NO_MESSAGE, None) }),
        Err(error) if error.is_data() => Err(Refusal::invalid(NO_MESSAGE)),
        Err(_) => Err(Refusal { id: None, error: ErrorData::parse_error("the line is not valid JSON", None) }),
    }
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer>
    for LineTransport<R, W>
{
    type Error = io::Error;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = Arc::clone(&self.output);
        async move { output.write(&message).await }
    }

    /// Cancel safe, because `rmcp` drops the future when it has something else to do.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let broken = self.output.broken.clone();
        loop {
            if let Some(refusing) = &mut self.refusing {
                let written = refusing.await;
                self.refusing = None;
                written.ok()?;
            }
            let read = match broken.run_until_cancelled(self.lines.next()).await?.ok()? {
                ReadLine::Line(line) => self.message(&line),
                ReadLine::TooLong => Err(Refusal::invalid("the message is longer than 4 MiB")),
                ReadLine::End => return None,
            };
            match read {
                Ok(Some(message)) => return Some(message),
                Ok(None) => {}
                Err(Refusal { id, error }) => {
                    let (output, message) = (Arc::clone(&self.output), ServerJsonRpcMessage::error(error, id));
                    self.refusing = Some(Box::pin(async move { output.write(&message).await }));
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        let shutdown = async { self.output.writer.lock().await.shutdown().await };
        // A message that the client does not read blocks the writer.
        timeout(CLOSE_TIME, shutdown).await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))
    }
}

#[cfg(test)]
mod tests;
