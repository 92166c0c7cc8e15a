//! Tracks the reports that children still owe their parents. Children often end together, and should then wake their parent only
//! once. `fork` and `wake` record turns that will be reported, `turns` and `kill` record their ends, and `wake` waits here.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use patchbay_core::AgentId;
use tokio::{sync::watch, time::timeout};

/// How long an idle agent's first unread mail waits for the reports of children that are still running. Children that were
/// created together often end together. A longer wait would cost time if the parent could already continue with one report.
const PATIENCE: Duration = Duration::from_secs(1);

/// The reports that are still to come in a session.
pub(crate) struct Gathering {
    /// The parents that will receive a report, by the child whose turn is running.
    parents: watch::Sender<BTreeMap<AgentId, AgentId>>,
}

/// A turn that will be reported. Its report counts as missing until this is dropped.
pub(crate) struct MissingReport {
    gathering: Arc<Gathering>,
    child: AgentId,
}

impl Gathering {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { parents: watch::Sender::new(BTreeMap::new()) })
    }

    /// Notes that a turn of `child` begins, and that its end will be reported to `parent`.
    pub(crate) fn begin(self: &Arc<Self>, child: AgentId, parent: AgentId) -> MissingReport {
        self.parents.send_modify(|parents| {
            parents.insert(child, parent);
        });
        MissingReport { gathering: Arc::clone(self), child }
    }

    /// Notes that the turn of `child` was reported, or will not be.
    pub(crate) fn end(&self, child: AgentId) {
        self.parents.send_if_modified(|parents| match parents.entry(child) {
            Entry::Occupied(entry) => {
                entry.remove();
                true
            }
            Entry::Vacant(_) => false,
        });
    }

    /// Waits until no report to `parent` is missing, but no longer than [`PATIENCE`].
    pub(crate) async fn gathered(&self, parent: AgentId) {
        let mut parents = self.parents.subscribe();
        let complete = parents.wait_for(|parents| parents.values().all(|other| *other != parent));
        // After a timeout, the parent continues with the reports that have arrived.
        let _ = timeout(PATIENCE, complete).await;
    }
}

impl Drop for MissingReport {
    fn drop(&mut self) {
        self.gathering.end(self.child);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        task::{Context, Waker},
    };

    use super::*;

    fn id(number: u8) -> AgentId {
        AgentId::from_bytes([number; 16])
    }

    #[tokio::test]
    async fn parent_waits_until_all_its_children_have_reported() {
        let gathering = Gathering::new();
        let (parent, other) = (id(1), id(2));
        // Nothing is missing.
        gathering.gathered(parent).await;
        let [first, second] = [3, 4].map(|child| gathering.begin(id(child), parent));
        let of_other = gathering.begin(id(5), other);
        let mut gathered = pin!(gathering.gathered(parent));
        let mut is_ready = || gathered.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!is_ready());
        drop(first);
        assert!(!is_ready());
        // A kill ends the missing report before the turn ends.
        gathering.end(id(4));
        assert!(is_ready());
        drop((second, of_other));
    }

    #[tokio::test]
    async fn parent_does_not_wait_long() {
        let gathering = Gathering::new();
        let _missing = gathering.begin(id(3), id(1));
        let began = std::time::Instant::now();
        gathering.gathered(id(1)).await;
        assert!(began.elapsed() >= PATIENCE);
    }
}
