//! Lists, creates, shows and removes sessions.

use std::{path::Path, sync::Arc};

use axum::http::StatusCode;
use patchbay_core::{Code, SessionId};
use patchbay_session::Seat;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    call::{ApiCall, ApiError, Reply, accepts_work},
    questions::{OpenQuestionBody, open_questions},
};
use crate::{state::ServeState, workspaces};

/// Length limit of a title, in characters.
const TITLE: usize = 80;

/// A list of stored sessions.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ListedSessions {
    /// The sessions, most recently used first.
    sessions: Vec<ListedSession>,
}

/// A stored session that is not empty.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ListedSession {
    /// The session's id, for all other requests.
    pub(crate) id: String,
    /// The session's folder on the server.
    pub(crate) workspace: String,
    /// The session's title, or its first words; null before the first message.
    pub(crate) title: Option<String>,
    /// When the session was last used, in seconds since 1970.
    pub(crate) used_at: i64,
    /// Whether a turn is running in the session.
    pub(crate) is_running: bool,
    /// Number of questions that wait for an answer.
    pub(crate) questions: usize,
}

/// A session to create.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionToCreate {
    /// The name of a folder in the server's `[serve] workspaces`, or an absolute path in such a folder.
    workspace: String,
}

/// The state of an open session.
#[derive(Serialize, JsonSchema)]
pub(crate) struct OpenSessionBody {
    /// The session's id, for all other requests.
    id: String,
    /// The session's folder on the server.
    workspace: String,
    /// The session's title, or its first words; null before the first message.
    title: Option<String>,
    /// Number of the session's last row.
    last_row: u64,
    /// Whether a turn is running in the session.
    is_running: bool,
    /// Lines of the agent in view that wait to be run, in order.
    waiting: Vec<String>,
    /// Questions that wait for an answer, the oldest first.
    questions: Vec<OpenQuestionBody>,
    /// Names of the tokens whose clients have the session open.
    clients: Vec<String>,
}

/// Confirms that the session was removed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Removed {
    /// Always true: a session that cannot be removed is an error.
    removed: bool,
}

/// Returns the sessions in the server's workspaces, most recently used first.
pub(crate) async fn listed(state: &ServeState, workspace: Option<&str>) -> Result<Vec<ListedSession>, ApiError> {
    let mut listed = Vec::new();
    for session in state.store().sessions().await? {
        let is_wanted = workspace.is_none_or(|wanted| session.workspace == wanted);
        if session.messages == 0 || !is_wanted || !workspaces::is_in(&state.workspaces, &session.workspace) {
            continue;
        }
        let open = state.sessions.get(session.id);
        listed.push(ListedSession {
            id: session.id.to_string(),
            title: state.sessions.host().first_words(session.id, TITLE).await?,
            workspace: session.workspace,
            used_at: session.used_at,
            is_running: open.as_ref().is_some_and(|open| open.session().is_answering()),
            questions: open.map_or(0, |open| open.questions().borrow().len()),
        });
    }
    Ok(listed)
}

pub(super) async fn list(state: Arc<ServeState>, call: ApiCall) -> Result<Reply, ApiError> {
    let workspace = match call.query.get("workspace") {
        Some(named) => Some(folder(&state, named)?),
        None => None,
    };
    Reply::ok(&ListedSessions { sessions: listed(&state, workspace.as_deref()).await? })
}

pub(super) async fn create(state: Arc<ServeState>, call: ApiCall) -> Result<Reply, ApiError> {
    let SessionToCreate { workspace } = call.json()?;
    accepts_work(&state)?;
    let seat = state.sessions.create(Path::new(&folder(&state, &workspace)?), Some(call.identity())).await?;
    Reply::with(StatusCode::CREATED, &state_of(&seat).await)
}

pub(super) async fn show(state: Arc<ServeState>, call: ApiCall) -> Result<Reply, ApiError> {
    let seat = open(&state, &call).await?;
    Reply::ok(&state_of(&seat).await)
}

pub(super) async fn remove(state: Arc<ServeState>, call: ApiCall) -> Result<Reply, ApiError> {
    let id = call.id("session")?;
    check(&state, id).await?;
    state.sessions.close(id).await;
    state.sessions.host().remove_session(id).await?;
    Reply::ok(&Removed { removed: true })
}

/// Joins the session that the path of a call names. If it is not open, it is resumed.
pub(crate) async fn open(state: &ServeState, call: &ApiCall) -> Result<Seat, ApiError> {
    let id = call.id("session")?;
    check(state, id).await?;
    Ok(state.sessions.open(id, Some(call.identity())).await?)
}

/// Checks that the session exists, in a workspace of the server.
async fn check(state: &ServeState, id: SessionId) -> Result<(), ApiError> {
    let stored = state.store().session(id).await?;
    if workspaces::is_in(&state.workspaces, &stored.workspace) { Ok(()) } else { Err(ApiError::NOT_FOUND) }
}

async fn state_of(seat: &Seat) -> OpenSessionBody {
    let (shared, session) = (seat.shared(), seat.shared().session());
    OpenSessionBody {
        id: session.id().to_string(),
        workspace: session.workspace().to_owned(),
        title: session.title(TITLE).await,
        last_row: session.last_seq(),
        is_running: session.is_answering(),
        waiting: session.queue().lines.into_iter().map(|line| line.text).collect(),
        questions: open_questions(seat),
        clients: shared.clients().iter().map(|name| name.to_string()).collect(),
    }
}

/// Returns the folder that a client names.
pub(crate) fn folder(state: &ServeState, named: &str) -> Result<String, ApiError> {
    workspaces::find(&state.workspaces, named).ok_or_else(|| {
        let named = patchbay_core::text::excerpt(named, 200);
        let message =
            format!("'{named}' is not in a workspace of this server; see [serve] workspaces in its config.toml.");
        ApiError { message, ..ApiError::new(StatusCode::BAD_REQUEST, Code::FolderUnusable) }
    })
}
