use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Tokens that a session has taken, and may take.
#[derive(Debug)]
pub struct Spending {
    used: AtomicU64,
    /// Estimates of requests that have not ended.
    reserved: AtomicU64,
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
        Arc::new(Self { used: AtomicU64::new(used), reserved: AtomicU64::new(0), unsaved: AtomicU64::new(0), ceiling })
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

    /// Reserves `estimate` tokens for a request that is about to be sent, if so many are left.
    ///
    /// # Errors
    /// Why not, for people and plugins.
    pub(crate) fn reserve(&self, estimate: u64) -> Result<Reserved<'_>, String> {
        self.check().map_err(|spent| spent.to_string())?;
        let reserved = self.reserved.fetch_add(estimate, Ordering::Relaxed);
        // From here on it is given back when it is dropped.
        let own = Reserved { spending: self, estimate };
        let taken = self.used.load(Ordering::Relaxed).saturating_add(reserved);
        match self.ceiling.map(|ceiling| (ceiling, ceiling.saturating_sub(taken))) {
            Some((ceiling, left)) if estimate > left => Err(format!(
                "the prompt has about {estimate} tokens, and this session may use {left} more of its {ceiling} (limits.session_tokens); send a shorter prompt, or raise the limit"
            )),
            _ => Ok(own),
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

/// Tokens that are set aside for a request.
#[derive(Debug)]
pub(crate) struct Reserved<'a> {
    spending: &'a Spending,
    estimate: u64,
}

impl Reserved<'_> {
    /// Counts the tokens that the request has used in the place of the estimate.
    pub(crate) fn settle(self, used: u64) {
        self.spending.spend(used);
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.spending.reserved.fetch_sub(self.estimate, Ordering::Relaxed);
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
    #[test]
    fn an_estimate_is_reserved_until_the_request_ends() {
        let spending = Spending::new(10, 100);
        let first = spending.reserve(60).unwrap();
        let refused = spending.reserve(31).unwrap_err();
        assert!(
            refused.contains("about 31 tokens, and this session may use 30 more of its 100 (limits.session_tokens)"),
            "{refused}"
        );
        drop(spending.reserve(30).unwrap());
        first.settle(20);
        assert_eq!(spending.take_unsaved(), 20);
        let second = spending.reserve(70).unwrap();
        second.settle(90);
        assert!(spending.reserve(0).unwrap_err().starts_with("this session has used 120 tokens"));
        assert!(Spending::new(u64::MAX, 0).reserve(u64::MAX).is_ok());
    }
}
