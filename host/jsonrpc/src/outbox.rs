//! Messages for the client: a queue of lines that is bounded in number and bytes, and the task that writes them. While
//! the client does not read, senders wait. They fall behind the session's events, and later read the rows from the
//! store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};
use tokio_util::sync::CancellationToken;

use crate::{ConnectionBytes, RequestId, RpcError, WaitingBytes};

/// Maximum number of lines that wait to be written.
const LINES: usize = 256;
/// Maximum size of all lines that wait to be written, in bytes. A longer line waits until no other line is queued.
const BYTES: u32 = 16 << 20;
/// Waiting lines are combined into writes of about this many bytes.
const CHUNK: usize = 64 << 10;

/// The error of sending to a client that no longer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxClosed;

/// The sending end of the queue.
#[derive(Clone)]
pub struct Outbox {
    lines: mpsc::Sender<OutgoingLine>,
    permits: Arc<Semaphore>,
    /// Number of times that lines were written.
    writes: Arc<AtomicU64>,
    closed: CancellationToken,
    /// Counts this connection's bytes toward the limit of all connections, if there is one.
    total: Option<Arc<ConnectionBytes>>,
}

struct OutgoingLine {
    json: String,
    _permit: OwnedSemaphorePermit,
    _waiting: Option<WaitingBytes>,
}

impl Outbox {
    /// Returns a queue, and the future that writes queued lines to `output` until all senders are gone or the queue is
    /// closed.
    pub fn new<W: AsyncWrite + Unpin>(output: W) -> (Self, impl Future<Output = ()>) {
        Self::counted(output, None)
    }

    /// Like [`Outbox::new`], for a connection whose bytes count toward a limit of all connections. If that limit ends the
    /// connection, the queue is closed and the waiting lines are dropped.
    pub fn counted<W: AsyncWrite + Unpin>(
        output: W,
        total: Option<Arc<ConnectionBytes>>,
    ) -> (Self, impl Future<Output = ()>) {
        let (sender, lines) = mpsc::channel(LINES);
        let (permits, closed) = (Arc::new(Semaphore::new(BYTES as usize)), CancellationToken::new());
        let writes = Arc::new(AtomicU64::new(0));
        let ended = total.as_ref().map(|total| total.ended().clone()).unwrap_or_default();
        let outbox = Self { lines: sender, permits, writes: Arc::clone(&writes), closed: closed.clone(), total };
        let writing = async move {
            let written = ended.run_until_cancelled_owned(write_lines(lines, output, &writes, &closed)).await;
            if let Some(Err(error)) = written {
                tracing::info!("the client stopped reading: {error}");
            }
            closed.cancel();
        };
        (outbox, writing)
    }

    /// Counts the bytes of a message from or for the client, if there is a limit of all connections.
    pub(crate) fn count(&self, bytes: usize) -> Option<WaitingBytes> {
        self.total.as_ref().map(|total| total.wait(bytes))
    }

    /// Waits until the queue is closed.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Closes the queue. Nothing more can be sent.
    pub fn close(&self) {
        self.closed.cancel();
    }

    /// Returns whether the queue is closed.
    pub fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// Waits until the client has read nothing for `time`, although lines were waiting.
    pub async fn stalled(&self, time: Duration) {
        loop {
            let before = self.writes.load(Ordering::Relaxed);
            tokio::time::sleep(time).await;
            let waits = self.permits.available_permits() < BYTES as usize;
            if waits && self.writes.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }

    /// Sends a notification to the client.
    pub async fn notify(&self, method: &str, params: &Value) -> Result<(), OutboxClosed> {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await
    }

    /// Sends a request to the client.
    pub async fn request(&self, id: i64, method: &str, params: &Value) -> Result<(), OutboxClosed> {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await
    }

    /// Responds to a request from the client.
    pub async fn respond(&self, id: &RequestId, result: Result<Value, RpcError>) -> Result<(), OutboxClosed> {
        let response = match result {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        };
        self.send(&response).await
    }

    async fn send(&self, message: &Value) -> Result<(), OutboxClosed> {
        // serde_json only writes newlines when it pretty-prints.
        self.send_line(message.to_string()).await
    }

    /// Forwards a message from another peer, which must be JSON without newlines.
    pub async fn send_line(&self, json: String) -> Result<(), OutboxClosed> {
        let bytes = u32::try_from(json.len()).unwrap_or(u32::MAX).min(BYTES);
        let waiting = self.count(json.len());
        if self.total.as_ref().is_some_and(|total| total.ended().is_cancelled()) {
            return Err(OutboxClosed);
        }
        let sent = async {
            let permit = Arc::clone(&self.permits).acquire_many_owned(bytes).await.ok()?;
            self.lines.send(OutgoingLine { json, _permit: permit, _waiting: waiting }).await.ok()
        };
        tokio::select! {
            biased;
            () = self.closed.cancelled() => Err(OutboxClosed),
            sent = sent => sent.ok_or(OutboxClosed),
        }
    }
}

async fn write_lines<W: AsyncWrite + Unpin>(
    mut lines: mpsc::Receiver<OutgoingLine>,
    mut output: W,
    writes: &AtomicU64,
    closed: &CancellationToken,
) -> std::io::Result<()> {
    let mut chunk = Vec::new();
    loop {
        let line = tokio::select! {
            biased;
            line = lines.recv() => line,
            () = closed.cancelled() => {
                lines.close();
                lines.recv().await
            }
        };
        let Some(line) = line else { return Ok(()) };
        chunk.extend_from_slice(line.json.as_bytes());
        chunk.push(b'\n');
        // Each line keeps its permit until it is written.
        let mut permits = vec![(line._permit, line._waiting)];
        while chunk.len() < CHUNK
            && let Ok(line) = lines.try_recv()
        {
            chunk.extend_from_slice(line.json.as_bytes());
            chunk.push(b'\n');
            permits.push((line._permit, line._waiting));
        }
        output.write_all(&chunk).await?;
        output.flush().await?;
        writes.fetch_add(1, Ordering::Relaxed);
        chunk.clear();
        chunk.shrink_to(CHUNK);
    }
}

/// The requests of the client that have no response yet.
pub type OpenRequests = Arc<Mutex<std::collections::HashMap<RequestId, CancellationToken>>>;

/// Responds to one request, exactly once. If it is dropped without a response, it responds with an error.
pub struct Responder {
    id: RequestId,
    outbox: Outbox,
    open: OpenRequests,
    cancelled: CancellationToken,
    answered: bool,
}

impl Responder {
    /// Returns the responder of the request `id`; `None` if a request with this id is still open.
    pub fn new(id: RequestId, outbox: &Outbox, open: &OpenRequests) -> Option<Self> {
        let cancelled = CancellationToken::new();
        match open.lock().entry(id.clone()) {
            std::collections::hash_map::Entry::Occupied(_) => return None,
            std::collections::hash_map::Entry::Vacant(entry) => entry.insert(cancelled.clone()),
        };
        Some(Self { id, outbox: outbox.clone(), open: Arc::clone(open), cancelled, answered: false })
    }

    /// Returns a token that is cancelled when the client gives up the request (`$/cancel_request`).
    pub fn cancelled(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Responds to the request and consumes the responder.
    pub async fn respond(mut self, result: Result<Value, RpcError>) {
        self.answered = true;
        self.open.lock().remove(&self.id);
        // The client may have left.
        let _ = self.outbox.respond(&self.id, result).await;
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if self.answered {
            return;
        }
        self.open.lock().remove(&self.id);
        let (id, outbox) = (self.id.clone(), self.outbox.clone());
        // A responder is only dropped outside of a runtime when the process ends.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { outbox.respond(&id, Err(RpcError::cancelled())).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, BufReader};

    use patchbay_core::Digest;

    use super::*;

    #[tokio::test]
    async fn senders_wait_while_nothing_is_read() {
        let (read, written) = tokio::io::duplex(1024);
        let (outbox, writing) = Outbox::new(written);
        let writing = tokio::spawn(writing);
        let big = json!({"text": "x".repeat(1 << 20)});
        let mut sent = 0;
        // The queue has room for about 16 lines of a megabyte, besides the line that is being written.
        while let Ok(done) = tokio::time::timeout(Duration::from_millis(200), outbox.notify("a", &big)).await {
            done.unwrap();
            sent += 1;
            assert!(sent < 20, "the queue has no bound");
        }
        let mut lines = BufReader::new(read).lines();
        for _ in 0..sent {
            assert!(lines.next_line().await.unwrap().unwrap().len() > 1 << 20);
        }
        outbox.notify("b", &json!({})).await.unwrap();
        let line = lines.next_line().await.unwrap().unwrap();
        assert_eq!(line, r#"{"jsonrpc":"2.0","method":"b","params":{}}"#);
        drop(outbox);
        writing.await.unwrap();
    }

    #[tokio::test]
    async fn client_that_reads_nothing_is_ended_at_the_limit_of_all() {
        let all = crate::TotalBytes::new(4 << 20);
        let (_unread, written) = tokio::io::duplex(1024);
        let (slow, writing) = Outbox::counted(written, Some(all.connect(Digest::of(b"slow"))));
        tokio::spawn(writing);
        let (read, written) = tokio::io::duplex(1024);
        let (other, writing) = Outbox::counted(written, Some(all.connect(Digest::of(b"other"))));
        tokio::spawn(writing);
        let big = json!({"text": "x".repeat(1 << 20)});
        let mut sent = 0;
        while slow.notify("a", &big).await.is_ok() {
            sent += 1;
            assert!(sent < 6, "the limit of all is not reached");
        }
        slow.closed().await;
        other.notify("b", &json!({})).await.unwrap();
        assert!(BufReader::new(read).lines().next_line().await.unwrap().is_some());
    }

    #[tokio::test]
    async fn closed_reader_ends_all_senders() {
        let (read, written) = tokio::io::duplex(16);
        let (outbox, writing) = Outbox::new(written);
        let writing = tokio::spawn(writing);
        drop(read);
        for _ in 0..LINES * 2 {
            if outbox.notify("a", &json!({"text": "more than sixteen bytes"})).await.is_err() {
                break;
            }
        }
        outbox.closed().await;
        assert_eq!(outbox.notify("a", &json!({})).await, Err(OutboxClosed));
        writing.await.unwrap();
    }

    #[tokio::test]
    async fn request_is_answered_once_and_also_if_it_is_given_up() {
        let (read, written) = tokio::io::duplex(1 << 16);
        let (outbox, writing) = Outbox::new(written);
        tokio::spawn(writing);
        let open = OpenRequests::default();
        let id = RequestId::Number(1);
        let responder = Responder::new(id.clone(), &outbox, &open).unwrap();
        assert!(Responder::new(id.clone(), &outbox, &open).is_none());
        responder.respond(Ok(json!({}))).await;
        drop(Responder::new(id, &outbox, &open).unwrap());
        let mut lines = BufReader::new(read).lines();
        let mut next = async || lines.next_line().await.unwrap().unwrap();
        assert_eq!(next().await, r#"{"id":1,"jsonrpc":"2.0","result":{}}"#);
        let expected = r#"{"error":{"code":-32800,"message":"the request was cancelled."},"id":1,"jsonrpc":"2.0"}"#;
        assert_eq!(next().await, expected);
        assert!(open.lock().is_empty());
    }
}
