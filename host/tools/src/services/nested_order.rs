//! The order of the calls that one call makes. Calls of skills that may change files run one at a time, in the order in which they
//! were made: an edit reads a file, changes it and writes it back, and would lose changes that another call makes in the meantime.
//! All other calls run in parallel.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::watch;

/// The nested calls of one call that wait or run. Each call has its own queue, because with a shared queue, a nested call could
/// wait for a call that waits for it.
#[derive(Clone, Default)]
pub(super) struct NestedOrder(Arc<watch::Sender<OrderedCalls>>);

#[derive(Default)]
struct OrderedCalls {
    /// The number of the next call.
    next: u64,
    /// Whether each call may change files, by its number.
    open: BTreeMap<u64, bool>,
}

/// The position of a call in the order, until it is dropped.
pub(super) struct OrderedCall {
    order: NestedOrder,
    number: u64,
}

impl NestedOrder {
    /// Adds a call after all others. It counts as a call that changes files until [`OrderedCall::turn`] is called.
    pub(super) fn enter(&self) -> OrderedCall {
        let mut number = 0;
        self.0.send_modify(|calls| {
            number = calls.next;
            calls.next += 1;
            calls.open.insert(number, true);
        });
        OrderedCall { order: self.clone(), number }
    }
}

impl OrderedCall {
    /// Waits until the call may run. If it `changes_files`, all earlier calls that change files must have ended.
    pub(super) async fn turn(&self, changes_files: bool) {
        if !changes_files {
            self.order.0.send_modify(|calls| {
                calls.open.insert(self.number, false);
            });
            return;
        }
        let mut changes = self.order.0.subscribe();
        let may_run = |calls: &OrderedCalls| calls.open.range(..self.number).all(|(_, changes)| !changes);
        // This cannot fail, because `self` keeps the sender.
        let _ = changes.wait_for(may_run).await;
    }
}

impl Drop for OrderedCall {
    fn drop(&mut self) {
        self.order.0.send_modify(|calls| {
            calls.open.remove(&self.number);
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn may_run(place: &OrderedCall, changes_files: bool) -> bool {
        place.turn(changes_files).now_or_never().is_some()
    }

    #[test]
    fn changes_run_one_at_a_time_and_others_beside_them() {
        let order = NestedOrder::default();
        let [edit, read, second, last, fetch] = [(); 5].map(|()| order.enter());
        assert!(may_run(&edit, true) && may_run(&read, false) && may_run(&fetch, false));
        assert!(!may_run(&second, true) && !may_run(&last, true));
        drop(edit);
        assert!(may_run(&second, true) && !may_run(&last, true));
        drop(second);
        assert!(may_run(&last, true));
    }

    #[test]
    fn change_waits_for_a_call_that_may_be_a_change() {
        let order = NestedOrder::default();
        let [unknown, edit] = [(); 2].map(|()| order.enter());
        assert!(!may_run(&edit, true));
        assert!(may_run(&unknown, false) && may_run(&edit, true));
    }

    #[tokio::test]
    async fn cancelled_call_lets_the_next_one_run() {
        let order = NestedOrder::default();
        let [running, waiting, last] = [(); 3].map(|()| order.enter());
        assert!(may_run(&running, true));
        let cancelled = tokio::spawn(async move { waiting.turn(true).await });
        let next = tokio::spawn(async move { last.turn(true).await });
        cancelled.abort();
        assert!(cancelled.await.unwrap_err().is_cancelled());
        drop(running);
        next.await.unwrap();
    }

    #[test]
    fn calls_of_a_nested_call_do_not_wait_for_its_siblings() {
        let (outer, inner) = (NestedOrder::default(), NestedOrder::default());
        let [parent, sibling] = [(); 2].map(|()| outer.enter());
        assert!(may_run(&parent, true) && may_run(&inner.enter(), true));
        assert!(!may_run(&sibling, true));
    }
}
