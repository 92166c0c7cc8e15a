//! With an approver, the user is asked for missing grants. Without one, the call is denied.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use patchbay_core::{AgentId, Asker, Code, Digest, PrincipalId};
use patchbay_policy::Root;
use patchbay_sandbox::{Content, Limits, Sandbox};
use patchbay_skill::Snapshot;
use patchbay_store::{GrantRow, Hold, Store};
use patchbay_tests::{
    calls::{SAY, relaying},
    guest::Guest,
    services,
};
use patchbay_tools::{Approval, Approvals, Approver, CallContext, ModeSlot, PersonAnswer, Question, ToolError, Tools};
use patchbay_workspace::{HomeFolder, ProtectedPaths};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::support::{failure, small_limits, within_30_seconds};

/// An approver that gives the same answer to all questions, delays the first answer, and records the questions.
pub(crate) struct FakePerson {
    answer: Approval,
    delay: Duration,
    pub(crate) asked: Mutex<Vec<Question>>,
}

impl Approver for FakePerson {
    fn approve(&self, question: Question) -> BoxFuture<'_, PersonAnswer> {
        Box::pin(async {
            let is_first = self.asked.lock().unwrap().is_empty();
            self.asked.lock().unwrap().push(question);
            if is_first {
                tokio::time::sleep(self.delay).await;
            }
            self.answer.into()
        })
    }
}

/// An approver that answers a question with yes for each semaphore permit.
pub(crate) struct WaitingPerson(pub(crate) Semaphore);

impl Approver for WaitingPerson {
    fn approve(&self, _: Question) -> BoxFuture<'_, PersonAnswer> {
        Box::pin(async {
            self.0.acquire().await.unwrap().forget();
            Approval::Once.into()
        })
    }
}

/// Why a session's fifth question is not asked.
pub(crate) const NO_ROOM: &str = "4 questions of this session are open; answer one, then call the tool again";

/// A user's skills that request capabilities and use them. By default, the workspace is the user's home folder.
pub(crate) struct Host {
    folder: tempfile::TempDir,
    pub(crate) store: Store,
    tools: Arc<Tools>,
    pub(crate) snapshot: Arc<Snapshot>,
    hold: Hold,
    pub(crate) workspace: PathBuf,
    pub(crate) mode: ModeSlot,
}

pub(crate) const PUT: &str = "(call $use (i32.const 2) (i32.const 310) (i32.const 1) (i32.const 300) (i32.const 4) (i32.const 0) (i64.const 0) (i32.const 512))";
const PUT_INPUT: &str = "(call $use (i32.const 2) (i32.const 310) (i32.const 1) (local.get $input) (local.get $input_len) (i32.const 0) (i64.const 0) (i32.const 512))";
pub(crate) const IMPORT_PUT: &str =
    "\n(import \"patchbay:host/kv@0.1.0\" \"put\" (func $use (param i32 i32 i32 i32 i32 i32 i64 i32)))\n";
const WRITE: &str = "(call $use (i32.const 310) (i32.const 1) (i32.const 300) (i32.const 4) (i32.const 512))";
pub(crate) const WRITE_NOTES: &str =
    "(call $use (i32.const 320) (i32.const 8) (i32.const 300) (i32.const 4) (i32.const 512))";
const WRITE_BASHRC: &str = "(call $use (i32.const 330) (i32.const 7) (i32.const 300) (i32.const 4) (i32.const 512))";
pub(crate) const IMPORT_WRITE: &str =
    "\n(import \"patchbay:host/workspace-write@0.1.0\" \"write\" (func $use (param i32 i32 i32 i32 i32)))\n";

/// Returns the skill `keeper`, which runs `functions` and returns `done`, or the error of the last one.
pub(crate) fn keeper(capability: &str, functions: &str, import: &str) -> Vec<u8> {
    let denied = failure((300, 4), (300, 4));
    let body = format!(
        "{functions} (if (i32.load8_u (i32.const 512)) (then (return {denied}))) (call $say (i32.const 300) (i32.const 4))"
    );
    let data = [(300, "done"), (310, "k"), (320, "notes.md"), (330, ".bashrc"), (340, "Makefile")];
    let data: String = data.iter().map(|(at, text)| format!("\n(data (i32.const {at}) \"{text}\")\n")).collect();
    let guest = Guest::calling(&body).with(import).with(SAY).with(&data);
    guest.packaged(&format!("---\ncapabilities: [{{name: {capability}, reason: \"It\\u202e keeps.\"}}]\n---\n"))
}

impl Host {
    /// Returns a host whose skill puts an entry twice.
    async fn new() -> Self {
        Self::using("kv", PUT, IMPORT_PUT).await
    }

    /// Returns a host whose skill uses `capability` twice through `function`.
    async fn using(capability: &str, function: &str, import: &str) -> Self {
        Self::with([("keeper", keeper(capability, &format!("{function} {function}"), import))]).await
    }

    pub(crate) async fn with(skills: impl IntoIterator<Item = (&str, Vec<u8>)>) -> Self {
        Self::with_roots(skills.into_iter().map(|(name, component)| (Root::User, name, component))).await
    }

    /// Returns a host with these skills. If one of them is in a workspace, the workspace is the folder that contains everything.
    pub(crate) async fn with_roots(skills: impl IntoIterator<Item = (Root, &str, Vec<u8>)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        // Shorter than a slow user takes to answer, but enough for the call on a busy machine.
        let sandbox = Sandbox::new(Limits { time_ms: 10_000, ..small_limits() });
        let tools = services::tools(folder.path(), &store, sandbox);
        let home = HomeFolder::new(folder.path());
        let tools = Arc::new(tools.with_protection(ProtectedPaths::default(), home));
        let snapshot = snapshot(folder.path(), &store, &tools, skills, 1).await;
        let hold = services::session(&store).await;
        let workspace = folder.path().canonicalize().unwrap();
        Self { folder, store, tools, snapshot, hold, workspace, mode: ModeSlot::default() }
    }

    /// Replaces the skills, as a reload does.
    async fn reload(&mut self, skills: impl IntoIterator<Item = (&str, Vec<u8>)>) {
        let skills = skills.into_iter().map(|(name, component)| (Root::User, name, component));
        self.snapshot = snapshot(self.folder.path(), &self.store, &self.tools, skills, 2).await;
    }

    /// Moves the workspace out of the home folder.
    pub(crate) fn leave_home(&mut self) -> tempfile::TempDir {
        let other = tempfile::tempdir().unwrap();
        self.workspace = other.path().canonicalize().unwrap();
        other
    }

    pub(crate) async fn call(&self, approvals: Option<&Arc<Approvals>>) -> Result<Vec<Content>, ToolError> {
        let person = Asker::Person(PrincipalId::LOCAL);
        self.call_by(person, "keeper__run", &json!({}), approvals).await
    }

    pub(crate) async fn call_by(
        &self,
        asker: Asker,
        tool: &str,
        input: &Value,
        approvals: Option<&Arc<Approvals>>,
    ) -> Result<Vec<Content>, ToolError> {
        let workspace = self.workspace.to_str().unwrap();
        let context = services::context(asker, self.hold.clone(), workspace, &self.snapshot);
        let mode = self.mode.clone();
        let context = CallContext { approvals: approvals.cloned(), mode, ..Arc::into_inner(context).unwrap() };
        within_30_seconds(services::call(&self.tools, &Arc::new(context), &[], tool, input)).await
    }
}

/// Returns a snapshot of these skills, as a session stores it.
async fn snapshot(
    folder: &Path,
    store: &Store,
    tools: &Arc<Tools>,
    skills: impl IntoIterator<Item = (Root, &str, Vec<u8>)>,
    version: u64,
) -> Arc<Snapshot> {
    let mut roots = BTreeMap::new();
    for (root, name, component) in skills {
        // The skills of a workspace are in a folder of it.
        let searched = root.workspace_folder().map_or_else(|| folder.join("skills"), |_| folder.to_owned());
        let kept = root.workspace_folder().map_or_else(|| searched.clone(), |below| folder.join(below));
        std::fs::create_dir_all(&kept).unwrap();
        std::fs::write(kept.join(name).with_extension("wasm"), component).unwrap();
        roots.insert(root, searched);
    }
    let found: Vec<_> = roots.into_iter().flat_map(|(root, searched)| services::found_in(root, &searched)).collect();
    let mut components = Vec::new();
    for skill in &found {
        let candidate = skill.candidate.as_ref().unwrap();
        let component = candidate.component.clone().unwrap();
        // A session stores the list of a skill's files with its snapshot. Here, an unrelated grant stores it.
        let clock = grant(candidate.name.to_string(), "clock", candidate.digest());
        store.add_grant(clock, candidate.files.as_text().to_owned()).await.unwrap();
        store.retain_components().unwrap().add(&component.bytes().unwrap()).unwrap();
        components.push(component);
    }
    let answers = tools.describe(&components, &|_, _| {}).await.unwrap().answers;
    services::snapshot(&found, version, |digest| answers[digest].clone())
}

pub(crate) fn approvals(answer: Approval) -> (Arc<FakePerson>, Arc<Approvals>) {
    approvals_after(answer, Duration::ZERO)
}

/// Returns a grant for one of the user's skills.
pub(crate) fn grant(skill: String, capability: &str, digest: Digest) -> GrantRow {
    let [root, workspace, capability, place] = ["user", "", capability, ""].map(str::to_owned);
    GrantRow { root, workspace, skill, capability, place, skill_digest: digest.to_string() }
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
        assert_eq!(question.subject.title(), "Store the key k of all workspaces: 4 bytes?");
        assert_eq!(
            (&question.chain[..], question.asker.to_string()),
            (&["keeper__run".to_owned()][..], "person".into())
        );
        // The reason is cleaned. `always` is shown as the command and the digest of the grant.
        assert_eq!((question.reason.as_deref(), question.answers().len()), (Some("It keeps."), 6));
        assert_eq!(question.subject.facts(), ["value: \"done\""]);
        assert_eq!(question.subject.request().unwrap(), "the user skill 'keeper' asks for 'kv'");
        let grant = question.grant.as_ref().unwrap();
        let digest = host.snapshot.skill("keeper").unwrap().digest;
        let scope = format!("for the skill's files {digest}");
        let workspace = host.workspace.display();
        let [what, take_back] =
            ["add", "remove"].map(|verb| format!("patchbay grant {verb} --in {workspace} keeper kv"));
        assert_eq!((&grant.what, &grant.take_back, &grant.scope), (&what, &take_back, &Some(scope)));
    }

    let (person, once) = approvals_after(Approval::Once, Duration::from_secs(12));
    assert_eq!(host.call(Some(&once)).await.unwrap(), [Content::Text("done".into())]);
    assert_eq!(person.asked.lock().unwrap().len(), 2, "one for each entry");
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
    // The answer also applies without an approver.
    host.call(None).await.unwrap();
    host.call(Some(&always)).await.unwrap();
    assert_eq!(person.asked.lock().unwrap().len(), 1);
}

/// Answers one expected question with yes once, and all others with no.
struct PickyPerson {
    wants: &'static str,
    asked: Mutex<Vec<String>>,
}

impl PickyPerson {
    fn wanting(wants: &'static str) -> (Arc<Self>, Arc<Approvals>) {
        let person = Arc::new(Self { wants, asked: Mutex::default() });
        (Arc::clone(&person), Approvals::new(person))
    }
}

impl Approver for PickyPerson {
    fn approve(&self, question: Question) -> BoxFuture<'_, PersonAnswer> {
        let title = question.subject.title();
        let is_wanted = title.contains(self.wants);
        self.asked.lock().unwrap().push(title);
        Box::pin(async move { if is_wanted { Approval::Once } else { Approval::No }.into() })
    }
}

#[tokio::test]
async fn yes_to_one_file_is_not_a_yes_to_another() {
    let component = keeper("workspace-write", &format!("{WRITE_NOTES} {WRITE_BASHRC}"), IMPORT_WRITE);
    let mut host = Host::with([("keeper", component)]).await;
    for leaves_home in [false, true] {
        let _other = leaves_home.then(|| host.leave_home());
        let (person, picky) = PickyPerson::wanting("notes.md");
        assert_eq!(host.call(Some(&picky)).await.unwrap_err().code(), Code::Denied);
        let asked = std::mem::take(&mut *person.asked.lock().unwrap());
        assert_eq!(asked, ["Create notes.md: +1?", "Create .bashrc: +1?"]);
        assert!(host.workspace.join("notes.md").exists() && !host.workspace.join(".bashrc").exists());
    }
}

/// Answers yes once, and changes the file while the first question is open.
struct SlowPerson {
    file: PathBuf,
    asked: Mutex<Vec<String>>,
}

impl Approver for SlowPerson {
    fn approve(&self, question: Question) -> BoxFuture<'_, PersonAnswer> {
        let mut asked = self.asked.lock().unwrap();
        if asked.is_empty() {
            std::fs::write(&self.file, "changed meanwhile").unwrap();
        }
        asked.push(question.subject.diff().unwrap().to_string());
        Box::pin(async { Approval::Once.into() })
    }
}

#[tokio::test]
async fn file_that_changed_since_the_question_is_asked_about_again() {
    let host = Host::with([("keeper", keeper("workspace-write", WRITE, IMPORT_WRITE))]).await;
    let file = host.workspace.join("k");
    std::fs::write(&file, "before").unwrap();
    let person = Arc::new(SlowPerson { file: file.clone(), asked: Mutex::default() });
    host.call(Some(&Approvals::new(Arc::clone(&person) as _))).await.unwrap();
    let expected =
        ["before", "changed meanwhile"].map(|old| format!("1 - {old} (no line end)\n1 + done (no line end)"));
    assert_eq!(*person.asked.lock().unwrap(), expected);
    assert_eq!(std::fs::read(&file).unwrap(), b"done");
}

/// An effect that would be refused anyway is refused without a question, with the real reason.
#[tokio::test]
async fn change_that_cannot_happen_is_not_asked_about() {
    let host = Host::with([("keeper", keeper("workspace-write", WRITE, IMPORT_WRITE))]).await;
    std::fs::create_dir(host.workspace.join("k")).unwrap();
    let (person, once) = approvals(Approval::Once);
    let error = host.call(Some(&once)).await.unwrap_err();
    assert_eq!((error.code(), person.asked.lock().unwrap().len()), (Code::ToolFailed, 0), "{error}");
}

/// What each answer covers, for each kind of caller. The numbers count the questions of the same call, of its repetition, of a call
/// with another input, after a reload that changed another skill, after one that changed this skill, and after the yes was
/// withdrawn. A call has two acts.
#[tokio::test]
async fn answers_reach_as_far_as_they_say() {
    let keeper = |nops: usize| keeper("kv", &format!("{} {PUT_INPUT} {PUT_INPUT}", "(nop)".repeat(nops)), IMPORT_PUT);
    let relay = |input: &str, nops: usize| {
        let mut guest = relaying("keeper__run", input);
        guest.call.insert_str(0, &"(nop)".repeat(nops));
        guest.packaged("---\ncapabilities: [{name: tools}]\n---\n")
    };
    let [one, other] = [json!({"a": 1}), json!({"a": 2})];
    let skills = |keeper_nops, relay_nops| {
        [
            ("keeper", keeper(keeper_nops)),
            ("one", relay(&one.to_string(), relay_nops)),
            ("other", relay(&other.to_string(), relay_nops)),
        ]
    };
    let model = |id: u8| Asker::Agent(AgentId::from_bytes([id; 16]));
    let callers = [
        ("a person's command", Asker::Person(PrincipalId::LOCAL), false),
        ("a model", model(1), false),
        ("a child", model(2), false),
        ("a nested call", model(1), true),
        ("an MCP client", Asker::mcp_client("c"), false),
    ];
    let scopes = [
        (Approval::Once, [2, 2, 2, 2, 2, 2]),
        (Approval::Call, [1, 1, 1, 1, 1, 1]),
        (Approval::Exact, [1, 0, 1, 0, 1, 1]),
        (Approval::Session, [1, 0, 0, 0, 1, 1]),
        (Approval::Always, [1, 0, 0, 0, 1, 1]),
    ];
    let mut host = Host::with(skills(0, 0)).await;
    let _other = host.leave_home();
    for (index, (caller, asker, is_nested)) in callers.into_iter().enumerate() {
        for (scope, expected) in scopes {
            // The skills of this round must have different bytes.
            let nops = 1 + index * 20 + expected[0] * 4 + expected[1] * 2;
            host.reload(skills(nops, 0)).await;
            grant_tools(&host).await;
            let (person, mut approvals) = approvals(scope);
            let mut asked = Vec::new();
            for (step, input) in [&one, &one, &other, &one, &one, &one].into_iter().enumerate() {
                match step {
                    3 => host.reload(skills(nops, 1)).await,
                    4 => host.reload(skills(nops + 1, 1)).await,
                    5 => {
                        // A yes for the session ends with the session, and a grant when it is removed.
                        approvals = Approvals::new(Arc::clone(&person) as _);
                        for grant in host.store.grants().await.unwrap() {
                            if grant.skill == "keeper" && grant.capability == "kv" {
                                assert!(host.store.remove_grant(grant).await.unwrap());
                            }
                        }
                    }
                    _ => {}
                }
                grant_tools(&host).await;
                let relay = if input == &one { "one__run" } else { "other__run" };
                let tool = if is_nested { relay } else { "keeper__run" };
                host.call_by(asker.clone(), tool, input, Some(&approvals)).await.unwrap();
                asked.push(std::mem::take(&mut *person.asked.lock().unwrap()).len());
            }
            assert_eq!(asked, expected, "{caller}, {scope:?}");
        }
    }
}

/// Grants `tools` to all skills except the keeper, with their current files.
async fn grant_tools(host: &Host) {
    for skill in host.snapshot.skills().filter(|skill| skill.name.as_str() != "keeper") {
        let grant = grant(skill.name.to_string(), "tools", skill.digest);
        let files = host.store.skill_files(&skill.digest).await.unwrap().unwrap();
        host.store.add_grant(grant, files).await.unwrap();
    }
}

/// Writing in the home folder is allowed for at most one act, whatever the answer and the grants.
#[tokio::test]
async fn writing_in_the_home_folder_is_allowed_for_one_act_only() {
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
        assert_eq!(asked.len(), 2);
        assert_eq!(asked[0].answers(), [Approval::Once, Approval::No]);
        assert!(asked[0].only_once && asked[0].grant.is_none());
    }
    // Answers that were not offered count as no.
    for answer in [Approval::Call, Approval::Session, Approval::Always] {
        let (_, not_offered) = approvals(answer);
        assert_eq!(host.call(Some(&not_offered)).await.unwrap_err().to_string(), not_granted);
    }
    assert!(!file.exists());
    assert_eq!(host.store.grants().await.unwrap().len(), 1);
    // The same with a grant.
    let clock = host.store.grants().await.unwrap().remove(0);
    let files = host.store.skill_files(&host.snapshot.skill("keeper").unwrap().digest).await.unwrap().unwrap();
    let grant = GrantRow { capability: "workspace-write".to_owned(), ..clock };
    host.store.add_grant(grant, files).await.unwrap();
    let command = format!("patchbay trust add --write {}", home.display());
    let (_, no) = approvals(Approval::No);
    let denied = host.call(Some(&no)).await.unwrap_err().to_string();
    assert!(denied.ends_with(&format!("contains your home folder. To allow it: {command}")), "{denied}");
    host.call(Some(&once)).await.unwrap();
    assert!(file.exists());
}

#[tokio::test]
async fn capability_without_room_for_its_question_is_not_denied() {
    let person = Arc::new(WaitingPerson(Semaphore::new(0)));
    let approvals = Approvals::new(Arc::clone(&person) as _);
    let mut hosts = Vec::new();
    for number in 0..5 {
        // Skills with different bytes need questions of their own.
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
    // Each of the four calls has two acts.
    person.0.add_permits(8);
    while let Some(answered) = calls.join_next().await {
        answered.unwrap().unwrap();
    }
}
