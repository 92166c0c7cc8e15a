//! Checks a request before looking at its path, then routes it. Requests without a valid token all get the same response, except
//! for health checks, metrics and the login page.

use std::{
    net::IpAddr,
    sync::{Arc, atomic::Ordering},
};

use axum::{
    Extension, Router,
    body::Body,
    extract::{State, WebSocketUpgrade},
    http::{HeaderValue, Request, Response, StatusCode, header, request::Parts},
    response::IntoResponse as _,
    routing::any,
};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, service::Service as _};
use hyper_util::service::TowerToHyperService;
use patchbay_mcp::server::{HostGate, Misdirected, OpenConnection};
use patchbay_store::ClientToken;

use crate::{
    api, mcp, page,
    receiving::ReceivingBytes,
    request_shares::{ServedRequest, TooManyRequests},
    socket,
    state::ServeState,
};

/// The path of the metrics, for clients on this machine.
const METRICS: &str = "/metrics";
/// The path of WebSockets.
const ACP: &str = "/acp";
/// The path that MCP clients connect to.
const MCP: &str = "/mcp";

/// Answers the requests of all connections.
pub(crate) struct ServeFront {
    gate: HostGate,
    state: Arc<ServeState>,
    router: Router,
}

impl ServeFront {
    pub(crate) fn new(gate: HostGate, state: Arc<ServeState>) -> Self {
        let router = page::routes(api::routes(Router::new().route(ACP, any(acp)).route(MCP, any(mcp::answer))));
        let router = router.fallback(not_found).with_state(Arc::clone(&state));
        Self { gate, state, router }
    }

    /// Answers a request of `connection`. Except for a login, its body is not read before its token is checked.
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
        // Behind a proxy, remote clients seem to connect from this machine, too.
        let is_near = from.is_loopback();
        if head.uri.path() == METRICS && is_near && !self.state.settings.behind_proxy {
            return self.state.metrics();
        }
        let token = self.state.token(&head).await;
        let Some(token) = token else {
            if page::is_open(head.uri.path()) {
                // This request gets no permit, so the connection is closed if no request with a token follows in time.
                return self.route(Request::from_parts(head, Body::new(body))).await;
            }
            counters.refused_token.fetch_add(1, Ordering::Relaxed);
            return no_token();
        };
        if head.uri.path() == METRICS && is_near {
            return self.state.metrics();
        }
        // Here, only new WebSockets are refused: other requests can still stop running turns and answer questions.
        if head.uri.path() == ACP && self.state.draining.is_cancelled() {
            counters.refused_draining.fetch_add(1, Ordering::Relaxed);
            return text(StatusCode::SERVICE_UNAVAILABLE, "The server is restarting; connect again.\n");
        }
        let share = match self.state.requests.begin(token.digest) {
            Ok(share) => share,
            Err(too_many) => {
                counters.refused_busy.fetch_add(1, Ordering::Relaxed);
                return too_many_requests(too_many);
            }
        };
        let active = Arc::new(ServedRequest { _active: connection.begin().await, _share: share });
        let mut request = Request::from_parts(head, Body::new(body));
        request.extensions_mut().insert(token);
        request.extensions_mut().insert(Arc::clone(&active));
        // The closure keeps the request active until the body is dropped.
        self.route(request).await.map(|body| {
            let keep_active = move |error| {
                let _ = &active;
                error
            };
            Body::new(body.map_err(keep_active))
        })
    }

    async fn route(&self, request: Request<Body>) -> Response<Body> {
        let Ok(answer) = TowerToHyperService::new(self.router.clone()).call(request).await;
        answer
    }

    /// Answers the health checks of supervisors, which need no token.
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
    Extension(active): Extension<Arc<ServedRequest>>,
    Extension(receiving): Extension<Arc<ReceivingBytes>>,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Response<Body> {
    match upgrade {
        Ok(upgrade) => socket::configured(upgrade).on_upgrade(async move |socket| {
            state.counters.connections.fetch_add(1, Ordering::Relaxed);
            socket::serve(socket, &state, &token, &receiving).await;
            drop(active);
        }),
        Err(rejection) => rejection.into_response(),
    }
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

fn too_many_requests(too_many: TooManyRequests) -> Response<Body> {
    match too_many {
        TooManyRequests::OfToken => text(
            StatusCode::TOO_MANY_REQUESTS,
            "This token has too many requests or connections open; close one of them, or raise connections in [serve] of \
             config.toml.\n",
        ),
        TooManyRequests::OfAll => {
            text(StatusCode::SERVICE_UNAVAILABLE, "Too many requests are waiting; try again later.\n")
        }
    }
}

fn no_token() -> Response<Body> {
    let mut answer = text(
        StatusCode::UNAUTHORIZED,
        "The header 'Authorization: Bearer TOKEN' is missing, or its token is unknown or has expired. To create \
         one: patchbay token add NAME\n",
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
