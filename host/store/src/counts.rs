//! Counters of this process for operators, which `serve` shows at `/metrics`. They start at 0 when the store is opened.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

/// The counters of one process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessCounts {
    /// Tool calls that have ended, by outcome: `ok`, or the code of the failure.
    pub calls: BTreeMap<&'static str, u64>,
    /// Turns that have ended.
    pub turns: u64,
    /// Tokens that models have used, without those read from a cache.
    pub tokens: u64,
}

/// The counters that [`ProcessCounts`] is read from.
#[derive(Default)]
pub(crate) struct RunningCounts {
    calls: Mutex<BTreeMap<&'static str, u64>>,
    turns: AtomicU64,
    tokens: AtomicU64,
}

impl RunningCounts {
    pub(crate) fn call_ended(&self, outcome: &'static str) {
        *self.calls.lock().entry(outcome).or_default() += 1;
    }

    /// Adds the turns and tokens of one commit.
    pub(crate) fn committed(&self, turns: usize, tokens: u64) {
        self.turns.fetch_add(turns as u64, Ordering::Relaxed);
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> ProcessCounts {
        let [turns, tokens] = [&self.turns, &self.tokens].map(|count| count.load(Ordering::Relaxed));
        ProcessCounts { calls: self.calls.lock().clone(), turns, tokens }
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::Code;

    use crate::{JournalRow, SessionChange, testing::TestTree};

    #[tokio::test]
    async fn ended_calls_and_committed_tokens_are_counted() {
        let tree = TestTree::new().await;
        assert_eq!(tree.store.counts(), super::ProcessCounts::default());
        let row = JournalRow::for_test(tree.session());
        tree.store.journal(row.clone()).await;
        tree.store.journal_at_once(row.clone());
        tree.store.end_call(Box::new(JournalRow { failure: Some(Code::Denied), ..row }), false);
        tree.commit(SessionChange { tokens: 7, ..SessionChange::default() }).await.unwrap();
        // A change that fails adds nothing.
        let failing = SessionChange {
            tokens: 7,
            requires_alive: vec![patchbay_core::AgentId::random()],
            ..SessionChange::default()
        };
        tree.commit(failing).await.unwrap_err();
        let counts = tree.store.counts();
        assert_eq!((counts.calls, counts.tokens), ([("ok", 2), ("denied", 1)].into(), 7));
    }
}
