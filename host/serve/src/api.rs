//! `/v1`: sessions for scripts and CI. The routes, their description and their tests come from one table.

mod call;
mod describe;
mod events;
mod followed_events;
mod lines;
mod questions;
mod records;
mod sessions;
mod table;

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{Path, Query, Request, State},
    http::{HeaderMap, Method, Response, StatusCode, header},
    routing::{MethodFilter, MethodRouter, on},
};
use patchbay_core::Code;
use patchbay_store::ClientToken;

pub use describe::{markdown, open_api};
pub(crate) use {
    call::{ApiCall, ApiError, Reply, accepts_work},
    events::{ClientNews, Following, stream},
    questions::{OpenQuestionBody, open_questions},
    records::spent,
    sessions::{ListedSession, folder, listed, open},
};

use crate::{body, state::ServeState};
use table::{ApiRoute, ROUTES, RouteRight};

/// The path of the OpenAPI description.
const OPEN_API: &str = "/v1/openapi.json";

/// Adds the routes of the table. The token of each request was already checked, and is one of the request's extensions.
pub(crate) fn routes(mut router: Router<Arc<ServeState>>) -> Router<Arc<ServeState>> {
    let mut paths: BTreeMap<&str, MethodRouter<Arc<ServeState>>> = BTreeMap::new();
    for route in ROUTES {
        let handle = move |state, path, query, request| answer(route, state, path, query, request);
        let method = match route.method {
            "GET" => MethodFilter::GET,
            "DELETE" => MethodFilter::DELETE,
            _ => MethodFilter::POST,
        };
        let methods = paths.remove(route.path).unwrap_or_default();
        paths.insert(route.path, methods.on(method, handle));
    }
    for (path, methods) in paths {
        router = router.route(path, methods);
    }
    let description = async || Reply::ok(&open_api()).map_or_else(ApiError::into_response, Reply::into_response);
    router.route(OPEN_API, on(MethodFilter::GET, description))
}

async fn answer(
    route: &'static ApiRoute,
    State(state): State<Arc<ServeState>>,
    Path(path): Path<BTreeMap<String, String>>,
    Query(query): Query<BTreeMap<String, String>>,
    request: Request,
) -> Response<Body> {
    match handle(route, state, path, query, request).await {
        Ok(reply) => reply.into_response(),
        Err(error) => error.into_response(),
    }
}

async fn handle(
    route: &'static ApiRoute,
    state: Arc<ServeState>,
    path: BTreeMap<String, String>,
    query: BTreeMap<String, String>,
    request: Request,
) -> Result<Reply, ApiError> {
    let (mut head, body) = request.into_parts();
    let token = head.extensions.remove::<ClientToken>();
    let token = token.ok_or(ApiError::new(StatusCode::UNAUTHORIZED, Code::TokenNotFound))?;
    match route.needs {
        RouteRight::Lines if !token.may.lines => return Err(ApiError::forbidden("lines")),
        RouteRight::Answers if !token.may.answers => return Err(ApiError::forbidden("answers")),
        _ => {}
    }
    let known = |name: &str| route.query.iter().any(|(known, _)| *known == name);
    if let Some(unknown) = query.keys().find(|name| !known(name)) {
        let unknown = patchbay_core::text::excerpt(unknown, 80);
        return Err(ApiError::invalid(format!("unknown query parameter '{unknown}'.")));
    }
    check_type(route, &head.method, &head.headers)?;
    // The bytes of the body count while the request is handled.
    let (body, _waiting) = body::read(body, route.body_bytes, &state.unread.connect(token.digest)).await?;
    let call = ApiCall { token, path, query, headers: head.headers, body };
    (route.handler)(state, call).await
}

/// Checks that a body is declared as JSON. A web page of another origin cannot send this type without a preflight request.
fn check_type(route: &ApiRoute, method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    let sent = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_json = sent.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    if route.body.is_none() || method != Method::POST || is_json {
        return Ok(());
    }
    let message = "send the body as JSON, with 'Content-Type: application/json'.".to_owned();
    Err(ApiError { message, ..ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::InvalidArgs) })
}
