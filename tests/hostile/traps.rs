//! Guests that trap. The report contains the engine's message.

use patchbay_core::Code;
use patchbay_sandbox::{Failure, Limits};
use patchbay_tests::guest::{ECHO, Guest};

use crate::support::{Harness, KV_GET, LOG, data, imports, small_limits};

#[tokio::test]
async fn trap_message_is_reported() {
    let harness = Harness::new(small_limits());
    let table = "(table 2 funcref) (elem (i32.const 0) $other) (type $none (func)) (func $other (param i32))";
    for (body, more, words) in [
        ("(unreachable)", "", "wasm `unreachable` instruction executed"),
        ("(drop (i32.div_u (i32.const 1) (i32.const 0)))", "", "integer divide by zero"),
        ("(drop (i32.rem_s (i32.const 1) (i32.const 0)))", "", "integer divide by zero"),
        ("(drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))", "", "integer overflow"),
        ("(drop (i32.trunc_f32_u (f32.const nan)))", "", "invalid conversion to integer"),
        ("(drop (i32.load (i32.const 262144)))", "", "out of bounds memory access"),
        ("(i64.store offset=4294967295 (i32.const -1) (i64.const 1))", "", "out of bounds memory access"),
        ("(memory.fill (i32.const 262140) (i32.const 0) (i32.const 5))", "", "out of bounds memory access"),
        ("(call_indirect (type $none) (i32.const 0))", table, "indirect call type mismatch"),
        ("(call_indirect (type $none) (i32.const 1))", table, "uninitialized element"),
        ("(call_indirect (type $none) (i32.const 2))", table, "undefined element: out of bounds table access"),
    ] {
        let failure = harness.assert_call_fails(&Guest::calling(&format!("{body} {ECHO}")).with(more)).await;
        assert_eq!(failure.code(), Code::Trap);
        assert_eq!(failure.to_string(), format!("the component trapped: wasm trap: {words}"));
    }
}

#[tokio::test]
async fn trap_in_any_function_is_reported() {
    let harness = Harness::new(small_limits());
    let words = "the component trapped: wasm trap: wasm `unreachable` instruction executed";
    let post_return = "(func (export \"cabi_post_patchbay:skill/skill@0.1.0#call\") (param i32) (unreachable))";
    for guest in [
        Guest::default().with("(func $start (unreachable)) (start $start)"),
        Guest::default().with(post_return),
        Guest { before_realloc: "(unreachable)".into(), ..Guest::default() },
    ] {
        assert_eq!(harness.assert_call_fails(&guest).await.to_string(), words);
    }
    // A data segment outside of the memory.
    let failure = harness.assert_call_fails(&Guest::default().with("(data (i32.const 262140) \"too long\")")).await;
    assert_eq!(failure.to_string(), "the component trapped: wasm trap: out of bounds memory access");
}

/// A guest may not call the host in `cabi_realloc` or in the post-return function.
#[tokio::test]
async fn host_call_in_a_forbidden_phase_traps() {
    let harness = Harness::new(small_limits());
    let write = "(call $write (i32.const 0) (i32.const 1024) (i32.const 1))";
    let post_return = format!("(func (export \"cabi_post_patchbay:skill/skill@0.1.0#call\") (param i32) {write})");
    for guest in [
        Guest { before_realloc: write.into(), ..Guest::default().with(&imports(LOG)) },
        Guest::default().with(&imports(LOG)).with(&post_return),
    ] {
        let failure = harness.assert_call_fails(&guest).await;
        assert_eq!(failure.to_string(), "the component trapped: wasm trap: cannot leave component instance");
        assert!(harness.recorder.log.lock().unwrap().is_empty());
    }
}

/// Addresses in the arguments of host calls are checked.
#[tokio::test]
async fn host_call_with_a_bad_address_is_rejected() {
    let harness = Harness::new(small_limits());
    let get = |key: &str, len: &str, answer: &str| {
        Guest::calling(&format!(
            "(call $get (i32.const 0) (i32.const {key}) (i32.const {len}) (i32.const {answer})) {ECHO}"
        ))
    };
    for (guest, words) in [
        (get("262140", "100", "512"), "string pointer/length out of bounds of memory"),
        (get("-1", "-1", "512"), "string pointer/length out of bounds of memory"),
        (get("1024", "1", "262144"), "pointer out of bounds"),
        (get("1024", "1", "513"), "pointer not aligned"),
    ] {
        let failure = harness.assert_call_fails(&guest.with(&imports(KV_GET))).await;
        assert_eq!(failure, Failure::InvalidOutput(words.into()));
    }
    // An unknown scope.
    let guest =
        Guest::calling(&format!("(call $get (i32.const 9) (i32.const 1024) (i32.const 1) (i32.const 512)) {ECHO}"));
    let failure = harness.assert_call_fails(&guest.with(&imports(KV_GET))).await;
    assert_eq!(failure.to_string(), "the component returned an invalid result: unexpected discriminant: 9");
}

/// WAT that writes the lines `line 1` to `line 9` to the log and then traps.
fn logging_guest() -> String {
    "(local $n i32)
     (loop $again
       (local.set $n (i32.add (local.get $n) (i32.const 1)))
       (i32.store8 (i32.const 131077) (i32.add (i32.const 48) (local.get $n)))
       (call $write (i32.const 1) (i32.const 131072) (i32.const 6))
       (br_if $again (i32.lt_u (local.get $n) (i32.const 9))))
     (unreachable)"
        .to_owned()
}

#[tokio::test]
async fn trap_report_contains_the_last_output_lines() {
    let harness = Harness::new(small_limits());
    let last = ["line 5", "line 6", "line 7", "line 8", "line 9"];
    let more = format!("{}{}", imports(LOG), data(131_072, "line x"));
    let failure = harness.assert_call_fails(&Guest::calling(&logging_guest()).with(&more)).await;
    assert_eq!(failure.printed(), last);
    let words = "the component trapped: wasm trap: wasm `unreachable` instruction executed";
    assert_eq!(failure.to_string(), words, "they are no part of the message, which a model reads");
    assert_eq!(harness.recorder.log.lock().unwrap().len(), 9, "the operator's log has all of them");
    // Other failures do not contain log lines.
    let failure = harness.assert_call_fails(&Guest::calling("(loop $l (br $l)) (unreachable)").with(&more)).await;
    assert_eq!((failure.code(), failure.printed()), (Code::LimitFuel, &[][..]));
}

#[tokio::test]
async fn printed_lines_are_cleaned_and_bounded() {
    let harness = Harness::new(Limits { log_bytes: 1 << 20, ..small_limits() });
    let long = format!("\u{1b}[31m{}", "x".repeat(5_000));
    let write = format!("(call $write (i32.const 3) (i32.const 131072) (i32.const {})) (unreachable)", long.len());
    let guest = Guest::calling(&write).with(&imports(LOG)).with(&data(131_072, &long));
    let failure = harness.assert_call_fails(&guest).await;
    let [line] = failure.printed() else { panic!("{:?}", failure.printed()) };
    assert!(line.len() <= 1 << 10 && line.starts_with("[31mxxx") && line.ends_with('…'), "{line}");
}

#[tokio::test]
async fn trap_during_describe_reports_the_last_output_lines() {
    let harness = Harness::new(small_limits());
    // Statements of `tools` cannot declare a local.
    let body = "(call $write (i32.const 1) (i32.const 131072) (i32.const 6)) (unreachable)";
    let guest = Guest { before_tools: body.into(), ..Guest::default() };
    let guest = guest.with(&imports(LOG)).with(&data(131_072, "line x"));
    assert_eq!(harness.assert_describe_fails(&guest).await.printed(), ["line x"]);
}
