//! Tests of opening the store, sessions, components, blocks and key-value state.

use std::collections::BTreeMap;

use patchbay_core::{AgentId, Digest, MessageKind, PrincipalId, kv::KvError};
use proptest::prelude::*;

use crate::{
    KvOwner, KvScope, KvStore, KvStoreError, NewMessage, NewSnapshot, SessionChange, SessionRow, Store, StoreError,
    testing::{new_store, runtime, session_row},
};

fn snapshot(store: &Store, body: &str, components: &[&[u8]]) -> NewSnapshot {
    let mut held = store.retain_components().unwrap();
    for bytes in components {
        assert_eq!(held.add(bytes).unwrap(), Digest::of(bytes));
    }
    NewSnapshot::empty(Digest::of(body.as_bytes()), body.to_owned(), held)
}

#[test]
fn migrations_apply_to_an_empty_database() {
    crate::database::validate(crate::MIGRATIONS).unwrap();
    crate::database::validate(crate::kv::MIGRATIONS).unwrap();
}

#[tokio::test]
async fn grants_to_write_of_older_databases_include_deleting() {
    let (home, store) = new_store();
    let grant = |skill: &str, capability: &str| crate::GrantRow {
        root: "user".to_owned(),
        workspace: String::new(),
        skill: skill.to_owned(),
        capability: capability.to_owned(),
        place: String::new(),
        skill_digest: "00".repeat(32),
    };
    for row in [grant("writer", "workspace-write"), grant("reader", "workspace-read")] {
        store.add_grant(row, String::new()).await.unwrap();
    }
    drop(store);
    let database = rusqlite::Connection::open(home.path().join("patchbay.db")).unwrap();
    // Undo all later migrations to get the database as it was before migration 18.
    let undo = "DROP TABLE agent_windows; ALTER TABLE catalogue_models DROP COLUMN generation; \
                ALTER TABLE catalogue_models DROP COLUMN state; ALTER TABLE catalogues DROP COLUMN complete_for; \
                ALTER TABLE catalogues DROP COLUMN left_out; DROP TABLE model_usage; DROP TABLE early_results; \
                PRAGMA user_version = 17";
    database.execute_batch(crate::testing::TO_22).unwrap();
    database.execute_batch(undo).unwrap();
    drop(database);
    let grants = Store::open(home.path()).unwrap().grants().await.unwrap();
    let expected =
        [grant("reader", "workspace-read"), grant("writer", "workspace-delete"), grant("writer", "workspace-write")];
    assert_eq!(grants, expected);
}

#[test]
fn newer_database_is_rejected() {
    let home = tempfile::tempdir().unwrap();
    drop(Store::open(home.path()).unwrap());
    rusqlite::Connection::open(home.path().join("patchbay.db"))
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    assert!(matches!(Store::open(home.path()), Err(StoreError::Newer { found: 99, .. })));
}

/// Opens the store in `home` ten times concurrently.
fn open_at_once(home: &std::path::Path) {
    let start = std::sync::Barrier::new(10);
    std::thread::scope(|scope| {
        let opened: Vec<_> = (0..10)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    drop(KvStore::open(home, Store::open(home).unwrap()).unwrap());
                })
            })
            .collect();
        opened.into_iter().for_each(|opened| opened.join().unwrap());
    });
}

#[test]
fn concurrent_opens_set_up_one_store() {
    let home = tempfile::tempdir().unwrap();
    open_at_once(home.path());
}

#[test]
fn concurrent_opens_migrate_once() {
    for version in 1..crate::MIGRATIONS.len() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("patchbay.db");
        drop(crate::database::Database::open(&path, &crate::MIGRATIONS[..version], None).unwrap());
        let old = rusqlite::Connection::open(&path).unwrap();
        old.execute("INSERT INTO trust (workspace, created_at) VALUES ('/kept', 1)", []).unwrap();
        // A process of the older build still has the database open.
        open_at_once(home.path());
        let found: i64 = old.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
        assert_eq!(usize::try_from(found), Ok(crate::MIGRATIONS.len()));
        let kept: String = old.query_row("SELECT workspace FROM trust", [], |row| row.get(0)).unwrap();
        assert_eq!(kept, "/kept");
    }
}

#[tokio::test]
async fn session_round_trips_with_a_committed_change() {
    let (home, store) = new_store();
    let first = snapshot(&store, "one", &[b"component"]);
    let session = SessionRow { owner: "ada".parse().unwrap(), ..session_row(&first) };
    let hold = store.create_session(session.clone(), first).await.unwrap();
    let message = |content: &str| NewMessage {
        agent: session.agent,
        kind: MessageKind::Command,
        content: content.to_owned(),
        data: Some(serde_json::json!({"n": 1})),
    };
    let second = snapshot(&store, "two", &[b"other"]);
    let change = SessionChange {
        persona: Some("{\"name\":\"x\"}".to_owned()),
        snapshot: Some((second.clone(), 2)),
        messages: vec![message("a"), message("b")],
        ..SessionChange::default()
    };
    let written = store.commit(&hold, change).await.unwrap();
    assert_eq!(written.iter().map(|m| m.seq).collect::<Vec<_>>(), [1, 2]);
    drop(store);

    let store = Store::open(home.path()).unwrap();
    let back = store.session(session.id).await.unwrap();
    assert_eq!((back.snapshot, back.snapshot_version), (second.digest, 2));
    assert_eq!((back.persona.as_str(), back.owner.as_str()), ("{\"name\":\"x\"}", "ada"));
    assert_eq!(store.last_seq(session.id).await.unwrap(), 2);
    assert_eq!(store.messages(session.id, 0, 10).await.unwrap(), written);
    assert_eq!(store.messages(session.id, 2, 10).await.unwrap(), written[1..]);
    assert_eq!(store.snapshot(&second.digest).await.unwrap(), "two");
    assert_eq!(store.component(&Digest::of(b"other")).await.unwrap(), b"other");
}

#[tokio::test]
async fn failed_change_is_rolled_back() {
    let (_home, store) = new_store();
    let first = snapshot(&store, "one", &[]);
    let session = session_row(&first);
    let hold = store.create_session(session.clone(), first).await.unwrap();
    // An agent without a session violates the foreign key, after the persona was written.
    let stranger = NewMessage { agent: AgentId::random(), kind: MessageKind::User, content: String::new(), data: None };
    let change =
        SessionChange { persona: Some("new".to_owned()), messages: vec![stranger], ..SessionChange::default() };
    assert!(store.commit(&hold, change).await.is_err());
    assert_eq!(store.session(session.id).await.unwrap().persona, "{}");
    assert_eq!(store.last_seq(session.id).await.unwrap(), 0);
    store.remove_session(session.id).await.unwrap();
    let gone = store.commit(&hold, SessionChange::default()).await;
    assert!(matches!(gone, Err(StoreError::SessionNotFound(_))), "{gone:?}");
}

#[tokio::test]
async fn gc_deletes_unused_snapshots_and_components() {
    let (_home, store) = new_store();
    let (one, two) = (snapshot(&store, "one", &[b"shared", b"only one"]), snapshot(&store, "two", &[b"shared"]));
    let (a, b) = (session_row(&one), session_row(&two));
    store.create_session(a.clone(), one).await.unwrap();
    store.create_session(b.clone(), two).await.unwrap();
    assert_eq!(store.collect().await.unwrap(), crate::Collected::default());
    store.remove_session(a.id).await.unwrap();
    let collected = store.collect().await.unwrap();
    assert_eq!((collected.snapshots, collected.components, collected.bytes), (1, 1, 8));
    assert!(store.component(&Digest::of(b"shared")).await.is_ok());
    assert!(matches!(store.component(&Digest::of(b"only one")).await, Err(StoreError::ComponentMissing(_))));
    assert!(matches!(store.remove_session(a.id).await, Err(StoreError::SessionNotFound(_))));
}

#[tokio::test]
async fn damaged_component_is_detected() {
    let (home, store) = new_store();
    let one = snapshot(&store, "one", &[b"bytes"]);
    store.create_session(session_row(&one), one).await.unwrap();
    let digest = Digest::of(b"bytes");
    std::fs::write(home.path().join(format!("components/{}.wasm", digest.to_hex())), b"bytez").unwrap();
    assert!(store.retain_components().unwrap().add_stored(digest, 5), "the size is right");
    assert!(matches!(store.component(&digest).await, Err(StoreError::ComponentDamaged(_))));
    let mut held = store.retain_components().unwrap();
    assert!(!held.add_stored(digest, 5), "the damaged file was not deleted");
    held.add(b"bytes").unwrap();
    assert_eq!(store.component(&digest).await.unwrap(), b"bytes");
}

#[test]
fn gc_keeps_retained_components() {
    let home = tempfile::tempdir().unwrap();
    let (store, other) = (Store::open(home.path()).unwrap(), Store::open(home.path()).unwrap());
    let one = snapshot(&store, "one", &[b"component"]);
    // Another process collects garbage: it waits, then finds the component in a snapshot.
    let collecting = std::thread::spawn(move || runtime().block_on(other.collect()).unwrap());
    runtime().block_on(store.create_session(session_row(&one), one)).unwrap();
    assert_eq!(collecting.join().unwrap(), crate::Collected::default());
    assert_eq!(runtime().block_on(store.component(&Digest::of(b"component"))).unwrap(), b"component");
}

#[test]
fn component_of_another_size_is_missing() {
    let (_home, store) = new_store();
    let mut held = store.retain_components().unwrap();
    let digest = held.add(b"bytes").unwrap();
    assert!(held.add_stored(digest, 5));
    assert!(!held.add_stored(digest, 4) && !held.add_stored(Digest::of(b"other"), 5));
}

#[tokio::test]
async fn descriptions_are_stored_by_component_and_world() {
    let (_home, store) = new_store();
    let (a, b, c) = (Digest::of(b"a"), Digest::of(b"b"), Digest::of(b"c"));
    store.keep_described(a, "w", "one".to_owned()).await.unwrap();
    store.keep_described(b, "w", "two".to_owned()).await.unwrap();
    store.keep_described(c, "v", "three".to_owned()).await.unwrap();
    let kept = |answer: &str| Some(answer.to_owned());
    assert_eq!(store.described(&[b, c, a, b], "w").await.unwrap(), [kept("two"), None, kept("one"), kept("two")]);
    assert_eq!(store.described(&[], "w").await.unwrap(), [None; 0]);
}

#[tokio::test]
async fn block_applies_to_every_process_and_survives_gc() {
    let home = tempfile::tempdir().unwrap();
    let (store, other) = (Store::open(home.path()).unwrap(), Store::open(home.path()).unwrap());
    let one = snapshot(&store, "one", &[b"component"]);
    let session = session_row(&one);
    store.create_session(session.clone(), one).await.unwrap();
    let (known, unknown) = (Digest::of(b"component"), Digest::of(b"never seen"));
    assert!(!other.is_blocked(&known).await.unwrap());
    assert!(store.block(known).await.unwrap());
    assert!(!store.block(known).await.unwrap(), "it was blocked already");
    assert!(other.is_blocked(&known).await.unwrap());
    assert!(store.block(unknown).await.unwrap());
    store.remove_session(session.id).await.unwrap();
    assert_eq!(store.collect().await.unwrap().components, 1);
    let mut expected = [known, unknown];
    expected.sort();
    let found: Vec<_> = other.blocked().await.unwrap().iter().map(|block| block.component).collect();
    assert_eq!(found, expected);
    assert!(other.unblock(known).await.unwrap());
    assert!(!store.unblock(known).await.unwrap());
    assert!(!store.is_blocked(&known).await.unwrap());
    assert!(store.is_blocked(&unknown).await.unwrap());
}

#[tokio::test]
async fn components_are_found_by_digest_prefix() {
    let (_home, store) = new_store();
    let one = snapshot(&store, "one", &[b"in a snapshot"]);
    store.create_session(session_row(&one), one).await.unwrap();
    store.keep_described(Digest::of(b"described"), "w", String::new()).await.unwrap();
    store.keep_described(Digest::of(b"in a snapshot"), "w", String::new()).await.unwrap();
    store.block(Digest::of(b"blocked")).await.unwrap();
    for bytes in [&b"in a snapshot"[..], b"described", b"blocked"] {
        let digest = Digest::of(bytes);
        for digits in [&digest.to_hex()[..8], &digest.to_hex()] {
            assert_eq!(store.components_beginning(digits, 9).await.unwrap(), [digest]);
        }
    }
    assert_eq!(store.components_beginning("", 9).await.unwrap().len(), 3);
    assert_eq!(store.components_beginning("", 2).await.unwrap().len(), 2);
    assert_eq!(store.components_beginning(&Digest::of(b"never seen").to_hex()[..8], 9).await.unwrap(), []);
}

fn scope(skill: &str) -> KvScope {
    KvScope {
        root: "user",
        workspace: String::new(),
        skill: skill.to_owned(),
        owner: KvOwner::User(PrincipalId::LOCAL),
    }
}

#[tokio::test]
async fn kv_checks_versions_and_limits() {
    let home = tempfile::tempdir().unwrap();
    let kv = KvStore::open(home.path(), Store::open(home.path()).unwrap()).unwrap();
    let put = |key: &str, value: Vec<u8>, expect| kv.put(scope("a"), key.to_owned(), value, expect);
    let one = put("k", b"1".to_vec(), Some(0)).await.unwrap();
    assert!(
        matches!(put("k", b"2".to_vec(), Some(0)).await, Err(KvStoreError::Refused(KvError::Conflict { found, .. })) if found == one)
    );
    let two = put("k", b"2".to_vec(), Some(one)).await.unwrap();
    assert!(two > one);
    assert!(kv.delete(scope("a"), "k".to_owned()).await.unwrap());
    assert!(!kv.delete(scope("a"), "k".to_owned()).await.unwrap());
    let three = put("k", b"3".to_vec(), None).await.unwrap();
    assert!(three > two, "a version was used twice");
    assert_eq!(kv.get(&scope("b"), "k").await.unwrap(), None, "another skill sees it");
    assert!(matches!(put("", vec![], None).await, Err(KvStoreError::Refused(KvError::Invalid(_)))));
    assert!(matches!(
        put(&"k".repeat(600), vec![], None).await,
        Err(KvStoreError::Refused(KvError::TooLarge { what: "key", .. }))
    ));
    assert!(matches!(
        put("k", vec![0; 2 << 20], None).await,
        Err(KvStoreError::Refused(KvError::TooLarge { what: "value", .. }))
    ));
    for n in 0..15 {
        put(&format!("big{n}"), vec![0; 1 << 20], None).await.unwrap();
    }
    assert!(matches!(
        put("big15", vec![0; 1 << 20], None).await,
        Err(KvStoreError::Refused(KvError::Quota { what: "bytes", .. }))
    ));
    put("big14", vec![0; 10], None).await.expect("a full scope can shrink");
    put("big15", vec![0; 1 << 20], None).await.expect("there is room again");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Paged keys equal the keys of a sorted map, whatever bytes they contain.
    #[test]
    fn kv_is_a_sorted_map(ops in proptest::collection::vec((any::<bool>(), "[a-c\u{0}é%_\u{10ffff}]{1,4}"), 1..40), prefix in "[a-cé%_]{0,2}", page in 1u32..5) {
        let home = tempfile::tempdir().unwrap();
        runtime().block_on(async {
            let kv = KvStore::open(home.path(), Store::open(home.path()).unwrap()).unwrap();
            let mut model = BTreeMap::new();
            for (put, key) in ops {
                if put {
                    let version = kv.put(scope("a"), key.clone(), key.clone().into_bytes(), None).await.unwrap();
                    model.insert(key, version);
                } else {
                    prop_assert_eq!(kv.delete(scope("a"), key.clone()).await.unwrap(), model.remove(&key).is_some());
                }
            }
            for (key, version) in &model {
                let entry = kv.get(&scope("a"), key).await.unwrap().unwrap();
                prop_assert_eq!((&entry.value[..], entry.version), (key.as_bytes(), *version));
            }
            let mut paged = Vec::<String>::new();
            loop {
                let keys = kv.keys(&scope("a"), &prefix, paged.last().map(String::as_str), page).await.unwrap();
                if keys.is_empty() { break }
                paged.extend(keys);
            }
            let expected: Vec<_> = model.keys().filter(|key| key.starts_with(&prefix)).cloned().collect();
            prop_assert_eq!(paged, expected);
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn unused_sessions_are_paged_and_checked_again_when_removed() {
    let (home, store) = new_store();
    let mut ids = Vec::new();
    for _ in 0..5 {
        let snapshot = snapshot(&store, "body", &[]);
        let row = session_row(&snapshot);
        ids.push(row.id);
        store.create_session(row, snapshot).await.unwrap();
    }
    // Two sessions have the same time. The last session was not used before 90.
    let times = [10, 20, 20, 30, 90];
    let database = rusqlite::Connection::open(home.path().join("patchbay.db")).unwrap();
    for (id, used_at) in ids.iter().zip(times) {
        database.execute("UPDATE sessions SET used_at = ? WHERE id = ?", (used_at, id.to_string())).unwrap();
    }
    let (mut after, mut seen) = (None, Vec::new());
    loop {
        let page = store.unused_sessions(90, after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(*last);
        seen.extend(page.iter().map(|session| session.id));
    }
    let mut expected = ids[..4].to_vec();
    expected[1..3].sort_by_key(ToString::to_string);
    assert_eq!(seen, expected);
    assert!(store.remove_unused_session(ids[3], 31).await.unwrap());
    assert!(!store.remove_unused_session(ids[4], 90).await.unwrap());
    assert!(!store.remove_unused_session(ids[3], 31).await.unwrap());
    assert_eq!(store.sessions().await.unwrap().len(), 4);
}
