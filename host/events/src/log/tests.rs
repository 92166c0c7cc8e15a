//! Tests of the event log.

use std::task::{Context, Waker};

use patchbay_core::{MessageKind, completion::TokenUsage};
use serde_json::json;

use super::*;
use crate::{Broadcast, testing::TestSession};

fn log(test: &TestSession) -> Arc<EventLog> {
    let bus = Broadcast::default();
    EventLog::new(test.hold.clone(), test.store.clone(), 0, TokenBudget::new(0, 0), bus)
}

#[tokio::test]
async fn one_write_stores_all_pieces_that_are_due() {
    let test = TestSession::new(8).await;
    let log = log(&test);
    let writing = log.writing.lock().await;
    let mut kept = Vec::new();
    for (ordinal, text) in (0..).zip(["one ", "two", "of a turn that is stopped before the write"]) {
        let piece = PartialPiece { agent: test.agent, ordinal, piece: text.to_owned() };
        let mut keeping = Box::pin(log.keep_piece(piece));
        assert!(keeping.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        kept.push(keeping);
    }
    drop(kept.pop());
    drop(writing);
    let mut kept = kept.into_iter();
    assert!(kept.next().unwrap().await);
    assert!(log.due.lock().is_empty(), "the first write took all pieces");
    assert!(kept.next().unwrap().await);
    test.store.recover(&test.hold, |pieces| Some((pieces.concat(), json!({})))).await.unwrap();
    let rows = test.store.messages(test.session, 1, 10).await.unwrap();
    let rows: Vec<_> = rows.iter().map(|row| (row.kind, row.content.as_str())).collect();
    assert_eq!(rows, [(MessageKind::Assistant, "one two")]);
}

#[tokio::test]
async fn tokens_of_a_failed_commit_are_stored_by_the_next() {
    let test = TestSession::new(8).await;
    let log = log(&test);
    log.budget().spend(40);
    let usage = TokenUsage { input: 50, cache_read: 10, ..TokenUsage::default() };
    let used = ModelUsage { provider: "demo".to_owned(), model: "demo-1".to_owned(), usage };
    log.budget().record(used.clone());
    // Another process takes the session over.
    test.store.hold(test.session).await.unwrap();
    assert!(log.commit(SessionChange::default(), || panic!("nothing was committed")).await.is_err());
    assert_eq!(log.usage().await.unwrap(), std::slice::from_ref(&used));
    assert_eq!((log.budget().take_unsaved(), log.budget().take_unsaved_usage()), (40, vec![used]));
}

#[tokio::test]
async fn tokens_of_a_change_are_stored_with_unsaved_ones() {
    let test = TestSession::new(8).await;
    let log = log(&test);
    let used = |model: &str| ModelUsage {
        provider: "demo".to_owned(),
        model: model.to_owned(),
        usage: TokenUsage { input: 50, ..TokenUsage::default() },
    };
    log.budget().record(used("demo-2"));
    let change = SessionChange { usage: vec![used("demo-1")], ..SessionChange::default() };
    log.commit(change, || ()).await.unwrap();
    assert_eq!(test.store.usage(test.session).await.unwrap(), [used("demo-1"), used("demo-2")]);
}
