//! The parts shared by the MCP servers of all sessions, and the servers that a client names.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use patchbay_core::Name;
use patchbay_egress::{Credentials, Egress, EgressLimits, Target};
use patchbay_policy::HostPattern;
use patchbay_sandbox::Limits;
use patchbay_store::Store;

use crate::client::{HttpEndpoint, McpServerConfig, ServerAddress, ServerLimits};

/// How long the start of a turn waits for a server's tool list that has changed.
const LIST_WAIT: Duration = Duration::from_secs(5);

/// The largest values that egress accepts as limits of an HTTP request.
const MOST_MS: u64 = 3_600_000;
const MOST_BYTES: u64 = 1 << 30;

/// An MCP server that the client of a front names for a session.
#[derive(Clone)]
pub struct ClientServer {
    /// The client's name for it.
    pub name: String,
    /// How the server is reached.
    pub address: ClientAddress,
}

/// How a server that a client names is reached. Values of variables and headers can be secrets.
#[derive(Clone)]
pub enum ClientAddress {
    /// A program that is started in the workspace.
    Process {
        /// The program, then its arguments.
        words: Vec<String>,
        /// Variables that the program receives besides the few that every server receives.
        variables: Vec<(String, String)>,
    },
    /// A running server that is reached over streamable HTTP.
    Http {
        /// The URL at which the server is reached.
        url: String,
        /// Headers that are sent with each request.
        headers: Vec<(String, String)>,
    },
}

impl ClientAddress {
    /// Returns whether it is a URL that may only lead to public addresses. Host names are resolved later, when the
    /// server is connected to; egress then refuses any other address.
    pub fn is_public(&self) -> bool {
        let Self::Http { url, .. } = self else { return false };
        let Ok(target) = Target::parse(url) else { return false };
        let origin = target.origin();
        let port = (!origin.is_default_port()).then(|| origin.port());
        let exact = HostPattern::exactly(origin.host(), port);
        exact.is_some_and(|exact| target.allow(exact).is_ok_and(|target| target.is_public()))
    }
}

/// The parts shared by all servers of a process.
pub struct ServerParts {
    pub(super) configured: BTreeMap<Name, McpServerConfig>,
    /// Contains the list of trusted workspaces.
    pub(super) store: Store,
    /// The configuration folder.
    pub(super) config: PathBuf,
    pub(super) credentials: Arc<Credentials>,
    pub(super) egress: Egress,
    /// Maximum size of a message, in bytes.
    pub(super) message_bytes: usize,
}

impl ServerParts {
    /// Returns the table `[mcp.NAME]` of `config.toml`; `None` without one.
    pub fn table(&self, name: &str) -> Option<&McpServerConfig> {
        self.configured.iter().find(|(configured, _)| configured.as_str() == name).map(|(_, table)| table)
    }

    /// Returns the parts for `configured` servers. `store` contains the trusted workspaces, and `config` is the configuration
    /// folder.
    pub fn new(
        configured: BTreeMap<Name, McpServerConfig>,
        store: Store,
        config: PathBuf,
        credentials: Credentials,
        limits: &Limits,
    ) -> Self {
        // Base64 and escapes make a message longer than its payload.
        let message_bytes = limits.output_bytes.saturating_mul(2).saturating_add(1 << 20);
        let bytes = (message_bytes as u64).saturating_mul(2).min(MOST_BYTES);
        // These limits are as large as possible: calls have their own limits, and stopping a call ends its request.
        let egress = Egress::new(EgressLimits {
            time_ms: MOST_MS,
            idle_ms: MOST_MS,
            request_bytes: message_bytes.min(MOST_BYTES as usize),
            wire_bytes: bytes,
            body_bytes: bytes,
            ..EgressLimits::default()
        });
        Self { configured, store, config, credentials: Arc::new(credentials), egress, message_bytes }
    }

    pub(super) fn limits(&self, start_ms: u64) -> ServerLimits {
        let start = Duration::from_millis(start_ms);
        ServerLimits { start, list: LIST_WAIT, message_bytes: self.message_bytes }
    }

    pub(super) fn endpoint(
        &self,
        owner: String,
        url: String,
        credential: Option<Name>,
        headers: Vec<(String, String)>,
    ) -> ServerAddress {
        let (credentials, egress) = (Arc::clone(&self.credentials), self.egress.clone());
        ServerAddress::Http(Box::new(HttpEndpoint { url, credential, headers, credentials, egress, owner }))
    }
}
