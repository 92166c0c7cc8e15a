//! One request: checked before its path is looked at, then routed. A request without a token gets the same bytes whatever it asks for.

use std::{
    net::IpAddr,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use axum::{
    Extension, Router,
    body::Body,
    extract::{State, WebSocketUpgrade},
    http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts},
    response::IntoResponse as _,
    routing::any,
};
use hyper::{body::Incoming, service::Service as _};
use hyper_util::service::TowerToHyperService;
use patchbay_core::Digest;
use patchbay_mcp::server::{ActiveRequest, HostGate, Misdirected, OpenConnection, bearer_digest};
use patchbay_session::SharedSessions;
use patchbay_store::ClientToken;
use tokio_util::sync::CancellationToken;

use crate::{Logins, ServeSettings, api, metrics::ServeCounters, page, socket, used_tokens::UsedTokens};

/// The path of the numbers, for clients on this machine.
const METRICS: &str = "/metrics";

/// Answers the requests of all connections.
pub(crate) struct ServeFront {
    gate: HostGate,
    state: Arc<ServeState>,
    router: Router,
}

/// The state of all routes.
pub(crate) struct ServeState {
    pub(crate) sessions: Arc<SharedSessions>,
    /// The folders in which sessions may have their workspaces.
    pub(crate) workspaces: Arc<[PathBuf]>,
    pub(crate) version: String,
    pub(crate) logins: Logins,
    pub(crate) settings: ServeSettings,
    pub(crate) tokens: UsedTokens,
    pub(crate) counters: ServeCounters,
    /// Cancelled when the server begins to end: it accepts nothing new.
    pub(crate) draining: CancellationToken,
    /// Cancelled when the server ends.
    pub(crate) stopped: CancellationToken,
}

impl ServeState {
    fn metrics(&self) -> Response<Body> {
        let mut answer = Response::new(Body::from(self.counters.page(&self.sessions)));
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        answer.headers_mut().insert(header::CONTENT_TYPE, kind);
        answer
    }

    /// Returns the token of a request, which is looked up each time.
    async fn token(&self, head: &Parts) -> Option<ClientToken> {
        let digest = match head.headers.contains_key(header::AUTHORIZATION) {
            true => bearer_digest(&head.headers)?,
            false => browser_digest(head)?,
        };
        match self.sessions.host().store().client_token(&digest).await {
            Ok(Some(token)) => {
                self.sessions.host().store().note_token_use(&token).await;
                Some(token)
            }
            Ok(None) => None,
            Err(error) => {
                tracing::error!("a token cannot be looked up: {error}");
                None
            }
        }
    }
}

impl ServeFront {
    pub(crate) fn new(gate: HostGate, state: Arc<ServeState>) -> Self {
        let router = page::routes(api::routes(Router::new().route("/acp", any(acp))));
        let router = router.fallback(not_found).with_state(Arc::clone(&state));
        Self { gate, state, router }
    }

    /// Answers a request of `connection`. Nothing of its body is read before its token is checked.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        from: IpAddr,
        connection: Arc<OpenConnection>,
    ) -> Response<Body> {
        let (head, body) = request.into_parts();
        let counters = &self.state.counters;
        if let Err(misdirected) = self.gate.check(&head) {
            let counter = match misdirected {
                Misdirected::Host => &counters.refused_host,
                Misdirected::Origin => &counters.refused_origin,
            };
            counter.fetch_add(1, Ordering::Relaxed);
            return refusal(misdirected);
        }
        if let Some(probed) = self.probe(&head) {
            return probed;
        }
        // Behind a proxy, clients elsewhere come from this machine, too.
        let is_near = from.is_loopback();
        if head.uri.path() == METRICS && is_near && !self.state.settings.behind_proxy {
            return self.state.metrics();
        }
        let token = self.state.token(&head).await;
        if token.is_none() && !page::is_open(head.uri.path()) {
            counters.refused_token.fetch_add(1, Ordering::Relaxed);
            return no_token();
        }
        if head.uri.path() == METRICS && is_near {
            return self.state.metrics();
        }
        if self.state.draining.is_cancelled() {
            counters.refused_draining.fetch_add(1, Ordering::Relaxed);
            return text(StatusCode::SERVICE_UNAVAILABLE, "The server restarts; connect again.\n");
        }
        let active = Arc::new(connection.begin().await);
        let mut request = Request::from_parts(head, Body::new(body));
        if let Some(token) = token {
            request.extensions_mut().insert(token);
        }
        request.extensions_mut().insert(Arc::clone(&active));
        let Ok(answer) = TowerToHyperService::new(self.router.clone()).call(request).await;
        answer
    }

    /// Answers the requests of supervisors, which need no token.
    fn probe(&self, head: &Parts) -> Option<Response<Body>> {
        let is_draining = self.state.draining.is_cancelled();
        match head.uri.path() {
            "/healthz" => Some(text(StatusCode::OK, "ok\n")),
            "/readyz" if is_draining => Some(text(StatusCode::SERVICE_UNAVAILABLE, "draining\n")),
            "/readyz" => Some(text(StatusCode::OK, "ready\n")),
            _ => None,
        }
    }
}

async fn acp(
    State(state): State<Arc<ServeState>>,
    Extension(token): Extension<ClientToken>,
    Extension(active): Extension<Arc<ActiveRequest>>,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Response<Body> {
    match upgrade {
        Ok(upgrade) => socket::configured(upgrade).on_upgrade(async move |socket| {
            state.counters.connections.fetch_add(1, Ordering::Relaxed);
            socket::serve(socket, &state, &token).await;
            drop(active);
        }),
        Err(rejection) => rejection.into_response(),
    }
}

/// Returns the digest of a browser's cookie. A change, and a WebSocket, also needs the `Origin` of our own page: another page could
/// make the browser send them. The gate has checked that an `Origin` is ours.
fn browser_digest(head: &Parts) -> Option<Digest> {
    let only_reads = matches!(head.method, Method::GET | Method::HEAD) && !head.headers.contains_key(header::UPGRADE);
    (only_reads || head.headers.contains_key(header::ORIGIN)).then(|| page::cookie_digest(&head.headers)).flatten()
}

async fn not_found() -> Response<Body> {
    text(StatusCode::NOT_FOUND, "not found\n")
}

fn refusal(misdirected: Misdirected) -> Response<Body> {
    match misdirected {
        Misdirected::Host => text(
            StatusCode::MISDIRECTED_REQUEST,
            "The header Host does not name this server. If you reach it by this name, add it to hosts in [serve] of config.toml.\n",
        ),
        Misdirected::Origin => text(StatusCode::FORBIDDEN, "Web pages of other origins may not use this server.\n"),
    }
}

fn no_token() -> Response<Body> {
    let mut answer = text(
        StatusCode::UNAUTHORIZED,
        "The header 'Authorization: Bearer TOKEN' is missing, or its token is unknown or has expired: patchbay token add NAME\n",
    );
    answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

fn text(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut answer = Response::new(Body::from(text));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
