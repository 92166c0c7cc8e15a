//! Listens, and serves each connection until it ends.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use patchbay_mcp::server::{ConnectionLimits, HostGate, OpenConnection, OpenConnections, TimedIo};
use patchbay_session::{Host, SharedSessions};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Logins, ServeSettings,
    front::{ServeFront, ServeState},
};

/// Limit of a request's head, and with it of the memory that a peer without a token takes.
const HEAD_BYTES: usize = 16 << 10;
/// How long a connection may take for its first request to pass the gate.
const FIRST_TIME: Duration = Duration::from_secs(10);
/// How long a connection may take for the head of a request; also how long it may have none.
const HEAD_TIME: Duration = Duration::from_secs(60);
/// How long a client may read nothing of an answer that is there.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// How long to wait before the next connection if one cannot be accepted, for example because the process has too many files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The connections that are open at once.
const CONNECTIONS: ConnectionLimits = ConnectionLimits { active: 256, idle: 64 };

/// Why the server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The settings contradict each other.
    #[error("{0}.")]
    Settings(String),
    /// The address is not available.
    #[error("cannot listen on {address}: {source}.")]
    Address {
        /// The address of the settings.
        address: SocketAddr,
        /// The error that caused this one.
        source: io::Error,
    },
}

/// A server that listens, but does not answer yet.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    settings: ServeSettings,
    logins: Logins,
}

impl Server {
    /// Listens on the address of the settings; port 0 is any free one.
    ///
    /// # Errors
    /// Every failure is reported as [`ServeError`].
    pub async fn bind(settings: ServeSettings) -> Result<Self, ServeError> {
        let address = settings.address().map_err(ServeError::Settings)?;
        let failed = |source| ServeError::Address { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, settings, logins: Logins::default() })
    }

    /// Returns a link for a browser of this machine, which works once within 60 seconds.
    pub fn link(&self) -> String {
        format!("{}/open#{}", self.url(), self.logins.new_code())
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers requests until `stopped` is cancelled.
    pub async fn run(self, host: Arc<Host>, version: &str, stopped: CancellationToken) {
        let own = [self.address.to_string(), format!("localhost:{}", self.address.port())];
        let gate = HostGate::new("http", own.into_iter().chain(self.settings.hosts.iter().cloned()).collect());
        let sessions = SharedSessions::new(host, self.settings.keep());
        let sweeping = tokio::spawn({
            let (sessions, stopped) = (Arc::clone(&sessions), stopped.clone());
            async move { sessions.sweep(stopped).await }
        });
        let workspaces = self.settings.workspace_folders().into();
        let state = ServeState {
            sessions: Arc::clone(&sessions),
            workspaces,
            version: version.to_owned(),
            logins: self.logins,
            is_secure: false,
            stopped: stopped.clone(),
        };
        let front = Arc::new(ServeFront::new(gate, state));
        let open = OpenConnections::new(CONNECTIONS);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = stopped.cancelled() => break,
                Some(_) = connections.join_next() => {}
                accepted = accept(&self.listener, &open) => {
                    let Some((stream, connection)) = accepted else { continue };
                    connections.spawn(serve(stream, connection, Arc::clone(&front)));
                }
            }
        }
        let _ = sweeping.await;
        sessions.close_all().await;
    }
}

/// Accepts a connection when there is a place for a request.
async fn accept(listener: &TcpListener, open: &Arc<OpenConnections>) -> Option<(TcpStream, Arc<OpenConnection>)> {
    open.has_place().await;
    match listener.accept().await {
        Ok((stream, _)) => {
            // Without it, a small message waits for the acknowledgement of the one before. An error means that the client has left.
            let _ = stream.set_nodelay(true);
            Some((stream, open.add()))
        }
        Err(error) => {
            tracing::warn!("a connection could not be accepted: {error}");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

async fn serve(stream: TcpStream, connection: Arc<OpenConnection>, front: Arc<ServeFront>) {
    let served = Arc::clone(&connection);
    let service = service_fn(move |request| {
        let (front, connection) = (Arc::clone(&front), Arc::clone(&served));
        async move { Ok::<_, std::convert::Infallible>(front.answer(request, connection).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(TimedIo::new(stream, WRITE_TIME)), service)
        .with_upgrades();
    tokio::select! {
        // Listed first, because a request that has arrived in time is not late.
        biased;
        ended = serving => {
            if let Err(error) = ended {
                tracing::debug!("a connection ended: {error}");
            }
        }
        () = connection.closed(FIRST_TIME) => tracing::debug!("an idle connection was closed"),
    }
}
