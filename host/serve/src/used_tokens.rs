//! The tokens of open connections. A token that is removed or expires closes its connections.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use patchbay_core::Digest;
use patchbay_store::Store;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// How often the tokens of open connections are looked up again.
const LOOK: Duration = Duration::from_secs(1);

/// The tokens of open connections, each once.
#[derive(Default)]
pub(crate) struct UsedTokens(Mutex<BTreeMap<Digest, Weak<CancellationToken>>>);

impl UsedTokens {
    /// Returns a value that is cancelled when the token stops working. The connection keeps it while it is open.
    pub(crate) fn watch(&self, token: Digest) -> Arc<CancellationToken> {
        let mut used = self.0.lock();
        if let Some(ended) = used.get(&token).and_then(Weak::upgrade).filter(|ended| !ended.is_cancelled()) {
            return ended;
        }
        let ended = Arc::new(CancellationToken::new());
        used.insert(token, Arc::downgrade(&ended));
        ended
    }

    /// Looks up the tokens regularly until `stopped` is cancelled. If a token cannot be read, its connections stay open.
    pub(crate) async fn check(&self, store: &Store, stopped: &CancellationToken) {
        let mut ticks = interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stopped.run_until_cancelled(ticks.tick()).await.is_some() {
            let used: Vec<_> = {
                let mut used = self.0.lock();
                used.retain(|_, ended| ended.strong_count() > 0);
                used.iter().filter_map(|(token, ended)| Some((*token, ended.upgrade()?))).collect()
            };
            for (token, ended) in used {
                if matches!(store.client_token(&token).await, Ok(None)) {
                    ended.cancel();
                }
            }
        }
    }
}
