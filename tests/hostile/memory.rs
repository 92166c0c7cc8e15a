//! Guests that exhaust memory, tables or stack.

use patchbay_core::Code;
use patchbay_sandbox::{Failure, Limits};
use patchbay_tests::guest::{ECHO, Guest};

use crate::support::{Harness, KV_GET, data, endless_loop, imports, small_limits, text};

/// Asserts that `guest` is stopped because of its memory, and returns its request.
async fn memory_error(guest: &Guest) -> String {
    let failure = Harness::new(small_limits()).assert_call_fails(guest).await;
    assert_eq!(failure.code(), Code::LimitMemory, "{failure}");
    assert!(failure.to_string().ends_with("(limits.memory_bytes)"), "{failure}");
    match failure {
        Failure::Memory { wanted, .. } => wanted,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn growing_memory_is_stopped_at_the_limit() {
    let guest = Guest::calling(&format!("{} (unreachable)", endless_loop("(drop (memory.grow (i32.const 1)))")));
    assert_eq!(memory_error(&guest).await, format!("{} bytes of memory and tables", (4 << 20) + (64 << 10)));
    // Grows in one step to the whole address space.
    let guest = Guest::calling(&format!("(drop (memory.grow (i32.const 65532))) {ECHO}"));
    assert_eq!(memory_error(&guest).await, format!("{} bytes of memory and tables", 4_u64 << 30));
}

#[tokio::test]
async fn memory_declared_over_the_limit_is_rejected() {
    for pages in [65, 1000, 65536] {
        let bytes = u64::from(pages) << 16;
        assert_eq!(
            memory_error(&Guest { pages, ..Guest::default() }).await,
            format!("{bytes} bytes of memory and tables")
        );
    }
}

#[tokio::test]
async fn memory_of_exactly_the_limit_works() {
    let harness = Harness::new(small_limits());
    let output = harness.call(&Guest { pages: 64, ..Guest::default() }).await.unwrap();
    assert_eq!(output.usage.peak_memory, 4 << 20);
    // The same by growing the table.
    let guest = Guest::calling(&format!(
        "(if (i32.ne (memory.grow (i32.const 60)) (i32.const 4)) (then (unreachable))) {ECHO}"
    ));
    assert_eq!(harness.call(&guest).await.unwrap().usage.peak_memory, 4 << 20);
}

/// Each memory by itself is below the limit.
#[tokio::test]
async fn several_memories_share_one_limit() {
    let memories: String = (1..16).map(|i| format!("(memory $m{i} 1)\n")).collect();
    let growth: String = (1..16).map(|i| format!("(drop (memory.grow $m{i} (i32.const 1)))")).collect();
    let guest = Guest::calling(&format!("{} (unreachable)", endless_loop(&growth))).with(&memories);
    assert_eq!(memory_error(&guest).await, format!("{} bytes of memory and tables", (4 << 20) + (64 << 10)));
    // Declared with this size from the beginning.
    let declared: String = (1..5).map(|i| format!("(memory $m{i} 20)\n")).collect();
    assert_eq!(memory_error(&Guest::default().with(&declared)).await, "5505024 bytes of memory and tables");
}

#[tokio::test]
async fn too_many_memories_or_tables_are_rejected() {
    let memories: String = (0..16).map(|_| "(memory 0)\n").collect();
    assert_eq!(memory_error(&Guest::default().with(&memories)).await, "17 memories");
    let tables: String = (0..65).map(|_| "(table 0 funcref)\n").collect();
    assert_eq!(memory_error(&Guest::default().with(&tables)).await, "65 tables");
}

#[tokio::test]
async fn growing_table_is_stopped() {
    let grow = endless_loop("(drop (table.grow $t (ref.null func) (i32.const 1000)))");
    let guest = Guest::calling(&format!("{grow} (unreachable)")).with("(table $t 0 funcref)");
    assert_eq!(memory_error(&guest).await, "101000 table elements");
    // Several tables, each within its own limit.
    let tables: String = (0..10).map(|i| format!("(table $t{i} 0 funcref)\n")).collect();
    let grow: String = (0..10).map(|i| format!("(drop (table.grow $t{i} (ref.null func) (i32.const 1000)))")).collect();
    let guest = Guest::calling(&format!("{} (unreachable)", endless_loop(&grow))).with(&tables);
    let wanted = memory_error(&guest).await;
    assert!(wanted.ends_with("bytes of memory and tables"), "{wanted}");
}

#[tokio::test]
async fn table_declared_too_large_is_rejected() {
    assert_eq!(memory_error(&Guest::default().with("(table 100001 funcref)")).await, "100001 table elements");
    assert_eq!(memory_error(&Guest::default().with("(table 10000000 funcref)")).await, "10000000 table elements");
    // Each table is within its own limit, but together they exceed the call's limit.
    let tables: String = (0..6).map(|_| "(table 100000 funcref)\n").collect();
    let wanted = memory_error(&Guest::default().with(&tables)).await;
    assert!(wanted.ends_with("bytes of memory and tables"), "{wanted}");
}

#[tokio::test]
async fn growth_beyond_a_declared_maximum_fails_without_a_trap() {
    let harness = Harness::new(small_limits());
    let check = "(if (i32.ne (memory.grow $own (i32.const 2)) (i32.const -1)) (then (unreachable)))
                 (if (i32.ne (memory.grow $own (i32.const 1)) (i32.const 1)) (then (unreachable)))
                 (if (i32.ne (table.grow $few (ref.null func) (i32.const 2)) (i32.const -1)) (then (unreachable)))
                 (if (i32.ne (table.grow $few (ref.null func) (i32.const 1)) (i32.const 1)) (then (unreachable)))";
    let guest = Guest::calling(&format!("{check} {ECHO}")).with("(memory $own 1 2)\n(table $few 1 2 funcref)");
    let output = harness.call(&guest).await.unwrap();
    // Rejected growth does not count. The peak is the 4 pages of the first memory, 2 more pages, and 2 elements.
    assert_eq!(output.usage.peak_memory, 6 * 65536 + 2 * 8);
    harness.assert_still_works().await;
}

#[tokio::test]
async fn endless_recursion_exhausts_only_the_guest_stack() {
    let harness = Harness::new(small_limits());
    let deep = "(func $deep (param $n i64) (result i64)
                  (i64.add (call $deep (i64.add (local.get $n) (i64.const 1))) (local.get $n)))";
    let body = "(drop (call $deep (i64.const 0)))";
    let start = format!("{deep} (func $start {body}) (start $start)");
    for guest in [
        Guest::calling(&format!("{body} {ECHO}")).with(deep),
        Guest::default().with(&start),
        Guest { before_realloc: body.into(), ..Guest::default().with(deep) },
    ] {
        let failure = harness.assert_call_fails(&guest).await;
        assert_eq!(failure.code(), Code::Trap);
        assert_eq!(failure.to_string(), "the component trapped: wasm trap: call stack exhausted");
    }
}

/// Host functions run on what is left of the same stack.
#[tokio::test]
async fn a_host_call_from_the_bottom_of_the_stack_works() {
    let harness =
        Harness::new(Limits { host_calls: 1_000_000, memory_bytes: 64 << 20, fuel: 2_000_000_000, ..small_limits() });
    let guest = Guest::calling(&format!("(call $deep) {ECHO}")).with(&imports(KV_GET)).with(
        "(func $deep
           (call $get (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 512))
           (call $deep)
           (call $get (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 512)))",
    );
    let failure = harness.assert_call_fails(&guest).await;
    assert_eq!(failure.to_string(), "the component trapped: wasm trap: call stack exhausted");
}

#[tokio::test]
async fn large_result_within_all_limits_works() {
    let guest = Guest::calling(&text("(i32.const 131072)", "(i32.const 60000)")).with(&data(131_072, [b'x'; 60_000]));
    assert_eq!(Harness::new(small_limits()).text(&guest).await, "x".repeat(60_000));
}
