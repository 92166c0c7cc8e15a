//! A connection to a server: the handshake, the list of tools, calls.

use std::{sync::Arc, time::Duration};

use patchbay_core::text;
use patchbay_sandbox::{Content, ProgressSink};
use rmcp::{
    RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest, Implementation,
        ProtocolVersion,
    },
    service::{ClientInitializeError, RunningService, serve_client_with_ct},
    transport::Transport,
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{
    inbox::Inbox,
    listing::{self, ToolList},
    request::{OpenRequest, ServerRequestError, transport_problem},
    result::{self, CallResult},
};

/// The protocol revision that is requested. A server responds with the revision that it speaks.
const REVISION: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// Length limit in characters of a server's name with its version, and of a protocol revision.
const TITLE: usize = 80;
/// Length limit of an error message, in characters.
const WORDS: usize = 300;

/// An open connection. Dropping it ends the server.
pub(super) struct ServerConnection {
    running: RunningService<RoleClient, ClientConfig>,
    pub(super) inbox: Arc<Inbox>,
    /// The server's own name for itself, with its version.
    pub(super) title: String,
    /// The revision of the protocol.
    pub(super) revision: String,
    offers_tools: bool,
}

impl ServerConnection {
    /// Opens a connection over `transport`. `inbox` checks its messages, and cancelling `stopped` ends the connection.
    pub(super) async fn open<T>(transport: T, inbox: Arc<Inbox>, stopped: CancellationToken) -> Result<Self, String>
    where
        T: Transport<RoleClient> + 'static,
    {
        let client = Implementation::new("patchbay", env!("CARGO_PKG_VERSION"));
        let config = ClientConfig::new(ClientCapabilities::default(), client).with_protocol_version(REVISION);
        let running = serve_client_with_ct(config, transport, stopped).await;
        let running = running.map_err(|error| handshake_problem(&error, inbox.ended()))?;
        let info = running.peer().peer_info();
        if let Some(info) = &info {
            check_revision(&info.protocol_version)?;
        }
        let server = info.as_ref().and_then(|info| info.server_info.as_ref());
        let title = server.map(|server| text::excerpt(&format!("{} {}", server.name, server.version), TITLE));
        let revision = info.as_ref().map(|info| text::excerpt(info.protocol_version.as_str(), TITLE));
        let offers_tools = info.is_some_and(|info| info.capabilities.tools.is_some());
        Ok(Self {
            running,
            inbox,
            title: title.unwrap_or_else(|| "a server without a name".to_owned()),
            revision: revision.unwrap_or_default(),
            offers_tools,
        })
    }

    /// Returns whether the connection has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.running.is_closed() || self.running.peer().is_transport_closed() || self.inbox.ended().is_some()
    }

    pub(super) async fn list(&self) -> Result<ToolList, ServerRequestError> {
        if !self.offers_tools {
            return Ok(ToolList { tools: Vec::new(), problems: vec!["The server offers no tools.".to_owned()] });
        }
        listing::list(self.running.peer()).await
    }

    /// Calls a tool. Dropping the future cancels the call at the server.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        progress: &dyn ProgressSink,
    ) -> Result<CallResult, ServerRequestError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let wanted = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let mut open = OpenRequest::send(self.running.peer(), wanted).await?;
        let token = open.handle().map(|handle| handle.progress_token.clone()).ok_or(ServerRequestError::Closed)?;
        let mut reports = self.inbox.progress(&token);
        let ended = EndProgress { inbox: &self.inbox, token };
        let answer = loop {
            tokio::select! {
                biased;
                answer = open.answer() => break answer,
                Some(text) = reports.recv() => progress.report(&text),
            }
        };
        // Progress reports that arrived before the answer.
        while let Ok(text) = reports.try_recv() {
            progress.report(&text);
        }
        drop(ended);
        result::read(answer?)
    }

    /// Ends the connection, and waits up to `time` until the server has ended.
    pub(super) async fn close(mut self, time: Duration) {
        let _ = self.running.close_with_timeout(time).await;
    }
}

/// Ends the progress reports of a call when the call ends or is dropped.
struct EndProgress<'a> {
    inbox: &'a Inbox,
    token: rmcp::model::ProgressToken,
}

impl Drop for EndProgress<'_> {
    fn drop(&mut self) {
        self.inbox.end_progress(&self.token);
    }
}

/// Returns why a server is not ready; `did` describes the server's action that ended the connection.
fn handshake_problem(error: &ClientInitializeError, did: Option<String>) -> String {
    match (error, did) {
        (ClientInitializeError::JsonRpcError(refused), _) => transport_problem(refused)
            .unwrap_or_else(|| format!("it refused the connection: {}", text::excerpt(&refused.message, WORDS))),
        (_, Some(did)) => format!("it {did} before it was ready"),
        (ClientInitializeError::TransportError { error, .. }, None) => text::excerpt(&error.error.to_string(), WORDS),
        (_, None) => "its response to 'initialize' is not valid MCP".to_owned(),
    }
}

/// Checks that the revision of the protocol that a server chose is known.
fn check_revision(revision: &ProtocolVersion) -> Result<(), String> {
    let known = ProtocolVersion::KNOWN_VERSIONS;
    if known.contains(revision) {
        return Ok(());
    }
    let known: Vec<&str> = known.iter().map(ProtocolVersion::as_str).collect();
    let revision = text::excerpt(revision.as_str(), TITLE);
    Err(format!("it speaks revision '{revision}' of MCP, which is not supported; use {}", known.join(", ")))
}

/// Returns the content of a result.
pub(super) fn content(result: CallResult) -> Result<Vec<Content>, String> {
    match result {
        CallResult::Content(content) => Ok(content),
        CallResult::Failed(message) => Err(message),
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorData;

    use super::*;
    use crate::client::request::transport_failure;

    #[test]
    fn unknown_revisions_are_refused() {
        let revision = |text: &str| serde_json::from_value::<ProtocolVersion>(text.into()).unwrap();
        for known in ["2024-11-05", "2025-11-25", "2026-07-28"] {
            assert_eq!(check_revision(&revision(known)), Ok(()), "{known}");
        }
        for unknown in ["1999-01-01", "2999-01-01", ""] {
            let error = check_revision(&revision(unknown)).unwrap_err();
            assert!(error.starts_with(&format!(
                "it speaks revision '{unknown}' of MCP, which is not supported; use \
                        2024-11-05, "
            )));
        }
    }

    #[test]
    fn failed_handshake_names_what_failed() {
        let refused = |error| handshake_problem(&ClientInitializeError::JsonRpcError(error), None);
        assert_eq!(refused(ErrorData::internal_error("no room", None)), "it refused the connection: no room");
        assert_eq!(refused(transport_failure("it sent no response".to_owned())), "it sent no response");
        let closed = ClientInitializeError::ConnectionClosed("initialize response".to_owned());
        assert_eq!(handshake_problem(&closed, Some("ended".to_owned())), "it ended before it was ready");
        assert_eq!(handshake_problem(&closed, None), "its response to 'initialize' is not valid MCP");
    }
}
