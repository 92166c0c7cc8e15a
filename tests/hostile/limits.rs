//! Endless work, which the fuel limit stops, or else the time limit.

use std::sync::Arc;

use patchbay_core::Code;
use patchbay_sandbox::{Failure, Limits};
use patchbay_tests::guest::{ECHO, Guest};

use crate::support::{FakeKv, Harness, KV_GET, LOG, endless_loop, imports, permits, small_limits, time_limit_only};

/// Guests with an endless loop, each in a different function of the guest.
fn loopers() -> Vec<(&'static str, Guest)> {
    let spin = endless_loop("");
    vec![
        ("call", Guest::calling(&format!("{spin} (unreachable)"))),
        ("the start function", Guest::default().with(&format!("(func $spin {spin}) (start $spin)"))),
        ("cabi_realloc", Guest { before_realloc: spin.clone(), ..Guest::default() }),
        // After reading the result, the host calls the guest to free it.
        ("post-return", Guest::default().with(&post_return(&spin))),
        // Exponential work without a loop: each call makes two.
        (
            "calls that double",
            Guest::calling(&format!("(call $double (i32.const 400)) {ECHO}")).with(
                "(func $double (param $n i32)
                   (if (local.get $n) (then
                     (call $double (i32.sub (local.get $n) (i32.const 1)))
                     (call $double (i32.sub (local.get $n) (i32.const 1))))))",
            ),
        ),
        // Tail calls leave no frame, so the stack does not fill.
        ("tail calls", Guest::calling("(return_call $again)").with("(func $again (result i32) (return_call $again))")),
    ]
}

fn post_return(body: &str) -> String {
    format!("(func (export \"cabi_post_patchbay:skill/skill@0.1.0#call\") (param i32) {body})")
}

#[tokio::test]
async fn endless_loop_runs_out_of_fuel() {
    let harness = Harness::new(small_limits());
    for (place, guest) in loopers() {
        let failure = harness.assert_call_fails(&guest).await;
        assert_eq!(failure, Failure::Fuel { budget: 30_000_000 }, "{place}");
        assert_eq!(failure.code(), Code::LimitFuel);
        assert_eq!(
            failure.to_string(),
            "the call used up its fuel of 30000000 units (limits.fuel): it does too much work for one call, or it loops"
        );
    }
}

#[tokio::test]
async fn endless_loop_with_unlimited_fuel_times_out() {
    let harness = Harness::new(time_limit_only(60));
    for (place, guest) in loopers() {
        // A good guest is not called here, because on a busy machine it could exceed this short time limit itself.
        let failure = harness.call(&guest).await.unwrap_err();
        assert_eq!(failure, Failure::Time { limit_ms: 60 }, "{place}");
        assert_eq!(failure.code(), Code::LimitTime);
        assert_eq!(failure.to_string(), "call exceeded its time limit of 60 ms (limits.time_ms)");
    }
}

#[tokio::test]
async fn fuel_use_is_deterministic() {
    let (one, other) = (Harness::new(small_limits()), Harness::new(Limits { concurrent_calls: 1, ..small_limits() }));
    let fuel = one.call(&Guest::default()).await.unwrap().usage.fuel;
    assert!(fuel > 0 && fuel < 1000, "{fuel}");
    assert_eq!(one.call(&Guest::default()).await.unwrap().usage.fuel, fuel);
    assert_eq!(other.call(&Guest::default()).await.unwrap().usage.fuel, fuel);
}

/// A bulk operation cannot be interrupted, but a loop of the largest ones ends at a limit.
#[tokio::test]
async fn loop_of_largest_memory_copies_ends() {
    let copy = endless_loop("(memory.copy (i32.const 0) (i32.const 65536) (i32.const 4128768))");
    let fill = endless_loop("(memory.fill (i32.const 0) (i32.const 7) (i32.const 4194304))");
    for body in [copy, fill] {
        let guest = Guest { pages: 64, ..Guest::calling(&format!("{body} (unreachable)")) };
        assert_eq!(Harness::new(time_limit_only(200)).call(&guest).await.unwrap_err().code(), Code::LimitTime);
        // With the usual fuel, either limit may be reached first. A good guest is not called here either.
        let harness = Harness::new(Limits { time_ms: 2000, ..small_limits() });
        let code = harness.call(&guest).await.unwrap_err().code();
        assert!(matches!(code, Code::LimitFuel | Code::LimitTime), "{code}");
    }
}

/// On a single thread, a looping guest yields to other tasks at each tick.
#[tokio::test(flavor = "current_thread")]
async fn endless_loop_does_not_starve_other_calls() {
    let harness = Arc::new(Harness::new(time_limit_only(25_000)));
    let guest = Guest::calling(&format!(
        "(call $write (i32.const 0) (i32.const 1024) (i32.const 0)) {} (unreachable)",
        endless_loop("")
    ));
    let guest = guest.with(&imports(LOG));
    let looping = tokio::spawn({
        let harness = Arc::clone(&harness);
        async move { harness.call(&guest).await }
    });
    harness.wait_for_log(1).await;
    for _ in 0..3 {
        harness.assert_still_works().await;
    }
    assert!(!looping.is_finished(), "the loop was over before the good calls");
    looping.abort();
    assert!(looping.await.unwrap_err().is_cancelled());
}

/// No guest code runs during the host call, so the epoch cannot interrupt it.
#[tokio::test]
async fn hanging_host_call_times_out() {
    let harness = Harness::new(Limits { time_ms: 10_000, ..small_limits() }).with_permits(permits(&["kv"], &["kv"]));
    let harness = harness.with_kv(Arc::new(FakeKv { is_stuck: true }));
    let guest =
        Guest::calling("(call $get (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 512)) (unreachable)");
    assert_eq!(harness.assert_call_fails(&guest.with(&imports(KV_GET))).await, Failure::Time { limit_ms: 10_000 });
}

#[tokio::test]
async fn input_over_the_limit_is_not_passed_to_the_guest() {
    let harness = Harness::new(Limits { input_bytes: 100, ..small_limits() });
    let loaded = harness.load(&Guest::default().component()).await.unwrap();
    let mut call = harness.call_of("{}");
    call.attachments = vec![("text/plain".into(), vec![0; 60]), ("text/plain".into(), vec![0; 60])];
    let failure = harness.run(&loaded, call).await.unwrap_err();
    assert_eq!(failure.code(), Code::LimitInput);
    assert_eq!(failure, Failure::Input { size: 142, limit: 100 });
    harness.assert_still_works().await;
}
