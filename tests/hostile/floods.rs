//! Floods of results, progress, log lines and host calls.

use patchbay_core::Code;
use patchbay_sandbox::{Failure, Limits};
use patchbay_tests::guest::{ECHO, Guest};

use crate::support::{
    Harness, KV_GET, LOG, PROGRESS, data, endless_loop, failure, import, imports, permits, pieces, small_limits, text,
};

const OVER: &str = "component passed more than 65536 bytes to the host (limits.output_bytes)";

async fn assert_over_output_limit(guest: &Guest) {
    let failure = Harness::new(Limits { memory_bytes: 64 << 20, ..small_limits() }).assert_call_fails(guest).await;
    assert_eq!(failure, Failure::Output { limit: 65536 });
    assert_eq!(failure.code(), Code::LimitOutput);
    assert_eq!(failure.to_string(), OVER);
}

/// The engine stops these without a typed error. The sandbox recognises the message, which this test fixes.
#[tokio::test]
async fn result_over_the_limit_is_not_read() {
    // One long text.
    assert_over_output_limit(&Guest { pages: 40, ..Guest::calling(&text("(i32.const 131072)", "(i32.const 65537)")) })
        .await;
    assert_over_output_limit(&Guest {
        pages: 40,
        ..Guest::calling(&text("(i32.const 131072)", "(i32.const 2000000)"))
    })
    .await;
    // A million empty texts.
    let million = pieces("(i32.const 131072)", "(i32.const 1000000)");
    assert_over_output_limit(&Guest { pages: 400, ..Guest::calling(&million) }).await;
    // 100 texts that share the same 1000 bytes.
    let point = "(local.set $tool (i32.const 100))
        (loop $next
          (local.set $tool (i32.sub (local.get $tool) (i32.const 1)))
          (i32.store (i32.add (i32.const 131076) (i32.mul (local.get $tool) (i32.const 20))) (i32.const 200000))
          (i32.store (i32.add (i32.const 131080) (i32.mul (local.get $tool) (i32.const 20))) (i32.const 1000))
          (br_if $next (local.get $tool)))";
    let pieces = pieces("(i32.const 131072)", "(i32.const 100)");
    assert_over_output_limit(&Guest { pages: 40, ..Guest::calling(&format!("{point} {pieces}")) }).await;
    // The message of a failure.
    assert_over_output_limit(&Guest { pages: 40, ..Guest::calling(&failure((131_072, 4), (131_072, 100_000))) }).await;
}

#[tokio::test]
async fn host_call_arguments_have_the_limit_of_results() {
    let put = import("kv", "put", "(param i32 i32 i32 i32 i32 i32 i64 i32)");
    let guest = Guest::calling(&format!(
        "(call $put (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 0) (i32.const 100000)
           (i32.const 0) (i64.const 0) (i32.const 512)) {ECHO}"
    ));
    assert_over_output_limit(&guest.with(&put)).await;
    // The key of a read that would be denied.
    let get = format!("(call $get (i32.const 0) (i32.const 0) (i32.const 100000) (i32.const 512)) {ECHO}");
    assert_over_output_limit(&Guest::calling(&get).with(&imports(KV_GET))).await;
}

#[tokio::test]
async fn progress_and_result_share_one_output_budget() {
    let report = "(call $report (i32.const 131072) (i32.const 1000))";
    let flood = format!("{} (unreachable)", endless_loop(report));
    assert_over_output_limit(&Guest::calling(&flood).with(&imports(PROGRESS)).with(&data(131_072, [b'p'; 1000]))).await;
    // Neither exceeds the limit by itself.
    let report = "(call $report (i32.const 131072) (i32.const 40000))";
    let answer = |len| format!("{report} {}", text("(i32.const 131072)", len));
    let guest = |len| Guest { pages: 40, ..Guest::calling(&answer(len)).with(&imports(PROGRESS)) };
    assert_over_output_limit(&guest("(i32.const 40000)")).await;
    Harness::new(small_limits()).call(&guest("(i32.const 20000)")).await.unwrap();
    let failing = format!("{report} {}", failure((131_072, 4), (131_072, 40_000)));
    assert_over_output_limit(&Guest { pages: 40, ..Guest::calling(&failing).with(&imports(PROGRESS)) }).await;
}

#[tokio::test]
async fn log_flood_is_stopped() {
    let harness = Harness::new(small_limits());
    let write = |len: u32| format!("(call $write (i32.const 1) (i32.const 131072) (i32.const {len}))");
    let guest =
        |body: &str| Guest::calling(&format!("{body} {ECHO}")).with(&imports(LOG)).with(&data(131_072, [b'l'; 3000]));
    for (body, lines) in [
        (endless_loop(&write(10)), 50),
        (endless_loop(&write(0)), 50),
        (endless_loop(&write(1000)), 2),
        (write(3000), 0),
    ] {
        harness.recorder.log.lock().unwrap().clear();
        let failure = harness.assert_call_fails(&guest(&body)).await;
        assert_eq!(failure.code(), Code::LimitLog);
        assert_eq!(
            failure.to_string(),
            "the call wrote more than 50 lines or 2048 bytes of log (limits.log_lines, limits.log_bytes)"
        );
        assert_eq!(harness.recorder.log.lock().unwrap().len(), lines);
    }
    // A line that exceeds the limit of any host call.
    let long = Guest { pages: 40, ..guest(&write(100_000)) };
    assert_eq!(harness.assert_call_fails(&long).await.code(), Code::LimitOutput);
}

#[tokio::test]
async fn log_and_progress_are_cleaned() {
    let harness = Harness::new(small_limits());
    let deceit = "a\u{1b}[2Jb\u{202e}c\nd\u{200b}e\u{9b}f";
    let len = deceit.len();
    let guest = Guest::calling(&format!(
        "(call $write (i32.const 3) (i32.const 131072) (i32.const {len}))
         (call $report (i32.const 131072) (i32.const {len})) {ECHO}"
    ));
    harness.call(&guest.with(&imports(LOG)).with(&imports(PROGRESS)).with(&data(131_072, deceit))).await.unwrap();
    assert_eq!(*harness.recorder.log.lock().unwrap(), ["a[2Jbc def"]);
    assert_eq!(*harness.recorder.progress.lock().unwrap(), ["a[2Jbc\ndef"]);
}

#[tokio::test]
async fn failed_host_calls_count_against_the_limit() {
    let harness = Harness::new(Limits { log_lines: 1_000_000, ..small_limits() });
    let get = "(call $get (i32.const 0) (i32.const 1024) (i32.const 1) (i32.const 512))";
    let walk = "(call $walk (i32.const 1024) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 1)
                  (i32.const 512))";
    for (what, call, import) in [
        ("denied", get, imports(KV_GET)),
        ("unavailable", walk, import("workspace-read", "walk", "(param i32 i32 i32 i32 i32 i32 i32)")),
        ("log", "(call $write (i32.const 0) (i32.const 0) (i32.const 0))", imports(LOG)),
        ("progress", "(call $report (i32.const 0) (i32.const 0))", imports(PROGRESS)),
    ] {
        let guest = Guest::calling(&format!("{} (unreachable)", endless_loop(call))).with(&import);
        let failure = harness.assert_call_fails(&guest).await;
        assert_eq!(failure, Failure::HostCalls { limit: 200 }, "{what}");
        assert_eq!(failure.code(), Code::LimitHostCalls);
        assert_eq!(failure.to_string(), "the call made more than 200 host calls (limits.host_calls)");
    }
    // The same for granted calls.
    let harness = Harness::new(small_limits()).with_permits(permits(&["kv"], &["kv"]));
    let guest = Guest::calling(&format!("{} (unreachable)", endless_loop(get))).with(&imports(KV_GET));
    assert_eq!(harness.assert_call_fails(&guest).await.code(), Code::LimitHostCalls);
}
