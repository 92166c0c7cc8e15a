//! Excess use of WASI: it counts against the limits of the call, and either fails the guest or is cut off.

use std::{
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use patchbay_core::Code;
use patchbay_policy::{Capability, Permits};
use patchbay_sandbox::{Auth, Content, Failure, Fault, Http, HttpFuture, HttpRequest, HttpResponse, Limits};
use serde_json::json;

use crate::support::{Harness, Output, permits, small_limits};

/// A sandbox with small limits and the Rust guest for wasip2.
struct WasiHarness {
    harness: Harness,
    bytes: Vec<u8>,
}

impl WasiHarness {
    fn new(limits: Limits) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("guests/dist/wasip2.wasm");
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("guests/dist/wasip2.wasm: {error}; run: make guests"));
        Self { harness: Harness::new(limits), bytes }
    }

    async fn call(&self, what: &str, count: u64) -> Result<Vec<Content>, Failure> {
        self.call_output(what, count).await.map(|output| output.content)
    }

    async fn call_output(&self, what: &str, count: u64) -> Result<Output, Failure> {
        let loaded = self.harness.load(&self.bytes).await.unwrap();
        let mut call = self.harness.call_of(&json!({"of": what, "count": count}).to_string());
        call.tool = "flood".into();
        let answer = self.harness.run(&loaded, call).await;
        self.harness.assert_still_works().await;
        answer
    }

    /// Replaces the HTTP service; `granted` decides about the grant to use it.
    fn with_http(self, http: Arc<dyn Http>, granted: bool) -> Self {
        let http_capability = ["http:127.0.0.1:9"];
        let permits = permits(&http_capability, if granted { &http_capability } else { &[] });
        let mut harness = self.harness.with_permits(permits);
        harness.services.http = http;
        Self { harness, ..self }
    }

    fn log(&self) -> Vec<String> {
        self.harness.recorder.log.lock().unwrap().clone()
    }
}

fn done() -> Vec<Content> {
    vec![Content::Text("done".into())]
}

#[tokio::test]
async fn wasi_calls_count_as_host_calls() {
    let harness = WasiHarness::new(small_limits());
    assert_eq!(harness.call("readings of the clock", 100).await.unwrap(), done());
    for count in [201, 100_000] {
        let failure = harness.call("readings of the clock", count).await.unwrap_err();
        assert_eq!(failure, Failure::HostCalls { limit: 200 }, "{count}");
    }
}

#[tokio::test]
async fn excess_output_is_truncated_and_the_guest_continues() {
    let plenty = Limits { host_calls: 100_000, ..small_limits() };
    let harness = WasiHarness::new(plenty);
    assert_eq!(harness.call("lines", 1_000).await.unwrap(), done());
    let log = harness.log();
    assert_eq!((log.len(), &*log[0], &*log[48]), (50, "line 0", "line 48"));
    assert!(log[49].contains("left out (limits.log_lines, limits.log_bytes)"), "{}", log[49]);
    assert_eq!(harness.call("text without end", 1_000).await.unwrap(), done());
    assert!(harness.log().iter().map(String::len).sum::<usize>() < 3_000);
}

#[tokio::test]
async fn number_of_host_resources_is_limited() {
    let harness = WasiHarness::new(Limits { host_calls: 100_000, ..small_limits() });
    assert_eq!(harness.call("sleeps", 20).await.unwrap(), done());
    let failure = harness.call("sleeps", 5_000).await.unwrap_err();
    assert_eq!(failure, Failure::trap("it had more than 256 wasi:* resources open at once"));
}

#[tokio::test]
async fn random_reads_are_bounded_in_host_memory() {
    let harness = WasiHarness::new(small_limits());
    assert_eq!(harness.call("random bytes", 1_000).await.unwrap(), done());
    for count in [u64::from(u32::MAX), u64::MAX] {
        assert!(harness.call("random bytes", count).await.is_err(), "{count}");
    }
}

/// An HTTP service that responds with a megabyte after a delay.
#[derive(Default)]
struct Large {
    /// The number of concurrent requests, and its maximum so far.
    now: AtomicUsize,
    most: AtomicUsize,
    /// The size of each request body in bytes.
    bodies: Mutex<Vec<usize>>,
}

impl Http for Large {
    fn check(&self, _: &str, _: &[Auth], permits: &Permits) -> Result<(), Fault> {
        Ok(permits.check(&"http:127.0.0.1:9".parse::<Capability>().unwrap())?)
    }

    fn send<'a>(&'a self, request: HttpRequest, _: &'a Permits) -> HttpFuture<'a> {
        Box::pin(async move {
            self.bodies.lock().unwrap().push(request.body.map_or(0, |body| body.len()));
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.now.fetch_sub(1, Ordering::SeqCst);
            Ok((HttpResponse { status: 200, headers: vec![], body: vec![b'x'; 1 << 20] }, vec![]))
        })
    }
}

/// The permit is checked before a body is read; until then only a small buffer is accepted.
#[tokio::test]
async fn request_bodies_without_a_grant_are_rejected() {
    let http = Arc::new(Large::default());
    let limits = Limits { host_calls: 1_000_000, memory_bytes: 8 << 20, output_bytes: 4 << 20, ..small_limits() };
    let harness = WasiHarness::new(limits).with_http(http.clone(), false);
    let content = harness.call("bodies of requests", 40).await.unwrap();
    let [Content::Text(text)] = &content[..] else { panic!("{content:?}") };
    let taken: usize = text.split(' ').next().unwrap().parse().unwrap();
    assert!(taken <= 40 * 3 * (64 << 10), "{taken} bytes were taken");
    assert_eq!(*http.bodies.lock().unwrap(), [0; 0]);
}

/// With a grant, a few bodies are read concurrently, and all of them count as memory of the call.
#[tokio::test]
async fn request_bodies_count_as_memory() {
    let http = Arc::new(Large::default());
    let limits = Limits { host_calls: 1_000_000, memory_bytes: 8 << 20, output_bytes: 4 << 20, ..small_limits() };
    let harness = WasiHarness::new(limits).with_http(http.clone(), true);
    let output = harness.call_output("bodies of requests", 40).await.unwrap();
    // Four bodies of some megabytes exceed the limit: those that do not fit fail and are freed.
    let peak = output.usage.peak_memory;
    assert!((6 << 20..=8 << 20).contains(&peak), "{peak} bytes at once");
    assert_eq!(*http.bodies.lock().unwrap(), [0; 0], "no request was whole");
}

#[tokio::test]
async fn unread_responses_count_as_memory() {
    let http = Arc::new(Large::default());
    let limits = Limits { host_calls: 100_000, memory_bytes: 16 << 20, ..small_limits() };
    let harness = WasiHarness::new(limits).with_http(http.clone(), true);
    let content = harness.call("answers", 60).await.unwrap();
    let [Content::Text(text)] = &content[..] else { panic!("{content:?}") };
    let came: usize = text.split(' ').next().unwrap().parse().unwrap();
    assert!((4..=15).contains(&came), "{text}");
    assert!(text.contains("HttpResponseBodySize"), "{text}");
    assert_eq!(http.most.load(Ordering::SeqCst), 4, "sent at once");
    assert_eq!(http.bodies.lock().unwrap().len(), 60);
}

#[tokio::test]
async fn sockets_are_unavailable() {
    assert_eq!(WasiHarness::new(small_limits()).call("sockets", 50).await.unwrap(), done());
}

#[tokio::test]
async fn guest_that_exits_has_failed() {
    let failure = WasiHarness::new(small_limits()).call("exit codes", 3).await.unwrap_err();
    assert_eq!(failure.code(), Code::Trap);
    assert_eq!(failure.to_string(), "the component trapped: it exited with code 1");
}
