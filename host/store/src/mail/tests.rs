//! Tests of mail.

use super::*;
use crate::{
    SessionChange,
    testing::{TestTree, assert_dead, letter},
};

async fn send(tree: &TestTree, mail: Vec<NewMail>) -> Result<(), StoreError> {
    tree.commit(SessionChange { mail, ..SessionChange::default() }).await.map(drop)
}

fn numbers(mails: &[MailRow]) -> Vec<(u64, bool)> {
    mails.iter().map(|mail| (mail.number, mail.read)).collect()
}

#[tokio::test]
async fn mail_is_listed_unread_first_then_newest_first() {
    let tree = TestTree::new().await;
    let (root, child) = (tree.root, tree.fork(tree.root).await);
    send(&tree, vec![letter(child, root, "one"), letter(root, child, "other"), letter(root, root, "two")])
        .await
        .unwrap();
    send(&tree, vec![letter(child, root, "three"), letter(child, root, "four")]).await.unwrap();
    let store = &tree.store;
    let all = store.inbox(root, None).await.unwrap();
    assert_eq!(numbers(&all), [(4, false), (3, false), (2, false), (1, false)]);
    assert!(all.is_sorted_by(|later, earlier| later.sent_at > earlier.sent_at), "{all:?}");
    assert!((jiff::Timestamp::now().as_millisecond() - all[0].sent_at).abs() < 3_600_000, "{all:?}");
    assert_eq!((all[3].from, &*all[3].body), (child, "one"));
    let change = SessionChange { reads_mail: vec![(root, 3)], ..SessionChange::default() };
    tree.commit(change).await.unwrap();
    assert_eq!(numbers(&store.inbox(root, None).await.unwrap()), [(4, false), (2, false), (1, false), (3, true)]);
    assert_eq!(numbers(&store.inbox(root, Some(child)).await.unwrap()), [(4, false), (1, false), (3, true)]);
    assert_eq!(numbers(&store.inbox(root, Some(root)).await.unwrap()), [(2, false)]);
    assert!(store.mail(root, 3).await.unwrap().unwrap().read);
    assert_eq!(store.mail(child, 1).await.unwrap().unwrap().body, "other");
    for number in [0, 5, u64::MAX] {
        assert_eq!(store.mail(root, number).await.unwrap(), None);
    }
    assert_eq!(store.unread_mail(tree.session()).await.unwrap(), [(root, 3), (child, 1)]);
    // A number that is not in the inbox changes nothing.
    for number in [9, u64::MAX] {
        let (reads_mail, deletes_mail) = (vec![(root, number)], Some((root, number)));
        tree.commit(SessionChange { reads_mail, deletes_mail, ..SessionChange::default() }).await.unwrap();
    }
    assert_eq!(store.inbox(root, None).await.unwrap().len(), 4);
}

#[tokio::test]
async fn number_of_deleted_mail_is_not_used_again() {
    let tree = TestTree::new().await;
    let root = tree.root;
    send(&tree, vec![letter(root, root, "one"), letter(root, root, "two")]).await.unwrap();
    let change = SessionChange { deletes_mail: Some((root, 2)), ..SessionChange::default() };
    tree.commit(change).await.unwrap();
    assert_eq!(tree.store.mail(root, 2).await.unwrap(), None);
    send(&tree, vec![letter(root, root, "three")]).await.unwrap();
    assert_eq!(numbers(&tree.store.inbox(root, None).await.unwrap()), [(3, false), (1, false)]);
}

#[tokio::test]
async fn mail_is_counted_once() {
    let tree = TestTree::new().await;
    let root = tree.root;
    let counts = async || {
        let MailCounts { unread, uncounted, .. } = tree.store.mail_counts(root).await.unwrap();
        (unread, uncounted)
    };
    assert_eq!(counts().await, (0, 0));
    send(&tree, vec![letter(root, root, "one"), letter(root, root, "two")]).await.unwrap();
    assert_eq!(counts().await, (2, 2));
    let count = || SessionChange { counts_mail: Some(root), ..SessionChange::default() };
    tree.commit(count()).await.unwrap();
    assert_eq!(counts().await, (2, 0));
    send(&tree, vec![letter(root, root, "three"), letter(root, root, "four")]).await.unwrap();
    tree.commit(SessionChange { reads_mail: vec![(root, 3)], ..SessionChange::default() }).await.unwrap();
    assert_eq!(counts().await, (3, 1));
    tree.commit(count()).await.unwrap();
    assert_eq!(counts().await, (3, 0));
}

#[tokio::test]
async fn uncounted_mail_is_in_order_and_bounded() {
    let tree = TestTree::new().await;
    let root = tree.root;
    let uncounted = async |most| numbers(&tree.store.uncounted_mail(root, most).await.unwrap());
    send(&tree, vec![letter(root, root, "one"), letter(root, root, "two")]).await.unwrap();
    tree.commit(SessionChange { counts_mail: Some(root), ..SessionChange::default() }).await.unwrap();
    assert_eq!(uncounted(9).await, []);
    let quiet = NewMail { wakes: false, ..letter(root, root, "quiet") };
    send(&tree, vec![quiet, letter(root, root, "four"), letter(root, root, "five"), letter(root, root, "six")])
        .await
        .unwrap();
    assert_eq!(uncounted(9).await, [(4, false), (5, false), (6, false)]);
    assert_eq!(uncounted(2).await, [(4, false), (5, false)]);
    // A notification that shows two mails in full marks both as read, and counts every mail.
    let reads_mail = vec![(root, 4), (root, 6)];
    let change = SessionChange { reads_mail, counts_mail: Some(root), ..SessionChange::default() };
    tree.commit(change).await.unwrap();
    assert_eq!(uncounted(9).await, []);
    let MailCounts { unread, .. } = tree.store.mail_counts(root).await.unwrap();
    assert_eq!(unread, 4);
}

#[tokio::test]
async fn full_inbox_refuses_mail() {
    let tree = TestTree::new().await;
    let root = tree.root;
    let limited = |body: &str| NewMail { limit: Some(2), ..letter(root, root, body) };
    let full = send(&tree, vec![limited("one"), limited("two"), limited("three")]).await.unwrap_err();
    assert!(matches!(full, StoreError::InboxFull { agent, limit: 2 } if agent == root), "{full:?}");
    assert_eq!(full.to_string(), format!("the inbox of agent '{root}' is full (2 messages)"));
    assert_eq!(full.code().as_str(), "limit_mail");
    assert_eq!(tree.store.inbox(root, None).await.unwrap(), [], "nothing of the change is stored");
    send(&tree, vec![limited("one"), limited("two"), letter(root, root, "a report")]).await.unwrap();
    assert!(send(&tree, vec![limited("four")]).await.is_err(), "read and reported mail is in the inbox");
    assert_eq!(numbers(&tree.store.inbox(root, None).await.unwrap()), [(3, false), (2, false), (1, false)]);
}

#[tokio::test]
async fn dead_agents_get_no_mail() {
    let tree = TestTree::new().await;
    let (root, child) = (tree.root, tree.fork(tree.root).await);
    send(&tree, vec![letter(root, child, "kept")]).await.unwrap();
    // Not even mail from the change that kills them. Their own last mail is sent.
    let kill = |mail| SessionChange { kills: vec![child], mail, ..SessionChange::default() };
    assert_dead(tree.commit(kill(vec![letter(root, child, "lost")])).await, child);
    assert!(tree.store.agent(tree.session(), child).await.unwrap().unwrap().alive);
    tree.commit(kill(vec![letter(child, root, "a report")])).await.unwrap();
    assert_dead(send(&tree, vec![letter(root, root, "lost too"), letter(root, child, "lost")]).await, child);
    assert_eq!(tree.store.inbox(root, None).await.unwrap().len(), 1);
    assert_eq!(tree.store.inbox(child, None).await.unwrap()[0].body, "kept");
    let other = TestTree::new().await;
    assert_dead(send(&tree, vec![letter(root, other.root, "lost")]).await, other.root);
    // Mail to a new agent may be part of the change that creates it.
    let agent = crate::testing::new_agent(root);
    let id = agent.id;
    let mail = vec![letter(root, id, "welcome")];
    tree.commit(SessionChange { new_agent: Some(agent), mail, ..SessionChange::default() }).await.unwrap();
    assert_eq!(tree.store.mail_counts(id).await.unwrap().unread, 1);
}

#[tokio::test]
async fn clock_that_goes_back_does_not_reorder_mail() {
    let tree = TestTree::new().await;
    let root = tree.root;
    send(&tree, vec![letter(root, root, "one")]).await.unwrap();
    let future = 9_999_999_999_999_i64;
    tree.database().execute("UPDATE mail SET sent_at = ?", [future]).unwrap();
    send(&tree, vec![letter(root, root, "two")]).await.unwrap();
    assert_eq!(tree.store.mail(root, 2).await.unwrap().unwrap().sent_at, future + 1);
}
