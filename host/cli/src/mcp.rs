//! `patchbay mcp`: serves the tools of skills to MCP clients, over standard input and output or over HTTP. `main` calls it.

use std::{
    process::ExitCode,
    sync::{Arc, Weak},
    time::Duration,
};

use patchbay_core::Code;
use patchbay_mcp::server::{
    HttpServer, HttpServerError, ServedError, ServedSession, SessionSource as _, StdioServerError, serve_stdio,
};
use patchbay_session::{Host, McpSessions};
use tokio_util::sync::CancellationToken;

use crate::{CliError, args::ServeMcp, out::say, signals::cancel_on_signal};

/// How long stopped calls may take to end, so that their rows are in the journal before the process exits.
const SETTLING: Duration = Duration::from_secs(2);

/// Serves until the client goes away, or until a signal.
pub(crate) async fn serve(host: Arc<Host>, serve: ServeMcp) -> Result<ExitCode, CliError> {
    let remaining = Arc::downgrade(&host);
    let sessions = McpSessions::new(host, serve.workspace().to_owned(), serve.skills);
    let stopped = CancellationToken::new();
    cancel_on_signal(stopped.clone(), serve.http.is_none());
    match serve.http {
        None => {
            let session: Arc<dyn ServedSession> = sessions.open().await?;
            drop(sessions);
            serve_stdio(session, tokio::io::stdin(), tokio::io::stdout(), stopped).await?;
        }
        Some(port) => {
            sessions.check().await?;
            let server = HttpServer::bind(port).await?;
            // On standard output, so that a script can read them; nothing else is printed there.
            say!("{}\nAuthorization: Bearer {}", server.url(), server.token());
            server.run(Arc::new(sessions), stopped).await;
        }
    }
    settle(&remaining).await;
    Ok(ExitCode::SUCCESS)
}

/// Waits until all calls and sessions have ended. The last of them closes the store.
async fn settle(host: &Weak<Host>) {
    let ended = async {
        while host.strong_count() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let _ = tokio::time::timeout(SETTLING, ended).await;
}

impl From<ServedError> for CliError {
    fn from(error: ServedError) -> Self {
        Self::new(error.code, error.message)
    }
}

impl From<HttpServerError> for CliError {
    fn from(error: HttpServerError) -> Self {
        Self::new(Code::PortUnusable, error.to_string())
    }
}

impl From<StdioServerError> for CliError {
    fn from(error: StdioServerError) -> Self {
        let code = match error {
            StdioServerError::NotInitialized | StdioServerError::Unreachable => Code::ClientProtocol,
            StdioServerError::Failed => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}
