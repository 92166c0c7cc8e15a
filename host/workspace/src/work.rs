//! The work that one call has done, counted against [`limits`]. Used by `walk.rs`, `resolve.rs` and the matchers.

use crate::{error::FileError, limits, wild::StateSet};

/// Counters of one call.
#[derive(Default)]
pub(crate) struct WorkBudget {
    /// Names of the file system that were read.
    entries: u32,
    /// Matching steps.
    steps: u64,
    /// Buffers of the matcher, reused between names.
    pub(crate) states: (StateSet, StateSet),
}

impl WorkBudget {
    /// Counts one name of the file system.
    pub(crate) fn count_entry(&mut self) -> Result<(), FileError> {
        self.entries += 1;
        if self.entries > limits::ENTRIES { Err(FileError::TooManyEntries) } else { Ok(()) }
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
}
