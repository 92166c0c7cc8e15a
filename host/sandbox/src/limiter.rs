//! Counts the memory of one call and stops the guest at its limit. wasmtime calls it for each growth.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use wasmtime::ResourceLimiter;

use crate::{Failure, Limits};

/// Counts all memories and tables of a store together; wasmtime's own limiter counts each separately.
pub(crate) struct Limiter(Arc<Memory>);

/// The memory of one call: the guest's, and request bodies that the host keeps for it.
pub(crate) struct Memory {
    ceiling: usize,
    /// The bytes in use, including those lent to nested calls.
    used: AtomicUsize,
    /// The bytes that running nested calls may use. Not part of the peak of this call.
    lent: AtomicUsize,
    /// The peak of the bytes that this call used itself.
    peak: AtomicUsize,
}

impl Memory {
    /// Counts `bytes` as used. If that exceeds the ceiling, returns the total that was requested.
    fn take(&self, bytes: usize) -> Result<(), usize> {
        let wanted = |used: usize| used.checked_add(bytes).filter(|wanted| *wanted <= self.ceiling);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, wanted) {
            Ok(before) => {
                let own = (before + bytes).saturating_sub(self.lent.load(Ordering::Relaxed));
                self.peak.fetch_max(own, Ordering::Relaxed);
                Ok(())
            }
            Err(used) => Err(used.saturating_add(bytes)),
        }
    }

    /// Returns a reservation for bytes that the host keeps for the guest. Released when dropped.
    pub(crate) fn reserve(self: &Arc<Self>) -> Reservation {
        Reservation { memory: Arc::clone(self), bytes: 0 }
    }

    /// Sets bytes aside for a nested call, until the loan is dropped: at most `bytes`, and never more than remain.
    pub(crate) fn lend(self: &Arc<Self>, bytes: usize) -> Loan {
        let lent = |used: usize| bytes.min(self.ceiling.saturating_sub(used));
        let before = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(used + lent(used)));
        let bytes = lent(before.unwrap_or(self.ceiling));
        self.lent.fetch_add(bytes, Ordering::Relaxed);
        Loan { memory: Arc::clone(self), bytes }
    }
}

/// Bytes that a nested call may use instead of its caller. Returned when dropped.
pub(crate) struct Loan {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Loan {
    /// Returns the number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.memory.lent.fetch_sub(self.bytes, Ordering::Relaxed);
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Bytes that the host keeps for a guest, counted until this is dropped.
pub(crate) struct Reservation {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Reservation {
    /// Counts `bytes` more. Returns whether they are within the ceiling.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let fits = self.memory.take(bytes).is_ok();
        if fits {
            self.bytes += bytes;
        }
        fits
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Limiter {
    /// Returns a limiter with a ceiling in bytes.
    pub(crate) fn new(ceiling: usize) -> Self {
        let (used, lent, peak) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        Self(Arc::new(Memory { ceiling, used, lent, peak }))
    }

    /// Returns the bytes that may still be used.
    pub(crate) fn left(&self) -> usize {
        self.0.ceiling.saturating_sub(self.0.used.load(Ordering::Relaxed))
    }

    /// Returns the peak of the bytes in use.
    pub(crate) fn peak(&self) -> usize {
        self.0.peak.load(Ordering::Relaxed)
    }

    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.0
    }

    /// Counts a growth, or stops the guest if it exceeds the ceiling. If the growth returned `-1` instead, most guests would trap
    /// with a message that does not mention memory.
    fn grow(&mut self, current: usize, desired: usize) -> wasmtime::Result<bool> {
        self.0.take(desired.saturating_sub(current)).map(|()| true).map_err(|wanted| {
            let (wanted, limit) = (format!("{wanted} bytes of memory and tables"), format!("{} bytes", self.0.ceiling));
            Failure::Memory { wanted, limit }.into()
        })
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // Growth over the declared maximum fails in the engine and must not be counted.
        if maximum.is_some_and(|maximum| desired > maximum) && desired <= self.0.ceiling {
            return Ok(true);
        }
        self.grow(current, desired)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if desired > Limits::TABLE_ELEMENTS {
            let (wanted, limit) = (format!("{desired} table elements"), Limits::TABLE_ELEMENTS.to_string());
            return Err(Failure::Memory { wanted, limit }.into());
        }
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(true);
        }
        let bytes = |elements: usize| elements.saturating_mul(size_of::<usize>());
        self.grow(bytes(current), bytes(desired))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_and_tables_share_a_ceiling() {
        let mut limiter = Limiter::new(1000);
        assert!(limiter.memory_growing(0, 400, None).unwrap());
        assert!(limiter.memory_growing(0, 400, None).unwrap());
        assert!(limiter.table_growing(0, 20, None).unwrap());
        assert!(limiter.table_growing(20, 30, None).is_err());
        assert_eq!(limiter.peak(), 960);
    }

    #[test]
    fn bodies_count_until_they_are_dropped() {
        let mut limiter = Limiter::new(1000);
        let mut body = limiter.memory().reserve();
        assert!(body.grow(600) && !body.grow(500) && body.grow(100));
        assert!(limiter.memory_growing(0, 301, None).is_err());
        assert!(limiter.memory_growing(0, 300, None).unwrap());
        assert_eq!((limiter.left(), limiter.peak()), (0, 1000));
        drop(body);
        assert_eq!((limiter.left(), limiter.peak()), (700, 1000));
    }

    #[test]
    fn lent_bytes_count_until_returned_and_are_no_peak() {
        let mut limiter = Limiter::new(1000);
        assert!(limiter.memory_growing(0, 100, None).unwrap());
        let (first, second) = (limiter.memory().lend(600), limiter.memory().lend(600));
        assert_eq!((first.bytes(), second.bytes(), limiter.left()), (600, 300, 0));
        assert!(limiter.memory_growing(0, 1, None).is_err());
        drop(first);
        assert!(limiter.memory_growing(0, 50, None).unwrap());
        assert_eq!((limiter.left(), limiter.peak()), (550, 150));
    }

    #[test]
    fn tables_have_their_own_bound() {
        let mut limiter = Limiter::new(64 << 20);
        assert!(limiter.table_growing(0, Limits::TABLE_ELEMENTS, None).unwrap());
        // The maximum that a pool passes is the pool's own limit.
        let maximum = Some(Limits::TABLE_ELEMENTS);
        assert!(limiter.table_growing(Limits::TABLE_ELEMENTS, Limits::TABLE_ELEMENTS + 1, maximum).is_err());
        assert!(limiter.table_growing(1, 20, Some(10)).unwrap());
    }

    #[test]
    fn growth_over_declared_maximum_is_not_counted() {
        let mut limiter = Limiter::new(1000);
        assert!(limiter.memory_growing(0, 500, Some(400)).unwrap());
        assert_eq!(limiter.left(), 1000);
        assert!(limiter.memory_growing(0, 5000, Some(400)).is_err());
    }
}
