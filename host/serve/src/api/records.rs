//! Stored records: attachments, costs, tool calls.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    body::Body,
    http::{HeaderValue, Response, header},
};
use patchbay_core::{Digest, SessionId};
use patchbay_session::{journal_object, spending_object};
use patchbay_store::{JournalFilter, SpendingRow, day_of};
use schemars::JsonSchema;
use serde::Serialize;

use super::call::{ApiCall, ApiError, Reply};
use crate::{state::ServeState, workspaces};

/// The maximum and the default number of rows in a reply.
const ROWS: [u32; 2] = [1_000, 100];

/// Rows in the format of the command line with `--json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Rows {
    /// The rows, as in `patchbay usage --json` or `patchbay journal --json`.
    rows: Vec<serde_json::Value>,
}

pub(super) async fn attachment(state: Arc<ServeState>, call: ApiCall) -> Result<Reply, ApiError> {
    let digest: Digest = call.id("digest")?;
    let session: SessionId = super::sessions::open(&state, &call).await?.shared().session().id();
    let store = state.store().clone();
    if !store.has_attachment(session, &digest).await? {
        return Err(ApiError::NOT_FOUND);
    }
    let content = tokio::task::spawn_blocking(move || store.attachment(&digest)).await;
    let content = content.map_err(|error| ApiError::invalid(error.to_string()))??.ok_or(ApiError::NOT_FOUND)?;
    let mut response = Response::new(Body::from(content));
    let headers = response.headers_mut();
    // The attachment may be a web page that someone else wrote, so browsers must download it instead of showing it.
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(Reply::Whole(response))
}

pub(super) async fn usage(state: Arc<ServeState>, call: ApiCall) -> Result<Reply, ApiError> {
    let day = match call.query::<String>("day")? {
        None => None,
        Some(day) => Some(day_of(&day).ok_or_else(|| {
            let day = patchbay_core::text::excerpt(&day, 40);
            ApiError::invalid(format!("'{day}' is not a date: write it as in 2026-11-27."))
        })?),
    };
    let rows = spent(&state, call.query("session")?, day).await?;
    Reply::ok(&Rows { rows: rows.iter().map(spending_object).collect() })
}

/// Returns the cost of the sessions in the server's workspaces. Removed sessions are left out, because their workspace is no
/// longer known.
pub(crate) async fn spent(
    state: &ServeState,
    session: Option<SessionId>,
    day: Option<i64>,
) -> Result<Vec<SpendingRow>, ApiError> {
    let mut sessions = state.store().sessions().await?;
    sessions.retain(|session| workspaces::is_in(&state.workspaces, &session.workspace));
    let shown: BTreeSet<String> = sessions.into_iter().map(|session| session.id.to_string()).collect();
    let mut rows = state.store().spending_rows(session, day).await?;
    rows.retain(|row| shown.contains(&row.session));
    Ok(rows)
}

pub(super) async fn journal(state: Arc<ServeState>, call: ApiCall) -> Result<Reply, ApiError> {
    let [most, usual] = ROWS;
    let limit = call.query::<u32>("limit")?.unwrap_or(usual).clamp(1, most) as usize;
    let filter = JournalFilter { session: call.query("session")?, ..JournalFilter::default() };
    let mut after = call.query("after")?.unwrap_or_default();
    let mut rows = Vec::new();
    while rows.len() < limit {
        let page = state.store().journal_rows(&filter, after, most).await?;
        let Some(last) = page.last() else { break };
        after = last.id;
        rows.extend(page.into_iter().filter(|entry| workspaces::is_in(&state.workspaces, &entry.row.workspace)));
    }
    rows.truncate(limit);
    Reply::ok(&Rows { rows: rows.iter().map(journal_object).collect() })
}
