//! A server over streamable HTTP, only on the loopback address. Other programs and web pages can connect to a port of this machine.
//! Therefore the head of each request is checked before its body is read: `Host` and `Origin`, and a token that only the operator
//! knows.

mod client_sessions;
mod endpoint;
mod front;
mod gate;
mod host_gate;
mod open_connections;
mod session_uses;
mod timed_io;

use std::{io, net::Ipv4Addr, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

pub(super) use client_sessions::ClientSessions;
pub use endpoint::{HttpReply, McpEndpoint};
pub use host_gate::{HostGate, Misdirected, bearer_digest};
pub use open_connections::{ActiveRequest, ConnectionLimits, OpenConnection, OpenConnections};
pub use timed_io::TimedIo;

use super::SessionSource;
use front::HttpFront;
use gate::{Gate, PATH};

/// How long a connection may take to send its first request with a valid token.
const FIRST_TIME: Duration = Duration::from_secs(10);
/// How long a connection may take to send the head of a request, or stay idle without one.
const HEAD_TIME: Duration = Duration::from_secs(60);
/// How long a client may leave a response unread.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// Size limit of a request's head, in bytes.
const HEAD_BYTES: usize = 64 << 10;
/// How many connections can be open at the same time.
const CONNECTIONS: ConnectionLimits = ConnectionLimits { active: 64, idle: 64 };
/// How long to wait before the next connection if one cannot be accepted, for example because the process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why a server over HTTP cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum HttpServerError {
    /// The port is not available on this machine.
    #[error("cannot listen on port {port} of 127.0.0.1: {source}.")]
    Port {
        /// The requested port; 0 means any free port.
        port: u16,
        /// The error that caused this one.
        source: io::Error,
    },
}

/// A server that listens, but does not answer yet.
pub struct HttpServer {
    listener: TcpListener,
    port: u16,
    gate: Gate,
}

impl HttpServer {
    /// Listens on `port` of 127.0.0.1; 0 means any free port. Creates a new token.
    ///
    /// # Errors
    /// Every failure is reported as [`HttpServerError`].
    pub async fn bind(port: u16) -> Result<Self, HttpServerError> {
        let failed = |source| HttpServerError::Port { port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?.port();
        Ok(Self { listener, port: bound, gate: Gate::new(bound) })
    }

    /// Returns the URL of the endpoint.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Returns the token that each request must carry. It is secret: any program that knows it can use everything the operator
    /// granted.
    pub fn token(&self) -> &str {
        self.gate.token()
    }

    /// Answers requests until `stopped` is cancelled, which also stops running calls.
    pub async fn run(self, source: Arc<dyn SessionSource>, stopped: CancellationToken) {
        let front = Arc::new(HttpFront { gate: self.gate, endpoint: McpEndpoint::new(source, stopped.child_token()) });
        let open = OpenConnections::new(CONNECTIONS);
        let mut connections = JoinSet::new();
        let mut expiry = tokio::time::interval(Duration::from_secs(60));
        loop {
            tokio::select! {
                () = stopped.cancelled() => return,
                _ = expiry.tick() => front.endpoint.expire_sessions(),
                Some(_) = connections.join_next() => {}
                accepted = accept(&self.listener, &open) => {
                    let Some((stream, connection)) = accepted else { continue };
                    connections.spawn(serve(stream, connection, Arc::clone(&front)));
                }
            }
        }
    }
}

/// Accepts a connection when there is a permit for a request.
async fn accept(listener: &TcpListener, open: &Arc<OpenConnections>) -> Option<(TcpStream, Arc<OpenConnection>)> {
    open.has_permit().await;
    match listener.accept().await {
        Ok((stream, _)) => {
            // The head and the body of a response are written separately. Without this option, the second packet would wait for the
            // client's delayed acknowledgement (40 ms). An error means that the client has disconnected.
            let _ = stream.set_nodelay(true);
            Some((stream, open.add()))
        }
        Err(error) => {
            tracing::warn!("an MCP connection could not be accepted: {error}");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

async fn serve(stream: TcpStream, connection: Arc<OpenConnection>, front: Arc<HttpFront>) {
    let served = Arc::clone(&connection);
    let service = service_fn(move |request| {
        let (front, connection) = (Arc::clone(&front), Arc::clone(&served));
        async move { Ok::<_, std::convert::Infallible>(front.answer(request, connection).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(TimedIo::new(stream, WRITE_TIME)), service);
    tokio::select! {
        // Polled first, because a request that has arrived in time is not late.
        biased;
        ended = serving => {
            if let Err(error) = ended {
                tracing::debug!("an MCP connection ended: {error}");
            }
        }
        () = connection.closed(FIRST_TIME) => tracing::debug!("an idle MCP connection was closed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn accepted_connections_send_small_packets_at_once() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _connection) = accept(&listener, &OpenConnections::new(CONNECTIONS)).await.unwrap();
        assert!(stream.nodelay().unwrap());
    }
}
