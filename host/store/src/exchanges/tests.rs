//! Tests of the last message and of dropped messages.

use serde_json::{Value, json};

use super::*;
use crate::{
    NewMessage, SessionChange,
    testing::{TestTree, message},
};

/// Adds rows of the root in one commit.
async fn add(tree: &TestTree, rows: &[(MessageKind, &str, Value)]) {
    let row = |(kind, content, data): &(MessageKind, &str, Value)| NewMessage {
        data: Some(data.clone()),
        ..message(tree.root, *kind, content)
    };
    let change = SessionChange { messages: rows.iter().map(row).collect(), ..SessionChange::default() };
    tree.commit(change).await.unwrap();
}

/// Returns the texts of the root's last message, the text of its last answer, and the number of its answers.
async fn last(tree: &TestTree) -> Option<(Vec<String>, Option<String>, u32)> {
    let last = tree.store.last_message(tree.session(), tree.root).await.unwrap()?;
    let texts = last.rows.into_iter().map(|row| row.content).collect();
    Some((texts, last.answer.map(|row| row.content), last.answers))
}

async fn drop_last(tree: &TestTree) {
    let rows = tree.store.last_message(tree.session(), tree.root).await.unwrap().unwrap().rows;
    let drops = Some(DroppedMessage { agent: tree.root, first: rows[0].seq, last: rows[rows.len() - 1].seq });
    tree.commit(SessionChange { drops, ..SessionChange::default() }).await.unwrap();
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[tokio::test]
async fn last_message_is_found_with_its_answers() {
    use MessageKind::{Assistant, Command, Skill, Tool, User};
    let tree = TestTree::new().await;
    assert_eq!(last(&tree).await, None);
    add(&tree, &[(User, "one", Value::Null)]).await;
    assert_eq!(last(&tree).await, Some((texts(&["one"]), None, 0)));
    add(&tree, &[(Assistant, "first", Value::Null)]).await;
    add(&tree, &[(Tool, "result", Value::Null)]).await;
    add(&tree, &[(Assistant, "last", Value::Null)]).await;
    assert_eq!(last(&tree).await, Some((texts(&["one"]), Some("last".to_owned()), 2)));
    // Instructions and their input are one message; the row of another command may follow it.
    add(&tree, &[(Skill, "Do it.", Value::Null), (User, "there", Value::Null)]).await;
    add(&tree, &[(Command, "/skills", json!({"code": "skills_listed"}))]).await;
    assert_eq!(last(&tree).await, Some((texts(&["Do it.", "there"]), None, 0)));
    // Instructions without input wait for the next message.
    add(&tree, &[(Skill, "Later.", Value::Null), (Command, "/later", json!({"code": "skill_added"}))]).await;
    assert_eq!(last(&tree).await, Some((texts(&["Do it.", "there"]), None, 0)));
    add(&tree, &[(User, "now", Value::Null)]).await;
    assert_eq!(last(&tree).await, Some((texts(&["now"]), None, 0)));
}

#[tokio::test]
async fn dropped_messages_are_neither_sent_nor_listed() {
    use MessageKind::{Assistant, Command, Skill, Tool, User};
    let tree = TestTree::new().await;
    add(&tree, &[(User, "one", Value::Null)]).await;
    add(&tree, &[(Assistant, "first", Value::Null)]).await;
    add(&tree, &[(Skill, "Do it.", Value::Null), (User, "there", Value::Null)]).await;
    add(&tree, &[(Assistant, "", Value::Null)]).await;
    add(&tree, &[(Skill, "Later.", Value::Null), (Command, "/later", json!({"code": "skill_added"}))]).await;
    add(&tree, &[(Tool, "result", Value::Null)]).await;
    drop_last(&tree).await;
    assert_eq!(tree.sent(tree.root).await, ["one", "first", "Later."]);
    assert_eq!(last(&tree).await, Some((texts(&["one"]), Some("first".to_owned()), 1)));
    let (store, session) = (&tree.store, tree.session());
    let (later, none) = store.exchange_before(session, tree.root, u64::MAX).await.unwrap().unwrap();
    assert_eq!((&*later.content, none), ("Later.", None));
    assert_eq!(store.messages_before(session, tree.root, later.seq).await.unwrap(), 2);
    let (one, first) = store.exchange_before(session, tree.root, later.seq).await.unwrap().unwrap();
    assert_eq!((&*one.content, &*first.unwrap().content), ("one", "first"));
    assert_eq!(store.exchange_before(session, tree.root, one.seq).await.unwrap(), None);
    // A dropped summary no longer replaces the rows it summarised.
    add(&tree, &[(User, "two", Value::Null)]).await;
    add(&tree, &[(MessageKind::Compaction, "Summary.", json!({"keep_from": null}))]).await;
    assert_eq!(tree.sent(tree.root).await, ["Summary."]);
    drop_last(&tree).await;
    assert_eq!(tree.sent(tree.root).await, ["one", "first", "Later."]);
    // All rows are still stored.
    assert_eq!(store.messages(session, 1, 99).await.unwrap().len(), 10);
}
