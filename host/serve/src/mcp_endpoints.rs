//! The endpoints of MCP clients. Each token has its own endpoints, one for each workspace that it uses, because the MCP sessions of
//! a token must not be known to other tokens. `mcp` looks them up here.

use std::{path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use patchbay_core::Digest;
use patchbay_mcp::server::McpEndpoint;
use patchbay_session::{Host, McpSessions};
use patchbay_store::ClientToken;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Limit of the endpoints of all tokens. Opening another one closes an idle endpoint.
pub(crate) const ENDPOINTS: usize = 32;
/// Limit of the endpoints of one token. Opening another one closes the token's endpoint that has been idle longest.
pub(crate) const TOKEN_ENDPOINTS: usize = 8;
/// How often to look for sessions that no client has used for a long time.
const LOOK: Duration = Duration::from_secs(60);

/// The endpoints of all tokens.
#[derive(Default)]
pub(crate) struct McpEndpoints {
    /// The open endpoints, the last used at the end.
    open: Mutex<Vec<TokenEndpoint>>,
    /// Shared with each message that was received completely and has no complete response yet.
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

    /// Returns whether one of its requests is running, or a call whose client has left.
    fn is_busy(&self) -> bool {
        Arc::strong_count(&self.endpoint) > 1 || self.endpoint.is_calling()
    }
}

impl McpEndpoints {
    /// Returns the endpoint of a token in a workspace. `ended` is cancelled when the token stops working. `None` if too many
    /// endpoints are busy.
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
                let open_now = open.iter().map(|open| (open.token, open.is_busy())).collect::<Vec<_>>();
                if let Some(closed) = room(&open_now, token.digest)? {
                    open.remove(closed);
                }
                TokenEndpoint::new(host, token, workspace, ended)
            }
        };
        let endpoint = Arc::clone(&found.endpoint);
        open.push(found);
        Some(endpoint)
    }

    /// Returns whether a message of a client has no complete response yet, or a call is running whose client has left.
    pub(crate) fn is_busy(&self) -> bool {
        Arc::strong_count(&self.running) > 1 || self.open.lock().iter().any(|open| open.endpoint.is_calling())
    }

    /// Ends all sessions and streams.
    pub(crate) fn close(&self) {
        self.open.lock().clear();
    }

    /// Ends sessions that were not used for a long time, and endpoints without sessions, until `stopped` is cancelled.
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

/// Returns the index of the endpoint to close before a new endpoint of `token` is opened; `Some(None)` if there is room, and `None`
/// if all endpoints that could be closed are busy. `open` contains the token of each open endpoint and whether it is busy, the
/// longest idle first. The token's own endpoints are closed first, so a token that uses many workspaces does not end the sessions
/// of other tokens.
fn room(open: &[(Digest, bool)], token: Digest) -> Option<Option<usize>> {
    let has_own_room = open.iter().filter(|(owner, _)| *owner == token).count() < TOKEN_ENDPOINTS;
    if has_own_room && open.len() < ENDPOINTS {
        return Some(None);
    }
    let own = open.iter().position(|(owner, is_busy)| *owner == token && !is_busy);
    let any = || open.iter().position(|(_, is_busy)| !is_busy).filter(|_| has_own_room);
    own.or_else(any).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_with_many_workspaces_closes_its_own() {
        let [first, second] = [b"first", b"other"].map(|token| Digest::of(token));
        let mut open = vec![(second, false)];
        assert_eq!(room(&open, first), Some(None));
        open.extend([(first, true); TOKEN_ENDPOINTS]);
        assert_eq!(
            (room(&open, first), room(&open, second)),
            (None, Some(None)),
            "its requests run, and others are idle"
        );
        open[3].1 = false;
        assert_eq!(room(&open, first), Some(Some(3)));
        let others = (0..ENDPOINTS).map(|number| (Digest::of(&number.to_le_bytes()), number != 5));
        let mut full: Vec<_> = others.collect();
        assert_eq!(room(&full, first), Some(Some(5)), "the limit of all");
        full[5].1 = true;
        assert_eq!(room(&full, first), None);
    }
}
