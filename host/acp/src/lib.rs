//! The front for editors: the Agent Client Protocol, version 1, over standard input and output, or over the WebSocket frames that
//! `patchbay serve` receives. It has no logic of its own; the session parses and runs each line. The binary calls [`serve`].
//!
//! - `errors`: the errors that the protocol adds to JSON-RPC, which is in the crate `jsonrpc`.
//! - `params`: the parameters of the methods; `prompt`: the blocks of a prompt as a line with attachments.
//! - `connection`: reads messages, answers those that concern no session, and passes the others to sessions.
//! - `session`: one task for each open session. It sends everything that the client receives about the session, in order.
//!
//! The crate `agent-client-protocol` 5.0 is not used, for two reasons found in its source (2026-11-23).
//! Its transport reads lines without a limit, sends a malformed line back whole, and queues without a limit in both
//! directions: a client can exhaust the memory. Its types (`agent-client-protocol-schema` 1.15) turn on
//! `serde_json/preserve_order` and `raw_value` for the whole binary: maps would no longer be sorted, and every
//! other parser of the host would accept different input. Sent messages are checked against the schema of the
//! protocol's SDK (`make test-acp`).

mod capabilities;
mod connection;
mod errors;
mod params;
mod prompt;
mod session;

use std::{path::PathBuf, sync::Arc};

use patchbay_jsonrpc::ConnectionBytes;
use patchbay_session::{ClientIdentity, Host, SharedSessions};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

/// Options of the front for editors.
#[derive(Clone)]
pub struct AcpOptions<'a> {
    /// The version of the program, as clients show it.
    pub version: &'a str,
    /// Cancelled to end the connection, like the end of the input.
    pub stopped: CancellationToken,
    /// The remote client; `None` for an editor that started this process.
    pub remote: Option<RemoteClient>,
}

/// A client that does not share this machine. Its sessions outlive the connection.
#[derive(Clone)]
pub struct RemoteClient {
    /// The sessions of the process, which its other clients use as well.
    pub sessions: Arc<SharedSessions>,
    /// The client's identity and rights.
    pub identity: ClientIdentity,
    /// The folders in which its sessions may have their workspaces: canonical paths.
    pub workspaces: Arc<[PathBuf]>,
    /// Cancelled when the server starts to shut down: lines are refused, and the connection ends once its sessions are idle.
    pub draining: CancellationToken,
    /// Counts the queued bytes to and from the client.
    pub bytes: Arc<ConnectionBytes>,
}

/// Serves one client until it closes `input` or no longer reads `output`, or until the connection is stopped. Then all turns are
/// stopped, and the sessions are closed with their MCP servers. The sessions of a remote client continue without it.
///
/// # Errors
/// The stream `input` cannot be read.
pub async fn serve<R, W>(host: Arc<Host>, input: R, output: W, options: AcpOptions<'_>) -> std::io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    connection::run(host, input, output, options).await
}
