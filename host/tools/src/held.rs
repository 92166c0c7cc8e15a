//! What is held in memory of components, and no longer than it is of use.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use patchbay_core::{Digest, ToolSpec};
use patchbay_skill::DescribedTools;

use crate::ready::Ready;

/// How many components are held ready to be called: more than a session calls in turn. Each has its code mapped, and a file
/// descriptor for its memory image.
const READY: usize = 128;

/// What [`Tools`](crate::Tools) holds.
pub(crate) struct Held {
    /// The components that are ready to be called. Calls that are under way hold theirs themselves.
    pub(crate) ready: LastUsed<Digest, Arc<Ready>>,
    answers: Mutex<HashMap<Digest, Weak<[ToolSpec]>>>,
}

impl Default for Held {
    fn default() -> Self {
        Self { ready: LastUsed::new(READY), answers: Mutex::default() }
    }
}

impl Held {
    /// The tools of those of `components` that somebody holds: of a snapshot that is in memory they need not be read again
    /// to make another one.
    pub(crate) fn answers<'a>(&self, components: impl Iterator<Item = &'a Digest>) -> BTreeMap<Digest, DescribedTools> {
        let answers = lock(&self.answers);
        components.filter_map(|digest| Some((*digest, Ok(answers.get(digest)?.upgrade()?)))).collect()
    }

    /// Takes notice of answers. They are not held here: a snapshot holds them, or nobody does.
    pub(crate) fn note_answers(&self, new: &BTreeMap<Digest, DescribedTools>) {
        let mut answers = lock(&self.answers);
        answers.retain(|_, tools| tools.strong_count() > 0);
        let new = new.iter().filter_map(|(digest, answer)| Some((*digest, Arc::downgrade(answer.as_ref().ok()?))));
        answers.extend(new);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// So many values; the one that was used longest ago makes room.
pub(crate) struct LastUsed<K, V> {
    most: usize,
    values: RwLock<HashMap<K, (V, AtomicU64)>>,
    /// Counts the uses: what was used last has the highest number.
    uses: AtomicU64,
}

impl<K: Copy + Eq + Hash, V: Clone> LastUsed<K, V> {
    fn new(most: usize) -> Self {
        Self { most, values: RwLock::default(), uses: AtomicU64::new(0) }
    }

    /// A value, used by that.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let values = self.values.read().unwrap_or_else(PoisonError::into_inner);
        let (value, used) = values.get(key)?;
        used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(value.clone())
    }

    /// Keeps a value.
    pub(crate) fn keep(&self, key: K, value: V) {
        let used = self.uses.fetch_add(1, Ordering::Relaxed);
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        values.insert(key, (value, AtomicU64::new(used)));
        if values.len() > self.most
            && let Some(oldest) = values.iter().min_by_key(|(_, (_, used))| used.load(Ordering::Relaxed))
        {
            let oldest = *oldest.0;
            values.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_makes_room() {
        let held = LastUsed::new(3);
        for n in 1..=3 {
            held.keep(n, n * 10);
        }
        assert_eq!(held.get(&1), Some(10));
        held.keep(4, 40);
        assert_eq!([1, 2, 3, 4].map(|n| held.get(&n)), [Some(10), None, Some(30), Some(40)]);
        held.keep(3, 31);
        held.keep(5, 50);
        assert_eq!([1, 3, 4, 5].map(|n| held.get(&n)), [None, Some(31), Some(40), Some(50)]);
    }

    #[test]
    fn answers_are_known_as_long_as_somebody_holds_them() {
        let held = Held::default();
        let digest = Digest::of(b"x");
        let answers = BTreeMap::from([(digest, Ok(Arc::from([])))]);
        held.note_answers(&answers);
        assert_eq!(held.answers([digest].iter()), answers);
        drop(answers);
        assert_eq!(held.answers([digest].iter()), BTreeMap::new());
    }
}
