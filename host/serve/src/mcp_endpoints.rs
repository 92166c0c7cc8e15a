//! The endpoints of MCP clients. Each token has endpoints of its own, one for each workspace that it uses, because the MCP session of
//! one token must be unknown to the others. `mcp` finds them here.

use std::{path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use patchbay_core::Digest;
use patchbay_mcp::server::McpEndpoint;
use patchbay_session::{Host, McpSessions};
use patchbay_store::ClientToken;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Limit of the endpoints. A further one closes the one that has been idle longest.
pub(crate) const ENDPOINTS: usize = 32;
/// How often sessions are looked at that no client has used for long.
const LOOK: Duration = Duration::from_secs(60);

/// The endpoints of all tokens.
#[derive(Default)]
pub(crate) struct McpEndpoints {
    /// The last used one is at the end.
    open: Mutex<Vec<TokenEndpoint>>,
    /// Shared with each message of a client that has no complete answer.
    pub(crate) running: Arc<()>,
}

/// The endpoint of one token and workspace. Its sessions and streams end when this is dropped.
struct TokenEndpoint {
    token: Digest,
    workspace: String,
    endpoint: Arc<McpEndpoint>,
    stop: CancellationToken,
    /// Cancelled when the token stops working, and with it `stop`.
    ended: Arc<CancellationToken>,
}

impl Drop for TokenEndpoint {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl TokenEndpoint {
    fn new(host: &Arc<Host>, token: &ClientToken, workspace: String, ended: Arc<CancellationToken>) -> Self {
        let stop = ended.child_token();
        let source = McpSessions::new(Arc::clone(host), PathBuf::from(&workspace), []).of_token(token.name.clone());
        let endpoint = Arc::new(McpEndpoint::new(Arc::new(source), stop.clone()));
        Self { token: token.digest, workspace, endpoint, stop, ended }
    }

    /// Returns whether one of its requests runs.
    fn is_busy(&self) -> bool {
        Arc::strong_count(&self.endpoint) > 1
    }
}

impl McpEndpoints {
    /// Returns the endpoint of a token in a workspace. `ended` is cancelled when the token stops working. `None` if there are too many
    /// with running requests.
    pub(crate) fn get(
        &self,
        host: &Arc<Host>,
        token: &ClientToken,
        ended: Arc<CancellationToken>,
        workspace: String,
    ) -> Option<Arc<McpEndpoint>> {
        let mut open = self.open.lock();
        let known = open.iter().position(|open| open.token == token.digest && open.workspace == workspace);
        let found = match known {
            Some(at) => open.remove(at),
            None => {
                if open.len() >= ENDPOINTS {
                    let idle = open.iter().position(|open| !open.is_busy())?;
                    open.remove(idle);
                }
                TokenEndpoint::new(host, token, workspace, ended)
            }
        };
        let endpoint = Arc::clone(&found.endpoint);
        open.push(found);
        Some(endpoint)
    }

    /// Returns whether a message of a client has no complete answer.
    pub(crate) fn is_busy(&self) -> bool {
        Arc::strong_count(&self.running) > 1
    }

    /// Ends all sessions and streams.
    pub(crate) fn close(&self) {
        self.open.lock().clear();
    }

    /// Ends sessions that were not used for long, and endpoints without sessions, until `stopped` is cancelled.
    pub(crate) async fn expire(&self, stopped: &CancellationToken) {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stopped.run_until_cancelled(ticks.tick()).await.is_some() {
            self.open.lock().retain(|open| {
                open.endpoint.expire_sessions();
                !open.ended.is_cancelled() && (open.is_busy() || open.endpoint.has_sessions())
            });
        }
    }
}
