use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Tokens that a session has taken, and may take.
#[derive(Debug)]
pub struct Spending {
    used: AtomicU64,
    unsaved: AtomicU64,
    ceiling: Option<u64>,
}

/// A session has taken all its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this session has used {used} tokens; it may use {ceiling} (limits.session_tokens). Start a new session, or raise the limit in config.toml and take this one up again with --session."
)]
pub struct Spent {
    /// Tokens that it took.
    pub used: u64,
    /// Tokens that it may take.
    pub ceiling: u64,
}

impl Spending {
    /// A session that has taken `used` tokens and may take `ceiling` in all; 0 is no ceiling.
    pub fn new(used: u64, ceiling: u64) -> Arc<Self> {
        let ceiling = (ceiling > 0).then_some(ceiling);
        Arc::new(Self { used: AtomicU64::new(used), unsaved: AtomicU64::new(0), ceiling })
    }

    /// Whether there is anything left.
    ///
    /// # Errors
    /// [`Spent`].
    pub fn check(&self) -> Result<(), Spent> {
        let used = self.used.load(Ordering::Relaxed);
        match self.ceiling {
            Some(ceiling) if used >= ceiling => Err(Spent { used, ceiling }),
            _ => Ok(()),
        }
    }

    /// Counts tokens. The next row that is committed takes them along.
    pub(crate) fn spend(&self, tokens: u64) {
        self.used.fetch_add(tokens, Ordering::Relaxed);
        self.unsaved.fetch_add(tokens, Ordering::Relaxed);
    }

    /// What no commit has taken along yet.
    pub fn take_unsaved(&self) -> u64 {
        self.unsaved.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_is_judged_before_the_next_request() {
        let spending = Spending::new(90, 100);
        assert_eq!(spending.check(), Ok(()));
        spending.spend(20);
        let spent = spending.check().unwrap_err();
        assert!(spent.to_string().starts_with("this session has used 110 tokens; it may use 100"), "{spent}");
        assert_eq!((spending.take_unsaved(), spending.take_unsaved()), (20, 0));
        assert_eq!(Spending::new(u64::MAX, 0).check(), Ok(()));
    }
}
