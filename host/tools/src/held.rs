//! What is held in memory of components, and no longer than it is of use.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use patchbay_core::{Digest, ToolSpec};
use patchbay_skill::Answer;

use crate::ready::Ready;

/// How many components are held ready to be called: more than a session calls in turn. Each has its code mapped, and a file
/// descriptor for its memory image.
const READY: usize = 128;
/// What [`Tools`](crate::Tools) holds.
#[derive(Default)]
pub(crate) struct Held {
    ready: RwLock<HashMap<Digest, (Arc<Ready>, AtomicU64)>>,
    /// Counts the calls: who was used last has the highest number.
    uses: AtomicU64,
    answers: Mutex<HashMap<Digest, Weak<[ToolSpec]>>>,
}

impl Held {
    /// A component that is ready.
    pub(crate) fn ready(&self, digest: &Digest) -> Option<Arc<Ready>> {
        let held = self.ready.read().unwrap_or_else(PoisonError::into_inner);
        let (ready, used) = held.get(digest)?;
        used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(Arc::clone(ready))
    }

    /// Holds a component ready. The one that was called longest ago makes room; calls of it that are under way hold it
    /// themselves.
    pub(crate) fn keep_ready(&self, digest: Digest, ready: Arc<Ready>) {
        let used = self.uses.fetch_add(1, Ordering::Relaxed);
        let mut held = self.ready.write().unwrap_or_else(PoisonError::into_inner);
        held.insert(digest, (ready, AtomicU64::new(used)));
        if held.len() > READY
            && let Some(oldest) = held.iter().min_by_key(|(_, (_, used))| used.load(Ordering::Relaxed))
        {
            let oldest = *oldest.0;
            held.remove(&oldest);
        }
    }

    /// The tools of those of `components` that somebody holds: of a snapshot that is in memory they need not be read again
    /// to make another one.
    pub(crate) fn answers<'a>(&self, components: impl Iterator<Item = &'a Digest>) -> BTreeMap<Digest, Answer> {
        let answers = lock(&self.answers);
        components.filter_map(|digest| Some((*digest, Ok(answers.get(digest)?.upgrade()?)))).collect()
    }

    /// Takes notice of answers. They are not held here: a snapshot holds them, or nobody does.
    pub(crate) fn note_answers(&self, new: &BTreeMap<Digest, Answer>) {
        let mut answers = lock(&self.answers);
        answers.retain(|_, tools| tools.strong_count() > 0);
        let new = new.iter().filter_map(|(digest, answer)| Some((*digest, Arc::downgrade(answer.as_ref().ok()?))));
        answers.extend(new);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
