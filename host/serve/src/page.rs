//! The web pages of `patchbay serve`: the list of sessions, a conversation as it streams with its questions, and the
//! cost of models. The pages only display; their script makes every change through `/v1`.

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

/// The `Content-Security-Policy`: scripts and styles from this origin only and never inline, no images, no framing.
const CONTENT_POLICY: &str = "default-src 'self'; img-src 'none'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const SCRIPT: &str = include_str!("page/page.js");
const STYLE: &str = include_str!("page/page.css");
/// Size limit of a login request, in bytes. Small, because this body is read before authentication.
const LOGIN_BYTES: usize = 1 << 10;
/// How long the body of a login request may take to arrive.
const LOGIN_TIME: Duration = Duration::from_secs(10);

/// The body of a login request: the one-time code in a link of `patchbay serve --open`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoginCode {
    code: String,
}

/// Returns whether a browser may request this path without a cookie. None of these pages shows user data.
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
        .route("/open", get(login_page).post(log_in))
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

async fn login_page() -> Response<Body> {
    page("Patchbay", "open", &html! { h1 { "Patchbay" } p { "Opening …" } })
}

/// Exchanges the code of a link for a cookie. A body that is late, too large or malformed counts as an unknown code.
async fn log_in(State(state): State<Arc<ServeState>>, request: Request) -> Response<Body> {
    let body = timeout(LOGIN_TIME, to_bytes(request.into_body(), LOGIN_BYTES)).await;
    let body = body.ok().and_then(Result::ok).unwrap_or_default();
    let LoginCode { code } = serde_json::from_slice(&body).unwrap_or_default();
    if !state.logins.take(&code) {
        let message = "this link has already been used, or is older than 60 seconds.".to_owned();
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
        // Another browser's token already has the same random name.
        Ok(None) => {
            let message = "cannot create a token for this browser; run 'patchbay serve --open' again.".to_owned();
            let code = patchbay_core::Code::Internal;
            ApiError { message, ..ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, code) }.into_response()
        }
        Err(error) => ApiError::from(error).into_response(),
    }
}

fn page(title: &str, kind: &str, content: &Markup) -> Response<Body> {
    document(title, &html! { main #main tabindex="-1" data-page=(kind) { (content) } })
}

/// Returns the page for a failed request. Only [`ApiError::NOT_FOUND`] has no message.
fn failed(error: &ApiError) -> Response<Body> {
    let message = if error.message.is_empty() { "Page not found." } else { &error.message };
    let mut response = page("Error", "error", &html! { h1 { "Error" } p { (message) } });
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
                a.skip href="#main" { "Skip to content" }
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
        (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
