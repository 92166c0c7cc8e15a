//! Tests of waiting lines.

use patchbay_core::MessageKind;

use super::*;
use crate::{
    SessionChange,
    testing::{TestTree, message},
};

fn row(agent: AgentId, position: i64, text: &str) -> QueueRow {
    QueueRow { line: LineId::random(), agent, position, text: text.to_owned(), attachments: Vec::new() }
}

async fn texts(store: &Store, session: SessionId) -> Vec<String> {
    store.queued_lines(session).await.unwrap().into_iter().map(|row| row.text).collect()
}

#[tokio::test]
async fn waiting_lines_survive_a_restart_in_their_order() {
    let TestTree { home, store, hold, root: agent } = TestTree::new().await;
    let (second, first) = (row(agent, 1, " second\n"), row(agent, -1, "first"));
    for line in [&second, &first] {
        store.queue_line(&hold, line.clone(), None).await.unwrap();
    }
    drop(store);
    let store = Store::open(home.path()).unwrap();
    assert_eq!(store.queued_lines(hold.session()).await.unwrap(), [first.clone(), second]);
    store.remove_queued_line(&hold, first.line).await.unwrap();
    store.remove_queued_line(&hold, first.line).await.unwrap();
    assert_eq!(texts(&store, hold.session()).await, [" second\n"]);
    store.remove_session(hold.session()).await.unwrap();
    assert_eq!(texts(&store, hold.session()).await, [""; 0]);
}

#[tokio::test]
async fn waiting_line_keeps_its_attachments() {
    let TestTree { home: _home, store, hold, root: agent } = TestTree::new().await;
    let digest = patchbay_core::Digest::of(b"image");
    let attachment = Attachment { name: "a.png".to_owned(), media_type: "image/png".to_owned(), digest, size: 5 };
    let line = QueueRow { attachments: vec![attachment], ..row(agent, 0, "look") };
    let retained = store.store_attachments([&b"image"[..]]).unwrap();
    store.queue_line(&hold, line.clone(), Some(retained)).await.unwrap();
    store.collect().await.unwrap();
    assert_eq!(store.queued_lines(hold.session()).await.unwrap(), [line]);
    assert!(store.attachment(&digest).unwrap().is_some());
}

#[tokio::test]
async fn line_leaves_the_queue_in_the_commit_of_its_rows() {
    let TestTree { home: _home, store, hold, root: agent } = TestTree::new().await;
    let line = row(agent, 0, "hello");
    store.queue_line(&hold, line.clone(), None).await.unwrap();
    let change = |agent| SessionChange {
        messages: vec![message(agent, MessageKind::User, "hello")],
        begins: Some(line.line),
        ..SessionChange::default()
    };
    // A commit that fails changes neither the queue nor the rows.
    assert!(store.commit(&hold, change(AgentId::random())).await.is_err());
    assert_eq!(texts(&store, hold.session()).await, ["hello"]);
    assert_eq!(store.last_seq(hold.session()).await.unwrap(), 0);
    store.commit(&hold, change(agent)).await.unwrap();
    assert_eq!(texts(&store, hold.session()).await, [""; 0]);
    assert_eq!(store.last_seq(hold.session()).await.unwrap(), 1);
}

#[tokio::test]
async fn earlier_holds_cannot_change_the_queue() {
    let TestTree { home: _home, store, hold: old, root: agent } = TestTree::new().await;
    let line = row(agent, 0, "kept");
    store.queue_line(&old, line.clone(), None).await.unwrap();
    store.hold(old.session()).await.unwrap();
    let lost = row(agent, 1, "lost");
    assert!(matches!(store.queue_line(&old, lost, None).await, Err(StoreError::Fenced(_))));
    assert!(matches!(store.remove_queued_line(&old, line.line).await, Err(StoreError::Fenced(_))));
    assert_eq!(texts(&store, old.session()).await, ["kept"]);
}
