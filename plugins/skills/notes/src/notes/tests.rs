//! Tests of the notes with a store in memory: answers, conflicts and interruptions.

use super::*;
use crate::fake::{Fake, Fault};

fn list(store: &Fake) -> String {
    Notes::new(store.clone()).list(None, Caller::Tool).expect("a list")
}

fn add(store: &Fake, text: &str) -> Result<String> {
    Notes::new(store.clone()).add(text)
}

#[test]
fn notes_are_numbered_listed_and_deleted() {
    let store = Fake::default();
    assert_eq!(list(&store), "No notes.");
    assert_eq!(add(&store, " milk \n").as_deref(), Ok("Note 1 added."));
    assert_eq!(add(&store, "eggs").as_deref(), Ok("Note 2 added."));
    assert_eq!(list(&store), "1. milk\n2. eggs");
    assert_eq!(Notes::new(store.clone()).delete(1).as_deref(), Ok("Note 1 deleted."));
    assert_eq!(list(&store), "2. eggs");
    let failure = Notes::new(store.clone()).delete(1).expect_err("no such note");
    assert_eq!((failure.kind(), failure.message()), ("not-found", "note 1 not found"));
    for number in [0, 9, MAX_NUMBER, MAX_NUMBER + 1, u64::MAX] {
        assert_eq!(Notes::new(store.clone()).delete(number).expect_err("none").kind(), "not-found");
    }
}

#[test]
fn numbers_of_deleted_notes_are_not_reused() {
    let store = Fake::default();
    add(&store, "a").expect("added");
    Notes::new(store.clone()).delete(1).expect("deleted");
    assert_eq!(add(&store, "b").as_deref(), Ok("Note 2 added."));
}

#[test]
fn keys_are_as_documented() {
    let store = Fake::default();
    add(&store, "a").expect("added");
    assert_eq!(store.entries(), [("last".into(), "1".into()), ("note/0000000001".into(), "a".into())]);
}

#[test]
fn empty_and_too_long_notes_are_refused() {
    let store = Fake::default();
    for empty in ["", "  \n\t"] {
        assert_eq!(add(&store, empty).expect_err("empty").kind(), "invalid-input");
    }
    let failure = add(&store, &"x".repeat(MAX_NOTE + 1)).expect_err("too long");
    assert_eq!(failure.kind(), "too-large");
    assert!(failure.message().starts_with("a note of 16385 bytes is over the limit of 16384"), "{failure}");
    assert_eq!(add(&store, &"x".repeat(MAX_NOTE)).as_deref(), Ok("Note 1 added."));
}

#[test]
fn lists_have_pages() {
    let store = Fake::default();
    let count = 2 * PAGE + 1;
    for number in 1..=count {
        add(&store, &format!("n{number}")).expect("added");
    }
    let first = list(&store);
    assert_eq!(first.lines().count(), PAGE + 1);
    assert!(first.ends_with("50. n50\nMore notes: list after 50."), "{first}");
    let next = Notes::new(store.clone()).list(Some(50), Caller::Person).expect("a list");
    assert!(next.starts_with("51. n51\n") && next.ends_with("100. n100\nMore notes: /note list >100"), "{next}");
    let rest = Notes::new(store.clone()).list(Some(100), Caller::Tool);
    assert_eq!(rest.as_deref(), Ok("101. n101"));
    for after in [101, MAX_NUMBER, u64::MAX] {
        let none = Notes::new(store.clone()).list(Some(after), Caller::Tool);
        assert_eq!(none, Ok(format!("No notes after {after}.")));
    }
}

#[test]
fn page_that_exactly_fits_announces_no_more() {
    let store = Fake::default();
    for number in 1..=PAGE {
        add(&store, &format!("n{number}")).expect("added");
    }
    assert!(list(&store).ends_with("\n50. n50"));
}

#[test]
fn notes_beyond_one_request_of_keys_are_listed() {
    let store = Fake::default();
    for number in 1..=2 * KEYS + 50 {
        add(&store, &format!("n{number}")).expect("added");
    }
    for number in 2..=u64::from(2 * KEYS) {
        Notes::new(store.clone()).delete(number).expect("deleted");
    }
    assert!(list(&store).starts_with("1. n1\n401. n401\n"));
}

#[test]
fn search_finds_all_words_in_any_case_and_order() {
    let store = Fake::default();
    for text in ["Buy Milk\nand eggs", "milk the cow", "ÄPFEL kaufen"] {
        add(&store, text).expect("added");
    }
    let search = |query: &str| Notes::new(store.clone()).search(query, None, Caller::Tool);
    assert_eq!(search("MILK").as_deref(), Ok("1. Buy Milk\n2. milk the cow"));
    assert_eq!(search(" eggs  buy ").as_deref(), Ok("1. Buy Milk\nand eggs"), "a single match is shown whole");
    assert_eq!(search("äpf").as_deref(), Ok("3. ÄPFEL kaufen"));
    assert_eq!(search(" milk tea ").as_deref(), Ok("No notes match 'milk tea'."));
    assert_eq!(search(" ").expect_err("no words").kind(), "invalid-input");
    assert_eq!(search(&"x".repeat(MAX_QUERY + 1)).expect_err("too long").kind(), "too-large");
}

#[test]
fn search_folds_letters_outside_ascii() {
    let store = Fake::default();
    for text in ["ΟΔΟΣΗΜΑ", "οδος", "ÉTÉ", "straße"] {
        add(&store, text).expect("added");
    }
    let search = |query| Notes::new(store.clone()).search(query, None, Caller::Tool);
    assert_eq!(search("ΟΔΟΣ").as_deref(), Ok("1. ΟΔΟΣΗΜΑ\n2. οδος"));
    assert_eq!(search("été").as_deref(), Ok("3. ÉTÉ"));
    assert_eq!(search("STRASSE").as_deref(), Ok("No notes match 'STRASSE'."));
}

#[test]
fn long_search_results_have_pages() {
    let store = Fake::default();
    for number in 1..=PAGE + 1 {
        add(&store, &format!("x{number}")).expect("added");
    }
    let mut notes = Notes::new(store.clone());
    let first = notes.search("x", None, Caller::Tool).expect("matches");
    assert!(first.ends_with("50. x50\nMore notes: search after 50."), "{first}");
    assert_eq!(notes.search("x", Some(50), Caller::Tool).as_deref(), Ok("51. x51"));
    let person = notes.search("x", None, Caller::Person).expect("matches");
    assert!(person.ends_with("50. x50\nMore notes: /note search >50 x"), "{person}");
}

#[test]
fn search_stops_at_the_note_limit_and_says_where() {
    let store = Fake::default();
    for number in 1..=SCAN as u64 + 1 {
        store.clone().put(&key(number), b"x", 0).expect("put");
    }
    let mut notes = Notes::new(store.clone());
    let none = notes.search("y", None, Caller::Person);
    assert_eq!(none.as_deref(), Ok("No notes up to 4000 match 'y'.\nMore notes: /note search >4000 y"));
    assert_eq!(notes.search("y", Some(4000), Caller::Person).as_deref(), Ok("No notes match 'y'."));
}

#[test]
fn search_stops_at_the_byte_limit() {
    let store = Fake::default();
    for number in 1..=600 {
        store.clone().put(&key(number), &[b'x'; MAX_NOTE], 0).expect("put");
    }
    let none = Notes::new(store.clone()).search("y", None, Caller::Tool).expect("an answer");
    assert_eq!(none, "No notes up to 257 match 'y'.\nMore notes: search after 257.");
}

#[test]
fn concurrent_adds_lose_no_note() {
    for step in 0..10 {
        let store = Fake::default();
        add(&store, "first").expect("added");
        let other = store.clone();
        let faulty = store.with(
            step,
            Fault::Before(Box::new(move || {
                add(&other, "other").expect("added");
            })),
        );
        add(&faulty, "mine").expect("added");
        let mut lines: Vec<String> = list(&store).lines().map(|line| line[3..].to_owned()).collect();
        lines.sort();
        let expected = if faulty.struck() { vec!["first", "mine", "other"] } else { vec!["first", "mine"] };
        assert_eq!(lines, expected, "step {step}");
    }
}

#[test]
fn interrupted_add_leaves_a_consistent_store() {
    let mut cut = 0;
    for step in 0..10 {
        for fault in [Fault::InsteadOf("timeout"), Fault::After("timeout")] {
            let store = Fake::default();
            add(&store, "first").expect("added");
            let faulty = store.with(step, fault);
            let answer = add(&faulty, "mine");
            if faulty.struck() {
                cut += 1;
                assert_eq!(answer.expect_err("cut off").kind(), "timeout");
            }
            let number = add(&store, "next").expect("added");
            let lines = list(&store);
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
    let store = Fake::default();
    let faulty = store.with_all(Fault::InsteadOf("conflict"), "last");
    let failure = add(&faulty, "mine").expect_err("conflicts");
    assert_eq!(failure.kind(), "conflict");
    assert_eq!(faulty.calls(), 2 * TRIES);
    assert_eq!(list(&store), "No notes.");
}

#[test]
fn note_ahead_of_the_counter_is_not_overwritten() {
    let store = Fake::default();
    store.clone().put(&key(1), b"by hand", 0).expect("put");
    assert_eq!(add(&store, "mine").as_deref(), Ok("Note 2 added."));
    assert_eq!(list(&store), "1. by hand\n2. mine");
}

#[test]
fn parallel_adds_are_all_kept() {
    let store = Fake::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    while let Err(failure) = add(&store, "x") {
                        assert_eq!(failure.kind(), "conflict");
                    }
                }
            });
        }
    });
    assert_eq!(store.entries().len(), 400 + 1);
}

#[test]
fn errors_of_the_host_keep_their_kind() {
    for kind in ["denied", "unavailable", "quota"] {
        let mut notes = Notes::new(Fake::default().with_all(Fault::InsteadOf(kind), ""));
        assert_eq!(notes.add("x").expect_err("an error").kind(), kind);
        assert_eq!(notes.list(None, Caller::Tool).expect_err("an error").kind(), kind);
        assert_eq!(notes.search("x", None, Caller::Tool).expect_err("an error").kind(), kind);
        assert_eq!(notes.delete(1).expect_err("an error").kind(), kind);
    }
}

#[test]
fn exhausted_numbers_are_an_error() {
    let store = Fake::default();
    store.clone().put(LAST, b"9999999998", 0).expect("put");
    assert_eq!(add(&store, "x").as_deref(), Ok("Note 9999999999 added."));
    assert_eq!(add(&store, "x").expect_err("full").kind(), "quota");
    assert_eq!(list(&store), "9999999999. x");
}

#[test]
fn damaged_store_is_reported_and_unknown_keys_are_skipped() {
    let store = Fake::default();
    for strange in ["note/", "note/1", "note/+000000001", "note/000000000x"] {
        store.clone().put(strange, b"x", 0).expect("put");
    }
    assert_eq!(list(&store), "No notes.");
    store.clone().put(LAST, b"many", 0).expect("put");
    let failure = add(&store, "x").expect_err("damaged");
    assert!(failure.message().contains("is 'many', not a number"), "{failure}");
    store.clone().put(&key(7), b"\xff", 0).expect("put");
    assert_eq!(list(&store), "7. \u{fffd}");
}
