//! How many requests run at once: in the process, and for each owner.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::EgressLimits;

/// The places of a process.
pub(crate) struct Places {
    process: Arc<Semaphore>,
    /// The places of each owner that has a request.
    owners: Mutex<HashMap<String, Weak<Semaphore>>>,
    each: usize,
}

/// The place of one request, given back when it is dropped. `None`: the places are closed, which never happens.
pub(crate) struct Place {
    _owner: Option<OwnedSemaphorePermit>,
    _process: Option<OwnedSemaphorePermit>,
}

impl Places {
    pub(crate) fn new(limits: &EgressLimits) -> Self {
        let process = Arc::new(Semaphore::new(limits.requests_at_once));
        Self { process, owners: Mutex::default(), each: limits.owner_requests_at_once }
    }

    /// Waits for a place. An owner waits for its own first, so that its queue delays no other owner.
    pub(crate) async fn take(&self, owner: &str) -> Place {
        let own = self.of(owner).acquire_owned().await.ok();
        Place { _owner: own, _process: Arc::clone(&self.process).acquire_owned().await.ok() }
    }

    fn of(&self, owner: &str) -> Arc<Semaphore> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = owners.get(owner).and_then(Weak::upgrade) {
            return there;
        }
        owners.retain(|_, places| places.strong_count() > 0);
        let places = Arc::new(Semaphore::new(self.each));
        owners.insert(owner.to_owned(), Arc::downgrade(&places));
        places
    }
}
