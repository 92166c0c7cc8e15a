//! Tests of holds: writes of earlier holds, session state and partial answers.

use std::time::{Duration, SystemTime};

use patchbay_core::{AgentId, CallId, LineId, MessageKind, PrincipalId, SessionId};

use super::*;
use crate::{
    KvOwner, KvScope, KvStore, KvStoreError, NewMessage, PartialPiece, QueueRow, SessionChange,
    testing::{TestTree, letter, message, new_agent, new_session, new_store},
};

fn says(agent: AgentId, texts: &[&str]) -> SessionChange {
    let messages = texts.iter().map(|text| message(agent, MessageKind::User, text)).collect();
    SessionChange { messages, tokens: 1, ..SessionChange::default() }
}

fn piece(agent: AgentId, ordinal: u32, piece: &str) -> PartialPiece {
    PartialPiece { agent, ordinal, piece: piece.to_owned() }
}

fn join(pieces: &[String]) -> Option<(String, serde_json::Value)> {
    Some((pieces.concat(), serde_json::json!({"pieces": pieces.len()})))
}

fn fenced<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Fenced(_))), "{result:?}");
}

#[tokio::test]
async fn writes_of_an_earlier_hold_are_rejected() {
    let home = tempfile::tempdir().unwrap();
    // Two stores of one folder share only the files, like two processes.
    let (ours, theirs) = (Store::open(home.path()).unwrap(), Store::open(home.path()).unwrap());
    let (old, agent) = new_session(&ours).await;
    ours.commit(&old, says(agent, &["a", "b"])).await.unwrap();
    let new = theirs.hold(old.session()).await.unwrap();
    fenced(ours.check_hold(&old).await);
    fenced(ours.commit(&old, says(agent, &["lost"])).await);
    fenced(ours.checkpoint(&old, vec![piece(agent, 0, "lost")]).await);
    fenced(ours.recover(&old, join).await);
    let rows = theirs.commit(&new, says(agent, &["c"])).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), [3]);
    let kept: Vec<_> = ours.messages(old.session(), 1, 9).await.unwrap();
    assert_eq!(kept.iter().map(|row| row.content.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!((ours.last_seq(old.session()).await.unwrap(), ours.tokens(old.session()).await.unwrap()), (3, 2));
    // The process that lost the session can take it again.
    let again = ours.hold(old.session()).await.unwrap();
    fenced(theirs.commit(&new, says(agent, &["lost"])).await);
    ours.commit(&again, says(agent, &["d"])).await.unwrap();
}

/// Runs each kind of write under `hold`. `keep_result` does not check that its call exists.
async fn each_write(store: &Store, hold: &Hold, agent: AgentId) -> [Result<(), StoreError>; 7] {
    let line = LineId::new(1, *agent.as_bytes());
    let row = QueueRow { line, agent, position: 1, text: "later".to_owned(), attachments: Vec::new() };
    let result = NewMessage { data: Some(serde_json::json!({})), ..message(agent, MessageKind::Tool, "7") };
    [
        store.commit(hold, says(agent, &["a", "b"])).await.map(drop),
        store.begin_calls(hold, Vec::new()).await,
        store.keep_result(hold, CallId::of_line(line), result, None).await,
        store.checkpoint(hold, vec![piece(agent, 0, "half")]).await,
        store.recover(hold, join).await,
        store.queue_line(hold, row, None).await,
        store.remove_queued_line(hold, line).await,
    ]
}

#[tokio::test]
async fn every_write_raises_the_revision_and_refused_ones_do_not() {
    let tree = TestTree::new().await;
    let revision = |tree: &TestTree| -> i64 {
        tree.database().query_row("SELECT revision FROM sessions", [], |row| row.get(0)).unwrap()
    };
    let before = revision(&tree);
    for written in each_write(&tree.store, &tree.hold, tree.root).await {
        written.unwrap();
    }
    assert_eq!(revision(&tree), before + 7);
    tree.store.hold(tree.hold.session()).await.unwrap();
    for refused in each_write(&tree.store, &tree.hold, tree.root).await {
        fenced(refused);
    }
    assert_eq!(revision(&tree), before + 7);
}

#[tokio::test]
async fn times_of_writes_come_from_the_source() {
    let home = tempfile::tempdir().unwrap();
    let at = Duration::from_millis(1_700_000_000_456);
    let source = Source::new(move || SystemTime::UNIX_EPOCH + at, || [7; 16]);
    let store = Store::open_with(home.path(), source).unwrap();
    let (hold, agent) = new_session(&store).await;
    let child = new_agent(agent);
    let change =
        SessionChange { mail: vec![letter(agent, child.id, "x")], new_agent: Some(child), ..says(agent, &["a"]) };
    let child = change.mail[0].to;
    store.commit(&hold, change).await.unwrap();
    assert_eq!(store.inbox(child, None).await.unwrap()[0].sent_at, 1_700_000_000_456);
    let database = rusqlite::Connection::open(home.path().join("patchbay.db")).unwrap();
    for sql in [
        "SELECT created_at FROM sessions",
        "SELECT used_at FROM sessions",
        "SELECT created_at FROM agents WHERE ordinal = 1",
        "SELECT created_at FROM messages",
    ] {
        let time: i64 = database.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(time, 1_700_000_000, "{sql}");
    }
    assert_eq!(store.source().line_id().to_string(), "018bcfe5-69c8-7707-8707-070707070707");
}

#[tokio::test]
async fn token_counts_stop_at_the_largest_integer() {
    let TestTree { home: _home, store, hold, root: agent } = TestTree::new().await;
    for _ in 0..2 {
        let change = SessionChange { tokens: u64::MAX, agent_tokens: vec![(agent, u64::MAX)], ..says(agent, &["a"]) };
        store.commit(&hold, change).await.unwrap();
        let most = i64::MAX.unsigned_abs();
        assert_eq!(store.tokens(hold.session()).await.unwrap(), most);
        assert_eq!(store.agents(hold.session()).await.unwrap()[0].tokens, most);
    }
}

#[tokio::test]
async fn session_state_needs_the_current_hold() {
    let TestTree { home, store, hold: old, .. } = TestTree::new().await;
    let kv = KvStore::open(home.path(), store.clone()).unwrap();
    let scope = |owner| KvScope { root: "user", workspace: String::new(), skill: "notes".to_owned(), owner };
    let of = |hold: &Hold| scope(KvOwner::Session(hold.clone()));
    kv.put(of(&old), "k".to_owned(), b"1".to_vec(), None).await.unwrap();
    let new = store.hold(old.session()).await.unwrap();
    for refused in [
        kv.put(of(&old), "k".to_owned(), b"2".to_vec(), None).await.map(drop),
        kv.delete(of(&old), "k".to_owned()).await.map(drop),
    ] {
        assert!(matches!(refused, Err(KvStoreError::Store(StoreError::Fenced(_)))), "{refused:?}");
    }
    assert_eq!(kv.get(&of(&new), "k").await.unwrap().unwrap().value, b"1");
    assert!(kv.delete(of(&new), "k".to_owned()).await.unwrap());
    // State of another owner does not depend on the hold of the session.
    kv.put(scope(KvOwner::User(PrincipalId::LOCAL)), "k".to_owned(), b"3".to_vec(), None).await.unwrap();
}

#[tokio::test]
async fn hold_counts_rows_of_older_builds() {
    let TestTree { home, store, hold, root: agent } = TestTree::new().await;
    store.commit(&hold, says(agent, &["a"])).await.unwrap();
    let other = rusqlite::Connection::open(home.path().join("patchbay.db")).unwrap();
    let sql = "INSERT INTO messages (session, seq, agent, kind, content, created_at) VALUES (?, 2, ?, 'user', 'b', 0)";
    other.execute(sql, [hold.session().to_string(), agent.to_string()]).unwrap();
    let hold = store.hold(hold.session()).await.unwrap();
    let rows = store.commit(&hold, says(agent, &["c"])).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), [3]);
}

#[tokio::test]
async fn partial_answers_are_recovered_once_in_order() {
    let TestTree { home: _home, store, hold, root: agent } = TestTree::new().await;
    let (other, _) = new_session(&store).await;
    // A cancelled attempt, and eleven pieces of the final answer.
    store.checkpoint(&hold, vec![piece(agent, 0, "given up"), piece(agent, 1, ".")]).await.unwrap();
    let pieces = (0..11).map(|n| piece(agent, n, &format!("{n} "))).collect();
    store.checkpoint(&hold, pieces).await.unwrap();
    assert!(store.checkpoint(&hold, vec![piece(agent, 5, "twice")]).await.is_err());
    store.recover(&other, join).await.unwrap();
    for _ in 0..2 {
        store.recover(&hold, join).await.unwrap();
        let rows = store.messages(hold.session(), 1, 9).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.content.as_str()).collect::<Vec<_>>(), ["0 1 2 3 4 5 6 7 8 9 10 "]);
        assert_eq!(rows[0].kind, MessageKind::Assistant);
    }
    // An answer that was committed as a row is not recovered.
    store.checkpoint(&hold, vec![piece(agent, 0, "whole")]).await.unwrap();
    let change = SessionChange { ends_partial: vec![agent], ..says(agent, &["whole"]) };
    store.commit(&hold, change).await.unwrap();
    store.recover(&hold, join).await.unwrap();
    assert_eq!(store.last_seq(hold.session()).await.unwrap(), 2);
}

#[tokio::test]
async fn removed_session_cannot_be_held() {
    let (_home, store) = new_store();
    let nothing = store.hold(SessionId::random()).await;
    assert!(matches!(nothing, Err(StoreError::SessionNotFound(_))), "{nothing:?}");
}

/// A session stored by a build without holds has rows, but no epoch.
#[tokio::test]
async fn sessions_of_earlier_builds_can_be_held() {
    let home = tempfile::tempdir().unwrap();
    let mut connection = rusqlite::Connection::open(home.path().join("patchbay.db")).unwrap();
    let steps = crate::MIGRATIONS[..9].iter().map(|sql| rusqlite_migration::M::up(sql)).collect();
    rusqlite_migration::Migrations::new(steps).to_latest(&mut connection).unwrap();
    let (id, agent) = (SessionId::random(), AgentId::random());
    let sql = format!(
        "INSERT INTO snapshots VALUES ('s', '');
         INSERT INTO sessions (id, workspace, agent, persona, snapshot, snapshot_version, created_at, used_at)
         VALUES ('{id}', '/w', '{agent}', '{{}}', 's', 1, 0, 0);
         INSERT INTO agents (uuid, session, created_at) VALUES ('{agent}', '{id}', 0);
         INSERT INTO messages (session, seq, agent, kind, content, created_at)
         VALUES ('{id}', 1, '{agent}', 'user', 'a', 0), ('{id}', 2, '{agent}', 'user', 'b', 0);
         INSERT INTO partials (agent, content, data) VALUES ('{agent}', 'Half', 'Half');"
    );
    connection.execute_batch(&sql).unwrap();
    drop(connection);
    let store = Store::open(home.path()).unwrap();
    assert_eq!(store.last_seq(id).await.unwrap(), 2);
    let hold = store.hold(id).await.unwrap();
    store.recover(&hold, join).await.unwrap();
    assert_eq!(store.messages(id, 3, 9).await.unwrap()[0].content, "Half");
    assert_eq!(store.commit(&hold, says(agent, &["c"])).await.unwrap()[0].seq, 4);
}
