//! The components that [`Tools`](crate::Tools) keeps in memory: those ready to be called, and the tools that components have
//! declared, for as long as a snapshot uses them.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroUsize,
    sync::{Arc, Weak},
};

use lru::LruCache;
use parking_lot::Mutex;
use patchbay_core::{Digest, ToolSpec};
use patchbay_skill::DescribedTools;

use crate::ready::ReadyComponent;

/// Number of components kept ready to be called, which is more than a session usually calls. Each has its code mapped, and a file
/// descriptor for its memory image.
const READY: NonZeroUsize = NonZeroUsize::new(128).unwrap();

pub(crate) struct ReadyCache {
    /// The least recently used component is evicted first. A running call keeps its own reference.
    ready: Mutex<LruCache<Digest, Arc<ReadyComponent>>>,
    tools: Mutex<HashMap<Digest, Weak<[ToolSpec]>>>,
}

impl Default for ReadyCache {
    fn default() -> Self {
        Self { ready: Mutex::new(LruCache::new(READY)), tools: Mutex::default() }
    }
}

impl ReadyCache {
    /// Returns the component `digest` if it is ready, and marks it as used.
    pub(crate) fn get(&self, digest: &Digest) -> Option<Arc<ReadyComponent>> {
        self.ready.lock().get(digest).cloned()
    }

    pub(crate) fn insert(&self, digest: Digest, component: Arc<ReadyComponent>) {
        // The evicted component is dropped after the lock is released.
        let _evicted = self.ready.lock().push(digest, component);
    }

    /// Returns the tools of any `components` that a snapshot in memory uses. A new snapshot need not read them again.
    pub(crate) fn tools<'a>(&self, components: impl Iterator<Item = &'a Digest>) -> BTreeMap<Digest, DescribedTools> {
        let tools = self.tools.lock();
        components.filter_map(|digest| Some((*digest, Ok(tools.get(digest)?.upgrade()?)))).collect()
    }

    /// Adds weak references to the tools in `new`; only snapshots keep them alive.
    pub(crate) fn add_tools(&self, new: &BTreeMap<Digest, DescribedTools>) {
        let mut tools = self.tools.lock();
        tools.retain(|_, tools| tools.strong_count() > 0);
        let new = new.iter().filter_map(|(digest, tools)| Some((*digest, Arc::downgrade(tools.as_ref().ok()?))));
        tools.extend(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_known_while_a_snapshot_uses_them() {
        let cache = ReadyCache::default();
        let digest = Digest::of(b"x");
        let tools = BTreeMap::from([(digest, Ok(Arc::from([])))]);
        cache.add_tools(&tools);
        assert_eq!(cache.tools([digest].iter()), tools);
        drop(tools);
        assert_eq!(cache.tools([digest].iter()), BTreeMap::new());
    }
}
