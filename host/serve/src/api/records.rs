//! What was stored: attachments, costs, tool calls.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{HeaderValue, Response, header},
};
use patchbay_core::{Digest, SessionId};
use patchbay_session::{journal_object, spending_object};
use patchbay_store::{JournalFilter, day_of};
use schemars::JsonSchema;
use serde::Serialize;

use super::call::{ApiCall, ApiError, Reply};
use crate::state::ServeState;

/// Limit of the rows of one reply, and how many there are by default.
const ROWS: [u32; 2] = [1_000, 100];

/// Rows, as the command line prints them with `--json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Rows {
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
    // It may be a page of someone else.
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
            ApiError::invalid(format!("'{day}' is not a day: write it as in 2026-11-27."))
        })?),
    };
    let rows = state.store().spending_rows(call.query("session")?, day).await?;
    Reply::ok(&Rows { rows: rows.iter().map(spending_object).collect() })
}

pub(super) async fn journal(state: Arc<ServeState>, call: ApiCall) -> Result<Reply, ApiError> {
    let [most, usual] = ROWS;
    let limit = call.query::<u32>("limit")?.unwrap_or(usual).clamp(1, most);
    let filter = JournalFilter { session: call.query("session")?, ..JournalFilter::default() };
    let rows = state.store().journal_rows(&filter, call.query("after")?.unwrap_or_default(), limit).await?;
    Reply::ok(&Rows { rows: rows.iter().map(journal_object).collect() })
}
