use wasmtime::ResourceLimiter;

use crate::{Failure, Limits};

/// Counts all memories and tables of a store together; wasmtime's own limiter counts each apart.
pub(crate) struct Limiter {
    ceiling: usize,
    used: usize,
    /// The most that was in use.
    pub(crate) peak: usize,
}

impl Limiter {
    /// A limiter with a ceiling in bytes.
    pub(crate) fn new(ceiling: usize) -> Self {
        Self { ceiling, used: 0, peak: 0 }
    }

    /// Bytes that may still be used.
    pub(crate) fn left(&self) -> usize {
        self.ceiling.saturating_sub(self.used)
    }

    /// Over the ceiling the guest is stopped rather than told `-1`: most guests would answer that with a trap that says
    /// nothing of memory.
    fn grow(&mut self, current: usize, desired: usize) -> wasmtime::Result<bool> {
        let wanted = self.used.saturating_add(desired.saturating_sub(current));
        if wanted > self.ceiling {
            let failure = Failure::Memory {
                wanted: format!("{wanted} bytes of memory and tables"),
                limit: format!("{} bytes", self.ceiling),
            };
            return Err(failure.into());
        }
        self.used = wanted;
        self.peak = self.peak.max(wanted);
        Ok(true)
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        // Past its own declared maximum the growth fails by itself, and must not be counted.
        if maximum.is_some_and(|maximum| desired > maximum) && desired <= self.ceiling {
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
    fn memories_and_tables_draw_on_one_ceiling() {
        let mut limiter = Limiter::new(1000);
        assert!(limiter.memory_growing(0, 400, None).unwrap());
        assert!(limiter.memory_growing(0, 400, None).unwrap());
        assert!(limiter.table_growing(0, 20, None).unwrap());
        assert!(limiter.table_growing(20, 30, None).is_err());
        assert_eq!(limiter.peak, 960);
    }

    #[test]
    fn a_table_has_a_bound_of_its_own() {
        let mut limiter = Limiter::new(64 << 20);
        assert!(limiter.table_growing(0, Limits::TABLE_ELEMENTS, None).unwrap());
        // What a pool gives as the maximum is its own bound, too.
        let maximum = Some(Limits::TABLE_ELEMENTS);
        assert!(limiter.table_growing(Limits::TABLE_ELEMENTS, Limits::TABLE_ELEMENTS + 1, maximum).is_err());
        assert!(limiter.table_growing(1, 20, Some(10)).unwrap());
    }

    #[test]
    fn a_declared_maximum_is_the_guests_own_affair() {
        let mut limiter = Limiter::new(1000);
        assert!(limiter.memory_growing(0, 500, Some(400)).unwrap());
        assert_eq!(limiter.used, 0);
        assert!(limiter.memory_growing(0, 5000, Some(400)).is_err());
    }
}
