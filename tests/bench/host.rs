//! A host with one skill, for benchmarks of the path of tool calls. `path` and `languages` use it.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use patchbay_core::{AgentId, Asker, CallId, Digest, PrincipalId, RootAllowance, RootLimits, SessionId};
use patchbay_egress::{Credentials, Egress, EgressLimits};
use patchbay_policy::Root;
use patchbay_sandbox::{Artefacts, Compiler, Content, Limits, Sandbox};
use patchbay_skill::{NoCache, Platform, Snapshot, SnapshotRules, build, discover};
use patchbay_store::{Hold, JournalRow, KvStore, NewSnapshot, SessionRow, Store};
use patchbay_tests::{binary, services};
use patchbay_tools::{ResolvedTool, StoreLedger, ToolInvocation, Tools};
use serde_json::Value;

pub struct Host {
    pub tools: Arc<Tools>,
    store: Store,
    pub snapshot: Arc<Snapshot>,
    hold: Hold,
    component: Digest,
}

struct Here;

impl Platform for Here {
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
    /// Returns a host with its home in `home` and the skill `probe` with `component`. Compiled components are stored
    /// in the home.
    pub async fn new(home: &Path, component: &[u8]) -> Self {
        let skills = home.join("skills");
        std::fs::create_dir_all(&skills).unwrap();
        std::fs::write(skills.join("probe.wasm"), patchbay_tests::guest::package(component.to_vec(), "---\n---\n"))
            .unwrap();
        let store = Store::open(home).unwrap();
        let kv = KvStore::open(home, store.clone()).unwrap();
        let compiler = Compiler { program: binary::path(), arguments: vec!["compile".into()] };
        let artefacts = Artefacts::open(&home.join("aot"), Arc::new(StoreLedger(store.clone())), compiler);
        let sandbox = Arc::new(Sandbox::new(Limits::default()).with_artefacts(artefacts));
        let egress = Egress::new(EgressLimits::default()).unwrap();
        let credentials = Credentials::open(home, BTreeMap::new());
        let tools = Arc::new(Tools::new(sandbox, store.clone(), kv, egress, credentials, &[]));
        let found = discover(Root::User, &skills, &NoCache, &RootAllowance::default()).unwrap().found;
        let component = found[0].candidate.as_ref().unwrap().component.clone().unwrap();
        let answers = tools.describe([&component], &|_, _| {}).await.unwrap().answers;
        let tools_of = |digest: &Digest| answers[digest].clone();
        let rules = SnapshotRules {
            trusted: true,
            reserved: &[],
            internal_tools: &[],
            limits: &RootLimits::default(),
            platform: &Here,
            tools: &tools_of,
        };
        let snapshot = Arc::new(build(&found, 1, &rules));
        let row = SessionRow {
            id: SessionId::random(),
            workspace: "/".to_owned(),
            agent: AgentId::random(),
            persona: "{}".to_owned(),
            snapshot: snapshot.digest(),
            snapshot_version: 1,
            owner: PrincipalId::LOCAL,
        };
        let mut components = store.retain_components().unwrap();
        let digest = components.add(&component.bytes().unwrap()).unwrap();
        let kept = NewSnapshot::empty(snapshot.digest(), snapshot.to_json().to_owned(), components);
        let hold = store.create_session(row, kept).await.unwrap();
        Self { tools, store, snapshot, hold, component: digest }
    }

    /// Calls `probe__TOOL` and returns its only text or JSON.
    pub async fn call(&self, tool: &str, input: &Value) -> String {
        let asker = Asker::Person(PrincipalId::LOCAL);
        let context = services::context(asker, self.hold.clone(), "/", &self.snapshot);
        let call = ToolInvocation::new(
            CallId::random(),
            ResolvedTool::find(&context.asker, &self.snapshot, &[], &[], tool).unwrap(),
            input,
        );
        match &self.tools.run(&context, call).await.result.unwrap()[..] {
            [Content::Text(text)] => text.clone(),
            [Content::Json(value)] => value.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// Runs the database operations of one call: reads whether its component is blocked, and writes a row of the
    /// journal.
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
