//! `patchbay mcp`: serves the tools of skills to MCP clients, over standard input and output or over HTTP. `main` calls it.

use std::{
    collections::BTreeSet,
    path::Path,
    process::ExitCode,
    sync::{Arc, Weak},
    time::Duration,
};

use patchbay_core::{Code, text};
use patchbay_mcp::server::{
    HttpServer, HttpServerError, ServedError, ServedSession, SessionSource as _, StdioServerError, serve_stdio,
};
use patchbay_session::{Host, McpSessions, ServedPackage};
use patchbay_skill::{
    Problem,
    agent_plugin::{AgentPlugin, Sums},
    read_packages_lock,
};
use tokio_util::sync::CancellationToken;

use crate::{
    CliError,
    args::ServeMcp,
    home::HomeDirs,
    out::{note, say},
    signals::cancel_on_signal,
};

/// How long stopped calls may take to end, so that their rows are in the journal before the process exits.
const SETTLING: Duration = Duration::from_secs(2);

/// Checks that the Agent Plugin in `folder` can be served. If a package with the same files is installed, it is served instead,
/// with its grants. Skipped skills and missing grants are reported on standard error, which clients keep in their logs.
pub(crate) fn check_package(home: &HomeDirs, folder: &Path) -> Result<ServedPackage, CliError> {
    let refused = |Problem { code, message }: Problem| {
        CliError::new(code, format!("{} cannot be served. {message}", text::clean_line(&folder.to_string_lossy())))
    };
    let plugin = AgentPlugin::read(folder).map_err(refused)?;
    let lock = read_packages_lock(&home.paths.packages().lock);
    let lock = lock.map_err(|error| CliError::new(Code::PackagesLockInvalid, format!("packages.lock: {error}.")))?;
    let digest = Sums::of_folder(folder).map_err(refused)?.digest();
    let installed = lock.packages().iter().find(|package| package.digest == digest);
    let mut asks = BTreeSet::new();
    for skill in &plugin.skills {
        match &skill.found.candidate {
            Ok(candidate) => {
                asks.extend(candidate.manifest.capabilities.iter().map(|asked| asked.capability.to_string()))
            }
            Err(Problem { code, message }) => {
                note(&format!("note: skill '{}' is left out: [{code}] {message}", skill.found.label))
            }
        }
    }
    if let Some(package) = installed {
        return Ok(ServedPackage::Installed(package.name.to_string()));
    }
    if !asks.is_empty() {
        let asks: Vec<_> = asks.into_iter().collect();
        note(&format!(
            "note: no package with these files is installed, so its skills lack these grants: {}.",
            asks.join(", ")
        ));
    }
    folder.canonicalize().map(ServedPackage::Folder).map_err(CliError::io(folder))
}

/// Serves until the client disconnects, or until a signal.
pub(crate) async fn serve(host: Arc<Host>, serve: ServeMcp) -> Result<ExitCode, CliError> {
    let remaining = Arc::downgrade(&host);
    // Clients start this process in an arbitrary folder, which the package's skills should not see.
    let empty = match (&serve.package, &serve.workspace) {
        (Some(_), None) => Some(tempfile::tempdir().map_err(CliError::io(Path::new("the temporary folder")))?),
        _ => None,
    };
    let workspace =
        empty.as_ref().map(tempfile::TempDir::path).or(serve.workspace.as_deref()).unwrap_or(Path::new("."));
    let sessions = McpSessions::new(host, workspace.to_owned(), serve.skills);
    let sessions = if empty.is_some() { sessions.without_files() } else { sessions };
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
            // On standard output for scripts; nothing else is printed there.
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
