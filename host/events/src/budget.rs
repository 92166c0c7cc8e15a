//! The token budget of one session. It counts the requests of agents and of skills (`inference`), but not tokens that were read
//! from a cache.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;
use patchbay_core::completion::TokenUsage;
use patchbay_store::ModelUsage;

/// Counts the tokens that a session uses, up to its ceiling (`limits.session_tokens`).
#[derive(Debug)]
pub struct TokenBudget {
    used: AtomicU64,
    /// Estimated tokens of running requests.
    reserved: AtomicU64,
    /// Used tokens that are not stored yet.
    unsaved: AtomicU64,
    /// The usage, by model, of requests that have no row. Not stored yet.
    unsaved_usage: Mutex<Vec<ModelUsage>>,
    ceiling: Option<u64>,
}

/// The session has used all its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this session has used {used} tokens; the limit is {ceiling} (limits.session_tokens). Start a new session, or \
     raise the limit in config.toml and resume this one with --session."
)]
pub struct BudgetExhausted {
    /// Tokens that the session has used so far.
    pub used: u64,
    /// Maximum number of tokens that the session may use.
    pub ceiling: u64,
}

impl TokenBudget {
    /// Creates the budget of a session that has used `used` tokens. A `ceiling` of 0 means no ceiling.
    pub fn new(used: u64, ceiling: u64) -> Arc<Self> {
        let ceiling = (ceiling > 0).then_some(ceiling);
        Arc::new(Self {
            used: AtomicU64::new(used),
            reserved: AtomicU64::new(0),
            unsaved: AtomicU64::new(0),
            unsaved_usage: Mutex::default(),
            ceiling,
        })
    }

    /// Returns the tokens used so far.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Checks that the ceiling is not reached.
    ///
    /// # Errors
    /// [`BudgetExhausted`] if it is.
    pub fn check(&self) -> Result<(), BudgetExhausted> {
        let used = self.used.load(Ordering::Relaxed);
        match self.ceiling {
            Some(ceiling) if used >= ceiling => Err(BudgetExhausted { used, ceiling }),
            _ => Ok(()),
        }
    }

    /// Reserves `estimate` tokens for a request.
    ///
    /// # Errors
    /// A message for users and plugins if fewer tokens are left.
    pub fn reserve(&self, estimate: u64) -> Result<ReservedTokens<'_>, String> {
        self.check().map_err(|exhausted| exhausted.to_string())?;
        let reserved = self.reserved.fetch_add(estimate, Ordering::Relaxed);
        // Dropping the reservation releases the estimate.
        let own = ReservedTokens { budget: self, estimate };
        let taken = self.used.load(Ordering::Relaxed).saturating_add(reserved);
        match self.ceiling.map(|ceiling| (ceiling, ceiling.saturating_sub(taken))) {
            Some((ceiling, left)) if estimate > left => Err(format!(
                "the prompt has about {estimate} tokens, but this session has only {left} of its {ceiling} tokens \
                 left (limits.session_tokens); send a shorter prompt, or raise the limit"
            )),
            _ => Ok(own),
        }
    }

    /// Counts used tokens. The next commit stores them.
    pub fn spend(&self, tokens: u64) {
        self.used.fetch_add(tokens, Ordering::Relaxed);
        self.unsaved.fetch_add(tokens, Ordering::Relaxed);
    }

    /// Records the usage, by model, of a request that has no row. The next commit stores it. Its tokens are counted by
    /// [`TokenBudget::spend`], not here.
    pub fn record(&self, usage: ModelUsage) {
        if usage.usage != TokenUsage::default() {
            self.unsaved_usage.lock().push(usage);
        }
    }

    /// Returns the recorded usage that is not stored yet.
    pub(crate) fn unsaved_usage(&self) -> Vec<ModelUsage> {
        self.unsaved_usage.lock().clone()
    }

    /// Returns the used tokens that are not stored yet, and resets their count.
    pub fn take_unsaved(&self) -> u64 {
        self.unsaved.swap(0, Ordering::Relaxed)
    }

    /// Returns the recorded usage that is not stored yet, and forgets it.
    pub fn take_unsaved_usage(&self) -> Vec<ModelUsage> {
        std::mem::take(&mut *self.unsaved_usage.lock())
    }

    /// Reverts [`TokenBudget::take_unsaved`] and [`TokenBudget::take_unsaved_usage`] after a failed commit.
    pub(crate) fn put_back(&self, tokens: u64, usage: Vec<ModelUsage>) {
        self.unsaved.fetch_add(tokens, Ordering::Relaxed);
        self.unsaved_usage.lock().extend(usage);
    }
}

/// Tokens reserved for one request. Dropping it releases them.
#[derive(Debug)]
pub struct ReservedTokens<'a> {
    budget: &'a TokenBudget,
    estimate: u64,
}

impl ReservedTokens<'_> {
    /// Counts `used` tokens in place of the estimate.
    pub fn settle(self, used: u64) {
        self.budget.spend(used);
    }
}

impl Drop for ReservedTokens<'_> {
    fn drop(&mut self) {
        self.budget.reserved.fetch_sub(self.estimate, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceiling_is_checked_before_a_request() {
        let budget = TokenBudget::new(90, 100);
        assert_eq!(budget.check(), Ok(()));
        budget.spend(20);
        let exhausted = budget.check().unwrap_err();
        assert!(exhausted.to_string().starts_with("this session has used 110 tokens; the limit is 100"), "{exhausted}");
        assert_eq!((budget.take_unsaved(), budget.take_unsaved()), (20, 0));
        assert_eq!(TokenBudget::new(u64::MAX, 0).check(), Ok(()));
    }

    #[test]
    fn estimates_are_reserved_until_the_request_ends() {
        let budget = TokenBudget::new(10, 100);
        let first = budget.reserve(60).unwrap();
        let refused = budget.reserve(31).unwrap_err();
        assert!(
            refused.contains(
                "about 31 tokens, but this session has only 30 of its 100 tokens left (limits.session_tokens)"
            ),
            "{refused}"
        );
        drop(budget.reserve(30).unwrap());
        first.settle(20);
        assert_eq!(budget.take_unsaved(), 20);
        let second = budget.reserve(70).unwrap();
        second.settle(90);
        assert!(budget.reserve(0).unwrap_err().starts_with("this session has used 120 tokens"));
        assert!(TokenBudget::new(u64::MAX, 0).reserve(u64::MAX).is_ok());
    }
}
