//! A host with one skill, for benchmarks of the path of tool calls. Used by `path` and `languages`.

use std::{path::Path, sync::Arc};

use patchbay_core::{Asker, CallId, Digest, PrincipalId};
use patchbay_sandbox::{Artefacts, Content, Limits, Sandbox};
use patchbay_skill::Snapshot;
use patchbay_store::{Hold, JournalFilter, JournalRow, NewSnapshot, Store};
use patchbay_tests::{host, services};
use patchbay_tools::{StoreLedger, Tools};
use serde_json::Value;

pub struct Host {
    pub tools: Arc<Tools>,
    store: Store,
    pub snapshot: Arc<Snapshot>,
    hold: Hold,
    component: Digest,
}

impl Host {
    /// Returns a host with the home `home` and the skill `probe` with `component`. Compiled components are stored in the home.
    pub async fn new(home: &Path, component: &[u8]) -> Self {
        Self::with_plugin(home, &patchbay_tests::guest::package(component.to_vec(), "---\n---\n")).await
    }

    /// Like [`Host::new`], but for a plugin with an embedded SKILL.md.
    pub async fn with_plugin(home: &Path, plugin: &[u8]) -> Self {
        let skills = home.join("skills");
        std::fs::create_dir_all(&skills).unwrap();
        std::fs::write(skills.join("probe.wasm"), plugin).unwrap();
        let store = Store::open(home).unwrap();
        let artefacts = Artefacts::open(&home.join("aot"), Arc::new(StoreLedger(store.clone())), host::compiler());
        let sandbox = Sandbox::new(Limits::default()).with_artefacts(artefacts);
        let tools = Arc::new(services::tools(home, &store, sandbox));
        let found = services::found(&skills);
        let component = found[0].candidate.as_ref().unwrap().component.clone().unwrap();
        let answers = tools.describe([&component], &|_, _| {}).await.unwrap().answers;
        let snapshot = services::snapshot(&found, 1, |digest| answers[digest].clone());
        let mut components = store.retain_components().unwrap();
        let digest = components.add(&component.bytes().unwrap()).unwrap();
        let kept = NewSnapshot::empty(snapshot.digest(), snapshot.to_json().to_owned(), components);
        let hold = services::session_with(&store, kept).await;
        Self { tools, store, snapshot, hold, component: digest }
    }

    /// Calls `probe__TOOL` and returns its only text or JSON.
    pub async fn call(&self, tool: &str, input: &Value) -> String {
        let asker = Asker::Person(PrincipalId::LOCAL);
        let context = services::context(asker, self.hold.clone(), "/", &self.snapshot);
        match &services::call(&self.tools, &context, &[], tool, input).await.unwrap()[..] {
            [Content::Text(text)] => text.clone(),
            [Content::Json(value)] => value.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// Returns the peak memory of the first call, in bytes.
    pub async fn peak_memory(&self) -> u64 {
        let all = JournalFilter { session: None, skill: None };
        self.store.journal_rows(&all, 0, 1).await.unwrap()[0].row.peak_memory
    }

    /// Runs the database operations of one call: checks whether its component is blocked, and writes a journal row.
    pub async fn database(&self, input: &Value) {
        assert!(!self.store.is_blocked(&self.component).await.unwrap());
        let row = JournalRow {
            at: 0,
            call: CallId::random(),
            parent: None,
            session: self.hold.session(),
            workspace: "/".to_owned(),
            asker: Asker::Person(PrincipalId::LOCAL),
            root: "user".to_owned(),
            skill: "probe".to_owned(),
            tool: "run".to_owned(),
            component: self.component,
            input_hash: Digest::of(input.to_string().as_bytes()),
            grants: Vec::new(),
            approvals: Vec::new(),
            fuel: 0,
            time_us: 0,
            peak_memory: 0,
            host_calls: 0,
            output_bytes: 0,
            failure: None,
            input: None,
            output: None,
        };
        self.store.journal(row).await;
    }
}
