//! Each part of the path by itself: the socket, egress's request, the codec without a sandbox, and the adapter in the sandbox.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Instant,
};

use patchbay_core::{
    Digest,
    completion::{Block, CompletionRequest, StreamEvent},
};
use patchbay_egress::{Answer, Egress, EgressLimits, Placed, Placement, Request, Secret, Target};
use patchbay_policy::HostPattern as Pattern;
use patchbay_provider::ExchangeLimits;
use patchbay_sandbox::{
    Limits, Sandbox,
    adapter::{Action, Budgets, Input, LoadedAdapter},
};
use patchbay_tests::{host::bundled_adapters, services};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{KEY, MODEL, recording::Recording};
use crate::nanoseconds;

/// Reads an answer from a bare connection. Calls `seen` for each chunk.
pub async fn socket(origin: String, recording: Arc<Recording>, seen: impl Fn() + Send) {
    let mut stream = TcpStream::connect(origin.trim_start_matches("http://")).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let (mut answer, mut piece) = (Vec::new(), vec![0; 16 << 10]);
    while !String::from_utf8_lossy(&answer).contains(&recording.begin) {
        let read = stream.read(&mut piece).await.unwrap();
        assert!(read > 0, "the beginning is there");
        answer.extend_from_slice(&piece[..read]);
    }
    while stream.read(&mut piece).await.unwrap() > 0 {
        seen();
    }
}

/// Reads an answer through egress, as an exchange does. Calls `seen` for each chunk.
pub async fn egress(egress: Egress, origin: String, recording: Arc<Recording>, seen: impl Fn() + Send) {
    let mut answer = open(&egress, &origin).await;
    let mut received = 0;
    while received < recording.begin.len() {
        received += answer.chunk().await.unwrap().expect("the beginning").len();
    }
    while answer.chunk().await.unwrap().is_some() {
        seen();
    }
}

async fn open(egress: &Egress, origin: &str) -> Answer {
    let target = Target::parse(origin).unwrap();
    let own = target.origin().clone();
    let pattern = Pattern::exactly(own.host(), Some(own.port())).unwrap();
    let placement = Placement::Header { name: "x-api-key".to_owned(), prefix: String::new() };
    let secret = Placed { secret: Secret::new(KEY).unwrap(), placement, origin: own };
    let request = Request { secrets: vec![secret], ..Request::get("bench", target.allow(pattern).unwrap()) };
    egress.open(request).await.unwrap()
}

/// Returns the egress of the benchmark, with limits for a long answer.
pub fn way_out() -> Egress {
    let limits = EgressLimits { time_ms: 600_000, idle_ms: 60_000, ..EgressLimits::default() };
    Egress::new(EgressLimits { wire_bytes: 64 << 20, body_bytes: 64 << 20, ..limits })
}

/// The adapter in the sandbox, with the budgets of an exchange.
pub struct Sandboxed {
    sandbox: Arc<Sandbox>,
    adapter: Arc<LoadedAdapter>,
    budgets: Budgets,
}

impl Sandboxed {
    pub async fn new() -> Self {
        let bytes = bundled_adapters(&["anthropic"])[0].bytes.to_vec();
        let limits = ExchangeLimits::default();
        let sandbox = Arc::new(Sandbox::new(limits.sandbox(&Limits::default())));
        let adapter = sandbox.load_adapter(Digest::of(&bytes), bytes).await.unwrap();
        let ExchangeLimits { step_fuel, fuel, step_ms, step_actions, actions, step_bytes, .. } = limits;
        let budgets = Budgets { step_fuel, fuel, step_ms, step_actions, actions, step_bytes };
        Self { sandbox, adapter, budgets }
    }

    /// Returns the duration of each piece of an answer, in nanoseconds.
    pub async fn replay(&self, begin: &str, pieces: &[Vec<u8>]) -> Vec<u64> {
        let log = services::unavailable().log;
        let begun = self.sandbox.begin(&self.adapter, request(), &[], &self.budgets, log).await;
        let (mut running, _) = begun.unwrap();
        running.resume(Input::Head { status: 200, headers: Vec::new() }).await.unwrap();
        running.resume(Input::Chunk(begin.as_bytes().to_vec())).await.unwrap();
        let mut times = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let piece = piece.clone();
            let start = Instant::now();
            let actions = running.resume(Input::Chunk(piece)).await.unwrap();
            times.push(nanoseconds(start));
            assert!(matches!(&actions[..], [Action::Emit(StreamEvent::BlockDelta { .. })]), "{actions:?}");
        }
        times
    }
}

/// Returns the request to the model.
pub fn request() -> CompletionRequest {
    services::completion(MODEL, vec![Block::Text("hello".to_owned()).into()])
}

/// Returns how long the same codec takes without a sandbox, in nanoseconds, for each piece of `size` bytes; with 0, for each
/// event.
pub fn native(body: &str, size: usize) -> Vec<u64> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/Cargo.toml");
    let mut replay = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args([
            "run",
            "--quiet",
            "--release",
            "--package",
            "provider-anthropic",
            "--example",
            "replay",
            "--manifest-path",
        ])
        .arg(manifest)
        .args(["--", &size.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    replay.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let output = replay.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}
