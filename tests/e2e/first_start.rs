//! The first start in a home, and the first start after an update, each by several concurrent processes.

use patchbay_tests::binary::{Patchbay, ran};
use rusqlite::Connection;

/// Starts ten processes concurrently and asserts that each of them works.
fn assert_ten_concurrent_starts_work(patchbay: &Patchbay) {
    let started: Vec<_> = (0..10).map(|_| patchbay.command(&["exec", "/help calc"]).spawn().unwrap()).collect();
    for child in started {
        let ran = ran(child.wait_with_output().unwrap());
        assert_eq!((ran.code, &*ran.err), (Some(0), ""));
        assert!(ran.out.starts_with("# /help calc\n"), "{}", ran.out);
    }
    let sessions = patchbay.run(&["sessions", "list"]);
    assert_eq!((sessions.code, sessions.out.lines().count()), (Some(0), 10), "{}", sessions.out);
}

#[test]
fn ten_concurrent_first_starts_work() {
    assert_ten_concurrent_starts_work(&Patchbay::blank());
}

#[test]
fn ten_concurrent_starts_after_an_update_work() {
    let patchbay = Patchbay::blank();
    let data = patchbay.home().join("data");
    std::fs::create_dir_all(&data).unwrap();
    let old = Connection::open(data.join("patchbay.db")).unwrap();
    old.pragma_update(None, "journal_mode", "WAL").unwrap();
    old.execute_batch(include_str!("../../host/store/migrations/patchbay/1.sql")).unwrap();
    old.execute_batch(include_str!("../../host/store/migrations/patchbay/2.sql")).unwrap();
    old.pragma_update(None, "user_version", 2).unwrap();
    old.execute("INSERT INTO trust (workspace, created_at) VALUES ('/old', 1)", []).unwrap();
    // The connection stays open, as the connection of a running older build would.
    assert_ten_concurrent_starts_work(&patchbay);
    assert!(patchbay.run(&["trust", "list"]).out.contains("/old"));
}
