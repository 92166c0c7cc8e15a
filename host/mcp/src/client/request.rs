//! One request to a server. A request that is dropped before its answer is cancelled at the server.

use patchbay_core::text;
use rmcp::{
    RoleClient,
    model::{ClientRequest, CustomResult, ErrorData, ServerResult},
    service::{Peer, PeerRequestOptions, RequestHandle, ServiceError},
};
use serde_json::Value;

/// Length limit of a server's error message, in characters.
const WORDS: usize = 500;

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ServerRequestError {
    /// The server responded with this error message.
    #[error("{0}")]
    Refused(String),
    /// The request or its response was lost, for this reason.
    #[error("{0}")]
    Lost(String),
    #[error("the connection ended")]
    Closed,
    /// The response violates the protocol.
    #[error("{0}")]
    Answer(String),
}

/// Sends a request and returns its result.
pub(super) async fn request(peer: &Peer<RoleClient>, wanted: ClientRequest) -> Result<Value, ServerRequestError> {
    OpenRequest::send(peer, wanted).await?.answer().await
}

/// A request that has no response yet. Dropping it sends `notifications/cancelled`.
pub(super) struct OpenRequest(Option<RequestHandle<RoleClient>>);

impl OpenRequest {
    pub(super) async fn send(peer: &Peer<RoleClient>, wanted: ClientRequest) -> Result<Self, ServerRequestError> {
        let sent = peer.send_request_with_option(wanted, PeerRequestOptions::no_options()).await;
        sent.map(|handle| Self(Some(handle))).map_err(error)
    }

    /// Returns the handle of `rmcp`.
    pub(super) fn handle(&self) -> Option<&RequestHandle<RoleClient>> {
        self.0.as_ref()
    }

    /// Waits for the result. Cancel safe.
    pub(super) async fn answer(&mut self) -> Result<Value, ServerRequestError> {
        let Some(handle) = self.0.as_mut() else { return Err(ServerRequestError::Closed) };
        let answered = (&mut handle.rx).await;
        self.0 = None;
        match answered {
            Ok(Ok(ServerResult::CustomResult(CustomResult(value)))) => Ok(value),
            Ok(Ok(_)) => Err(ServerRequestError::Answer("the response is not a result".to_owned())),
            Ok(Err(failed)) => Err(error(failed)),
            Err(_) => Err(ServerRequestError::Closed),
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let Some(handle) = self.0.take() else { return };
        // Without a runtime, the connection is gone, too.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // An error means that the connection is gone.
                let _ = handle.cancel(Some("the call was stopped".to_owned())).await;
            });
        }
    }
}

/// Returns an error response in place of a response that was lost. Its `data` distinguishes it from server errors, because `inbox`
/// removes their data.
pub(super) fn transport_failure(problem: String) -> ErrorData {
    ErrorData::internal_error(problem, Some(Value::Bool(true)))
}

/// Returns the problem, if `error` was made by [`transport_failure`].
pub(super) fn transport_problem(error: &ErrorData) -> Option<String> {
    error.data.as_ref().map(|_| text::excerpt(&error.message, WORDS))
}

fn error(error: ServiceError) -> ServerRequestError {
    match error {
        ServiceError::McpError(error) => match transport_problem(&error) {
            Some(problem) => ServerRequestError::Lost(problem),
            None => ServerRequestError::Refused(text::excerpt(&error.message, WORDS)),
        },
        ServiceError::UnexpectedResponse => ServerRequestError::Answer("the response is not a result".to_owned()),
        _ => ServerRequestError::Closed,
    }
}
