//! Too much of what WASI gives: it counts like everything else, and ends the guest or nothing.

use std::{fs, path::Path};

use patchbay_core::Code;
use patchbay_sandbox::{Content, Failure, Limits};
use serde_json::json;

use crate::support::{Ward, small};

/// A sandbox with small limits, and the guest in Rust for wasip2 in it.
struct Flooded {
    ward: Ward,
    bytes: Vec<u8>,
}

impl Flooded {
    fn new(limits: Limits) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("guests/dist/wasip2.wasm");
        let bytes = fs::read(path).unwrap_or_else(|error| panic!("guests/dist/wasip2.wasm: {error}; run: make guests"));
        Self { ward: Ward::new(limits), bytes }
    }

    async fn of(&self, what: &str, count: u64) -> Result<Vec<Content>, Failure> {
        let loaded = self.ward.load(&self.bytes).await.unwrap();
        let mut call = self.ward.call_of(&json!({"of": what, "count": count}).to_string());
        call.tool = "flood".into();
        let answer = self.ward.run(&loaded, call).await.map(|output| output.content);
        self.ward.lives().await;
        answer
    }

    fn log(&self) -> Vec<String> {
        self.ward.heard.log.lock().unwrap().clone()
    }
}

fn done() -> Vec<Content> {
    vec![Content::Text("done".into())]
}

#[tokio::test]
async fn calls_of_wasi_are_host_calls() {
    let flooded = Flooded::new(small());
    assert_eq!(flooded.of("readings of the clock", 100).await.unwrap(), done());
    for count in [201, 100_000] {
        let failure = flooded.of("readings of the clock", count).await.unwrap_err();
        assert_eq!(failure, Failure::HostCalls { limit: 200 }, "{count}");
    }
}

#[tokio::test]
async fn a_guest_that_prints_too_much_is_cut_off_and_goes_on() {
    let plenty = Limits { host_calls: 100_000, ..small() };
    let flooded = Flooded::new(plenty);
    assert_eq!(flooded.of("lines", 1_000).await.unwrap(), done());
    let log = flooded.log();
    assert_eq!((log.len(), &*log[0], &*log[48]), (50, "line 0", "line 48"));
    assert!(log[49].contains("left out (limits.log_lines, limits.log_bytes)"), "{}", log[49]);
    assert_eq!(flooded.of("text without end", 1_000).await.unwrap(), done());
    assert!(flooded.log().iter().map(String::len).sum::<usize>() < 3_000);
}

#[tokio::test]
async fn the_hosts_resources_are_few() {
    let flooded = Flooded::new(Limits { host_calls: 100_000, ..small() });
    assert_eq!(flooded.of("sleeps", 20).await.unwrap(), done());
    let failure = flooded.of("sleeps", 5_000).await.unwrap_err();
    assert_eq!(failure, Failure::trap("it held more than 256 things of wasi:* at once"));
}

#[tokio::test]
async fn no_read_of_randomness_takes_the_hosts_memory() {
    let flooded = Flooded::new(small());
    assert_eq!(flooded.of("random bytes", 1_000).await.unwrap(), done());
    for count in [u64::from(u32::MAX), u64::MAX] {
        assert!(flooded.of("random bytes", count).await.is_err(), "{count}");
    }
}

#[tokio::test]
async fn there_are_no_sockets() {
    assert_eq!(Flooded::new(small()).of("sockets", 50).await.unwrap(), done());
}

#[tokio::test]
async fn a_guest_that_ends_itself_has_failed() {
    let failure = Flooded::new(small()).of("exit codes", 3).await.unwrap_err();
    assert_eq!(failure.code(), Code::Trap);
    assert_eq!(failure.to_string(), "the component trapped: it ended itself with exit code 1");
}
