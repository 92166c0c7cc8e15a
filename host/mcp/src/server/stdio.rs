//! A server over standard input and output: one connection, which is one session.

use std::sync::Arc;

use rmcp::service::{QuitReason, ServerInitializeError, serve_server_with_ct};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::{ServedSession, handler::ToolServer, line_transport::LineTransport};

/// Why a connection over standard input and output ended with an error.
#[derive(Debug, thiserror::Error)]
pub enum StdioServerError {
    /// The first message was neither a request nor a ping.
    #[error("the client sent another message before 'initialize'; it is not an MCP client, or it has a bug.")]
    NotInitialized,
    /// The answer to `initialize` could not be written.
    #[error("the client closed the connection before it received a response.")]
    Unreachable,
    /// The task that serves the connection failed.
    #[error("the MCP server stopped because of a bug; see the log.")]
    Failed,
}

/// Serves the tools of `session` to the client that writes `input` and reads `output`, until the input ends or `stopped` is
/// cancelled. Running calls have five seconds to end after the end of the input, and are then stopped.
///
/// # Errors
/// Every failure is reported as [`StdioServerError`].
pub async fn serve_stdio(
    session: Arc<dyn ServedSession>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    stopped: CancellationToken,
) -> Result<(), StdioServerError> {
    let transport = LineTransport::new(input, output);
    match serve_server_with_ct(ToolServer::for_session(session), transport, stopped).await {
        Ok(serving) => match serving.waiting().await {
            Ok(QuitReason::Closed | QuitReason::Cancelled) => Ok(()),
            _ => Err(StdioServerError::Failed),
        },
        // A client that goes away before it has begun, such as one that only looks whether the program starts.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(ServerInitializeError::ExpectedInitializeRequest(_)) => Err(StdioServerError::NotInitialized),
        Err(ServerInitializeError::TransportError { .. }) => Err(StdioServerError::Unreachable),
        Err(_) => Err(StdioServerError::Failed),
    }
}
