//! An adapter that is replaced while many completions are running.

use std::{
    collections::BTreeSet,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use patchbay_core::{
    Digest, Name, Retrying,
    completion::{Block, CompletionRequest, Message, RequestHints, Role, Stop, StreamEvent, ToolChoice},
};
use patchbay_provider::{Choice, Providers, Settings, Sink};
use patchbay_tests::{adapter::Adapter, binary::Patchbay};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use patchbay_tests::host::host;

/// How often an answer repeats the word of its version, with a delay before each word.
const WORDS: usize = 20;
const WAIT_MS: u64 = 20;
const AT_ONCE: usize = 100;
const REPLACEMENTS: usize = 5;
/// How many more times the adapter is replaced without completions, to check that memory is released.
const MORE: usize = 8;
/// How many rounds may pass until memory no longer grows.
const ROUNDS: usize = 6;
/// The size of each version in bytes. It makes an unreleased version visible in the memory of the process.
const BALLAST: usize = 8 << 20;
/// How long a version may take to become active on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns version `n` of the adapter `scripted`, which repeats `vN`.
fn version(n: usize) -> Vec<u8> {
    let word = json!({ "emit": { "block-delta": { "index": 0, "text": format!("v{n} ") } } });
    let wait = json!({ "wait-ms": WAIT_MS });
    let mut steps = vec![json!([
        { "emit": { "started": "scripted-1" } },
        { "emit": { "block-start": { "index": 0, "kind": "text" } } },
        wait,
    ])];
    steps.extend((1..WORDS).map(|_| json!([word, wait])));
    steps.push(json!([
        word,
        { "emit": { "block-end": { "index": 0 } } },
        { "finish": { "stop": "end-turn", "raw": "stop" } },
    ]));
    // A passive segment: it is part of the component, not of the guest's memory.
    let letter = char::from(b'a' + u8::try_from(n % 26).unwrap());
    let ballast = format!("(data $ballast \"{}\")", letter.to_string().repeat(BALLAST));
    Adapter::script(&steps).with(&ballast).component()
}

/// Collects the text of an answer.
#[derive(Default)]
struct TextSink(String);

impl Sink for TextSink {
    fn event(&mut self, event: StreamEvent) {
        if let StreamEvent::BlockDelta { text, .. } = event {
            self.0.push_str(&text);
        }
    }

    fn retrying(&mut self, retrying: &Retrying) {
        panic!("nothing fails here: {retrying}");
    }
}

fn name() -> Name {
    "scripted".parse().unwrap()
}

/// Runs one completion to its end, asserts that it only repeats one word, and returns the word.
async fn ask(providers: &Providers) -> String {
    let request = CompletionRequest {
        model: "scripted-1".into(),
        system: Vec::new(),
        messages: vec![Message { role: Role::User, parts: vec![Block::Text("hi".into()).into()] }],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        thinking: None,
        max_output_tokens: None,
        hints: RequestHints::default(),
    };
    let choice = Choice { provider: name(), model: "scripted-1".into(), level: None };
    let mut sink = TextSink::default();
    let completed = providers.complete(&choice, request, &mut sink).await.unwrap();
    assert_eq!(completed.finish.stop, Stop::EndTurn);
    let words: Vec<_> = sink.0.split_whitespace().collect();
    assert_eq!(words.len(), WORDS, "an answer is whole: {}", sink.0);
    assert!(words.iter().all(|word| *word == words[0]), "an answer is of one version: {}", sink.0);
    words[0].to_owned()
}

/// Replaces the adapter with version `n` and waits until it is active.
async fn replace(patchbay: &Patchbay, providers: &Providers, n: usize) {
    let component = version(n);
    let digest = Digest::of(&component);
    patchbay.write("home/config/providers/.growing", &component);
    let folder = patchbay.home().join("config/providers");
    fs::rename(folder.join(".growing"), folder.join("scripted.wasm")).unwrap();
    let in_force = async {
        while !providers.list().await.iter().any(|one| one.name == "scripted" && one.digest == Some(digest)) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, in_force).await.unwrap_or_else(|_| panic!("version {n} is not in force"));
}

/// Returns the resident memory of this process in bytes, without mapped files.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

#[tokio::test(flavor = "multi_thread")]
async fn hundred_completions_run_while_their_adapter_is_replaced() {
    let patchbay = Patchbay::new();
    let host = host(&patchbay, Settings::default());
    let providers = Arc::clone(host.providers());
    let _watch = providers.watch().unwrap();
    replace(&patchbay, &providers, 0).await;
    let wanted = providers.asks(&name()).await.unwrap().unwrap();
    providers.allow(&name(), wanted).await.unwrap();

    let over = Arc::new(AtomicBool::new(false));
    let mut asking = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (providers, over) = (Arc::clone(&providers), Arc::clone(&over));
        // One after another, which keeps a hundred completions running during each replacement.
        asking.spawn(async move {
            let mut sink = vec![ask(&providers).await];
            while !over.load(Ordering::Relaxed) {
                sink.push(ask(&providers).await);
            }
            sink.push(ask(&providers).await);
            sink
        });
    }
    for n in 1..=REPLACEMENTS {
        replace(&patchbay, &providers, n).await;
        assert_eq!(ask(&providers).await, format!("v{n}"), "who asks now is answered by what is there now");
    }
    over.store(true, Ordering::Relaxed);
    let mut versions = BTreeSet::new();
    while let Some(sink) = asking.join_next().await {
        let sink = sink.unwrap();
        assert_eq!(sink.last(), Some(&format!("v{REPLACEMENTS}")));
        // No completion uses a version older than the previous one.
        let numbers: Vec<usize> = sink.iter().map(|word| word[1..].parse().unwrap()).collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
        versions.extend(numbers);
    }
    assert_eq!(versions.len(), REPLACEMENTS + 1, "each was asked: {versions:?}");

    // The engine and the allocator retain a bounded amount of freed memory, so some round adds nothing.
    let mut versions = REPLACEMENTS + 1..;
    let mut round = async || {
        for n in versions.by_ref().take(MORE) {
            replace(&patchbay, &providers, n).await;
        }
        ask(&providers).await;
        resident()
    };
    let mut last = round().await;
    let mut grown = Vec::new();
    while grown.len() < ROUNDS && grown.last().is_none_or(|grown| *grown > MORE * BALLAST / 2) {
        let now = round().await;
        grown.push(now.saturating_sub(last));
        last = now;
    }
    assert!(
        grown.last().is_some_and(|grown| *grown <= MORE * BALLAST / 2),
        "{MORE} replacements: {grown:?} bytes more"
    );
}
