//! Tests of subscriptions over an unreliable bus.

use patchbay_core::{DeltaKind, DeltaPosition};

use super::*;
use crate::{Broadcast, Bus as _, testing::TestSession};

/// Returns the numbers of all available rows, and how many live events were lost.
async fn drain(subscription: &mut Subscription) -> (Vec<u64>, u64) {
    let (mut rows, mut missed) = (Vec::new(), 0);
    while let Some(received) = subscription.try_next().await.unwrap() {
        match received {
            Received::Event(Event { seq, kind: EventKind::Message { .. }, .. }) => rows.push(seq),
            Received::Event(_) => {}
            Received::Lagged(count) => missed += count,
        }
    }
    (rows, missed)
}

#[tokio::test]
async fn rows_are_replayed_then_live_each_exactly_once() {
    let test = TestSession::new(Broadcast::CAPACITY).await;
    test.say(600).await;
    let mut all = test.subscribe(1);
    let mut late = test.subscribe(601);
    // These rows are both in the store and published when the replay starts.
    test.say(5).await;
    assert_eq!(drain(&mut all).await, ((1..=605).collect(), 0));
    assert_eq!(drain(&mut late).await, ((601..=605).collect(), 0));
    test.say(3).await;
    assert_eq!(drain(&mut all).await, ((606..=608).collect(), 0));
    assert_eq!(all.try_next().await.unwrap(), None);
}

#[tokio::test]
async fn slow_subscriber_is_notified_and_misses_no_row() {
    let test = TestSession::new(16).await;
    let mut slow = test.subscribe(1);
    assert_eq!(drain(&mut slow).await, (vec![], 0));
    test.say(300).await;
    for _ in 0..50 {
        test.progress(300);
    }
    test.say(10).await;
    let (rows, missed) = drain(&mut slow).await;
    assert_eq!(rows, (1..=310).collect::<Vec<_>>());
    assert!(missed > 300, "{missed}");
}

#[tokio::test]
async fn live_events_and_the_end_are_received() {
    let test = TestSession::new(Broadcast::CAPACITY).await;
    let mut listener = test.subscribe(1);
    test.progress(0);
    assert!(matches!(listener.next().await, Ok(Some(Received::Event(Event { seq: 0, .. })))));
    drop(test.bus);
    assert_eq!(listener.next().await.unwrap(), None);
}

#[tokio::test]
async fn lost_or_reordered_rows_are_read_from_the_store() {
    let test = TestSession::new(Broadcast::CAPACITY).await;
    let mut listener = test.subscribe(1);
    assert_eq!(drain(&mut listener).await, (vec![], 0));
    let rows = test.commit(6).await;
    // Rows 1 and 3 are lost, 4 arrives before 2, and 6 arrives twice.
    for row in [4, 2, 6, 6, 5] {
        test.bus.publish(event(test.session, rows[row - 1].clone()));
    }
    assert_eq!(drain(&mut listener).await, ((1..=6).collect(), 0));
    // A live event follows the row that it names, even if that row is lost.
    test.commit(1).await;
    test.progress(7);
    let mut seen = Vec::new();
    while let Some(Received::Event(event)) = listener.try_next().await.unwrap() {
        seen.push((event.seq, matches!(event.kind, EventKind::Message { .. })));
    }
    assert_eq!(seen, [(7, true), (7, false)]);
}

#[tokio::test]
async fn deltas_are_filtered_by_agent_and_rows_are_not() {
    let test = TestSession::new(Broadcast::CAPACITY).await;
    let other = AgentId::random();
    let mut listener = test.subscribe(1);
    listener.only_deltas_of([other]);
    assert_eq!(drain(&mut listener).await, (vec![], 0));
    let delta = |agent, text: &str| {
        let (block, at) = (DeltaKind::Text, DeltaPosition::default());
        let kind = EventKind::Delta { block, text: text.to_owned(), at };
        test.bus.publish(Event { session: test.session, agent, seq: 0, kind });
    };
    delta(test.agent, "of the agent that is not named");
    delta(other, "of the other");
    test.say(1).await;
    let mut seen = Vec::new();
    while let Some(Received::Event(event)) = listener.try_next().await.unwrap() {
        seen.push(event.agent);
    }
    assert_eq!(seen, [other, test.agent]);
}
