//! The components that are loaded.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use patchbay_core::Digest;

use crate::{Failure, Loaded};

/// How many components stay loaded that nobody holds, the last ones. A person's usual handful is asked for its tools and
/// later called without being taken up again; of a thousand that were asked, most are never called, and each has its code
/// mapped and may have file descriptors for its memory images.
const RECENT: usize = 16;

/// Components that somebody holds, those that are being loaded, and the last ones that were. Any other is dropped.
#[derive(Default)]
pub(crate) struct Held {
    slots: Mutex<HashMap<Digest, Arc<Slot>>>,
    recent: Mutex<VecDeque<Arc<Loaded>>>,
}

/// Locked by whoever loads.
type Slot = tokio::sync::Mutex<Weak<Loaded>>;

impl Held {
    /// The component `digest`, by `load` where nobody holds it. Who asks for the same one meanwhile waits for the same
    /// result.
    pub(crate) async fn get(
        &self,
        digest: Digest,
        load: impl Future<Output = Result<Loaded, Failure>>,
    ) -> Result<Arc<Loaded>, Failure> {
        let slot = self.slot(digest);
        let mut held = slot.lock().await;
        if let Some(loaded) = held.upgrade() {
            return Ok(loaded);
        }
        let loaded = Arc::new(load.await?);
        *held = Arc::downgrade(&loaded);
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_back(Arc::clone(&loaded));
        if recent.len() > RECENT {
            recent.pop_front();
        }
        Ok(loaded)
    }

    fn slot(&self, digest: Digest) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody takes up a slot without this lock: one that is in no other hands and holds nothing is of no use.
        slots
            .retain(|_, slot| Arc::strong_count(slot) > 1 || slot.try_lock().is_ok_and(|held| held.strong_count() > 0));
        Arc::clone(slots.entry(digest).or_default())
    }
}
