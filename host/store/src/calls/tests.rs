//! Tests of calls with effects: open, interrupted and settled.

use patchbay_core::Code;

use super::*;
use crate::{
    JournalFilter, JournalSettings, SessionChange,
    testing::{TestTree, assert_dead, message},
};

fn row(session: SessionId, parent: Option<CallId>) -> Box<JournalRow> {
    Box::new(JournalRow { parent, ..JournalRow::for_test(session) })
}

fn open(row: &JournalRow, line: Option<&str>) -> OpenCall {
    OpenCall { row: Box::new(row.clone()), agent: AgentId::from_bytes([7; 16]), line: line.map(str::to_owned) }
}

async fn finished(store: &Store) -> Vec<(CallId, Option<Code>)> {
    let rows = store.journal_rows(&JournalFilter::default(), 0, 1_000).await.unwrap();
    rows.into_iter().map(|entry| (entry.row.call, entry.row.failure)).collect()
}

async fn settle_all(store: &Store, calls: Vec<CallId>) {
    let settled: Result<(), StoreError> = store
        .database
        .write(move |connection| Ok(calls.into_iter().try_for_each(|call| settle(connection, call))?))
        .await;
    settled.unwrap();
}

#[tokio::test]
async fn open_call_is_not_in_the_journal_until_it_ends() {
    let TestTree { home, store, hold, .. } = TestTree::new().await;
    let session = hold.session();
    let outer = row(session, None);
    let inner = row(session, Some(outer.call));
    let calls = || vec![open(&outer, Some("/note add x")), open(&inner, None)];
    store.begin_calls(&hold, calls()).await.unwrap();
    store.begin_calls(&hold, calls()).await.unwrap();
    assert_eq!(finished(&store).await, []);
    let unsettled = store.unsettled_calls(session).await.unwrap();
    assert_eq!(unsettled.iter().map(|call| call.id).collect::<Vec<_>>(), [outer.call, inner.call]);
    assert_eq!(unsettled[0].line.as_deref(), Some("/note add x"));
    assert_eq!((unsettled[0].tool.as_str(), unsettled[1].parent), ("notes__add", Some(outer.call)));
    assert_eq!(store.unsettled_calls(SessionId::random()).await.unwrap(), []);

    store.end_call(inner.clone(), true);
    store.end_call(outer.clone(), true);
    store.settle().await.unwrap();
    assert_eq!(finished(&store).await, [(inner.call, None), (outer.call, None)]);
    // The outermost call waits for the commit of its result.
    let unsettled = store.unsettled_calls(session).await.unwrap();
    assert_eq!(unsettled.iter().map(|call| (call.id, call.line.is_some())).collect::<Vec<_>>(), [(outer.call, true)]);
    settle_all(&store, vec![outer.call]).await;
    assert_eq!(store.unsettled_calls(session).await.unwrap(), []);
    assert_eq!(finished(&store).await, [(inner.call, None), (outer.call, None)]);
    let database = rusqlite::Connection::open(home.path().join("patchbay.db")).unwrap();
    let lines: i64 = database.query_row("SELECT count(line) + count(agent) FROM calls", [], |row| row.get(0)).unwrap();
    assert_eq!(lines, 0, "a line was not deleted");
}

#[tokio::test]
async fn interrupted_call_ends_as_unknown_once() {
    let TestTree { home: _home, store, hold, .. } = TestTree::new().await;
    let row = row(hold.session(), None);
    store.begin_calls(&hold, vec![open(&row, None)]).await.unwrap();
    settle_all(&store, vec![row.call, row.call]).await;
    // The process that began the call ends it after another process has settled it.
    store.end_call(row.clone(), true);
    store.settle().await.unwrap();
    assert_eq!(finished(&store).await, [(row.call, Some(Code::OutcomeUnknown))]);
}

#[tokio::test]
async fn call_with_dropped_begin_has_one_row() {
    let TestTree { home: _home, store, hold, .. } = TestTree::new().await;
    let session = hold.session();
    for committed in [true, false] {
        let row = row(session, Some(CallId::random()));
        if committed {
            store.begin_calls(&hold, vec![open(&row, None)]).await.unwrap();
        }
        store.end_call(Box::new(JournalRow { failure: Some(Code::Cancelled), ..*row }), false);
    }
    store.settle().await.unwrap();
    assert_eq!(finished(&store).await.len(), 2);
    assert_eq!(store.unsettled_calls(session).await.unwrap(), []);
}

#[tokio::test]
async fn unsettled_calls_are_never_trimmed() {
    let TestTree { home: _home, store, hold, .. } = TestTree::new().await;
    let store = store.with_journal(JournalSettings { content: false, keep: 1 });
    let session = hold.session();
    let call = row(session, None);
    store.begin_calls(&hold, vec![open(&call, None)]).await.unwrap();
    for _ in 0..300 {
        store.journal(row(session, None)).await;
    }
    store.settle().await.unwrap();
    assert!(finished(&store).await.len() < 70);
    assert_eq!(store.unsettled_calls(session).await.unwrap().len(), 1);
}

#[tokio::test]
async fn call_of_a_fenced_session_does_not_begin() {
    let TestTree { home: _home, store, hold: old, .. } = TestTree::new().await;
    let new = store.hold(old.session()).await.unwrap();
    let row = row(old.session(), None);
    assert!(matches!(store.begin_calls(&old, vec![open(&row, None)]).await, Err(StoreError::Fenced(_))));
    assert_eq!(store.unsettled_calls(old.session()).await.unwrap(), []);
    store.begin_calls(&new, vec![open(&row, None)]).await.unwrap();
}

#[tokio::test]
async fn call_of_a_killed_agent_does_not_begin() {
    let tree = TestTree::new().await;
    let child = tree.fork(tree.root).await;
    let call = |agent| OpenCall { row: row(tree.session(), None), agent, line: None };
    let (begun, late) = (call(child), call(child));
    let (id, store) = (begun.row.call, &tree.store);
    store.begin_calls(&tree.hold, vec![call(tree.root), begun]).await.unwrap();
    // The store refuses a kill that does not know of the call; otherwise the call would be reported as not run.
    let kill = |settles| SessionChange { kills: vec![child], settles, ..SessionChange::default() };
    assert!(matches!(tree.commit(kill(Vec::new())).await, Err(StoreError::CallBegan(of)) if of == child));
    tree.commit(kill(vec![id])).await.unwrap();
    assert_dead(store.begin_calls(&tree.hold, vec![late]).await, child);
    assert_eq!(store.unsettled_calls(tree.session()).await.unwrap().len(), 1, "that of the root");
}

#[tokio::test]
async fn kills_do_not_read_the_journal_and_other_rows() {
    let tree = TestTree::new().await;
    let unsettled = tree.plan(UNSETTLED);
    assert!(unsettled[0].ends_with("USING INDEX calls_unsettled"), "{unsettled:?}");
    let since = tree.plan(&format!("SELECT {} {SINCE_ANSWER}", columns()));
    assert_eq!(since[0], "SEARCH messages USING INDEX messages_by_agent (agent=? AND session=? AND seq>?)");
    assert!(!since.iter().any(|step| step.contains("SCAN messages") || step.contains("B-TREE")), "{since:?}");
}

#[tokio::test]
async fn kept_result_lasts_until_its_row_is_committed() {
    let tree = TestTree::new().await;
    let store = &tree.store;
    let [one, two] = [CallId::random(), CallId::random()];
    let result = |agent, content: &str| NewMessage {
        data: Some(serde_json::json!({"call_id": content})),
        ..message(agent, MessageKind::Tool, content)
    };
    for (call, content) in [(one, "one"), (two, "two")] {
        let contents = store.store_attachments([content.as_bytes()]).unwrap();
        store.keep_result(&tree.hold, call, result(tree.root, content), Some(contents)).await.unwrap();
    }
    let kept = store.kept_result(one).await.unwrap().unwrap();
    assert_eq!((kept.agent, kept.kind, &*kept.content), (tree.root, MessageKind::Tool, "one"));
    assert_eq!(kept.data.as_ref().unwrap()["call_id"], "one");
    // Only the kept result names its contents so far.
    assert_eq!(store.collect().await.unwrap().attachments, 0);
    tree.commit(SessionChange { settles: vec![one], messages: vec![kept], ..SessionChange::default() }).await.unwrap();
    assert!(store.kept_result(one).await.unwrap().is_none());
    assert!(store.kept_result(two).await.unwrap().is_some());
    // The kill has written rows for the calls of a dead agent.
    let child = tree.fork(tree.root).await;
    tree.kill(&[child]).await;
    let late = CallId::random();
    store.keep_result(&tree.hold, late, result(child, "late"), None).await.unwrap();
    assert!(store.kept_result(late).await.unwrap().is_none());
    store.hold(tree.session()).await.unwrap();
    let fenced = store.keep_result(&tree.hold, late, result(tree.root, "late"), None).await;
    assert!(matches!(fenced, Err(StoreError::Fenced(_))), "{fenced:?}");
}
