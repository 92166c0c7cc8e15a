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
    request::{OpenRequest, ServerRequestError},
    result::{self, CallResult},
};

/// The revision that is asked for. A server answers with the one that it speaks.
const REVISION: ProtocolVersion = ProtocolVersion::V_2025_11_25;

/// Length limit of the words of a server about itself, in characters.
const TITLE: usize = 80;

/// An open connection. Dropping it ends the server.
pub(super) struct ServerConnection {
    running: RunningService<RoleClient, ClientConfig>,
    pub(super) inbox: Arc<Inbox>,
    /// What the server calls itself, with its version.
    pub(super) title: String,
    /// The revision of the protocol.
    pub(super) revision: String,
    offers_tools: bool,
}

impl ServerConnection {
    /// Opens a connection over `transport`, whose messages `inbox` judges. Cancelling `stopped` ends it.
    pub(super) async fn open<T>(transport: T, inbox: Arc<Inbox>, stopped: CancellationToken) -> Result<Self, String>
    where
        T: Transport<RoleClient> + 'static,
    {
        let client = Implementation::new("patchbay", env!("CARGO_PKG_VERSION"));
        let config = ClientConfig::new(ClientCapabilities::default(), client).with_protocol_version(REVISION);
        let running = serve_client_with_ct(config, transport, stopped).await.map_err(|error| match error {
            ClientInitializeError::JsonRpcError(refused) => {
                format!("it refused the connection: {}", text::excerpt(&refused.message, 300))
            }
            _ => match inbox.ended() {
                Some(did) => format!("it {did} before it was ready"),
                None => "its answer to 'initialize' is not one of MCP".to_owned(),
            },
        })?;
        let info = running.peer().peer_info();
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

    /// Reads the list of tools.
    pub(super) async fn list(&self) -> Result<ToolList, ServerRequestError> {
        if !self.offers_tools {
            return Ok(ToolList { tools: Vec::new(), problems: vec!["The server offers no tools.".to_owned()] });
        }
        self.inbox.take_list_changed();
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
        drop(ended);
        result::read(answer?)
    }

    /// Ends the connection, and waits until the server has ended, at most `time`.
    pub(super) async fn close(mut self, time: Duration) {
        let _ = self.running.close_with_timeout(time).await;
    }
}

/// Stops the reports of a call when it ends or is dropped.
struct EndProgress<'a> {
    inbox: &'a Inbox,
    token: rmcp::model::ProgressToken,
}

impl Drop for EndProgress<'_> {
    fn drop(&mut self) {
        self.inbox.end_progress(&self.token);
    }
}

/// Returns the content of a result.
pub(super) fn content(result: CallResult) -> Result<Vec<Content>, String> {
    match result {
        CallResult::Content(content) => Ok(content),
        CallResult::Failed(message) => Err(message),
    }
}
