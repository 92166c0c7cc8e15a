//! Serves MCP over standard input and output. There is one connection, and it is one session.

use std::sync::Arc;

use rmcp::service::{QuitReason, ServerInitializeError, serve_server_with_ct};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::{ServedSession, handler::ToolServer, line_transport::LineTransport};

/// Why a connection over standard input and output ended with an error.
#[derive(Debug, thiserror::Error)]
pub enum StdioServerError {
    /// The client sent another message before `initialize`.
    #[error("the client sent another message before 'initialize'; it is not an MCP client, or it has a bug.")]
    NotInitialized,
    /// The response to `initialize` could not be written.
    #[error("the client closed the connection before it received a response.")]
    Unreachable,
    /// The task that serves the connection failed.
    #[error("the MCP server stopped because of a bug; see the log.")]
    Failed,
}

/// Serves the tools of `session` to the client that writes `input` and reads `output`, until the input ends or `stopped` is
/// cancelled. After the input ends, running calls have five seconds to finish; then they are stopped.
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
        // The client disconnected before `initialize`, for example because it only checks that the program starts.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(ServerInitializeError::ExpectedInitializeRequest(_)) => Err(StdioServerError::NotInitialized),
        Err(ServerInitializeError::TransportError { .. }) => Err(StdioServerError::Unreachable),
        Err(_) => Err(StdioServerError::Failed),
    }
}
