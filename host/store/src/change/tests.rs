//! Tests of the cost of a change, and of the order of its parts.

use patchbay_core::{MessageKind, SessionId, TurnCause, TurnState};

use super::*;
use crate::testing::{TestTree, letter, message, new_agent};

/// Forks the root after `rows` rows. Returns the number of database rows that the fork wrote.
async fn writes_of_a_fork(rows: usize) -> u64 {
    let tree = TestTree::new().await;
    let messages = (0..rows).map(|_| message(tree.root, MessageKind::User, "text")).collect();
    tree.commit(SessionChange { messages, ..SessionChange::default() }).await.unwrap();
    let agent = new_agent(tree.root);
    let child = agent.id;
    let change = SessionChange {
        new_agent: Some(agent),
        messages: vec![message(child, MessageKind::User, "go")],
        begins_turns: vec![NewTurn { agent: child, cause: TurnCause::Person, state: TurnState::Waiting, began: None }],
        ..SessionChange::default()
    };
    let mut database = tree.database();
    let transaction = database.transaction().unwrap();
    let before = transaction.total_changes();
    apply(&transaction, &tree.hold, tree.store.source(), change).unwrap();
    let writes = transaction.total_changes() - before;
    transaction.commit().unwrap();
    assert_eq!(tree.sent(child).await.len(), rows + 1);
    writes
}

#[tokio::test]
async fn fork_copies_no_rows() {
    let writes = writes_of_a_fork(10).await;
    assert_eq!(writes_of_a_fork(10_000).await, writes);
    assert!(writes <= 6, "{writes}");
}

#[tokio::test]
async fn refused_change_leaves_nothing() {
    let tree = TestTree::new().await;
    let agent = new_agent(tree.root);
    let (child, dead) = (agent.id, tree.fork(tree.root).await);
    tree.kill(&[dead]).await;
    let change = SessionChange {
        new_agent: Some(agent),
        view: Some(child),
        // The first mail could be sent, the second one cannot.
        mail: vec![letter(tree.root, child, "one"), letter(tree.root, dead, "two")],
        capture: Some((tree.root, true)),
        messages: vec![message(tree.root, MessageKind::User, "lost")],
        ..SessionChange::default()
    };
    crate::testing::assert_dead(tree.commit(change).await, dead);
    assert_eq!(tree.store.agent(tree.session(), child).await.unwrap(), None);
    assert_eq!(tree.store.mail_counts(child).await.unwrap().unread, 0);
    assert_eq!(tree.store.session(tree.session()).await.unwrap().agent, tree.root);
    assert!(!tree.store.agents(tree.session()).await.unwrap()[0].capturing);
    assert_eq!(tree.store.last_seq(tree.session()).await.unwrap(), 0);
}

#[tokio::test]
async fn sessions_of_builds_without_a_tree_have_a_living_root() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("patchbay.db");
    drop(crate::database::Database::open(&path, &crate::MIGRATIONS[..14], None).unwrap());
    let (id, agent) = (SessionId::random(), AgentId::random());
    let line = LineId::new(1, [0; 16]);
    let sql = format!(
        "INSERT INTO snapshots VALUES ('s', '');
         INSERT INTO sessions (id, workspace, agent, persona, snapshot, snapshot_version, created_at, used_at, epoch, last_seq)
         VALUES ('{id}', '/w', '{agent}', '{{}}', 's', 1, 0, 0, 7, 4);
         INSERT INTO agents (uuid, session, created_at, provider, model) VALUES ('{agent}', '{id}', 0, 'demo', 'm');
         INSERT INTO messages (session, seq, agent, kind, content, created_at, dropped)
         VALUES ('{id}', 1, '{agent}', 'user', 'a', 0, 0), ('{id}', 2, '{agent}', 'user', 'b', 0, 1),
                ('{id}', 3, '{agent}', 'assistant', 'c', 0, 1), ('{id}', 4, '{agent}', 'user', 'd', 0, 0);
         INSERT INTO queued_lines VALUES ('{id}', 1, '{agent}', '{line}', 'later');"
    );
    Connection::open(&path).unwrap().execute_batch(&sql).unwrap();
    let store = Store::open(home.path()).unwrap();
    let root = store.agents(id).await.unwrap().remove(0);
    assert_eq!((root.id, root.parent, root.ordinal, root.alive, root.foreground), (agent, None, 0, true, true));
    assert_eq!((root.capturing, root.tokens, root.model.model.as_deref()), (false, 0, Some("m")));
    assert_eq!(store.open_turns(id).await.unwrap(), []);
    assert_eq!(store.inbox(agent, None).await.unwrap(), []);
    assert_eq!(store.queued_lines(id).await.unwrap().len(), 1);
    let hold = store.hold(id).await.unwrap();
    let child = new_agent(agent);
    let child_id = child.id;
    let change = SessionChange {
        new_agent: Some(child),
        mail: vec![letter(agent, child_id, "one")],
        ..SessionChange::default()
    };
    store.commit(&hold, change).await.unwrap();
    let drops = Some(DroppedMessage { agent, first: 4, last: 4 });
    store.commit(&hold, SessionChange { drops, ..SessionChange::default() }).await.unwrap();
    let texts = async |agent| {
        let rows = store.conversation(agent).await.unwrap();
        rows.into_iter().map(|row| row.content).collect::<Vec<_>>()
    };
    assert_eq!(texts(agent).await, ["a"]);
    assert_eq!(texts(child_id).await, ["a", "d"]);
}
