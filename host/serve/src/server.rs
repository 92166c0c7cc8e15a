//! Listens, and serves each connection until it ends.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::http::Request;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use patchbay_jsonrpc::TotalBytes;
use patchbay_mcp::server::{ConnectionLimits, HostGate, OpenConnection, OpenConnections, TimedIo};
use patchbay_session::{Host, SharedSessions};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{
    ServeSettings,
    front::ServeFront,
    login::Logins,
    mcp_endpoints::McpEndpoints,
    metrics::ServeCounters,
    receiving::{CountedIo, ReceivingBytes},
    request_shares::RequestShares,
    state::ServeState,
    supervisor, tls,
    used_tokens::UsedTokens,
};

/// Size limit of a request's head, in bytes. It also limits the memory that a peer without a token can use.
const HEAD_BYTES: usize = 16 << 10;
/// How long a connection may take to send its first request with a valid token.
const FIRST_TIME: Duration = Duration::from_secs(10);
/// How long a connection may take to send the head of a request, and how long it may stay idle.
const HEAD_TIME: Duration = Duration::from_secs(60);
/// How long a client may leave a response unread.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// How long to wait before accepting again after a failure, for example because the process has too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of connections that have sent no valid request yet. A new connection beyond this limit closes the one
/// that has been idle longest.
const IDLE_CONNECTIONS: usize = 64;
/// How often a draining server checks whether all turns have ended.
const DRAIN_LOOK: Duration = Duration::from_millis(50);
/// How long sockets may take to close when the server ends.
const CLOSING: Duration = Duration::from_secs(3);

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
    tls: Option<TlsAcceptor>,
    settings: ServeSettings,
    logins: Logins,
}

impl Server {
    /// Listens on the address of the settings, where port 0 means any free port, or on the socket that a supervisor has passed.
    ///
    /// # Errors
    /// Every failure is reported as [`ServeError`].
    pub async fn bind(settings: ServeSettings) -> Result<Self, ServeError> {
        let address = settings.address().map_err(ServeError::Settings)?;
        let tls = match (&settings.tls_cert, &settings.tls_key) {
            (Some(cert), Some(key)) => Some(tls::acceptor(cert, key).map_err(ServeError::Settings)?),
            _ => None,
        };
        let failed = |source| ServeError::Address { address, source };
        let listener = match supervisor::passed_listener().map_err(failed)? {
            Some(passed) => passed,
            None => TcpListener::bind(address).await.map_err(failed)?,
        };
        let address = listener.local_addr().map_err(failed)?;
        match settings.exposure(address) {
            Some(exposed) => Err(ServeError::Settings(exposed)),
            None => Ok(Self { listener, address, tls, settings, logins: Logins::default() }),
        }
    }

    /// Returns a link for a browser, which works once within 60 seconds. Without a proxy in front, it is meant for browsers on
    /// this machine.
    pub fn link(&self) -> String {
        let proxy = self.settings.proxy_url().unwrap_or_else(|| self.url());
        format!("{proxy}/open#{}", self.logins.new_code())
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> String {
        format!("{}://{}", self.settings.scheme(), self.address)
    }

    /// Answers requests until `stopped` is cancelled. Then no new work is accepted, sockets close once their sessions are idle, and
    /// running turns may take `drain_seconds` to end.
    pub async fn run(self, host: Arc<Host>, version: &str, stopped: CancellationToken) {
        let Self { listener, address, tls, settings, logins } = self;
        let own = [address.to_string(), format!("localhost:{}", address.port())];
        let gate =
            HostGate::new(settings.public_scheme(), own.into_iter().chain(settings.hosts.iter().cloned()).collect());
        let limits = ConnectionLimits { active: settings.connections as usize, idle: IDLE_CONNECTIONS };
        let state = Arc::new(ServeState {
            sessions: SharedSessions::new(host, settings.keep()),
            workspaces: settings.workspace_folders().into(),
            version: version.to_owned(),
            requests: RequestShares::new(limits.active),
            unread: TotalBytes::new((settings.unread_mib as usize) << 20),
            logins,
            settings,
            tokens: UsedTokens::default(),
            counters: ServeCounters::default(),
            mcp: McpEndpoints::default(),
            draining: stopped,
            stopped: CancellationToken::new(),
        });
        let front = Arc::new(ServeFront::new(gate, Arc::clone(&state)));
        let open = OpenConnections::new(limits);
        let mut connections = JoinSet::new();
        supervisor::notify("READY=1");
        let settling = Arc::clone(&state.sessions);
        tokio::spawn(async move {
            if let Err(error) = settling.settle().await {
                tracing::error!("cannot settle interrupted sessions: {error}");
            }
        });
        let answering = async {
            loop {
                tokio::select! {
                    Some(_) = connections.join_next() => {}
                    accepted = accept(&listener, &open) => {
                        let Some((stream, from, connection)) = accepted else { continue };
                        connections.spawn(serve(stream, from, tls.clone(), connection, Arc::clone(&front)));
                    }
                }
            }
        };
        let store = state.sessions.host().store();
        tokio::select! {
            () = answering => {}
            () = state.sessions.sweep(state.stopped.clone()) => {}
            () = state.tokens.check(store, &state.stopped) => {}
            () = state.mcp.expire(&state.stopped) => {}
            () = drain(&state) => {}
        }
        state.stopped.cancel();
        state.mcp.close();
        // Sockets send the reason for closing. An error means that one of them took too long.
        let _ = tokio::time::timeout(CLOSING, open.all_idle()).await;
        state.sessions.close_idle().await;
        // Rows of the journal are written with a delay.
        if let Err(error) = state.sessions.host().store().settle().await {
            tracing::error!("cannot write the last rows: {error}");
        }
    }
}

/// Waits until the server starts to shut down, and then until the running turns have ended or their time is over.
async fn drain(state: &ServeState) {
    state.draining.cancelled().await;
    supervisor::notify("STOPPING=1");
    let ended = async {
        while state.sessions.is_any_busy() || state.mcp.is_busy() {
            tokio::time::sleep(DRAIN_LOOK).await;
        }
    };
    let time = Duration::from_secs(state.settings.drain_seconds.into());
    if tokio::time::timeout(time, ended).await.is_err() {
        tracing::warn!("turns are still running after {} s; interrupting them", time.as_secs());
    }
}

/// Accepts a connection, even while there is no free permit for a request: health checks do not need one, and the number of waiting
/// requests is limited.
async fn accept(
    listener: &TcpListener,
    open: &Arc<OpenConnections>,
) -> Option<(TcpStream, IpAddr, Arc<OpenConnection>)> {
    match listener.accept().await {
        Ok((stream, from)) => {
            // Otherwise, a small message would wait until the previous one is acknowledged. An error means that the client
            // has left.
            let _ = stream.set_nodelay(true);
            Some((stream, from.ip(), open.add()))
        }
        Err(error) => {
            tracing::warn!("cannot accept a connection: {error}");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

async fn serve(
    stream: TcpStream,
    from: IpAddr,
    tls: Option<TlsAcceptor>,
    connection: Arc<OpenConnection>,
    front: Arc<ServeFront>,
) {
    let stream = TimedIo::new(stream, WRITE_TIME);
    match tls {
        None => answer(stream, from, connection, front).await,
        Some(tls) => {
            let accepted = tokio::select! {
                accepted = tls.accept(stream) => accepted,
                () = connection.closed(FIRST_TIME) => {
                    return tracing::debug!("a connection without a TLS handshake was closed");
                }
            };
            match accepted {
                Ok(stream) => answer(stream, from, connection, front).await,
                Err(error) => tracing::debug!("TLS handshake failed: {error}"),
            }
        }
    }
}

async fn answer<S>(stream: S, from: IpAddr, connection: Arc<OpenConnection>, front: Arc<ServeFront>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (served, receiving) = (Arc::clone(&connection), Arc::<ReceivingBytes>::default());
    let stream = CountedIo { stream, receiving: Arc::clone(&receiving) };
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&receiving));
        let (front, connection) = (Arc::clone(&front), Arc::clone(&served));
        async move { Ok::<_, std::convert::Infallible>(front.answer(request, from, connection).await) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
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
