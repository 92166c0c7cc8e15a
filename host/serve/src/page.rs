//! The page for browsers: sessions, one conversation as it streams, its questions, what models have cost. Everything that it changes
//! goes through `/v1`.

mod fragments;
mod markdown;

use std::{sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    body::{Body, to_bytes},
    extract::{Path, Query, Request, State},
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
    response::sse::Event,
    routing::get,
};
use maud::{DOCTYPE, Markup, html};
use patchbay_core::{DeltaKind, EventKind, MessageKind};
use patchbay_session::Received;
use patchbay_store::ClientToken;
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use crate::{
    api::{ApiCall, ApiError, ClientNews, Following, listed, open, spent, stream},
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
/// Rows of a conversation that the page shows at first.
const ROWS: u64 = 500;

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
        .route("/sessions/{session}", get(conversation))
        .route("/sessions/{session}/events", get(events))
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

async fn conversation(
    State(state): State<Arc<ServeState>>,
    Path(session): Path<String>,
    Extension(token): Extension<ClientToken>,
) -> Response<Body> {
    match conversation_page(&state, &call(token, session)).await {
        Ok(page) => page,
        Err(error) => failed(&error),
    }
}

async fn conversation_page(state: &ServeState, call: &ApiCall) -> Result<Response<Body>, ApiError> {
    let seat = open(state, call).await?;
    let (shared, session) = (seat.shared(), seat.shared().session());
    let last = session.last_seq();
    let first = last.saturating_sub(ROWS);
    let mut stored = session.subscribe(first + 1);
    let mut rows = Vec::new();
    let mut read = first;
    while read < last {
        let Some(Received::Event(event)) = stored.try_next().await? else { break };
        read = event.seq;
        rows.extend(fragments::row(&event));
    }
    let title = session.title(80).await.unwrap_or_else(|| "New session".to_owned());
    let questions = shared.questions();
    let questions: Vec<Markup> = questions.borrow().iter().map(|open| fragments::question(open)).collect();
    let content = html! {
        h1 { (title) }
        p.where { (session.workspace()) }
        @if first > 0 { p.notice { "The first " (first) " rows are not shown." } }
        section #rows role="log" aria-label="Conversation" aria-live="polite" { @for row in &rows { (row) } }
        section #live aria-label="Answer so far" hidden {}
        section #questions aria-label="Questions" aria-live="assertive" { @for question in &questions { (question) } }
    };
    let footer = html! {
        footer {
            form #send {
                label.skip for="line" { "Message or command" }
                textarea #line rows="2" placeholder="Message, or /command" autofocus {}
                button type="submit" { "Send" }
                button #stop type="button" disabled[!session.is_answering()] { "Stop" }
            }
        }
    };
    let main = html! { main data-session=(session.id().to_string()) data-row=(last) { (content) } (footer) };
    Ok(document(&title, &main))
}

/// Returns a call about a session, as one of `/v1`.
fn call(token: ClientToken, session: String) -> ApiCall {
    let path = [("session".to_owned(), session)].into();
    ApiCall { token, path, query: Default::default(), headers: HeaderMap::new(), body: Default::default() }
}

/// The events of a session as HTML: `row`, `delta`, `again`, `questions`, `notice` and `state`.
async fn events(
    State(state): State<Arc<ServeState>>,
    Path(session): Path<String>,
    Query(query): Query<std::collections::BTreeMap<String, String>>,
    Extension(token): Extension<ClientToken>,
    headers: HeaderMap,
) -> Response<Body> {
    let call = ApiCall { query, headers, ..call(token, session) };
    let last = call.headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let after = match last.map_or_else(|| call.query("after"), |last| Ok(Some(last))) {
        Ok(after) => after,
        Err(error) => return error.into_response(),
    };
    match Following::begin(state, &call, after).await {
        Ok(following) => stream(following, rendered),
        Err(error) => error.into_response(),
    }
}

fn rendered(following: &Following, told: ClientNews) -> Vec<Event> {
    let named = |name: &str, data: serde_json::Value| Event::default().event(name).data(data.to_string());
    let shared = following.seat.shared();
    let state = || named("state", json!({"running": shared.session().is_answering()}));
    match told {
        ClientNews::QuestionsChanged => {
            let questions = shared.questions();
            let html: String = questions.borrow().iter().map(|open| fragments::question(open).into_string()).collect();
            vec![named("questions", json!({"html": html}))]
        }
        ClientNews::ByOthers(line) => vec![named("notice", json!({"text": &*line}))],
        // Missed pieces come again with their row.
        ClientNews::Received(Received::Lagged(_)) => vec![named("again", json!({}))],
        ClientNews::Received(Received::Event(event)) => match &event.kind {
            EventKind::Message { kind, .. } => {
                let html = fragments::row(&event).map(maud::PreEscaped::into_string);
                let ends = *kind == MessageKind::Assistant;
                let row = named("row", json!({"id": format!("row-{}", event.seq), "html": html, "ends": ends}));
                vec![row.id(event.seq.to_string()), state()]
            }
            EventKind::Delta { block, text, .. } if event.agent == shared.session().view() => {
                vec![named("delta", json!({"text": text, "thinking": *block == DeltaKind::Thinking}))]
            }
            EventKind::GivenUp { .. } => vec![named("again", json!({}))],
            EventKind::TurnBegan { .. } | EventKind::TurnEnded { .. } | EventKind::LineEnded { .. } => vec![state()],
            kind => kind.notice().map(|text| named("notice", json!({"text": text}))).into_iter().collect(),
        },
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
    document(title, &html! { main data-page=(kind) { (content) } })
}

fn failed(error: &ApiError) -> Response<Body> {
    let message = if error.message.is_empty() { "Nothing has this address." } else { &error.message };
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
                a.skip href="#line" { "Skip to the message" }
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
