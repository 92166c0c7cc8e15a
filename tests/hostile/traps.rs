//! Guests that fall over. The engine's words say how.

use patchbay_core::Code;
use patchbay_sandbox::Failure;
use patchbay_tests::guest::{ECHO, Guest};

use crate::support::{KV_GET, LOG, Ward, imports, small};

#[tokio::test]
async fn a_trap_is_told_with_its_words() {
    let ward = Ward::new(small());
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
        let failure = ward.refuses(&Guest::calling(&format!("{body} {ECHO}")).with(more)).await;
        assert_eq!(failure.code(), Code::Trap);
        assert_eq!(failure.to_string(), format!("the component trapped: wasm trap: {words}"));
    }
}

#[tokio::test]
async fn a_trap_in_any_place_is_a_trap() {
    let ward = Ward::new(small());
    let words = "the component trapped: wasm trap: wasm `unreachable` instruction executed";
    let post_return = "(func (export \"cabi_post_patchbay:skill/skill@0.1.0#call\") (param i32) (unreachable))";
    for guest in [
        Guest::default().with("(func $start (unreachable)) (start $start)"),
        Guest::default().with(post_return),
        Guest { before_realloc: "(unreachable)".into(), ..Guest::default() },
    ] {
        assert_eq!(ward.refuses(&guest).await.to_string(), words);
    }
    // A data segment that does not fit.
    let failure = ward.refuses(&Guest::default().with("(data (i32.const 262140) \"too long\")")).await;
    assert_eq!(failure.to_string(), "the component trapped: wasm trap: out of bounds memory access");
}

/// While the host hands something over, or after the answer, a guest may not call out.
#[tokio::test]
async fn a_host_call_where_none_may_be_is_a_trap() {
    let ward = Ward::new(small());
    let write = "(call $write (i32.const 0) (i32.const 1024) (i32.const 1))";
    let post_return = format!("(func (export \"cabi_post_patchbay:skill/skill@0.1.0#call\") (param i32) {write})");
    for guest in [
        Guest { before_realloc: write.into(), ..Guest::default().with(&imports(LOG)) },
        Guest::default().with(&imports(LOG)).with(&post_return),
    ] {
        let failure = ward.refuses(&guest).await;
        assert_eq!(failure.to_string(), "the component trapped: wasm trap: cannot leave component instance");
        assert!(ward.heard.log.lock().unwrap().is_empty());
    }
}

/// The addresses that a guest gives the host are checked like its own.
#[tokio::test]
async fn a_host_call_with_a_bad_address_is_no_way_out() {
    let ward = Ward::new(small());
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
        let failure = ward.refuses(&guest.with(&imports(KV_GET))).await;
        assert_eq!(failure, Failure::InvalidOutput(words.into()));
    }
    // A scope that there is not.
    let guest =
        Guest::calling(&format!("(call $get (i32.const 9) (i32.const 1024) (i32.const 1) (i32.const 512)) {ECHO}"));
    let failure = ward.refuses(&guest.with(&imports(KV_GET))).await;
    assert_eq!(failure.to_string(), "the component's answer is invalid: unexpected discriminant: 9");
}
