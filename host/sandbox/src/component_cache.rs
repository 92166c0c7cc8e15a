//! The components that are loaded.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use patchbay_core::Digest;

use crate::Failure;

/// Components that somebody holds, those that are being loaded, and the last ones that were. Any other is dropped.
pub(crate) struct ComponentCache<T> {
    slots: Mutex<HashMap<Digest, Arc<Slot<T>>>>,
    recent: Mutex<VecDeque<Arc<T>>>,
    keep: usize,
}

/// Locked by whoever loads.
type Slot<T> = tokio::sync::Mutex<Weak<T>>;

impl<T> ComponentCache<T> {
    /// Keeps the last `keep` components loaded, also where nobody holds them.
    pub(crate) fn keeping(keep: usize) -> Self {
        Self { slots: Mutex::default(), recent: Mutex::default(), keep }
    }

    /// The component `digest`, by `load` where nobody holds it. Who asks for the same one meanwhile waits for the same
    /// result.
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
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_back(Arc::clone(&loaded));
        if recent.len() > self.keep {
            recent.pop_front();
        }
        Ok(loaded)
    }

    fn slot(&self, digest: Digest) -> Arc<Slot<T>> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody takes up a slot without this lock: one that is in no other hands and holds nothing is of no use.
        slots
            .retain(|_, slot| Arc::strong_count(slot) > 1 || slot.try_lock().is_ok_and(|held| held.strong_count() > 0));
        Arc::clone(slots.entry(digest).or_default())
    }
}
