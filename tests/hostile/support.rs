//! Helpers of this ring: [`Harness`], a sandbox with small limits that records log lines and progress, and snippets of WAT for
//! guests.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use patchbay_core::{Digest, ToolSpec};
use patchbay_policy::{Capability, Grant, Identity, Permits, Root};
use patchbay_sandbox::{
    Call, Content, Failure, Finished, Inference, Kv, KvEntry, KvError, KvFuture, Limits, Loaded, LogLevel, LogSink,
    ProgressSink, Sandbox, Scope, Services, Usage,
};
use patchbay_skill::Snapshot;
use patchbay_store::{JournalFilter, JournalRow, Store};
use patchbay_tests::{
    guest::{self, Guest},
    services,
};

/// Limits that a hostile guest reaches quickly. Only the time limit is generous, because the machine may be busy. Tests of the time
/// limit use [`time_limit_only`].
pub fn small_limits() -> Limits {
    Limits {
        fuel: 30_000_000,
        describe_fuel: 10_000_000,
        time_ms: 25_000,
        memory_bytes: 4 << 20,
        host_calls: 200,
        input_bytes: 1 << 20,
        output_bytes: 64 << 10,
        log_lines: 50,
        log_bytes: 2 << 10,
        concurrent_calls: 4,
        ..Limits::default()
    }
}

/// Limits with practically unlimited fuel, so only the time limit stops a guest.
pub fn time_limit_only(time_ms: u64) -> Limits {
    Limits { fuel: u64::MAX >> 1, describe_fuel: u64::MAX >> 1, time_ms, ..small_limits() }
}

/// A sandbox with its limits, the permits of its calls, and a record of their log lines and progress.
pub struct Harness {
    pub sandbox: Arc<Sandbox>,
    pub recorder: Arc<Recorder>,
    pub permits: Arc<Permits>,
    /// The host services of its calls.
    pub services: Services,
}

/// The content of a successful call, and its resource usage.
#[derive(Debug)]
pub struct Output {
    pub content: Vec<Content>,
    pub usage: Usage,
}

impl Harness {
    pub fn new(limits: Limits) -> Self {
        let recorder = Arc::new(Recorder::default());
        let services = Services {
            kv: Arc::<FakeKv>::default(),
            progress: recorder.clone(),
            log: recorder.clone(),
            ..services::unavailable()
        };
        Self { sandbox: Arc::new(Sandbox::new(limits)), recorder, permits: permits(&[], &[]), services }
    }

    pub fn with_permits(self, permits: Arc<Permits>) -> Self {
        Self { permits, ..self }
    }

    pub fn with_kv(self, kv: Arc<dyn Kv>) -> Self {
        Self { services: Services { kv, ..self.services }, ..self }
    }

    pub fn with_model(self, model: Arc<dyn Inference>) -> Self {
        Self { services: Services { inference: Some(model), ..self.services }, ..self }
    }

    /// Waits until guests have written `lines` log lines.
    pub async fn wait_for_log(&self, lines: usize) {
        within_30_seconds(async {
            while self.recorder.log.lock().unwrap().len() < lines {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    pub async fn load(&self, bytes: &[u8]) -> Result<Arc<Loaded>, Failure> {
        while_compiling(self.sandbox.load(Digest::of(bytes), bytes.to_vec())).await
    }

    /// Loads a component and calls its tool `run` with `{}`.
    pub async fn call_bytes(&self, bytes: &[u8]) -> Result<Output, Failure> {
        let loaded = self.load(bytes).await?;
        self.run(&loaded, self.call_of("{}")).await
    }

    pub async fn run(&self, loaded: &Loaded, call: Call) -> Result<Output, Failure> {
        let Finished { result, usage } = within_30_seconds(self.sandbox.call(loaded, call)).await;
        result.map(|content| Output { content, usage })
    }

    pub async fn call(&self, guest: &Guest) -> Result<Output, Failure> {
        self.call_bytes(&guest.component()).await
    }

    pub fn call_of(&self, input: &str) -> Call {
        let (permits, services) = (Arc::clone(&self.permits), self.services.clone());
        Call { tool: "run".into(), input: input.into(), attachments: Vec::new(), permits, services, budget: None }
    }

    pub async fn describe(&self, guest: &Guest) -> Result<Vec<ToolSpec>, Failure> {
        let loaded = self.load(&guest.component()).await?;
        within_30_seconds(self.sandbox.describe(&loaded)).await
    }

    /// Asserts that a call of `guest` fails and that a good guest still works. Returns the failure.
    pub async fn assert_call_fails(&self, guest: &Guest) -> Failure {
        let failure = self.call(guest).await.expect_err("the guest did not fail");
        self.assert_still_works().await;
        failure
    }

    /// Asserts that `guest` cannot be described and that a good guest still works. Returns the failure.
    pub async fn assert_describe_fails(&self, guest: &Guest) -> Failure {
        let failure = self.describe(guest).await.expect_err("the guest did not fail");
        self.assert_still_works().await;
        failure
    }

    /// Asserts that `bytes` cannot be loaded and that a good component still works. Returns the failure.
    pub async fn assert_load_fails(&self, bytes: &[u8]) -> Failure {
        let failure = self.load(bytes).await.err().expect("the bytes were loaded");
        self.assert_still_works().await;
        failure
    }

    /// Calls `guest`, which must succeed, and returns its text.
    pub async fn text(&self, guest: &Guest) -> String {
        text_of(&self.call(guest).await.unwrap())
    }

    /// Asserts that a good guest still works in this sandbox.
    pub async fn assert_still_works(&self) {
        assert_eq!(self.text(&Guest::default()).await, "{}");
    }
}

/// Returns a snapshot without skills.
pub fn empty_snapshot() -> Arc<Snapshot> {
    services::snapshot(&[], 1, |_| unreachable!())
}

/// Returns the rows of the journal, oldest first.
pub async fn journal(store: &Store) -> Vec<JournalRow> {
    // A later write is stored after all earlier rows, so they are stored once it returns.
    within_30_seconds(store.keep_described(Digest::of(b"x"), "x", String::new())).await.unwrap();
    let rows = store.journal_rows(&JournalFilter::default(), 0, 100).await.unwrap();
    rows.into_iter().map(|entry| entry.row).collect()
}

/// Awaits `future`; fails the test after 30 seconds. No operation of this ring takes longer, even on a busy machine.
pub async fn within_30_seconds<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("not within its bounds")
}

/// Awaits a future that compiles a component, and fails the test after two minutes. The largest components take many seconds even
/// on an idle machine.
pub async fn while_compiling<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), future).await.expect("not compiled within its bounds")
}

pub fn text_of(output: &Output) -> String {
    match &output.content[..] {
        [Content::Text(text)] => text.clone(),
        other => panic!("not one text: {other:?}"),
    }
}

/// Returns the permits of a user skill `hostile` that requests `asked` and was granted `granted`.
pub fn permits(asked: &[&str], granted: &[&str]) -> Arc<Permits> {
    let capability = |text: &&str| text.parse::<Capability>().unwrap();
    let identity = Identity::new(Root::User, "", "hostile".parse().unwrap());
    let grants = granted.iter().map(|text| Grant::holding(capability(text))).collect();
    Arc::new(Permits::new(identity, asked.iter().map(capability).collect(), grants))
}

/// Records the log lines and the progress of guests.
#[derive(Default)]
pub struct Recorder {
    pub log: Mutex<Vec<String>>,
    pub progress: Mutex<Vec<String>>,
}

impl LogSink for Recorder {
    fn write(&self, _: LogLevel, message: &str) {
        self.log.lock().unwrap().push(message.to_owned());
    }
}

impl ProgressSink for Recorder {
    fn report(&self, text: &str) {
        self.progress.lock().unwrap().push(text.to_owned());
    }
}

/// A store that contains every key and rejects every change. Each function returns a different error.
#[derive(Default)]
pub struct FakeKv {
    /// Whether reads block and never return.
    pub is_stuck: bool,
}

impl Kv for FakeKv {
    fn get<'a>(&'a self, _: Scope, key: &'a str) -> KvFuture<'a, Option<KvEntry>> {
        Box::pin(async move {
            match self.is_stuck {
                true => std::future::pending().await,
                false => Ok(Some(KvEntry { value: key.as_bytes().to_vec(), version: 1 })),
            }
        })
    }

    fn put<'a>(&'a self, _: Scope, key: &'a str, _: Vec<u8>, _: Option<u64>) -> KvFuture<'a, u64> {
        Box::pin(async move { Err(KvError::Conflict { key: key.to_owned(), expected: 1, found: 2 }) })
    }

    fn delete<'a>(&'a self, _: Scope, _: &'a str) -> KvFuture<'a, bool> {
        Box::pin(async { Err(KvError::Failed) })
    }

    fn keys<'a>(&'a self, _: Scope, _: &'a str, _: Option<&'a str>, _: u32) -> KvFuture<'a, Vec<String>> {
        Box::pin(async { Err(KvError::Quota { what: "keys", limit: 3 }) })
    }
}

/// Returns a body of `call` whose result is `ok([text])`; `ptr` and `len` are WAT expressions.
pub fn text(ptr: &str, len: &str) -> String {
    one_piece(0, &format!("(i32.store (i32.const 68) {ptr}) (i32.store (i32.const 72) {len})"))
}

/// Returns a body of `call` with one piece of content. `case` is its variant, and `stores` writes its payload at 68.
pub fn one_piece(case: u32, stores: &str) -> String {
    format!("(i32.store8 (i32.const 64) (i32.const {case})) {stores} {}", pieces("(i32.const 64)", "(i32.const 1)"))
}

/// Returns a body of `call` whose result is `ok` with `count` pieces of content at `ptr`.
pub fn pieces(ptr: &str, count: &str) -> String {
    format!(
        "(i32.store8 (i32.const 0) (i32.const 0))
         (i32.store (i32.const 4) {ptr})
         (i32.store (i32.const 8) {count})
         (i32.const 0)"
    )
}

/// Returns a body of `call` whose result is `err` with a kind and a message, each given as address and length.
pub fn failure(kind: (u32, usize), message: (u32, usize)) -> String {
    format!(
        "(i32.store8 (i32.const 0) (i32.const 1))
         (i32.store (i32.const 4) (i32.const {})) (i32.store (i32.const 8) (i32.const {}))
         (i32.store (i32.const 12) (i32.const {})) (i32.store (i32.const 16) (i32.const {}))
         (i32.const 0)",
        kind.0, kind.1, message.0, message.1
    )
}

/// Returns a data segment for [`Guest::with`].
pub fn data(at: u32, bytes: impl AsRef<[u8]>) -> String {
    guest::data(at, bytes.as_ref())
}

/// Returns WAT that repeats `body` endlessly.
pub fn endless_loop(body: &str) -> String {
    format!("(loop $forever {body} (br $forever))")
}

/// Returns an import of a host function as `$name`.
pub fn import(interface: &str, name: &str, signature: &str) -> String {
    format!("\n(import \"patchbay:host/{interface}@0.1.0\" \"{name}\" (func ${name} {signature}))\n")
}

pub const LOG: (&str, &str, &str) = ("log", "write", "(param i32 i32 i32)");
pub const PROGRESS: (&str, &str, &str) = ("progress", "report", "(param i32 i32)");
pub const KV_GET: (&str, &str, &str) = ("kv", "get", "(param i32 i32 i32 i32)");

/// Like [`import`], for one of the constants.
pub fn imports((interface, name, signature): (&str, &str, &str)) -> String {
    import(interface, name, signature)
}
