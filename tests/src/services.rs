//! The services and the context that a sandbox or tool call needs, for tests that do not care about them. Replace fields of
//! [`unavailable`] with the test's own fakes.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use futures_util::future::BoxFuture;
use patchbay_core::{
    AgentId, Asker, CallId, Digest, PrincipalId, RootAllowance, RootLimits, SessionId,
    completion::{CompletionRequest, Message, Part, RequestHints, Role, ToolChoice},
};
use patchbay_egress::{Credentials, Egress, EgressLimits};
use patchbay_policy::{Permits, Root};
use patchbay_sandbox::{
    Auth, Budget, CallIdentity, CallableTool, Content, Fault, Finished, Http, HttpFuture, HttpRequest, Kv, KvEntry,
    KvError, KvFuture, LocalFiles, LogLevel, LogSink, NestedCallFuture, ProgressSink, Sandbox, Scope, Services,
    ToolCaller, WorkspaceAccess,
};
use patchbay_skill::{DescribedTools, FoundSkill, NoCache, Platform, Snapshot, SnapshotRules, build, discover};
use patchbay_store::{Hold, KvStore, NewSnapshot, SessionRow, Store};
use patchbay_tools::{
    CallContext, EffectFlag, Internal, ModeSlot, OutsideTools, ResolvedTool, ToolError, ToolInvocation, Tools,
};
use serde_json::Value;

/// Returns the tools of a host whose data is in `folder`. Calls run in `sandbox`.
pub fn tools(folder: &Path, store: &Store, sandbox: Sandbox) -> Tools {
    let kv = KvStore::open(folder, store.clone()).expect("a key-value store");
    let egress = Egress::new(EgressLimits::default());
    let credentials = Credentials::open(folder, BTreeMap::new());
    Tools::new(Arc::new(sandbox), store.clone(), kv, egress, credentials, &[])
}

/// Returns the skills of the user in `folder`.
pub fn found(folder: &Path) -> Vec<FoundSkill> {
    found_in(Root::User, folder)
}

/// Returns the skills of `root`, which is `folder`, or a folder of skills in the workspace `folder`.
pub fn found_in(root: Root, folder: &Path) -> Vec<FoundSkill> {
    discover(root, folder, &NoCache, &RootAllowance::default()).expect("a folder").found
}

/// Returns a snapshot of these skills. `tools` returns the tools of a component.
pub fn snapshot(found: &[FoundSkill], version: u64, tools: impl Fn(&Digest) -> DescribedTools) -> Arc<Snapshot> {
    let rules = SnapshotRules {
        trusted: true,
        reserved: &[],
        internal_tools: &[],
        limits: &RootLimits::default(),
        platform: &Unavailable,
        tools: &tools,
    };
    Arc::new(build(found, version, &rules))
}

/// Creates a session without skills in `store` and returns the permission to write it.
pub async fn session(store: &Store) -> Hold {
    let components = store.retain_components().expect("the folder of components");
    session_with(store, NewSnapshot::empty(Digest::of(b""), String::new(), components)).await
}

/// Like [`session`], with the skills of `snapshot`.
pub async fn session_with(store: &Store, snapshot: NewSnapshot) -> Hold {
    let row = SessionRow {
        id: SessionId::random(),
        workspace: "/w".to_owned(),
        agent: AgentId::random(),
        persona: "{}".to_owned(),
        snapshot: snapshot.digest,
        snapshot_version: 1,
        owner: PrincipalId::LOCAL,
    };
    store.create_session(row, snapshot).await.expect("a session")
}

/// Returns services that reject every request and discard progress and log records.
pub fn unavailable() -> Services {
    let nowhere = WorkspaceAccess { root: "/nowhere".into(), ..WorkspaceAccess::default() };
    Services {
        kv: Arc::new(Unavailable),
        http: Arc::new(Unavailable),
        call: Arc::new(Unavailable),
        tools: Arc::new(Unavailable),
        skill_files: None,
        workspace: Arc::new(LocalFiles::new(nowhere)),
        written: Arc::default(),
        inference: None,
        permit_source: None,
        gate: None,
        fixed: None,
        progress: Arc::new(Unavailable),
        log: Arc::new(Unavailable),
    }
}

/// Returns a model request with one user message.
pub fn completion(model: &str, parts: Vec<Part>) -> CompletionRequest {
    CompletionRequest {
        model: model.to_owned(),
        system: Vec::new(),
        messages: vec![Message { role: Role::User, parts }],
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        thinking: None,
        max_output_tokens: None,
        hints: RequestHints::default(),
    }
}

/// Returns the context in which `asker` calls a tool of `snapshot` outside of a running [`Session`].
///
/// [`Session`]: patchbay_session::Session
pub fn context(asker: Asker, hold: Hold, workspace: &str, snapshot: &Arc<Snapshot>) -> Arc<CallContext> {
    Arc::new(CallContext {
        asker,
        principal: PrincipalId::LOCAL,
        hold,
        agent: AgentId::random(),
        workspace: workspace.to_owned(),
        snapshot: Arc::clone(snapshot),
        outside: OutsideTools::default(),
        progress: Arc::new(Unavailable),
        inference: None,
        mode: ModeSlot::default(),
        approvals: None,
        editor: None,
        line: None,
        effect: EffectFlag::default(),
    })
}

/// Calls the tool `name` as the asker of `context`.
pub async fn call(
    tools: &Arc<Tools>,
    context: &Arc<CallContext>,
    internal: &[Arc<dyn Internal>],
    tool: &str,
    input: &Value,
) -> Result<Vec<Content>, ToolError> {
    let tool = ResolvedTool::find(&context.asker, &context.snapshot, internal, &context.outside, tool)?;
    tools.run(context, ToolInvocation::new(CallId::random(), tool, input)).await.result
}

struct Unavailable;

impl Platform for Unavailable {
    fn os(&self) -> &str {
        "linux"
    }

    fn has_env(&self, _: &str) -> bool {
        false
    }

    fn has_binary(&self, _: &str) -> bool {
        false
    }
}

fn failed<'a, T: Send + 'a>() -> KvFuture<'a, T> {
    Box::pin(async { Err(KvError::Failed) })
}

impl CallIdentity for Unavailable {
    fn call_id(&self) -> String {
        "call".to_owned()
    }
}

impl Kv for Unavailable {
    fn get<'a>(&'a self, _: Scope, _: &'a str) -> KvFuture<'a, Option<KvEntry>> {
        failed()
    }

    fn put<'a>(&'a self, _: Scope, _: &'a str, _: Vec<u8>, _: Option<u64>) -> KvFuture<'a, u64> {
        failed()
    }

    fn delete<'a>(&'a self, _: Scope, _: &'a str) -> KvFuture<'a, bool> {
        failed()
    }

    fn keys<'a>(&'a self, _: Scope, _: &'a str, _: Option<&'a str>, _: u32) -> KvFuture<'a, Vec<String>> {
        failed()
    }
}

impl Http for Unavailable {
    fn check(&self, _: &str, _: &[Auth], _: &Permits) -> Result<(), Fault> {
        Err(unavailable_fault())
    }

    fn send<'a>(&'a self, _: HttpRequest, _: &'a Permits) -> HttpFuture<'a> {
        Box::pin(async { Err(unavailable_fault()) })
    }
}

impl ToolCaller for Unavailable {
    fn call(self: Arc<Self>, _: String, _: String, _: Budget) -> NestedCallFuture {
        Box::pin(async { Finished::failed(unavailable_fault()) })
    }

    fn entries(&self, _: Option<&str>, _: usize) -> Vec<CallableTool> {
        Vec::new()
    }

    fn find<'a>(&'a self, _: &'a str, _: usize) -> BoxFuture<'a, (Vec<CallableTool>, u64)> {
        Box::pin(async { (Vec::new(), 0) })
    }
}

fn unavailable_fault() -> Fault {
    Fault::Failed { kind: "failed".to_owned(), message: "the service is unavailable".to_owned() }
}

impl ProgressSink for Unavailable {
    fn report(&self, _: &str) {}
}

impl LogSink for Unavailable {
    fn write(&self, _: LogLevel, _: &str) {}
}
