//! `/mcp`: the tools of skills for MCP clients elsewhere, by the code of `patchbay mcp --http`. The protocol knows no workspace, so the
//! URL names it: `/mcp?workspace=NAME`.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use axum::{
    Extension,
    body::Body,
    extract::{Query, Request, State},
    http::{Method, Response, StatusCode},
};
use http_body_util::BodyExt as _;
use patchbay_core::Code;
use patchbay_mcp::server::McpEndpoint;
use patchbay_store::ClientToken;

use crate::{
    api::{ApiError, accepts_work, folder},
    mcp_endpoints::{ENDPOINTS, TOKEN_ENDPOINTS},
    state::ServeState,
    workspaces,
};

/// Answers a request of an MCP client. It needs the right `lines`: its calls can have effects. What they may do is granted to skills,
/// and nothing is asked.
pub(crate) async fn answer(
    State(state): State<Arc<ServeState>>,
    Extension(token): Extension<ClientToken>,
    Query(query): Query<BTreeMap<String, String>>,
    request: Request,
) -> Response<Body> {
    let endpoint = match endpoint(&state, &token, query.get("workspace").map(String::as_str)) {
        Ok(endpoint) => endpoint,
        Err(error) => return error.into_response(),
    };
    let running = (request.method() == Method::POST).then(|| Arc::clone(&state.mcp.running));
    endpoint.answer(request).await.map(|body| {
        // The closure keeps both until the body is dropped.
        let keep = move |error: Infallible| {
            let _ = (&endpoint, &running);
            error
        };
        Body::new(body.map_err(keep))
    })
}

fn endpoint(state: &ServeState, token: &ClientToken, named: Option<&str>) -> Result<Arc<McpEndpoint>, ApiError> {
    if !token.may.lines {
        return Err(ApiError::forbidden("lines"));
    }
    accepts_work(state)?;
    let workspace = match (named, &*state.workspaces) {
        (Some(named), _) => folder(state, named)?,
        (None, [only]) => folder(state, &only.to_string_lossy())?,
        (None, _) => {
            let names: Vec<&str> = workspaces::names(&state.workspaces).map(|(name, _)| name).collect();
            let message =
                format!("name a workspace, as in /mcp?workspace=NAME; this server has: {}.", names.join(", "));
            return Err(ApiError::invalid(message));
        }
    };
    let ended = state.tokens.watch(token.digest);
    state.mcp.get(state.sessions.host(), token, ended, workspace).ok_or_else(|| {
        let message = format!(
            "requests of {TOKEN_ENDPOINTS} workspaces of this token run, or of {ENDPOINTS} of all tokens; wait until one of them has ended."
        );
        ApiError { message, ..ApiError::new(StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable) }
    })
}
