//! Hostile provider adapters, while they are described and during a completion.

use std::sync::Arc;

use patchbay_core::{
    Code, Digest,
    completion::{Blob, Block, CompletionRequest, Finish, Stop, StreamEvent},
};
use patchbay_sandbox::{
    Failure, Limits, LogSink, Sandbox,
    adapter::{Action, AdapterManifest, Budgets, Exceeded, Input, LoadedAdapter, Running},
};
use patchbay_tests::{adapter::Adapter, guest::Guest, services};
use serde_json::{Value, json};

use crate::support::{
    Harness, LOG, Recorder, endless_loop, imports, small_limits, time_limit_only, while_compiling, within_30_seconds,
};

/// A sandbox for adapters, with small budgets.
struct AdapterHarness {
    sandbox: Arc<Sandbox>,
    budgets: Budgets,
    recorder: Arc<Recorder>,
}

fn budgets() -> Budgets {
    Budgets {
        step_fuel: 10_000_000,
        fuel: 15_000_000,
        step_ms: 25_000,
        step_actions: 100,
        actions: 250,
        step_bytes: 64 << 10,
    }
}

impl AdapterHarness {
    fn new() -> Self {
        Self::with_limits(small_limits(), budgets())
    }

    fn with_limits(limits: Limits, budgets: Budgets) -> Self {
        Self { sandbox: Arc::new(Sandbox::new(limits)), budgets, recorder: Arc::default() }
    }

    async fn load(&self, adapter: &Adapter) -> Arc<LoadedAdapter> {
        self.load_bytes(adapter.component()).await.unwrap()
    }

    async fn load_bytes(&self, bytes: Vec<u8>) -> Result<Arc<LoadedAdapter>, Failure> {
        while_compiling(self.sandbox.load_adapter(Digest::of(&bytes), bytes)).await
    }

    async fn describe(&self, adapter: &Adapter) -> Result<AdapterManifest, Failure> {
        let loaded = self.load(adapter).await;
        within_30_seconds(self.sandbox.describe_adapter(&loaded)).await
    }

    async fn begin(&self, adapter: &Adapter) -> Result<(Running, Vec<Action>), Failure> {
        let loaded = self.load(adapter).await;
        self.begin_loaded(&loaded).await
    }

    async fn begin_loaded(&self, loaded: &LoadedAdapter) -> Result<(Running, Vec<Action>), Failure> {
        let log: Arc<dyn LogSink> = self.recorder.clone();
        within_30_seconds(self.sandbox.begin(loaded, request(), &[], &self.budgets, log)).await
    }

    /// Asserts that the first step fails and that a good adapter still works. Returns the failure.
    async fn assert_begin_fails(&self, adapter: &Adapter) -> Failure {
        let failure = self.begin(adapter).await.err().expect("the adapter did not fail");
        self.assert_still_works().await;
        failure
    }

    /// Asserts that a later step fails, that the instance has then ended, and that a good adapter still works. Returns the failure.
    async fn assert_resume_fails(&self, adapter: &Adapter) -> Failure {
        let (mut running, _) = self.begin(adapter).await.unwrap();
        for _ in 0..1_000 {
            if let Err(failure) = within_30_seconds(running.resume(chunk())).await {
                assert_ended(&mut running).await;
                self.assert_still_works().await;
                return failure;
            }
        }
        panic!("the adapter did not fail");
    }

    /// Asserts that a good adapter still works in this sandbox.
    async fn assert_still_works(&self) {
        let loaded = self.load(&Adapter::default()).await;
        let manifest = within_30_seconds(self.sandbox.describe_adapter(&loaded)).await.unwrap();
        assert_eq!(manifest.name.as_str(), "scripted");
        let (_, actions) = self.begin_loaded(&loaded).await.unwrap();
        assert_eq!(actions.len(), 5);
        assert_eq!(actions[4], Action::Finish(Finish { stop: Stop::EndTurn, raw: "stop".into() }));
    }
}

async fn assert_ended(running: &mut Running) {
    let failure = within_30_seconds(running.resume(Input::End)).await.unwrap_err();
    assert_eq!(failure.to_string(), "this instance has already failed and cannot continue");
}

fn chunk() -> Input {
    Input::Chunk(b"data: {}\n\n".to_vec())
}

fn request() -> CompletionRequest {
    let blob = |bytes: &[u8]| Block::Blob(Blob { media_type: "image/png".into(), name: None, data: bytes.into() });
    let parts = vec![Block::Text("hi".into()).into(), blob(b"one").into(), blob(b"two").into()];
    CompletionRequest { system: vec!["Be good.".into()], ..services::completion("scripted-1", parts) }
}

fn emit(count: usize) -> Value {
    json!(vec![json!({ "emit": { "usage": { "input-tokens": 1 } } }); count])
}

/// Returns an adapter whose first step sends a request and whose later steps return `actions`.
fn then(actions: Value) -> Adapter {
    Adapter::script(&[json!([{ "send": { "method": "POST", "path-and-query": "/v1" } }]), actions])
}

fn looping(body: &str) -> [(&'static str, Adapter); 2] {
    let begin = Adapter { before_begin: endless_loop(body), ..Adapter::default() };
    let realloc = Adapter { before_realloc: endless_loop(body), ..Adapter::default() };
    [("begin", begin), ("cabi_realloc", realloc)]
}

#[tokio::test]
async fn describe_has_a_small_budget_and_no_log() {
    let harness = AdapterHarness::new();
    let before = |body: &str| Adapter { before_describe: body.into(), ..Adapter::default() };
    for (body, code) in [
        (endless_loop(""), Code::LimitFuel),
        (endless_loop("(drop (memory.grow (i32.const 1)))"), Code::LimitMemory),
        ("(unreachable)".into(), Code::Trap),
    ] {
        assert_eq!(harness.describe(&before(&body)).await.unwrap_err().code(), code, "{body}");
        harness.assert_still_works().await;
    }
    let talking = before("(call $write (i32.const 1) (i32.const 0) (i32.const 1))").with(&imports(LOG));
    harness.describe(&talking).await.unwrap();
    assert!(harness.recorder.log.lock().unwrap().is_empty());
    let looping = Adapter { before_explain: endless_loop(""), ..before(&endless_loop("")) };
    let loaded = harness.load(&looping).await;
    let explained = within_30_seconds(harness.sandbox.explain_thinking(&loaded, "scripted-1", None, &[])).await;
    assert_eq!(explained, Err(Failure::Fuel { budget: 10_000_000 }));
    let clock = AdapterHarness::with_limits(time_limit_only(60), budgets());
    assert_eq!(clock.describe(&looping).await.unwrap_err(), Failure::Time { limit_ms: 60 });
}

#[tokio::test]
async fn thinking_description_is_cleaned_and_bounded() {
    let harness = AdapterHarness::new();
    let explain = async |plan| {
        let loaded = harness.load(&Adapter { plan, ..Adapter::default() }).await;
        within_30_seconds(harness.sandbox.explain_thinking(&loaded, "scripted-1", None, &[])).await
    };
    let plan = explain(json!({ "description": ["off\u{1b}[2J\n and on"], "warning": "care" })).await.unwrap();
    assert_eq!((&plan.description[..], plan.warning.as_deref()), (&["off[2J and on".into()][..], Some("care")));
    for (plan, words) in [
        (json!({ "description": vec!["x"; 9] }), "9 lines of description; the limit is 8"),
        (
            json!({ "warning": "w".repeat(201) }),
            &format!("invalid warning '{}…': use 1 to 200 characters", "w".repeat(80)),
        ),
    ] {
        assert_eq!(explain(plan).await, Err(Failure::InvalidOutput(words.into())));
    }
}

#[tokio::test]
async fn invalid_manifest_is_rejected() {
    let harness = AdapterHarness::new();
    for (changed, words) in [
        (json!({ "models": [{ "id": "a b", "size": "small" }] }), "invalid model id 'a b'"),
        (json!({ "models": vec![json!({ "id": "m", "size": "small" }); 2] }), "model 'm' is declared twice"),
        (json!({ "name": [0xff] }), "invalid utf-8 sequence"),
        (json!({ "version": { "at": 0xffff_0000_u32, "len": 9 } }), "out of bounds"),
    ] {
        let failure = harness.describe(&Adapter::manifest(&changed)).await.unwrap_err();
        assert_eq!(failure.code(), Code::InvalidOutput);
        assert!(failure.to_string().contains(words), "{failure}");
    }
    harness.assert_still_works().await;
}

#[tokio::test]
async fn skill_component_is_rejected_as_adapter() {
    let harness = AdapterHarness::new();
    let words = "this is a skill, not a provider's adapter; put it into a folder 'skills'";
    assert_eq!(
        harness.load_bytes(Guest::default().component()).await.err(),
        Some(Failure::InvalidComponent(words.into()))
    );
    let words = "this is a provider's adapter, not a skill; put it into the folder \
                 'providers' of the configuration";
    let failure = Harness::new(small_limits()).assert_load_fails(&Adapter::default().component()).await;
    assert_eq!(failure, Failure::InvalidComponent(words.into()));
    let failure = harness.load_bytes(b"\0asm\x0d\0\x01\0".to_vec()).await.err().unwrap();
    let words = "a provider's adapter exports patchbay:provider/adapter@0.1.x, but this component \
        exports nothing. Declare it: in Rust with provider! { … }, in JavaScript with `export const adapter = defineProvider({ … })`";
    assert_eq!(failure, Failure::InvalidComponent(words.into()));
}

#[tokio::test]
async fn endless_step_is_stopped() {
    let harness = AdapterHarness::new();
    for (place, adapter) in looping("") {
        let failure = harness.assert_begin_fails(&adapter).await;
        assert_eq!(failure, Failure::Exceeded(Exceeded::StepFuel(10_000_000)), "{place}");
        assert_eq!(failure.code(), Code::LimitFuel);
    }
    let resuming = Adapter { before_resume: endless_loop(""), ..Adapter::default() };
    assert_eq!(harness.assert_resume_fails(&resuming).await, Failure::Exceeded(Exceeded::StepFuel(10_000_000)));
    // Only the time limit applies.
    let clock = Budgets { step_fuel: u64::MAX >> 1, fuel: u64::MAX >> 1, step_ms: 60, ..budgets() };
    let harness = AdapterHarness::with_limits(small_limits(), clock);
    let late = Failure::Exceeded(Exceeded::StepTime(60));
    assert_eq!(late.to_string(), "adapter exceeded its time limit of 60 ms for one step (exchange.step_ms)");
    for (place, adapter) in looping("") {
        assert_eq!(harness.begin(&adapter).await.err().as_ref(), Some(&late), "{place}");
    }
    // On a busy machine, a good step may also be late.
    let mut begun = harness.begin(&resuming).await;
    for _ in 0..100 {
        let Err(failure) = &begun else { break };
        assert_eq!(*failure, late);
        begun = harness.begin(&resuming).await;
    }
    let (mut running, _) = begun.unwrap();
    // Time between steps does not count.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(within_30_seconds(running.resume(chunk())).await, Err(late));
    assert_ended(&mut running).await;
}

#[tokio::test]
async fn steps_share_one_fuel_budget() {
    // About five million units of fuel per step.
    let work = "(func $work (local $n i32)
                  (local.set $n (i32.const 1000000))
                  (loop $more (br_if $more (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))";
    let adapter = Adapter { before_resume: "(call $work)".into(), ..Adapter::default() }.with(work);
    assert_eq!(
        AdapterHarness::new().assert_resume_fails(&adapter).await,
        Failure::Exceeded(Exceeded::Fuel(15_000_000))
    );
}

#[tokio::test]
async fn growing_memory_is_stopped_at_the_limit() {
    let grow = endless_loop("(drop (memory.grow (i32.const 1)))");
    let adapter = Adapter { before_resume: grow, ..Adapter::default() };
    let failure = AdapterHarness::new().assert_resume_fails(&adapter).await;
    assert_eq!(failure.code(), Code::LimitMemory);
    assert!(failure.to_string().ends_with("the limit is 4194304 bytes (exchange.memory_bytes)"), "{failure}");
    // A little more in each step.
    let adapter = Adapter { before_resume: "(drop (memory.grow (i32.const 1)))".into(), ..then(json!([])) };
    assert_eq!(AdapterHarness::new().assert_resume_fails(&adapter).await, failure);
}

#[tokio::test]
async fn action_floods_are_stopped() {
    let harness = AdapterHarness::new();
    assert_eq!(harness.begin(&Adapter::script(&[emit(100)])).await.unwrap().1.len(), 100);
    let step = Failure::Exceeded(Exceeded::StepActions(100));
    assert_eq!(harness.assert_begin_fails(&Adapter::script(&[emit(101)])).await, step);
    assert_eq!(harness.assert_resume_fails(&then(emit(101))).await, step);
    assert_eq!(step.to_string(), "the adapter returned more than 100 actions in one step (exchange.step_actions)");
    // Actions by step: 1, 100, 100, 100.
    let failure = harness.assert_resume_fails(&then(emit(100))).await;
    assert_eq!(failure, Failure::Exceeded(Exceeded::Actions(250)));
    // A million actions in zeroed memory: they are rejected before they are read.
    let harness = AdapterHarness::with_limits(Limits { memory_bytes: 256 << 20, ..small_limits() }, budgets());
    let million = json!({ "at": 65536, "len": 1_000_000 });
    let failure = harness.assert_begin_fails(&Adapter { pages: 2_000, ..Adapter::script(&[million]) }).await;
    assert_eq!(failure, Failure::Exceeded(Exceeded::StepBytes(64 << 10)));
    assert_eq!(failure.code(), Code::LimitOutput);
}

#[tokio::test]
async fn huge_values_are_stopped() {
    let harness = AdapterHarness::new();
    let huge = json!({ "at": 1024, "len": 100_000 });
    for action in [
        json!({ "emit": { "block-delta": { "text": huge } } }),
        json!({ "emit": { "block-end": { "opaque": huge } } }),
        json!({ "send": { "body": [{ "bytes": huge }] } }),
        json!({ "send": { "headers": { "at": 1024, "len": 10_000 } } }),
        json!({ "fail": { "message": huge } }),
    ] {
        let adapter = Adapter { pages: 10, ..Adapter::script(&[json!([action])]) };
        assert_eq!(
            harness.assert_begin_fails(&adapter).await,
            Failure::Exceeded(Exceeded::StepBytes(64 << 10)),
            "{action}"
        );
    }
}

#[tokio::test]
async fn unknown_variant_cases_are_rejected() {
    let harness = AdapterHarness::new();
    for (actions, words) in [
        (json!([9]), "unexpected discriminant: 9"),
        (json!([{ "emit": { "block-start": { "kind": 4 } } }]), "unexpected discriminant: 4"),
        (json!([{ "emit": { "started": [0xff] } }]), "invalid utf-8 sequence of 1 bytes from index 0"),
        (json!({ "at": 0xffff_fff0_u32, "len": 9 }), "list pointer/length out of bounds of memory"),
        (json!({ "at": 1025, "len": 9 }), "list pointer is not aligned"),
    ] {
        let failure = harness.assert_begin_fails(&Adapter::script(&[actions])).await;
        assert_eq!(failure, Failure::InvalidOutput(words.into()));
    }
}

#[tokio::test]
async fn trapped_instance_is_not_called_again() {
    let adapter = Adapter { before_resume: "(unreachable)".into(), ..Adapter::default() };
    let failure = AdapterHarness::new().assert_resume_fails(&adapter).await;
    assert_eq!(failure.to_string(), "the component trapped: wasm trap: wasm `unreachable` instruction executed");
}

/// The caller cancels the completion during a step.
#[tokio::test]
async fn instance_with_a_cancelled_step_is_not_called_again() {
    let fuel = Budgets { step_fuel: u64::MAX >> 1, fuel: u64::MAX >> 1, ..budgets() };
    let harness = AdapterHarness::with_limits(small_limits(), fuel);
    let adapter = Adapter { before_resume: endless_loop(""), ..Adapter::default() };
    let (mut running, _) = harness.begin(&adapter).await.unwrap();
    let given_up = tokio::time::timeout(std::time::Duration::from_millis(50), running.resume(chunk())).await;
    assert!(given_up.is_err());
    assert_ended(&mut running).await;
    harness.assert_still_works().await;
}

#[tokio::test]
async fn log_is_forwarded_and_bounded() {
    let write = "(call $write (i32.const 1) (i32.const 0) (i32.const 1))";
    let harness = AdapterHarness::new();
    let adapter = Adapter { before_resume: write.into(), ..then(json!([])) }.with(&imports(LOG));
    let (mut running, _) = harness.begin(&adapter).await.unwrap();
    within_30_seconds(running.resume(chunk())).await.unwrap();
    assert_eq!(harness.recorder.log.lock().unwrap().len(), 1);
    // The limit applies to all steps together.
    assert_eq!(harness.assert_resume_fails(&adapter).await, Failure::Log { lines: 50, bytes: 2 << 10 });
    // Host calls per step.
    let harness = AdapterHarness::with_limits(
        Limits { log_lines: 10_000, log_bytes: 1 << 20, host_calls: 2, ..small_limits() },
        budgets(),
    );
    let (mut running, _) = harness.begin(&adapter).await.unwrap();
    for _ in 0..20 {
        within_30_seconds(running.resume(chunk())).await.unwrap();
    }
    let flood = Adapter { before_resume: format!("{write} {write} {write}"), ..then(json!([])) }.with(&imports(LOG));
    assert_eq!(harness.assert_resume_fails(&flood).await, Failure::HostCalls { limit: 2 });
}

/// The log is the only interface of `patchbay:host` for adapters.
#[tokio::test]
async fn an_adapter_has_no_capability() {
    let component = wat::parse_str(
        r#"(component (import "patchbay:host/kv@0.1.0" (instance))
             (instance $i) (export "patchbay:provider/adapter@0.1.0" (instance $i)))"#,
    )
    .unwrap();
    let words = "it imports 'patchbay:host/kv@0.1.0', which this host does not offer to a provider's adapter";
    assert_eq!(AdapterHarness::new().load_bytes(component).await.err(), Some(Failure::InvalidComponent(words.into())));
}

#[tokio::test]
async fn blobs_are_identified_by_their_order() {
    let (running, _) = AdapterHarness::new().begin(&Adapter::default()).await.unwrap();
    assert_eq!(&*running.blob(0).unwrap().data, b"one");
    assert_eq!(&*running.blob(1).unwrap().data, b"two");
    assert_eq!(running.blob(2), None);
}

#[tokio::test]
async fn texts_are_cleaned_except_replayed_data() {
    let start = |index: u32, kind: Value| json!({ "emit": { "block-start": { "index": index, "kind": kind } } });
    let delta = |index: u32, text: &str| json!({ "emit": { "block-delta": { "index": index, "text": text } } });
    let steps = [
        json!([
            start(0, json!("text")),
            delta(0, "a\u{202e}b 👩"),
            delta(0, "\u{200d}🚀\r"),
            start(1, json!({ "tool-call": { "id": "c1", "name": "run\u{200b}" } })),
            delta(1, "{\"a\":\"\u{202e}"),
        ]),
        json!([
            delta(0, "\nc"),
            delta(0, "\u{200d}d"),
            delta(1, "\"}"),
            { "emit": { "block-end": { "index": 1, "opaque": "\u{200b}o" } } },
        ]),
    ];
    let harness = AdapterHarness::new();
    let (mut running, mut actions) = harness.begin(&Adapter::script(&steps)).await.unwrap();
    actions.extend(within_30_seconds(running.resume(chunk())).await.unwrap());
    let mut texts = [String::new(), String::new()];
    for action in &actions {
        if let Action::Emit(StreamEvent::BlockDelta { index, text }) = action {
            texts[*index as usize].push_str(text);
        }
    }
    assert_eq!(texts, ["ab 👩\u{200d}🚀\ncd", "{\"a\":\"\u{202e}\"}"]);
    let end = StreamEvent::BlockEnd { index: 1, opaque: Some("\u{200b}o".into()) };
    assert_eq!(actions.last(), Some(&Action::Emit(end)));
}

#[tokio::test]
async fn hundred_concurrent_completions_release_their_slots() {
    let harness = AdapterHarness::with_limits(Limits { concurrent_calls: 100, ..small_limits() }, budgets());
    let loaded = harness.load(&then(emit(1))).await;
    let mut running = Vec::new();
    for _ in 0..100 {
        running.push(harness.begin_loaded(&loaded).await.unwrap().0);
    }
    for one in &mut running {
        assert_eq!(within_30_seconds(one.resume(chunk())).await.unwrap().len(), 1);
    }
    // No slot is free until one of them ends.
    let begin = harness.begin_loaded(&loaded);
    let mut begin = std::pin::pin!(begin);
    tokio::select! {
        biased;
        _ = &mut begin => panic!("one more than there are places"),
        () = tokio::task::yield_now() => {}
    }
    running.pop();
    begin.await.unwrap();
}
