//! With an approver, a person is asked for missing grants. Without one, the call is denied.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use patchbay_core::{Asker, CallId, Code, Digest, PrincipalId, RootAllowance, RootLimits};
use patchbay_egress::{Credentials, Egress, EgressLimits};
use patchbay_policy::Root;
use patchbay_sandbox::{BoxFuture, Content, Limits, Sandbox};
use patchbay_skill::{NoCache, Snapshot, SnapshotRules, build, discover};
use patchbay_store::{GrantRow, Hold, KvStore, Store};
use patchbay_tests::{calls::SAY, guest::Guest, services};
use patchbay_tools::{
    Approval, Approvals, Approver, CallContext, Question, ResolvedTool, ToolError, ToolInvocation, Tools,
};
use patchbay_workspace::{HomeFolder, ProtectedPaths};
use serde_json::json;
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    internal::Nowhere,
    support::{failure, small_limits, within_30_seconds},
};

/// An approver that gives the same answer to all questions, to the first one after a delay, and records them.
struct FakePerson {
    answer: Approval,
    delay: Duration,
    asked: Mutex<Vec<Question>>,
}

impl Approver for FakePerson {
    fn approve(&self, question: Question) -> BoxFuture<'_, Approval> {
        Box::pin(async {
            let is_first = self.asked.lock().unwrap().is_empty();
            self.asked.lock().unwrap().push(question);
            if is_first {
                tokio::time::sleep(self.delay).await;
            }
            self.answer
        })
    }
}

/// An approver that answers a question by yes for each permit.
pub(crate) struct WaitingPerson(pub(crate) Semaphore);

impl Approver for WaitingPerson {
    fn approve(&self, _: Question) -> BoxFuture<'_, Approval> {
        Box::pin(async {
            self.0.acquire().await.unwrap().forget();
            Approval::Once
        })
    }
}

/// Why a fifth question of a session is not asked.
pub(crate) const NO_ROOM: &str = "4 questions of this session wait for an answer; answer one, then call the tool again";

/// A user's skill that requests a capability and uses it.
struct Host {
    folder: tempfile::TempDir,
    store: Store,
    tools: Arc<Tools>,
    snapshot: Arc<Snapshot>,
    hold: Hold,
}

const PUT: &str = "(call $use (i32.const 2) (i32.const 310) (i32.const 1) (i32.const 300) (i32.const 4) (i32.const 0) (i64.const 0) (i32.const 512))";
const IMPORT_PUT: &str =
    "\n(import \"patchbay:host/kv@0.1.0\" \"put\" (func $use (param i32 i32 i32 i32 i32 i32 i64 i32)))\n";
const WRITE: &str = "(call $use (i32.const 310) (i32.const 1) (i32.const 300) (i32.const 4) (i32.const 512))";
const IMPORT_WRITE: &str =
    "\n(import \"patchbay:host/workspace-write@0.1.0\" \"write\" (func $use (param i32 i32 i32 i32 i32)))\n";

impl Host {
    /// Returns a host whose skill puts an entry.
    async fn new() -> Self {
        Self::using("kv", PUT, IMPORT_PUT).await
    }

    /// Returns a host whose skill uses `capability` twice by `function`. Its workspace is the user's home folder.
    async fn using(capability: &str, function: &str, import: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let kv = KvStore::open(folder.path(), store.clone()).unwrap();
        let egress = Egress::new(EgressLimits::default()).unwrap();
        let credentials = Credentials::open(folder.path(), BTreeMap::new());
        // Less time than a slow person takes to answer, and enough for the call on a busy machine.
        let sandbox = Sandbox::new(Limits { time_ms: 10_000, ..small_limits() });
        let tools = Tools::new(Arc::new(sandbox), store.clone(), kv, egress, credentials, &[]);
        let home = HomeFolder::new(folder.path());
        let tools = Arc::new(tools.with_protection(ProtectedPaths::default(), home));
        let denied = failure((300, 4), (300, 4));
        let body = format!(
            "{function} {function} (if (i32.load8_u (i32.const 512)) (then (return {denied}))) (call $say (i32.const 300) (i32.const 4))"
        );
        let guest = Guest::calling(&body)
            .with(import)
            .with(SAY)
            .with("\n(data (i32.const 300) \"done\")\n(data (i32.const 310) \"k\")\n");
        let skills = folder.path().join("skills");
        std::fs::create_dir(&skills).unwrap();
        let manifest = format!("---\ncapabilities: [{{name: {capability}, reason: \"It\\u202e keeps.\"}}]\n---\n");
        std::fs::write(skills.join("keeper.wasm"), guest.packaged(&manifest)).unwrap();
        let found = discover(Root::User, &skills, &NoCache, &RootAllowance::default()).unwrap().found;
        let candidate = found[0].candidate.as_ref().unwrap();
        let component = candidate.component.clone().unwrap();
        // A session stores the list of a skill's files with its snapshot; here another grant does.
        let clock = GrantRow {
            root: "user".to_owned(),
            workspace: String::new(),
            skill: "keeper".to_owned(),
            capability: "clock".to_owned(),
            skill_digest: candidate.digest().to_string(),
        };
        store.add_grant(clock, candidate.files.as_text().to_owned()).await.unwrap();
        store.retain_components().unwrap().add(&component.bytes().unwrap()).unwrap();
        let answers = tools.describe([&component], &|_, _| {}).await.unwrap().answers;
        let tools_of = |digest: &Digest| answers[digest].clone();
        let rules = SnapshotRules {
            trusted: true,
            reserved: &[],
            internal_tools: &[],
            limits: &RootLimits::default(),
            platform: &Nowhere,
            tools: &tools_of,
        };
        let snapshot = Arc::new(build(&found, 1, &rules));
        let hold = services::session(&store).await;
        Self { folder, store, tools, snapshot, hold }
    }

    async fn call(&self, approvals: Option<&Arc<Approvals>>) -> Result<Vec<Content>, ToolError> {
        let asker = Asker::Person(PrincipalId::LOCAL);
        let workspace = self.folder.path().canonicalize().unwrap();
        let context = services::context(asker, self.hold.clone(), workspace.to_str().unwrap(), &self.snapshot);
        let context = CallContext { approvals: approvals.cloned(), ..Arc::into_inner(context).unwrap() };
        let context = Arc::new(context);
        let tool = ResolvedTool::find(&context.asker, &self.snapshot, &[], &[], "keeper__run")?;
        let input = json!({});
        let finished =
            within_30_seconds(self.tools.run(&context, ToolInvocation::new(CallId::random(), tool, &input))).await;
        assert_eq!(context.effect.is_set(), finished.result.is_ok());
        finished.result
    }
}

fn approvals(answer: Approval) -> (Arc<FakePerson>, Arc<Approvals>) {
    approvals_after(answer, Duration::ZERO)
}

fn approvals_after(answer: Approval, delay: Duration) -> (Arc<FakePerson>, Arc<Approvals>) {
    let person = Arc::new(FakePerson { answer, delay, asked: Mutex::default() });
    (Arc::clone(&person), Approvals::new(person))
}

const DENIED: &str = "skill 'keeper' may not use 'kv': it is not granted. To grant it: patchbay grant add keeper kv";

#[tokio::test]
async fn answer_of_a_person_decides_and_the_clock_waits() {
    let host = Host::new().await;
    assert_eq!(host.call(None).await.unwrap_err().to_string(), DENIED);

    let (person, no) = approvals(Approval::No);
    assert_eq!(host.call(Some(&no)).await.unwrap_err().to_string(), DENIED);
    {
        let asked = person.asked.lock().unwrap();
        let [question] = &asked[..] else { panic!("{asked:?}") };
        assert_eq!(question.subject.title(), "May the user skill 'keeper' use 'kv'?");
        assert_eq!(
            (&question.chain[..], question.asker.to_string()),
            (&["keeper__run".to_owned()][..], "person".into())
        );
        // The reason is cleaned; `always` is shown as the command and the digest of the grant.
        assert_eq!((question.reason.as_deref(), question.answers().len()), (Some("It keeps."), 4));
        let grant = question.grant.as_ref().unwrap();
        let digest = host.snapshot.skill("keeper").unwrap().digest;
        let scope = format!("for the skill's files {digest}");
        assert_eq!((&*grant.what, &grant.scope), ("patchbay grant add keeper kv", &Some(scope)));
    }

    // Concurrent calls share one question. A later call asks again, because the answer was only for those calls.
    let (person, once) = approvals_after(Approval::Once, Duration::from_secs(12));
    let (one, two) = tokio::join!(host.call(Some(&once)), host.call(Some(&once)));
    assert_eq!((one.unwrap(), two.unwrap().len()), (vec![Content::Text("done".into())], 1));
    assert_eq!(person.asked.lock().unwrap().len(), 1);
    host.call(Some(&once)).await.unwrap();
    assert_eq!(person.asked.lock().unwrap().len(), 2);
    assert_eq!(host.call(None).await.unwrap_err().to_string(), DENIED);
}

#[tokio::test]
async fn yes_for_ever_is_a_grant() {
    let host = Host::new().await;
    let (person, session) = approvals(Approval::Session);
    host.call(Some(&session)).await.unwrap();
    host.call(Some(&session)).await.unwrap();
    assert_eq!(person.asked.lock().unwrap().len(), 1);
    assert_eq!(host.store.grants().await.unwrap().len(), 1);

    let (person, always) = approvals(Approval::Always);
    host.call(Some(&always)).await.unwrap();
    let granted = host.store.grants().await.unwrap();
    assert_eq!(granted.iter().map(|grant| grant.capability.as_str()).collect::<Vec<_>>(), ["clock", "kv"]);
    assert_eq!(granted[0].skill_digest, granted[1].skill_digest);
    // The answer is also valid without an approver.
    host.call(None).await.unwrap();
    host.call(Some(&always)).await.unwrap();
    assert_eq!(person.asked.lock().unwrap().len(), 1);
}

/// Writing in the home folder is allowed for one call at most, whatever the answer and whatever is granted.
#[tokio::test]
async fn writing_in_the_home_folder_is_allowed_for_one_call_only() {
    let host = Host::using("workspace-write", WRITE, IMPORT_WRITE).await;
    let home = host.folder.path().canonicalize().unwrap();
    let file = home.join("k");
    let not_granted = DENIED.replace("'kv'", "'workspace-write'").replace("keeper kv", "keeper workspace-write");
    let (person, once) = approvals(Approval::Once);
    host.call(Some(&once)).await.unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"done");
    std::fs::remove_file(&file).unwrap();
    {
        let asked = person.asked.lock().unwrap();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].answers(), [Approval::Once, Approval::No]);
        assert!(asked[0].only_once && asked[0].grant.is_none());
    }
    // Answers that were not offered are no.
    for answer in [Approval::Session, Approval::Always] {
        let (_, not_offered) = approvals(answer);
        assert_eq!(host.call(Some(&not_offered)).await.unwrap_err().to_string(), not_granted);
    }
    assert!(!file.exists());
    assert_eq!(host.store.grants().await.unwrap().len(), 1);
    // With a grant, too.
    let clock = host.store.grants().await.unwrap().remove(0);
    let files = host.store.skill_files(&host.snapshot.skill("keeper").unwrap().digest).await.unwrap().unwrap();
    let grant = GrantRow { capability: "workspace-write".to_owned(), ..clock };
    host.store.add_grant(grant, files).await.unwrap();
    let command = format!("patchbay trust add --write {}", home.display());
    let (_, no) = approvals(Approval::No);
    let denied = host.call(Some(&no)).await.unwrap_err().to_string();
    assert!(denied.ends_with(&format!("holds your home folder. To allow it: {command}")), "{denied}");
    host.call(Some(&once)).await.unwrap();
    assert!(file.exists());
}

#[tokio::test]
async fn capability_without_room_for_its_question_is_not_denied() {
    let person = Arc::new(WaitingPerson(Semaphore::new(0)));
    let approvals = Approvals::new(Arc::clone(&person) as _);
    let mut hosts = Vec::new();
    for number in 0..5 {
        // Skills with other bytes are asked for by questions of their own.
        hosts.push(Host::using("kv", &format!("{} {PUT}", "(nop)".repeat(number)), IMPORT_PUT).await);
    }
    let mut calls = JoinSet::new();
    for host in hosts {
        let approvals = Arc::clone(&approvals);
        calls.spawn(async move { host.call(Some(&approvals)).await });
    }
    let refused = calls.join_next().await.unwrap().unwrap().unwrap_err();
    let expected = format!("tool 'keeper__run' was stopped: {NO_ROOM}.");
    assert_eq!((refused.code(), refused.to_string()), (Code::Unavailable, expected));
    person.0.add_permits(4);
    while let Some(answered) = calls.join_next().await {
        answered.unwrap().unwrap();
    }
}
