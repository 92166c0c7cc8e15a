//! Tests of the journal: writing, filtering, contents and trimming.

use proptest::prelude::*;

use super::*;
use crate::testing::{TestTree, new_store, runtime};

fn row(skill: &str, session: SessionId) -> JournalRow {
    JournalRow {
        skill: skill.to_owned(),
        component: Digest::of(skill.as_bytes()),
        input: Some("{}".to_owned()),
        output: Some("answer".to_owned()),
        ..JournalRow::for_test(session)
    }
}

async fn all(store: &Store, filter: &JournalFilter) -> Vec<JournalRow> {
    store.journal_rows(filter, 0, 1_000_000).await.unwrap().into_iter().map(|entry| entry.row).collect()
}

#[tokio::test]
async fn journal_row_round_trips() {
    let home = tempfile::tempdir().unwrap();
    let settings = JournalSettings { content: true, ..JournalSettings::default() };
    let store = Store::open(home.path()).unwrap().with_journal(settings);
    let session = SessionId::random();
    let outer = row("plan", session);
    let inner = JournalRow {
        parent: Some(outer.call),
        asker: Asker::Tool("plan__run".to_owned()),
        grants: ["kv", "http:b", "kv", "clock"].map(str::to_owned).to_vec(),
        approvals: vec![RecordedApproval {
            capability: "kv".to_owned(),
            answer: "once".to_owned(),
            shown: Some(Digest::of(b"act")),
            client: None,
            by: "person".to_owned(),
        }],
        fuel: u64::MAX,
        failure: Some(Code::LimitFuel),
        ..row("calc", session)
    };
    store.journal(inner.clone()).await;
    store.journal(outer.clone()).await;
    store.settle().await.unwrap();
    let sorted = ["clock", "http:b", "kv"].map(str::to_owned).to_vec();
    assert_eq!(all(&store, &JournalFilter::default()).await, [JournalRow { grants: sorted, ..inner }, outer]);
}

#[tokio::test]
async fn journal_contents_are_opt_in_and_bounded() {
    let (_home, store) = new_store();
    let session = SessionId::random();
    store.journal(row("a", session)).await;
    store.settle().await.unwrap();
    let kept = all(&store, &JournalFilter::default()).await;
    assert_eq!((&kept[0].input, &kept[0].output), (&None, &None));

    let store = store.with_journal(JournalSettings { content: true, ..JournalSettings::default() });
    // Each character has three bytes, so the limit is inside a character.
    let long = "€".repeat(JournalSettings::CONTENT_BYTES);
    store.journal(JournalRow { input: Some(long), ..row("a", session) }).await;
    store.settle().await.unwrap();
    let kept = all(&store, &JournalFilter::default()).await.remove(1);
    let whole = JournalSettings::CONTENT_BYTES / 3;
    assert_eq!(kept.input.unwrap(), format!("{}…", "€".repeat(whole)));
    assert_eq!(kept.output.unwrap(), "answer");
}

#[tokio::test]
async fn queued_rows_are_written_when_the_store_closes() {
    let (home, store) = new_store();
    let session = SessionId::random();
    // More rows than the queue holds, without a waiting caller.
    for n in 0..1_000 {
        store.journal_at_once(JournalRow { at: n, ..row("a", session) });
    }
    for n in 1_000..1_500 {
        store.journal(JournalRow { at: n, ..row("a", session) }).await;
    }
    drop(store);
    let mut found: Vec<_> =
        all(&Store::open(home.path()).unwrap(), &JournalFilter::default()).await.iter().map(|row| row.at).collect();
    found.sort_unstable();
    assert_eq!(found, (0..1_500).collect::<Vec<_>>());
}

#[tokio::test]
async fn row_of_a_dropped_future_is_written() {
    let (home, store) = new_store();
    // The writer waits for this transaction while the queue fills up.
    let other = rusqlite::Connection::open(home.path().join("patchbay.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let session = SessionId::random();
    let mut given = 0;
    loop {
        given += 1;
        assert!(given < 10_000, "the queue has no bound");
        tokio::select! {
            biased;
            () = store.journal(row("a", session)) => {}
            () = std::future::ready(()) => break,
        }
    }
    assert!(given > 100, "there is room for only {given}");
    other.execute_batch("COMMIT").unwrap();
    drop(store);
    assert_eq!(all(&Store::open(home.path()).unwrap(), &JournalFilter::default()).await.len(), given);
}

#[tokio::test]
async fn rows_are_committed_before_later_writes() {
    let (_home, store) = new_store();
    for n in 0..50 {
        store.journal(JournalRow { at: n, ..row("a", SessionId::random()) }).await;
        store.set_trust(format!("/{n}"), true).await.unwrap();
        assert_eq!(all(&store, &JournalFilter::default()).await.last().unwrap().at, n);
    }
}

#[tokio::test]
async fn journal_filter_returns_rows_in_order() {
    let (_home, store) = new_store();
    let (one, two) = (SessionId::random(), SessionId::random());
    for n in 0..12 {
        let session = if n % 3 == 0 { one } else { two };
        store.journal(JournalRow { at: n, ..row(if n % 2 == 0 { "a" } else { "b" }, session) }).await;
    }
    store.settle().await.unwrap();
    let at = async |filter: &JournalFilter| all(&store, filter).await.iter().map(|row| row.at).collect::<Vec<_>>();
    let skill = |name: &str| Some(name.to_owned());
    assert_eq!(at(&JournalFilter { skill: skill("a"), session: None }).await, [0, 2, 4, 6, 8, 10]);
    assert_eq!(at(&JournalFilter { skill: None, session: Some(one) }).await, [0, 3, 6, 9]);
    let both = JournalFilter { skill: skill("b"), session: Some(one) };
    assert_eq!(at(&both).await, [3, 9]);
    assert_eq!(at(&JournalFilter { skill: skill("c"), session: None }).await, [0; 0]);
    let mut sessions = [one, two];
    sessions.sort();
    assert_eq!(store.journal_sessions().await.unwrap(), sessions);

    let newest = async |filter: &JournalFilter, count| {
        let before = store.journal_before_newest(filter, count).await.unwrap();
        let rows = store.journal_rows(filter, before, 100).await.unwrap();
        (before > 0, rows.iter().map(|entry| entry.row.at).collect::<Vec<_>>())
    };
    assert_eq!(newest(&both, 1).await, (true, vec![9]));
    assert_eq!(newest(&both, 2).await, (false, vec![3, 9]));
    assert_eq!(newest(&JournalFilter::default(), 3).await, (true, vec![9, 10, 11]));
    let page = store.journal_rows(&JournalFilter::default(), 2, 3).await.unwrap();
    assert_eq!(page.iter().map(|entry| (entry.id, entry.row.at)).collect::<Vec<_>>(), [(3, 2), (4, 3), (5, 4)]);
}

#[tokio::test]
async fn removing_a_session_keeps_rows_without_contents() {
    let TestTree { home: _home, store, hold, .. } = TestTree::new().await;
    let store = store.with_journal(JournalSettings { content: true, ..JournalSettings::default() });
    let (gone, other) = (row("a", hold.session()), row("a", SessionId::random()));
    store.journal(gone.clone()).await;
    store.journal(other.clone()).await;
    store.remove_session(hold.session()).await.unwrap();
    let left = JournalRow { input: None, output: None, ..gone };
    assert_eq!(all(&store, &JournalFilter::default()).await, [left, other]);
}

#[tokio::test]
async fn unreadable_journal_row_is_an_error() {
    for spoil in [
        "calls SET outcome = 'well'",
        "calls SET grants = '{'",
        "calls SET approvals = '{'",
        "calls SET call = x'00'",
        "calls SET input_hash = x''",
        "call_sites SET asker = 'me'",
        "call_sites SET component = 'x'",
    ] {
        let (home, store) = new_store();
        store.journal(row("a", SessionId::random())).await;
        store.settle().await.unwrap();
        let other = rusqlite::Connection::open(home.path().join("patchbay.db")).unwrap();
        assert_eq!(other.execute(&format!("UPDATE {spoil}"), []), Ok(1));
        let read = store.journal_rows(&JournalFilter::default(), 0, 1).await;
        assert!(matches!(read, Err(StoreError::BadRow("row of the journal"))), "{spoil}");
    }
}

#[test]
fn journal_rows_of_earlier_builds_are_kept() {
    let home = tempfile::tempdir().unwrap();
    let mut connection = rusqlite::Connection::open(home.path().join("patchbay.db")).unwrap();
    let steps = crate::MIGRATIONS[..8].iter().map(|sql| rusqlite_migration::M::up(sql)).collect();
    rusqlite_migration::Migrations::new(steps).to_latest(&mut connection).unwrap();
    let outer = row("plan", SessionId::random());
    let inner = JournalRow {
        parent: Some(outer.call),
        grants: vec!["kv".to_owned()],
        failure: Some(Code::LimitFuel),
        ..row("calc", SessionId::random())
    };
    for row in [&inner, &outer] {
        let sql = "INSERT INTO journal VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let values = params![
            row.at,
            row.call.to_string(),
            row.parent.map(|call| call.to_string()),
            row.session.to_string(),
            row.workspace,
            row.asker.to_string(),
            row.root,
            row.skill,
            row.tool,
            row.component.to_string(),
            row.input_hash.to_string(),
            serde_json::Value::from(row.grants.clone()).to_string(),
            row.fuel.cast_signed(),
            row.time_us.cast_signed(),
            row.peak_memory.cast_signed(),
            row.host_calls.cast_signed(),
            row.output_bytes.cast_signed(),
            row.outcome(),
            row.input,
            row.output,
        ];
        connection.execute(sql, values).unwrap();
    }
    drop(connection);
    let store = Store::open(home.path()).unwrap();
    let all = runtime().block_on(all(&store, &JournalFilter::default()));
    assert_eq!(all, [inner, outer]);
}

#[tokio::test]
async fn trimming_deletes_unused_call_sites() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::open(home.path()).unwrap().with_journal(JournalSettings { content: false, keep: 1 });
    store.journal(row("old", SessionId::random())).await;
    let session = SessionId::random();
    for _ in 1..TRIM_SITES_EVERY {
        store.journal(row("new", session)).await;
    }
    store.settle().await.unwrap();
    let other = rusqlite::Connection::open(home.path().join("patchbay.db")).unwrap();
    let sites = other.query_row("SELECT group_concat(skill) FROM call_sites", [], |row| row.get::<_, String>(0));
    assert_eq!((sites.unwrap().as_str(), all(&store, &JournalFilter::default()).await.len()), ("new", 1));
    // A later row finds its site or adds it again.
    store.journal(row("old", session)).await;
    store.settle().await.unwrap();
    assert_eq!(all(&store, &JournalFilter::default()).await.last().unwrap().skill, "old");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// After any number of rows, the newest `keep` rows remain, and a bounded number of others.
    #[test]
    fn journal_size_is_bounded(keep in 1u32..200, count in 1i64..500) {
        let home = tempfile::tempdir().unwrap();
        runtime().block_on(async {
            let settings = JournalSettings { content: false, keep };
            let store = Store::open(home.path()).unwrap().with_journal(settings);
            let session = SessionId::random();
            for n in 1..=count {
                store.journal(JournalRow { at: n, ..row("a", session) }).await;
            }
            store.settle().await.unwrap();
            let found: Vec<_> = all(&store, &JournalFilter::default()).await.iter().map(|row| row.at).collect();
            let fewest = i64::from(keep).min(count);
            let left = i64::try_from(found.len()).unwrap();
            prop_assert!((fewest..fewest + TRIM_EVERY).contains(&left), "{left} of {count} with keep = {keep}");
            prop_assert_eq!(found, (count - left + 1..=count).collect::<Vec<_>>());
            Ok(())
        })?;
    }
}
