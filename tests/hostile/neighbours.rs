//! Concurrent calls: no data passes from one to another, and no call occupies a slot for longer than its limits allow.

use std::sync::Arc;

use patchbay_core::Code;
use patchbay_sandbox::Limits;
use patchbay_tests::guest::{ECHO, Guest};
use tokio::task::JoinSet;

use crate::support::{Harness, LOG, data, endless_loop, imports, small_limits, text, text_of, time_limit_only};

#[tokio::test]
async fn guest_memory_is_fresh_in_every_call() {
    // One slot: the next instance uses the memory of the previous one.
    let harness = Harness::new(Limits { concurrent_calls: 1, ..small_limits() });
    let memories = "(memory $other 2)\n(global $kept (mut i32) (i32.const 0))\n(table $table 4 funcref)\n(elem declare func $mark)";
    let mark = "(func $mark
        (if (global.get $kept) (then (unreachable)))
        (if (i32.load (i32.const 200000)) (then (unreachable)))
        (if (i32.load $other (i32.const 100000)) (then (unreachable)))
        (if (i32.eqz (ref.is_null (table.get $table (i32.const 3)))) (then (unreachable)))
        ;; The data segment is written again for each instance.
        (if (i32.ne (i32.load8_u (i32.const 1024)) (i32.load8_u (i32.const 131072))) (then (unreachable)))
        (global.set $kept (i32.const 1))
        (i32.store (i32.const 200000) (i32.const 1))
        (i32.store $other (i32.const 100000) (i32.const 1))
        (i32.store8 (i32.const 1024) (i32.const 0))
        (table.set $table (i32.const 3) (ref.func $mark)))";
    // At 1024 is the address of the first tool's name, which is stored after the single record of 32 bytes.
    let first_byte = (1024_u32 + 32).to_le_bytes()[0];
    let guest = Guest::calling(&format!("(call $mark) {ECHO}"));
    let guest = guest.with(memories).with(mark).with(&data(131_072, [first_byte]));
    for _ in 0..3 {
        assert_eq!(harness.text(&guest).await, "{}");
    }
}

#[tokio::test]
async fn guest_finds_no_data_of_another_guest() {
    let harness = Harness::new(Limits { concurrent_calls: 1, ..small_limits() });
    // Fills all memory that the call may use with a secret, including grown memory.
    let fill = "(drop (memory.grow (i32.const 60)))
                (memory.fill (i32.const 131072) (i32.const 0x5e) (i32.const 4063232))";
    let filler = Guest::calling(&format!("{fill} {ECHO}"));
    let trapping = Guest::calling(&format!("{fill} (unreachable)"));
    // Sums the same addresses.
    let look = "(drop (memory.grow (i32.const 60)))
        (local.set $tool (i32.const 131072))
        (loop $next
          (if (i64.ne (i64.load (local.get $tool)) (i64.const 0)) (then (unreachable)))
          (local.set $tool (i32.add (local.get $tool) (i32.const 8)))
          (br_if $next (i32.lt_u (local.get $tool) (i32.const 4194304))))";
    let looker = Guest::calling(&format!("{look} {ECHO}"));
    for _ in 0..3 {
        harness.call(&filler).await.unwrap();
        assert_eq!(harness.text(&looker).await, "{}");
        assert_eq!(harness.call(&trapping).await.unwrap_err().code(), Code::Trap);
        assert_eq!(harness.text(&looker).await, "{}");
    }
}

/// A full pool would return an error; the sandbox waits for a slot instead.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_beyond_the_slots_are_queued() {
    let harness = Arc::new(Harness::new(small_limits()));
    // A result that the host reads for a while after the guest has ended.
    let guest = Guest::calling(&text("(i32.const 131072)", "(i32.const 60000)")).with(&data(131_072, [b'x'; 60_000]));
    let loaded = harness.load(&guest.component()).await.unwrap();
    let mut calls = JoinSet::new();
    for _ in 0..256 {
        let (harness, loaded) = (Arc::clone(&harness), Arc::clone(&loaded));
        calls
            .spawn(async move { harness.run(&loaded, harness.call_of("{}")).await.map(|output| output.content.len()) });
    }
    while let Some(answer) = calls.join_next().await {
        assert_eq!(answer.unwrap(), Ok(1));
    }
}

/// The pool has fewer memories and tables than all concurrent calls could request.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn guest_with_many_memories_leaves_slots_for_others() {
    let harness = Arc::new(Harness::new(Limits { concurrent_calls: 8, ..small_limits() }));
    let memories = Guest::default().with(&"(memory 0)\n".repeat(15));
    let tables = Guest::default().with(&"(table 0 funcref)\n".repeat(64));
    let guests = [memories, tables, Guest::default()].map(|guest| guest.component());
    let mut calls = JoinSet::new();
    for turn in 0..192 {
        let (harness, guest) = (Arc::clone(&harness), guests[turn % 3].clone());
        calls.spawn(async move { harness.call_bytes(&guest).await.map(|output| text_of(&output)) });
    }
    while let Some(answer) = calls.join_next().await {
        assert_eq!(answer.unwrap(), Ok("{}".to_owned()));
    }
    // The same with a single slot.
    let harness = Harness::new(Limits { concurrent_calls: 1, ..small_limits() });
    for guest in guests {
        assert_eq!(text_of(&harness.call_bytes(&guest).await.unwrap()), "{}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn good_calls_succeed_among_failing_ones() {
    let harness = Arc::new(Harness::new(Limits { fuel: 1_000_000, ..small_limits() }));
    let endless = endless_loop("");
    let grow = endless_loop("(drop (memory.grow (i32.const 1)))");
    let guests = [
        (Guest::default(), None),
        (Guest::calling(&format!("{endless} (unreachable)")), Some(Code::LimitFuel)),
        (Guest::calling("(unreachable)"), Some(Code::Trap)),
        (Guest::calling(&format!("{grow} (unreachable)")), Some(Code::LimitMemory)),
        (Guest::calling("(i32.const -4)"), Some(Code::InvalidOutput)),
    ];
    let mut calls = JoinSet::new();
    for (guest, code) in guests.iter().cycle().take(100).cloned() {
        let harness = Arc::clone(&harness);
        calls.spawn(async move { (harness.call(&guest).await.err().map(|failure| failure.code()), code) });
    }
    while let Some(answer) = calls.join_next().await {
        let (code, expected) = answer.unwrap();
        assert_eq!(code, expected);
    }
}

/// The caller cancels the call.
#[tokio::test]
async fn dropped_call_releases_its_slot() {
    let harness = Arc::new(Harness::new(Limits { concurrent_calls: 1, ..time_limit_only(25_000) }));
    let looping = Guest::calling(&format!(
        "(call $write (i32.const 0) (i32.const 1024) (i32.const 0)) {} (unreachable)",
        endless_loop("")
    ));
    let looping = looping.with(&imports(LOG));
    for turn in 1..=5 {
        let call = tokio::spawn({
            let (harness, looping) = (Arc::clone(&harness), looping.clone());
            async move { harness.call(&looping).await.map(drop) }
        });
        harness.wait_for_log(turn).await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        harness.assert_still_works().await;
    }
    // Dropped while it waits for a slot.
    let loaded = harness.load(&looping.component()).await.unwrap();
    let spawn = || {
        let (harness, loaded) = (Arc::clone(&harness), Arc::clone(&loaded));
        tokio::spawn(async move { harness.run(&loaded, harness.call_of("{}")).await.map(drop) })
    };
    let running = spawn();
    tokio::task::yield_now().await;
    let waiting = spawn();
    tokio::task::yield_now().await;
    waiting.abort();
    running.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    assert!(running.await.unwrap_err().is_cancelled());
    harness.assert_still_works().await;
}
