//! The page for browsers: sessions, one conversation as it streams, its questions, what models have cost. Everything that it changes
//! goes through `/v1`.

mod conversation;
mod fragments;
mod markdown;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderValue, Response, StatusCode, header},
    routing::get,
};
use maud::{DOCTYPE, Markup, html};
use serde::Deserialize;
use tokio::time::timeout;

use crate::{
    api::{ApiError, listed, spent},
    login,
    state::ServeState,
    workspaces,
};

/// Nothing of another origin, nothing in the page itself, and no frame around it.
const POLICY: &str = "default-src 'self'; img-src 'none'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const SCRIPT: &str = include_str!("page/page.js");
const STYLE: &str = include_str!("page/page.css");
/// Limit in bytes of a body with a code: it is read without a token.
const CODE_BYTES: usize = 1 << 10;
/// How long a body with a code may take to arrive.
const CODE_TIME: Duration = Duration::from_secs(10);

/// A code of a link.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginCode {
    code: String,
}

/// The paths that a browser without a cookie may read. They show nothing of the home.
pub(crate) fn is_open(path: &str) -> bool {
    matches!(path, "/open" | "/page.js" | "/page.css")
}

/// Adds the routes of the page.
pub(crate) fn routes(router: Router<Arc<ServeState>>) -> Router<Arc<ServeState>> {
    router
        .route("/", get(sessions))
        .route("/usage", get(usage))
        .route("/sessions/{session}", get(conversation::show))
        .route("/sessions/{session}/events", get(conversation::events))
        .route("/open", get(opening).post(opened))
        .route("/page.js", get(async || asset("text/javascript; charset=utf-8", SCRIPT)))
        .route("/page.css", get(async || asset("text/css; charset=utf-8", STYLE)))
}

async fn sessions(State(state): State<Arc<ServeState>>) -> Response<Body> {
    let names: Vec<&str> = workspaces::names(&state.workspaces).map(|(name, _)| name).collect();
    match listed(&state, None).await {
        Ok(sessions) => page("Sessions", "sessions", &fragments::sessions(&sessions, &names)),
        Err(error) => failed(&error),
    }
}

async fn usage(State(state): State<Arc<ServeState>>) -> Response<Body> {
    match spent(&state, None, None).await {
        Ok(rows) => page("Usage", "usage", &fragments::usage(&rows)),
        Err(error) => failed(&error),
    }
}

async fn opening() -> Response<Body> {
    page("Patchbay", "open", &html! { h1 { "Patchbay" } p { "Opening …" } })
}

async fn opened(State(state): State<Arc<ServeState>>, request: Request) -> Response<Body> {
    let body = timeout(CODE_TIME, to_bytes(request.into_body(), CODE_BYTES)).await;
    let body = body.ok().and_then(Result::ok).unwrap_or_default();
    let LoginCode { code } = serde_json::from_slice(&body).unwrap_or_default();
    if !state.logins.take(&code) {
        let message = "this link was used already, or is older than 60 seconds.".to_owned();
        let code = patchbay_core::Code::LinkUsed;
        return ApiError { message, ..ApiError::new(StatusCode::FORBIDDEN, code) }.into_response();
    }
    match login::new_cookie(state.store(), state.settings.public_scheme() == "https").await {
        Ok(Some(cookie)) => {
            let mut response = Response::new(Body::from("{}"));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response.headers_mut().insert(header::SET_COOKIE, cookie);
            response
        }
        Ok(None) => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, patchbay_core::Code::Internal).into_response(),
        Err(error) => ApiError::from(error).into_response(),
    }
}

fn page(title: &str, kind: &str, content: &Markup) -> Response<Body> {
    document(title, &html! { main #main tabindex="-1" data-page=(kind) { (content) } })
}

fn failed(error: &ApiError) -> Response<Body> {
    let message = if error.message.is_empty() { "There is nothing at this address." } else { &error.message };
    let mut response = page("Not possible", "error", &html! { h1 { "Not possible" } p { (message) } });
    *response.status_mut() = error.status;
    response
}

fn document(title: &str, main: &Markup) -> Response<Body> {
    let document = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " – Patchbay" }
                link rel="stylesheet" href="/page.css";
                script type="module" src="/page.js" {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header { strong { "Patchbay" } nav aria-label="Pages" { a href="/" { "Sessions" } " " a href="/usage" { "Usage" } } }
                p #status role="status" {}
                (main)
            }
        }
    };
    asset("text/html; charset=utf-8", document.into_string())
}

fn asset(media_type: &'static str, content: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(content.into());
    for (name, value) in [
        (header::CONTENT_TYPE, media_type),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
