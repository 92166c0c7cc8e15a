//! The work that one call has done, counted against [`limits`]. Used by `walk.rs`, `resolve.rs` and the matchers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use crate::{error::FileError, limits, wild::StateSet};

/// Ends a search from outside, for example because its call was cancelled. Clones halt the same search.
#[derive(Clone, Debug, Default)]
pub struct SearchHalt(Arc<AtomicBool>);

impl SearchHalt {
    /// Makes all threads of the search end soon. The result must not be used afterwards.
    pub fn halt(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true after [`SearchHalt::halt`].
    pub fn is_halted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
pub(crate) struct WorkBudget {
    /// Number of file names that were read.
    entries: u32,
    /// Number of matching steps.
    steps: u64,
    /// When the call ends even if it is within its limits; `None` if only the limits count.
    until: Option<Instant>,
    /// Ends the call early; `None` if nothing does.
    halt: Option<SearchHalt>,
    /// Buffers of the matcher, reused between names.
    pub(crate) states: (StateSet, StateSet),
}

impl WorkBudget {
    /// Returns a budget that also ends at a given time.
    pub(crate) fn until(until: Instant) -> Self {
        Self { until: Some(until), ..Self::default() }
    }

    /// Makes `halt` end the call as well.
    pub(crate) fn halted_by(self, halt: SearchHalt) -> Self {
        Self { halt: Some(halt), ..self }
    }

    /// Counts one file name that was read.
    pub(crate) fn count_entry(&mut self) -> Result<(), FileError> {
        self.entries += 1;
        let is_late = self.until.is_some_and(|until| Instant::now() >= until) || self.is_halted();
        if self.entries > limits::ENTRIES || is_late { Err(FileError::TooManyEntries) } else { Ok(()) }
    }

    pub(crate) fn count_steps(&mut self, steps: u64) -> Result<(), FileError> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > limits::MATCH_STEPS || self.is_halted() { Err(FileError::TooMuchMatching) } else { Ok(()) }
    }

    fn is_halted(&self) -> bool {
        self.halt.as_ref().is_some_and(SearchHalt::is_halted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_ends_at_its_limits() {
        let mut work = WorkBudget::default();
        assert!((0..limits::ENTRIES).all(|_| work.count_entry().is_ok()));
        assert!(matches!(work.count_entry(), Err(FileError::TooManyEntries)));
        assert!(work.count_steps(limits::MATCH_STEPS).is_ok());
        assert!(matches!(work.count_steps(1), Err(FileError::TooMuchMatching)));
        assert!(work.count_steps(u64::MAX).is_err());
    }

    #[test]
    fn budget_ends_at_its_time() {
        assert!(WorkBudget::until(Instant::now() + std::time::Duration::from_secs(60)).count_entry().is_ok());
        assert!(WorkBudget::until(Instant::now()).count_entry().is_err());
    }

    #[test]
    fn halted_budget_ends_at_once() {
        let halt = SearchHalt::default();
        let mut work = WorkBudget::default().halted_by(halt.clone());
        assert!(work.count_entry().is_ok() && work.count_steps(1).is_ok());
        halt.halt();
        assert!(work.count_entry().is_err() && work.count_steps(1).is_err());
    }
}
