//! Tests of the notes with a store in memory: answers, conflicts and interruptions.

use patchbay_sdk::{
    kv::Scope,
    testing::{Host, Reaction},
};

use super::*;

fn list(host: &Host) -> String {
    list_after(host, None, Caller::Tool).expect("a list")
}

fn list_after(host: &Host, after: Option<u64>, caller: Caller) -> Result<String> {
    host.run(|| super::list(after, caller))
}

fn add(host: &Host, text: &str) -> Result<String> {
    host.run(|| super::add(text))
}

fn search(host: &Host, query: &str) -> Result<String> {
    host.run(|| super::search(query, None, Caller::Tool))
}

fn delete(host: &Host, number: u64) -> Result<String> {
    host.run(|| super::delete(number))
}

/// Writes a key that does not exist.
fn put(host: &Host, key: &str, value: &[u8]) {
    host.run(|| store::put(key, value, 0)).expect("put");
}

/// Returns the keys and values of the store.
fn entries(host: &Host) -> Vec<(String, String)> {
    let text = |(key, value)| (key, String::from_utf8(value).expect("UTF-8"));
    host.entries(Scope::Workspace).into_iter().map(text).collect()
}

#[test]
fn notes_are_numbered_listed_and_deleted() {
    let host = Host::new();
    assert_eq!(list(&host), "No notes.");
    assert_eq!(add(&host, " milk \n").as_deref(), Ok("Note 1 added."));
    assert_eq!(add(&host, "eggs").as_deref(), Ok("Note 2 added."));
    assert_eq!(list(&host), "1. milk\n2. eggs");
    assert_eq!(delete(&host, 1).as_deref(), Ok("Note 1 deleted."));
    assert_eq!(list(&host), "2. eggs");
    let failure = delete(&host, 1).expect_err("no such note");
    assert_eq!((failure.kind(), failure.message()), ("not-found", "note 1 not found"));
    for number in [0, 9, MAX_NUMBER, MAX_NUMBER + 1, u64::MAX] {
        assert_eq!(delete(&host, number).expect_err("none").kind(), "not-found");
    }
}

#[test]
fn numbers_of_deleted_notes_are_not_reused() {
    let host = Host::new();
    add(&host, "a").expect("added");
    delete(&host, 1).expect("deleted");
    assert_eq!(add(&host, "b").as_deref(), Ok("Note 2 added."));
}

#[test]
fn keys_are_as_documented() {
    let host = Host::new();
    add(&host, "a").expect("added");
    assert_eq!(entries(&host), [("last".into(), "1".into()), ("note/0000000001".into(), "a".into())]);
}

#[test]
fn empty_and_too_long_notes_are_refused() {
    let host = Host::new();
    for empty in ["", "  \n\t"] {
        assert_eq!(add(&host, empty).expect_err("empty").kind(), "invalid-input");
    }
    let failure = add(&host, &"x".repeat(MAX_NOTE + 1)).expect_err("too long");
    assert_eq!(failure.kind(), "too-large");
    assert!(failure.message().starts_with("a note of 16385 bytes is over the limit of 16384"), "{failure}");
    assert_eq!(add(&host, &"x".repeat(MAX_NOTE)).as_deref(), Ok("Note 1 added."));
}

#[test]
fn lists_have_pages() {
    let host = Host::new();
    let count = 2 * PAGE + 1;
    for number in 1..=count {
        add(&host, &format!("n{number}")).expect("added");
    }
    let first = list(&host);
    assert_eq!(first.lines().count(), PAGE + 1);
    assert!(first.ends_with("50. n50\nMore notes: list after 50."), "{first}");
    let next = list_after(&host, Some(50), Caller::Person).expect("a list");
    assert!(next.starts_with("51. n51\n") && next.ends_with("100. n100\nMore notes: /note list >100"), "{next}");
    let rest = list_after(&host, Some(100), Caller::Tool);
    assert_eq!(rest.as_deref(), Ok("101. n101"));
    for after in [101, MAX_NUMBER, u64::MAX] {
        let none = list_after(&host, Some(after), Caller::Tool);
        assert_eq!(none, Ok(format!("No notes after {after}.")));
    }
}

#[test]
fn page_that_exactly_fits_announces_no_more() {
    let host = Host::new();
    for number in 1..=PAGE {
        add(&host, &format!("n{number}")).expect("added");
    }
    assert!(list(&host).ends_with("\n50. n50"));
}

#[test]
fn notes_beyond_one_request_of_keys_are_listed() {
    let host = Host::new();
    for number in 1..=2 * KEYS + 50 {
        add(&host, &format!("n{number}")).expect("added");
    }
    for number in 2..=u64::from(2 * KEYS) {
        delete(&host, number).expect("deleted");
    }
    assert!(list(&host).starts_with("1. n1\n401. n401\n"));
}

#[test]
fn search_finds_all_words_in_any_case_and_order() {
    let host = Host::new();
    for text in ["Buy Milk\nand eggs", "milk the cow", "ÄPFEL kaufen"] {
        add(&host, text).expect("added");
    }
    let search = |query: &str| search(&host, query);
    assert_eq!(search("MILK").as_deref(), Ok("1. Buy Milk\n2. milk the cow"));
    assert_eq!(search(" eggs  buy ").as_deref(), Ok("1. Buy Milk\nand eggs"), "a single match is shown whole");
    assert_eq!(search("äpf").as_deref(), Ok("3. ÄPFEL kaufen"));
    assert_eq!(search(" milk tea ").as_deref(), Ok("No notes match 'milk tea'."));
    assert_eq!(search(" ").expect_err("no words").kind(), "invalid-input");
    assert_eq!(search(&"x".repeat(MAX_QUERY + 1)).expect_err("too long").kind(), "too-large");
}

#[test]
fn search_folds_letters_outside_ascii() {
    let host = Host::new();
    for text in ["ΟΔΟΣΗΜΑ", "οδος", "ÉTÉ", "straße"] {
        add(&host, text).expect("added");
    }
    let search = |query| search(&host, query);
    assert_eq!(search("ΟΔΟΣ").as_deref(), Ok("1. ΟΔΟΣΗΜΑ\n2. οδος"));
    assert_eq!(search("été").as_deref(), Ok("3. ÉTÉ"));
    assert_eq!(search("STRASSE").as_deref(), Ok("No notes match 'STRASSE'."));
}

#[test]
fn long_search_results_have_pages() {
    let host = Host::new();
    for number in 1..=PAGE + 1 {
        add(&host, &format!("x{number}")).expect("added");
    }
    let after = |after, caller| host.run(|| super::search("x", after, caller));
    let first = after(None, Caller::Tool).expect("matches");
    assert!(first.ends_with("50. x50\nMore notes: search after 50."), "{first}");
    assert_eq!(after(Some(50), Caller::Tool).as_deref(), Ok("51. x51"));
    let person = after(None, Caller::Person).expect("matches");
    assert!(person.ends_with("50. x50\nMore notes: /note search >50 x"), "{person}");
}

#[test]
fn search_stops_at_the_note_limit_and_says_where() {
    let host = Host::new();
    for number in 1..=SCAN as u64 + 1 {
        put(&host, &key(number), b"x");
    }
    let after = |after| host.run(|| super::search("y", after, Caller::Person));
    let none = after(None);
    assert_eq!(none.as_deref(), Ok("No notes up to 4000 match 'y'.\nMore notes: /note search >4000 y"));
    assert_eq!(after(Some(4000)).as_deref(), Ok("No notes match 'y'."));
}

#[test]
fn search_stops_at_the_byte_limit() {
    let host = Host::new();
    for number in 1..=600 {
        put(&host, &key(number), &[b'x'; MAX_NOTE]);
    }
    let none = search(&host, "y").expect("an answer");
    assert_eq!(none, "No notes up to 257 match 'y'.\nMore notes: search after 257.");
}

#[test]
fn concurrent_adds_lose_no_note() {
    for step in 0..10 {
        let host = Host::new();
        add(&host, "first").expect("added");
        let other = host.other_session();
        let mine = host.on_call(move |call| {
            if call.index == step {
                add(&other, "other").expect("added");
            }
            Reaction::Proceed
        });
        add(&mine, "mine").expect("added");
        let mut lines: Vec<String> = list(&host).lines().map(|line| line[3..].to_owned()).collect();
        lines.sort();
        let expected = if mine.calls().len() > step { vec!["first", "mine", "other"] } else { vec!["first", "mine"] };
        assert_eq!(lines, expected, "step {step}");
    }
}

#[test]
fn interrupted_add_leaves_a_consistent_store() {
    let mut cut = 0;
    for step in 0..10 {
        for fault in [Reaction::Fail("timeout"), Reaction::FailAfter("timeout")] {
            let host = Host::new();
            add(&host, "first").expect("added");
            let faulty = host.on_call(move |call| if call.index == step { fault } else { Reaction::Proceed });
            let answer = add(&faulty, "mine");
            if faulty.calls().len() > step {
                cut += 1;
                assert_eq!(answer.expect_err("cut off").kind(), "timeout");
            }
            let number = add(&host, "next").expect("added");
            let lines = list(&host);
            assert!(lines.starts_with("1. first\n"), "{lines}");
            let (number, _) = number["Note ".len()..].split_once(' ').expect("Note N added.");
            assert!(lines.ends_with(&format!("\n{number}. next")), "{lines}");
            assert!(matches!(lines.lines().count(), 2 | 3), "{lines}");
        }
    }
    assert_eq!(cut, 6, "an add is three calls, each cut off before and after");
}

#[test]
fn add_gives_up_after_too_many_conflicts() {
    let host = Host::new();
    let faulty = host.on_call(|call| match (call.function, call.target.as_str()) {
        ("kv.put", "last") => Reaction::Fail("conflict"),
        _ => Reaction::Proceed,
    });
    let failure = add(&faulty, "mine").expect_err("conflicts");
    assert_eq!(failure.kind(), "conflict");
    assert_eq!(faulty.calls().len(), 2 * TRIES);
    assert_eq!(list(&host), "No notes.");
}

#[test]
fn note_ahead_of_the_counter_is_not_overwritten() {
    let host = Host::new();
    put(&host, &key(1), b"by hand");
    assert_eq!(add(&host, "mine").as_deref(), Ok("Note 2 added."));
    assert_eq!(list(&host), "1. by hand\n2. mine");
}

#[test]
fn parallel_adds_are_all_kept() {
    let host = Host::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    while let Err(failure) = add(&host, "x") {
                        assert_eq!(failure.kind(), "conflict");
                    }
                }
            });
        }
    });
    assert_eq!(entries(&host).len(), 400 + 1);
}

#[test]
fn errors_of_the_host_keep_their_kind() {
    for kind in ["denied", "unavailable", "quota"] {
        let host = Host::new().on_call(move |_| Reaction::Fail(kind));
        assert_eq!(add(&host, "x").expect_err("an error").kind(), kind);
        assert_eq!(list_after(&host, None, Caller::Tool).expect_err("an error").kind(), kind);
        assert_eq!(search(&host, "x").expect_err("an error").kind(), kind);
        assert_eq!(delete(&host, 1).expect_err("an error").kind(), kind);
    }
}

#[test]
fn exhausted_numbers_are_an_error() {
    let host = Host::new();
    put(&host, LAST, b"9999999998");
    assert_eq!(add(&host, "x").as_deref(), Ok("Note 9999999999 added."));
    assert_eq!(add(&host, "x").expect_err("full").kind(), "quota");
    assert_eq!(list(&host), "9999999999. x");
}

#[test]
fn damaged_store_is_reported_and_unknown_keys_are_skipped() {
    let host = Host::new();
    for strange in ["note/", "note/1", "note/+000000001", "note/000000000x"] {
        put(&host, strange, b"x");
    }
    assert_eq!(list(&host), "No notes.");
    put(&host, LAST, b"many");
    let failure = add(&host, "x").expect_err("damaged");
    assert!(failure.message().contains("is 'many', not a number"), "{failure}");
    put(&host, &key(7), b"\xff");
    assert_eq!(list(&host), "7. \u{fffd}");
}
