//! One request of `/v1` and its reply, between the table of routes and HTTP.

use std::{collections::BTreeMap, sync::atomic::Ordering};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
};
use patchbay_core::{Code, Outcome, text};
use patchbay_session::{ClientIdentity, SessionError};
use patchbay_store::{ClientToken, StoreError};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};

use crate::state::ServeState;

/// A request whose token was checked.
pub(crate) struct ApiCall {
    pub(crate) token: ClientToken,
    /// The variable segments of the path.
    pub(crate) path: BTreeMap<String, String>,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl ApiCall {
    /// Returns the identity of the client that sent the request.
    pub(crate) fn identity(&self) -> ClientIdentity {
        ClientIdentity { name: self.token.name.as_str().into(), may: self.token.may }
    }

    /// Reads a variable segment of the path. A segment that cannot be parsed is reported like an id that does not exist.
    pub(crate) fn id<T: std::str::FromStr>(&self, name: &str) -> Result<T, ApiError> {
        self.path.get(name).and_then(|id| id.parse().ok()).ok_or(ApiError::NOT_FOUND)
    }

    /// Reads a parameter of the query; `None` if it is missing.
    pub(crate) fn query<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, ApiError> {
        let Some(value) = self.query.get(name) else { return Ok(None) };
        let wrong = || ApiError::invalid(format!("invalid query parameter {name} '{}'.", text::excerpt(value, 80)));
        value.parse().map(Some).map_err(|_| wrong())
    }

    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| ApiError::invalid(format!("invalid body: {}.", text::excerpt(&error.to_string(), 160))))
    }
}

/// The successful reply of a route.
pub(crate) enum Reply {
    Json(StatusCode, Box<serde_json::value::Value>),
    Whole(Response<Body>),
}

impl Reply {
    pub(crate) fn ok(value: &impl Serialize) -> Result<Self, ApiError> {
        Self::with(StatusCode::OK, value)
    }

    pub(crate) fn with(status: StatusCode, value: &impl Serialize) -> Result<Self, ApiError> {
        let value = serde_json::to_value(value).map_err(|error| ApiError {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            code: Code::Internal,
            message: error.to_string(),
        })?;
        Ok(Self::Json(status, Box::new(value)))
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        match self {
            Self::Json(status, value) => json(status, &*value),
            Self::Whole(response) => response,
        }
    }
}

/// Why a request failed.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    pub(crate) code: Code,
    pub(crate) message: String,
}

/// The body of a failed request.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ErrorBody {
    error: ErrorDetail,
}

/// What is wrong, and what to do.
#[derive(Serialize, JsonSchema)]
struct ErrorDetail {
    /// One of the stable codes in docs/codes.md.
    code: String,
    /// What is wrong and what to do about it, for the user.
    message: String,
}

impl ApiError {
    /// Nothing with this id was found. The message does not reveal whether it exists outside of the server's workspaces.
    pub(crate) const NOT_FOUND: Self = Self::new(StatusCode::NOT_FOUND, Code::NotFound);

    pub(crate) const fn new(status: StatusCode, code: Code) -> Self {
        Self { status, code, message: String::new() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::new(StatusCode::BAD_REQUEST, Code::InvalidArgs) }
    }

    pub(crate) fn forbidden(right: &str) -> Self {
        let message = format!("this token lacks the right '{right}' (patchbay token add NAME --may …).");
        Self { message, ..Self::new(StatusCode::FORBIDDEN, Code::TokenRight) }
    }

    pub(crate) fn conflict(code: Code, message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::new(StatusCode::CONFLICT, code) }
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let message = if self.message.is_empty() { "nothing found with this id.".to_owned() } else { self.message };
        json(self.status, &ErrorBody { error: ErrorDetail { code: self.code.as_str().to_owned(), message } })
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> Self {
        let status = match error.code() {
            Code::SessionNotFound => return Self::NOT_FOUND,
            Code::SessionInUse | Code::SessionFenced => StatusCode::CONFLICT,
            Code::FolderUnusable => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { status, code: error.code(), message: error.to_string() }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        SessionError::from(error).into()
    }
}

impl From<Outcome> for ApiError {
    fn from(outcome: Outcome) -> Self {
        Self { message: outcome.message, ..Self::new(StatusCode::BAD_REQUEST, outcome.code) }
    }
}

fn json(status: StatusCode, value: &impl Serialize) -> Response<Body> {
    let mut response = Response::new(Body::from(serde_json::to_vec(value).unwrap_or_default()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Checks that the server is not draining, and therefore accepts new work.
pub(crate) fn accepts_work(state: &ServeState) -> Result<(), ApiError> {
    if !state.draining.is_cancelled() {
        return Ok(());
    }
    state.counters.refused_draining.fetch_add(1, Ordering::Relaxed);
    let message = "the server is shutting down; send this again in a moment.".to_owned();
    Err(ApiError { message, ..ApiError::new(StatusCode::SERVICE_UNAVAILABLE, Code::ServerDraining) })
}
