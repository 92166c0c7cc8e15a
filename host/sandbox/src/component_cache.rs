//! The cache of loaded components, one for skills and one for adapters. Used by [`Sandbox::load`](crate::Sandbox::load).

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use patchbay_core::Digest;

use crate::Failure;

/// Components that are in use, components that are being loaded, and the most recently loaded ones. Others are dropped.
pub(crate) struct ComponentCache<T> {
    slots: Mutex<HashMap<Digest, Arc<Slot<T>>>>,
    recent: Mutex<VecDeque<Arc<T>>>,
    keep: usize,
}

/// Locked while the component is being loaded.
type Slot<T> = tokio::sync::Mutex<Weak<T>>;

impl<T> ComponentCache<T> {
    /// Returns a cache that keeps the `keep` most recently loaded components, even if they are not in use.
    pub(crate) fn keeping(keep: usize) -> Self {
        Self { slots: Mutex::default(), recent: Mutex::default(), keep }
    }

    /// Returns the component `digest`; runs `load` if it is not cached. Concurrent requests for one
    /// digest wait for the same result.
    pub(crate) async fn get(
        &self,
        digest: Digest,
        load: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Arc<T>, Failure> {
        let slot = self.slot(digest);
        let mut held = slot.lock().await;
        if let Some(loaded) = held.upgrade() {
            return Ok(loaded);
        }
        let loaded = Arc::new(load.await?);
        *held = Arc::downgrade(&loaded);
        let mut recent = self.recent.lock();
        recent.push_back(Arc::clone(&loaded));
        if recent.len() > self.keep {
            recent.pop_front();
        }
        Ok(loaded)
    }

    fn slot(&self, digest: Digest) -> Arc<Slot<T>> {
        let mut slots = self.slots.lock();
        // Slots are only acquired under this lock, which makes it safe to remove an unshared slot without a component.
        slots
            .retain(|_, slot| Arc::strong_count(slot) > 1 || slot.try_lock().is_ok_and(|held| held.strong_count() > 0));
        Arc::clone(slots.entry(digest).or_default())
    }
}
