//! The state of all routes, and the lookup of a request's token.

use std::{path::PathBuf, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderValue, Method, Response, header, request::Parts},
};
use patchbay_core::Digest;
use patchbay_jsonrpc::TotalBytes;
use patchbay_mcp::server::bearer_digest;
use patchbay_session::SharedSessions;
use patchbay_store::{ClientToken, Store};
use tokio_util::sync::CancellationToken;

use crate::{
    ServeSettings,
    login::{Logins, cookie_digest},
    mcp_endpoints::McpEndpoints,
    metrics::ServeCounters,
    request_shares::RequestShares,
    used_tokens::UsedTokens,
};

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
    pub(crate) requests: Arc<RequestShares>,
    /// Bytes of all clients together that are unread, or that belong to incomplete messages.
    pub(crate) unread: Arc<TotalBytes>,
    pub(crate) mcp: McpEndpoints,
    /// Cancelled when the server starts to shut down. From then on, it accepts no new work.
    pub(crate) draining: CancellationToken,
    /// Cancelled when the server ends.
    pub(crate) stopped: CancellationToken,
}

impl ServeState {
    /// Returns the page with the metrics.
    pub(crate) fn metrics(&self) -> Response<Body> {
        let mut answer = Response::new(Body::from(self.counters.page(&self.sessions)));
        let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
        answer.headers_mut().insert(header::CONTENT_TYPE, kind);
        answer
    }

    pub(crate) fn store(&self) -> &Store {
        self.sessions.host().store()
    }

    /// Returns the token of a request, which is looked up each time.
    pub(crate) async fn token(&self, head: &Parts) -> Option<ClientToken> {
        let digest = match head.headers.contains_key(header::AUTHORIZATION) {
            true => bearer_digest(&head.headers)?,
            false => browser_digest(head)?,
        };
        match self.store().client_token(&digest).await {
            Ok(Some(token)) => {
                self.store().note_token_use(&token).await;
                Some(token)
            }
            Ok(None) => None,
            Err(error) => {
                tracing::error!("cannot look up a token: {error}");
                None
            }
        }
    }
}

/// Returns the digest of a browser's cookie. Requests that change something, and WebSockets, also need an `Origin`, because another
/// page could make the browser send them. The gate has already checked that an `Origin` is our own.
fn browser_digest(head: &Parts) -> Option<Digest> {
    let only_reads = matches!(head.method, Method::GET | Method::HEAD) && !head.headers.contains_key(header::UPGRADE);
    (only_reads || head.headers.contains_key(header::ORIGIN)).then(|| cookie_digest(&head.headers)).flatten()
}
