//! The events of a session as server-sent events.
//!
//! Unnamed events are the JSON of `patchbay exec --json`. The event of a row has the row's number as its id, so a browser that
//! reconnects misses no row. Named events are `line` (how a line ended), `questions` (all open questions, when they change),
//! `client` (one line about what another client did) and `partial` (the text of an answer so far, for a client that joins it).

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    body::Body,
    http::Response,
    response::{
        IntoResponse as _,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream::unfold;
use patchbay_core::{AgentId, Digest, EventKind};
use patchbay_session::{AnswerSoFar, Received, Seat, SeatEvent, event_object};
use serde_json::json;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::{
    call::{ApiCall, ApiError, Reply},
    followed_events::{FollowedEvent, FollowedEvents},
    questions::open_questions,
    sessions::open,
};
use crate::state::ServeState;

/// How often something is sent on an idle stream, because proxies close silent connections.
const ALIVE: Duration = Duration::from_secs(15);
/// How often a stream checks whether its token was removed.
const TOKEN_CHECK: Duration = Duration::from_secs(2);

/// A stream of events to one client.
pub(crate) struct Following {
    pub(crate) state: Arc<ServeState>,
    /// Keeps the session open.
    pub(crate) seat: Seat,
    events: FollowedEvents,
    token: Digest,
    checks: Interval,
}

/// The next message to a client.
pub(crate) enum ClientNews {
    Received(Received),
    /// The text so far of the answer that an agent is writing. It replaces earlier deltas.
    Partial(AgentId, AnswerSoFar),
    QuestionsChanged,
    /// A line about the action of another client.
    ByOthers(Arc<str>),
}

impl Following {
    /// Joins a session. The header `Last-Event-ID` or the query parameter `after` is the last row that the client has. Without
    /// both, the stream begins after the last stored row.
    pub(crate) async fn begin(state: Arc<ServeState>, call: &ApiCall) -> Result<Self, ApiError> {
        let last = match call.headers.get("last-event-id") {
            None => None,
            Some(id) => Some(
                id.to_str()
                    .ok()
                    .and_then(|id| id.parse().ok())
                    .ok_or_else(|| ApiError::invalid("Last-Event-ID is not the number of a row."))?,
            ),
        };
        let after = last.or(call.query("after")?);
        let seat = open(&state, call).await?;
        let session = seat.shared().session();
        let events = FollowedEvents::new(session, after.unwrap_or_else(|| session.last_seq()));
        let mut checks = interval(TOKEN_CHECK);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self { state, seat, events, token: call.token.digest, checks })
    }

    /// Waits for the next message to the client; `None` once the session has ended, the server stops, or the token was removed.
    pub(crate) async fn next(&mut self) -> Option<ClientNews> {
        let stopped = self.state.stopped.clone();
        loop {
            tokio::select! {
                biased;
                () = stopped.cancelled() => return None,
                event = self.events.next() => match event {
                    Ok(Some(FollowedEvent::Received(received))) => return Some(ClientNews::Received(received)),
                    Ok(Some(FollowedEvent::Partial(agent, answer))) => return Some(ClientNews::Partial(agent, answer)),
                    Ok(None) => return None,
                    Err(error) => {
                        tracing::error!("cannot read the events of a session: {error}");
                        return None;
                    }
                },
                event = self.seat.next() => match event {
                    SeatEvent::Questions(_) => return Some(ClientNews::QuestionsChanged),
                    SeatEvent::Told(line) => return Some(ClientNews::ByOthers(line)),
                },
                _ = self.checks.tick() => {
                    if !matches!(self.state.store().client_token(&self.token).await, Ok(Some(_))) {
                        return None;
                    }
                }
            }
        }
    }
}

pub(super) async fn follow(state: Arc<ServeState>, call: ApiCall) -> Result<Reply, ApiError> {
    let following = Following::begin(state, &call).await?;
    Ok(Reply::Whole(stream(following, |following, told| match told {
        ClientNews::QuestionsChanged => {
            let questions = json!(open_questions(&following.seat));
            vec![Event::default().event("questions").data(questions.to_string())]
        }
        ClientNews::ByOthers(line) => vec![Event::default().event("client").data(json!({"text": &*line}).to_string())],
        ClientNews::Partial(agent, AnswerSoFar { turn, answer, text, .. }) => {
            let object = json!({"agent": agent.to_string(), "turn": turn, "answer": answer, "text": text});
            vec![Event::default().event("partial").data(object.to_string())]
        }
        ClientNews::Received(Received::Lagged(missed)) => {
            vec![Event::default().data(json!({"event": "lagged", "missed": missed}).to_string())]
        }
        ClientNews::Received(Received::Event(event)) => {
            if let EventKind::LineEnded { line, outcome } = &event.kind {
                let mut object = serde_json::to_value(outcome).unwrap_or_default();
                object["line"] = line.to_string().into();
                return vec![Event::default().event("line").data(object.to_string())];
            }
            let row = matches!(event.kind, EventKind::Message { .. }).then_some(event.seq);
            let Some(object) = event_object(event) else { return Vec::new() };
            let told = Event::default().data(object.to_string());
            vec![row.map_or(told.clone(), |row| told.id(row.to_string()))]
        }
    })))
}

/// Returns the response that streams all messages of `following`, as `render` writes them.
pub(crate) fn stream(
    following: Following,
    render: impl Fn(&Following, ClientNews) -> Vec<Event> + Send + 'static,
) -> Response<Body> {
    let state = (following, render, Vec::new().into_iter());
    let events = unfold(state, |(mut following, render, mut ready)| async move {
        loop {
            if let Some(event) = ready.next() {
                return Some((Ok::<Event, Infallible>(event), (following, render, ready)));
            }
            let told = following.next().await?;
            ready = render(&following, told).into_iter();
        }
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}
