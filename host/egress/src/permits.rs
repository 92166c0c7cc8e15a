//! Limits the number of concurrent requests: in the process, and for each owner. `egress` acquires a permit for each request.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::EgressLimits;

/// The permits of the process.
pub(crate) struct SendPermits {
    process: Arc<Semaphore>,
    /// The permits of each owner that has a request.
    owners: Mutex<HashMap<String, Weak<Semaphore>>>,
    each: usize,
}

/// The permits of one request, released on drop. They are `None` only if a semaphore is closed, which never happens.
pub(crate) struct SendPermit {
    _owner: Option<OwnedSemaphorePermit>,
    _process: Option<OwnedSemaphorePermit>,
}

impl SendPermits {
    pub(crate) fn new(limits: &EgressLimits) -> Self {
        let process = Arc::new(Semaphore::new(limits.requests_at_once));
        Self { process, owners: Mutex::default(), each: limits.owner_requests_at_once }
    }

    /// Waits for a permit. The owner's limit applies first, so its queue does not delay other owners.
    pub(crate) async fn take(&self, owner: &str) -> SendPermit {
        let own = self.of(owner).acquire_owned().await.ok();
        SendPermit { _owner: own, _process: Arc::clone(&self.process).acquire_owned().await.ok() }
    }

    fn of(&self, owner: &str) -> Arc<Semaphore> {
        let mut owners = self.owners.lock();
        if let Some(there) = owners.get(owner).and_then(Weak::upgrade) {
            return there;
        }
        owners.retain(|_, permits| permits.strong_count() > 0);
        let permits = Arc::new(Semaphore::new(self.each));
        owners.insert(owner.to_owned(), Arc::downgrade(&permits));
        permits
    }
}
