//! The work that one call has done, counted against [`limits`]. Used by `walk.rs`, `resolve.rs` and the matchers.

use std::time::Instant;

use crate::{error::FileError, limits, wild::StateSet};

/// Counters of one call.
#[derive(Default)]
pub(crate) struct WorkBudget {
    /// Names of the file system that were read.
    entries: u32,
    /// Matching steps.
    steps: u64,
    /// When the call ends even if it is within its limits; `None` if only the limits count.
    until: Option<Instant>,
    /// Buffers of the matcher, reused between names.
    pub(crate) states: (StateSet, StateSet),
}

impl WorkBudget {
    /// Returns a budget that also ends at a given time.
    pub(crate) fn until(until: Instant) -> Self {
        Self { until: Some(until), ..Self::default() }
    }

    /// Counts one name of the file system.
    pub(crate) fn count_entry(&mut self) -> Result<(), FileError> {
        self.entries += 1;
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        if self.entries > limits::ENTRIES || is_late { Err(FileError::TooManyEntries) } else { Ok(()) }
    }

    /// Counts matching steps.
    pub(crate) fn count_steps(&mut self, steps: u64) -> Result<(), FileError> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > limits::MATCH_STEPS { Err(FileError::TooMuchMatching) } else { Ok(()) }
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
}
