//! `/mcp`: the tools of skills for remote MCP clients, with the code of `patchbay mcp --http`. The protocol has no workspaces, so
//! the URL names one: `/mcp?workspace=NAME`.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use axum::{
    Extension,
    body::Body,
    extract::{Query, Request, State},
    http::{Method, Response, StatusCode},
};
use http_body_util::BodyExt as _;
use patchbay_core::Code;
use patchbay_mcp::server::{MESSAGE_BYTES, McpEndpoint};
use patchbay_store::ClientToken;
use serde::{Deserialize, de::IgnoredAny};

use crate::{
    api::{ApiError, accepts_work, folder},
    body,
    mcp_endpoints::{ENDPOINTS, TOKEN_ENDPOINTS},
    state::ServeState,
    workspaces,
};

/// Answers a request of an MCP client. The token needs the right `lines`, because calls can have effects. Skills may only do what
/// they were granted; no questions are asked.
pub(crate) async fn answer(
    State(state): State<Arc<ServeState>>,
    Extension(token): Extension<ClientToken>,
    Query(query): Query<BTreeMap<String, String>>,
    request: Request,
) -> Response<Body> {
    let workspace = query.get("workspace").map(String::as_str);
    handle(&state, &token, workspace, request).await.unwrap_or_else(ApiError::into_response)
}

async fn handle(
    state: &ServeState,
    token: &ClientToken,
    workspace: Option<&str>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    if !token.may.lines {
        return Err(ApiError::forbidden("lines"));
    }
    let (head, body) = request.into_parts();
    let is_message = head.method == Method::POST;
    // The body is read before anything counts as busy, because an endless body must neither delay draining nor keep an endpoint.
    let (body, waiting) = if is_message {
        let (body, waiting) = body::read(body, MESSAGE_BYTES, &state.unread.connect(token.digest)).await?;
        if is_request(&body) {
            accepts_work(state)?;
        }
        (Body::from(body), Some(waiting))
    } else {
        (Body::empty(), None)
    };
    let running = is_message.then(|| Arc::clone(&state.mcp.running));
    let endpoint = endpoint(state, token, workspace)?;
    let answer = endpoint.answer(Request::from_parts(head, body)).await;
    Ok(answer.map(|body| {
        // The closure keeps these values until the body is dropped.
        let keep = move |error: Infallible| {
            let _ = (&endpoint, &running, &waiting);
            error
        };
        Body::new(body.map_err(keep))
    }))
}

/// Returns whether a message begins new work: it is neither a notification, such as `notifications/cancelled`, nor a response.
fn is_request(message: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Envelope {
        id: Option<IgnoredAny>,
        method: Option<IgnoredAny>,
    }
    let envelope = serde_json::from_slice::<Envelope>(message).ok();
    envelope.is_none_or(|envelope| envelope.id.is_some() && envelope.method.is_some())
}

fn endpoint(state: &ServeState, token: &ClientToken, named: Option<&str>) -> Result<Arc<McpEndpoint>, ApiError> {
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
            "too many workspaces are in use: the limit is {TOKEN_ENDPOINTS} for each token and {ENDPOINTS} in total. \
             Wait until a request has ended."
        );
        ApiError { message, ..ApiError::new(StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_begin_no_work_are_known() {
        for (message, expected) in [
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}"#, true),
            (r#"{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}"#, false),
            (r#"{"jsonrpc": "2.0", "id": "a", "result": {}}"#, false),
            ("no JSON", true),
            ("[{}, {}]", true),
        ] {
            assert_eq!(is_request(message.as_bytes()), expected, "{message}");
        }
    }
}
