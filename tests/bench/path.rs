//! An empty tool through the one path, against bare wasmtime doing the same.

use std::{future::Future, sync::Arc, time::Instant};

use patchbay_core::{AgentId, SessionId};
use patchbay_policy::Root;
use patchbay_sandbox::{Content, Limits, Sandbox};
use patchbay_skill::{Rules, Snapshot, Surroundings, build, discover};
use patchbay_store::{Component, KvStore, NewSnapshot, SessionRow, Store};
use patchbay_tests::{guest::Guest, services};
use patchbay_tools::{Request, Tools};
use serde_json::{Value, json};

use crate::{
    bare::Bare,
    report::{Report, Samples, us},
};

/// Calls of one kind in a turn, and turns: the two kinds take turns, so that what else the machine does hits both.
const BURST: usize = 200;
const TURNS: usize = 100;
const AT_ONCE: usize = 64;

pub fn measure(report: &mut Report) {
    report.section(
        "A tool call",
        "A tool that answers with its input (`{\"a\":1}`), called through the one path (look-up in the snapshot, schema \
         check, permits, a fresh instance within all limits), and the same component by wasmtime alone with the same \
         pool, fuel, epochs, limiter and async call. Microseconds a call.",
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let home = tempfile::tempdir().unwrap();
    let component = Guest::default().packaged("---\n---\n");
    let host = Arc::new(runtime.block_on(Host::new(home.path(), &component)));
    let bare = Bare::new(&component, Limits::default());

    let mut rows = Vec::new();
    for at_once in [1, AT_ONCE] {
        let (mut floor, mut path) = (Vec::new(), Vec::new());
        for turn in 0..=TURNS {
            let bare = Arc::clone(&bare);
            let bare = runtime.block_on(burst(at_once, move || {
                let bare = Arc::clone(&bare);
                async move { assert_eq!(bare.call("run", "{\"a\":1}").await, "{\"a\":1}") }
            }));
            let host = Arc::clone(&host);
            let host = runtime.block_on(burst(at_once, move || {
                let host = Arc::clone(&host);
                async move { host.call().await }
            }));
            // The first turn warms up.
            if turn > 0 {
                floor.extend(bare);
                path.extend(host);
            }
        }
        let (floor, path) = (Samples::new(floor), Samples::new(path));
        for percent in [50, 99] {
            let (floor, path) = (floor.percentile(percent), path.percentile(percent));
            rows.push(vec![
                at_once.to_string(),
                format!("p{percent}"),
                us(floor),
                us(path),
                format!("{} ns", path.cast_signed() - floor.cast_signed()),
                format!("{:.2}", path as f64 / floor as f64),
            ]);
        }
        eprintln!("{at_once} at once: {} calls of each kind", floor.len());
    }
    report.table(&["at once", "", "wasmtime", "Patchbay", "added", "ratio"], &rows);
}

/// Runs `BURST` calls on each of `at_once` tasks; gives the time of each call.
async fn burst<F: Future<Output = ()> + Send>(
    at_once: usize,
    call: impl Fn() -> F + Clone + Send + 'static,
) -> Vec<u64> {
    let each = BURST / at_once.min(8);
    let tasks: Vec<_> = (0..at_once)
        .map(|_| {
            let call = call.clone();
            tokio::spawn(async move {
                let mut times = Vec::with_capacity(each);
                for _ in 0..each {
                    let start = Instant::now();
                    call().await;
                    times.push(u64::try_from(start.elapsed().as_nanos()).unwrap());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    times
}

/// The one path, with all that it needs.
struct Host {
    tools: Tools,
    snapshot: Snapshot,
    session: SessionId,
    input: Value,
}

struct Here;

impl Surroundings for Here {
    fn os(&self) -> &str {
        "linux"
    }
    fn has_env(&self, _: &str) -> bool {
        true
    }
    fn has_binary(&self, _: &str) -> bool {
        true
    }
}

impl Host {
    async fn new(home: &std::path::Path, component: &[u8]) -> Self {
        let skills = home.join("skills");
        std::fs::create_dir(&skills).unwrap();
        std::fs::write(skills.join("empty.wasm"), component).unwrap();
        let (store, kv) = (Store::open(home).unwrap(), KvStore::open(home).unwrap());
        let tools = Tools::new(Arc::new(Sandbox::new(Limits::default())), store.clone(), kv, &[]);
        let found = discover(Root::User, &skills).unwrap();
        let component = found[0].candidate.as_ref().unwrap().component.clone().unwrap();
        let answers = tools.describe(vec![component.clone()]).await.unwrap();
        let tools_of = |digest: &patchbay_core::Digest| answers[digest].clone();
        let rules = Rules { trusted: true, built_ins: &[], surroundings: &Here, tools: &tools_of };
        let snapshot = build(found, 1, &rules);
        let session = SessionId::random();
        let row = SessionRow {
            id: session,
            workspace: "/".to_owned(),
            agent: AgentId::random(),
            persona: "{}".to_owned(),
            snapshot: snapshot.digest(),
            snapshot_version: 1,
        };
        let components = vec![Component { digest: component.digest, bytes: component.bytes }];
        let kept = NewSnapshot { digest: snapshot.digest(), body: snapshot.to_json().to_owned(), components };
        store.create_session(row, kept).await.unwrap();
        Self { tools, snapshot, session, input: json!({"a": 1}) }
    }

    async fn call(&self) {
        let request = Request {
            session: self.session,
            workspace: "/",
            snapshot: &self.snapshot,
            tool: "empty__run",
            input: &self.input,
            attachments: Vec::new(),
            progress: services::nobody().progress,
        };
        let output = self.tools.run(request).await.unwrap();
        assert_eq!(output.content, [Content::Text("{\"a\":1}".to_owned())]);
    }
}
