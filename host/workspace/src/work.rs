use crate::{error::FileError, limits, wild::Places};

/// What a call has done so far, against what it may do.
#[derive(Default)]
pub(crate) struct Work {
    entries: u32,
    steps: u64,
    /// Room for matching, used again and again.
    pub(crate) places: (Places, Places),
}

impl Work {
    /// One more name of the file system is looked at.
    pub(crate) fn entry(&mut self) -> Result<(), FileError> {
        self.entries += 1;
        if self.entries > limits::ENTRIES { Err(FileError::TooManyEntries) } else { Ok(()) }
    }

    /// So many more steps of matching are taken.
    pub(crate) fn steps(&mut self, steps: u64) -> Result<(), FileError> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > limits::MATCH_STEPS { Err(FileError::TooMuchMatching) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        let mut work = Work::default();
        assert!((0..limits::ENTRIES).all(|_| work.entry().is_ok()));
        assert!(matches!(work.entry(), Err(FileError::TooManyEntries)));
        assert!(work.steps(limits::MATCH_STEPS).is_ok());
        assert!(matches!(work.steps(1), Err(FileError::TooMuchMatching)));
        assert!(work.steps(u64::MAX).is_err());
    }
}
