//! The conversation of one agent: the agent in view, or another agent with `?agent=ID`. Lines are sent to the agent in view.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use axum::{
    Extension,
    body::Body,
    extract::{Path, Query, State},
    http::{HeaderMap, Response},
    response::sse::Event,
};
use maud::{Markup, PreEscaped, html};
use patchbay_core::{AgentId, DeltaKind, EventKind, MessageKind};
use patchbay_session::{AgentTree, Received, Session, ViewRows};
use patchbay_store::ClientToken;
use serde_json::{Value, json};

use super::{document, failed, fragments};
use crate::{
    api::{ApiCall, ApiError, ClientNews, Following, open, stream},
    state::ServeState,
};

/// Rows of a conversation that the page shows at first.
const ROWS: usize = 500;
/// How many of the session's last rows are searched for rows to show.
const LOOKED: u64 = 10_000;

/// The agent that a page shows.
struct ShownAgent {
    id: AgentId,
    rows: ViewRows,
}

pub(super) async fn show(
    State(state): State<Arc<ServeState>>,
    Path(session): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
    Extension(token): Extension<ClientToken>,
) -> Response<Body> {
    match page(&state, &call(token, session, query, HeaderMap::new())).await {
        Ok(page) => page,
        Err(error) => failed(&error),
    }
}

/// Returns a call about a session, in the form of a call of `/v1`.
fn call(token: ClientToken, session: String, query: BTreeMap<String, String>, headers: HeaderMap) -> ApiCall {
    ApiCall { token, path: [("session".to_owned(), session)].into(), query, headers, body: Default::default() }
}

/// Returns the agent that the page's address names, by default the agent in view.
async fn shown(session: &Session, tree: &AgentTree, call: &ApiCall) -> Result<ShownAgent, ApiError> {
    let id = match call.query.get("agent") {
        None => session.view(),
        Some(named) => {
            let mut known = tree.living.iter().chain(&tree.dead).map(|agent| agent.id);
            known.find(|id| id.to_string() == *named).ok_or(ApiError::NOT_FOUND)?
        }
    };
    Ok(ShownAgent { id, rows: session.rows_of(id).await? })
}

async fn page(state: &ServeState, call: &ApiCall) -> Result<Response<Body>, ApiError> {
    let seat = open(state, call).await?;
    let session = seat.shared().session();
    let (view, tree) = (session.view(), session.agent_tree().await?);
    let shown = shown(session, &tree, call).await?;
    let last = session.last_seq();
    let (rows, are_all) = stored(session, &shown.rows, last).await?;
    let title = session.title(80).await.unwrap_or_else(|| "New session".to_owned());
    let path = format!("/sessions/{}", session.id());
    let content = html! {
        h1 { (title) }
        p.where { (session.workspace()) }
        (fragments::agents(&tree, shown.id, &path))
        @if !are_all { p.notice { "Earlier rows are not shown." } }
        section #rows role="log" aria-label="Conversation" aria-live="polite" { @for row in &rows { (row) } }
        section #live aria-label="Answer so far" hidden {}
        section #questions aria-label="Questions" aria-live="assertive" { (fragments::questions(&seat, shown.id)) }
    };
    let stop = html! { button #stop type="button" disabled[!session.is_answering()] { "Stop" } };
    let footer = html! {
        footer {
            @if shown.id == view {
                form #send {
                    label.skip for="line" { "Message or command" }
                    textarea #line rows="2" placeholder="Message, or /command" autofocus {}
                    button type="submit" { "Send" }
                    (stop)
                }
            } @else {
                p { "Messages go to agent " (view.short()) ", not to this one." }
                p.answers {
                    @if tree.living.iter().any(|agent| agent.id == shown.id) {
                        button #switch type="button" data-line={"/switch " (shown.id)} { "Talk to this agent" }
                    }
                    (stop)
                }
            }
        }
    };
    let session = session.id().to_string();
    let main = html! {
        main #main tabindex="-1" data-session=(session) data-row=(last) data-agent=(shown.id) data-view=(view) { (content) }
        (footer)
    };
    Ok(document(&title, &main))
}

/// Returns the last rows of a conversation up to row `last`, and whether these are all.
async fn stored(session: &Session, rows: &ViewRows, last: u64) -> Result<(Vec<Markup>, bool), ApiError> {
    let first = last.saturating_sub(LOOKED);
    let (mut found, mut are_all, mut read) = (VecDeque::new(), first == 0, first);
    let mut events = session.subscribe(first + 1);
    while read < last {
        let Some(Received::Event(event)) = events.try_next().await? else { break };
        read = event.seq;
        if rows.has(&event) {
            found.push_back(event);
        }
        if found.len() > ROWS {
            are_all = false;
            found.pop_front();
        }
    }
    Ok((found.iter().filter_map(fragments::row).collect(), are_all))
}

/// The events of a conversation as HTML: `row`, `delta`, `partial`, `again`, `questions`, `agents`, `notice` and `state`.
pub(super) async fn events(
    State(state): State<Arc<ServeState>>,
    Path(session): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
    Extension(token): Extension<ClientToken>,
    headers: HeaderMap,
) -> Response<Body> {
    match follow(state, call(token, session, query, headers)).await {
        Ok(events) => events,
        Err(error) => error.into_response(),
    }
}

async fn follow(state: Arc<ServeState>, call: ApiCall) -> Result<Response<Body>, ApiError> {
    let following = Following::begin(state, &call).await?;
    let session = following.seat.shared().session();
    let shown = shown(session, &session.agent_tree().await?, &call).await?;
    Ok(stream(following, move |following, told| rendered(&shown, following, told)))
}

fn rendered(shown: &ShownAgent, following: &Following, told: ClientNews) -> Vec<Event> {
    let named = |name: &str, data: Value| Event::default().event(name).data(data.to_string());
    let session = following.seat.shared().session();
    let state = || named("state", json!({"running": session.is_answering(), "view": session.view().to_string()}));
    match told {
        // The first list of questions comes at the beginning.
        ClientNews::QuestionsChanged => {
            let html = fragments::questions(&following.seat, shown.id).into_string();
            vec![named("questions", json!({"html": html})), state()]
        }
        ClientNews::ByOthers(line) => vec![named("notice", json!({"text": &*line}))],
        ClientNews::Partial(agent, answer) if agent == shown.id => vec![named("partial", json!({"text": answer.text}))],
        ClientNews::Partial(..) => Vec::new(),
        // Missed pieces are sent again with the text so far, or with their row.
        ClientNews::Received(Received::Lagged(_)) => {
            vec![named("again", json!({})), named("agents", json!({})), state()]
        }
        ClientNews::Received(Received::Event(event)) => match &event.kind {
            EventKind::Message { kind, .. } => {
                let row = Some(&event).filter(|event| shown.rows.has(event)).and_then(fragments::row);
                let ends = *kind == MessageKind::Assistant && event.agent == shown.id;
                let html = row.map(PreEscaped::into_string);
                let row = named("row", json!({"id": format!("row-{}", event.seq), "html": html, "ends": ends}));
                vec![row.id(event.seq.to_string()), state()]
            }
            EventKind::Delta { block, text, .. } if event.agent == shown.id => {
                vec![named("delta", json!({"text": text, "thinking": *block == DeltaKind::Thinking}))]
            }
            EventKind::GivenUp { .. } if event.agent == shown.id => vec![named("again", json!({}))],
            EventKind::AgentForked { .. } | EventKind::AgentKilled => vec![named("agents", json!({}))],
            EventKind::TurnBegan { .. }
            | EventKind::TurnEnded { .. }
            | EventKind::LineEnded { .. }
            | EventKind::ViewMoved => vec![state()],
            kind => {
                let text = kind.notice().map(|text| match event.agent == shown.id {
                    true => text,
                    false => format!("{}: {text}", event.agent.short()),
                });
                text.map(|text| named("notice", json!({"text": text}))).into_iter().collect()
            }
        },
    }
}
