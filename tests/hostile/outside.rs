//! Tools outside of the sandbox follow the path of all tools: their input is checked, their decision is enforced, they have limits,
//! and their calls are recorded before they start.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use patchbay_core::{Asker, Code, Digest, PrincipalId};
use patchbay_policy::ToolDecision;
use patchbay_sandbox::{Content, Limits, ProgressSink, Sandbox};
use patchbay_store::{Hold, JournalRow, Store};
use patchbay_tests::services;
use patchbay_tools::{
    Approval, Approvals, CallContext, CallTerms, CalledTool, Mode, ModeSlot, OutsideCall, OutsideDeclaration,
    OutsideError, OutsideOrigin, OutsideSpec, OutsideTool, PatternBudget, QuestionSubject, ToolError, Tools,
    input_json,
};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    approvals::{FakePerson, NO_ROOM, WaitingPerson, approvals},
    support::{empty_snapshot, journal, small_limits, within_30_seconds},
};

const NAME: &str = "mcp__files__write";

/// A tool that does what its input says.
struct FakeTool {
    spec: OutsideSpec,
    decision: ToolDecision,
    is_shown_whole: bool,
    calls: AtomicU32,
    /// The terms of its calls.
    terms: Mutex<CallTerms>,
}

impl FakeTool {
    fn new(decision: ToolDecision, description: &str) -> Arc<Self> {
        Self::with_time(decision, description, Duration::from_secs(60))
    }

    fn with_time(decision: ToolDecision, description: &str, time: Duration) -> Arc<Self> {
        Self::declared(decision, description, time, false)
    }

    /// A tool that changes nothing, according to the operator.
    fn reading() -> Arc<Self> {
        Self::declared(ToolDecision::Allow, "Reads.", Duration::from_secs(60), true)
    }

    fn declared(decision: ToolDecision, description: &str, time: Duration, is_read_only: bool) -> Arc<Self> {
        let declaration = OutsideDeclaration {
            name: NAME.to_owned(),
            origin: OutsideOrigin::Mcp,
            group: "mcp__files".to_owned(),
            tool: "write".to_owned(),
            description: description.to_owned(),
            input_schema: json!({"type": "object", "properties": {"do": {"type": "string"}}, "required": ["do"]}),
            is_destructive: true,
            is_read_only,
            advice: "To allow it: write tools.write = \"allow\" in [mcp.files] of config.toml".to_owned(),
            identity: Digest::of(b"the command"),
            per_workspace: false,
            for_skills: true,
            time,
            time_key: "mcp.files.call_ms".to_owned(),
        };
        let spec = OutsideSpec::new(declaration, &mut PatternBudget::default()).unwrap();
        Arc::new(Self { spec, decision, is_shown_whole: false, calls: AtomicU32::new(0), terms: Mutex::default() })
    }
}

impl OutsideTool for FakeTool {
    fn spec(&self) -> &OutsideSpec {
        &self.spec
    }

    fn decision(&self) -> ToolDecision {
        self.decision
    }

    fn input_for_question(&self, input: &Value) -> String {
        match input["do"].as_str() {
            Some("long") => "x".repeat(CalledTool::INPUT + 1),
            _ => input_json(input),
        }
    }

    fn is_shown_whole(&self) -> bool {
        self.is_shown_whole
    }

    fn terms<'a>(&'a self, _input: &'a Value) -> BoxFuture<'a, CallTerms> {
        Box::pin(async { self.terms.lock().unwrap().clone() })
    }

    fn call<'a>(&'a self, call: OutsideCall<'a>) -> BoxFuture<'a, Result<Vec<Content>, OutsideError>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            match call.input["do"].as_str().unwrap() {
                "hang" => std::future::pending().await,
                "fail" => Err(OutsideError::Failed("the disk is\u{202e} full.".to_owned())),
                "wail" => Err(OutsideError::Failed("x".repeat(1 << 20))),
                "flood" => Ok(vec![Content::Text("x".repeat(small_limits().output_bytes + 1))]),
                "pieces" => Ok(vec![Content::Text(String::new()); small_limits().output_bytes / 16]),
                text => {
                    (0..1_000).for_each(|_| call.progress.report(&"p\u{200b}".repeat(small_limits().output_bytes / 8)));
                    Ok(vec![Content::Text(format!("{text}\u{1b}"))])
                }
            }
        })
    }
}

/// A caller in a session without skills.
struct Caller {
    _folder: tempfile::TempDir,
    store: Store,
    tools: Arc<Tools>,
    hold: Hold,
    approvals: Option<Arc<Approvals>>,
    mode: ModeSlot,
    progress: Arc<Heard>,
}

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl ProgressSink for Heard {
    fn report(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

impl Caller {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let sandbox = Sandbox::new(Limits { input_bytes: 1_000, ..small_limits() });
        let tools = Arc::new(services::tools(folder.path(), &store, sandbox));
        let hold = services::session(&store).await;
        Self {
            _folder: folder,
            store,
            tools,
            hold,
            approvals: None,
            mode: ModeSlot::default(),
            progress: Arc::default(),
        }
    }

    fn asks(&mut self, answer: Approval) -> Arc<FakePerson> {
        let (person, approvals) = approvals(answer);
        self.approvals = Some(approvals);
        person
    }

    async fn call(&self, tool: &Arc<FakeTool>, input: &Value) -> Result<Vec<Content>, ToolError> {
        let snapshot = empty_snapshot();
        let context = services::context(Asker::Person(PrincipalId::LOCAL), self.hold.clone(), "/w", &snapshot);
        let context = Arc::new(CallContext {
            outside: Arc::new([Arc::clone(tool) as _]),
            approvals: self.approvals.clone(),
            mode: self.mode.clone(),
            progress: Arc::clone(&self.progress) as _,
            ..Arc::into_inner(context).unwrap()
        });
        services::call(&self.tools, &context, &[], NAME, input).await
    }

    async fn says(&self, tool: &Arc<FakeTool>, word: &str) -> Result<Vec<Content>, ToolError> {
        within_30_seconds(self.call(tool, &json!({"do": word}))).await
    }
}

#[tokio::test]
async fn outside_input_is_checked_and_answer_is_cleaned_and_bounded() {
    let (caller, tool) = (Caller::new().await, FakeTool::new(ToolDecision::Allow, "Writes."));
    let hasty = FakeTool::with_time(ToolDecision::Allow, "Writes.", Duration::from_millis(200));
    assert_eq!(caller.says(&tool, "go").await.unwrap(), [Content::Text("go".to_owned())]);
    {
        let progress = caller.progress.0.lock().unwrap();
        let bytes: usize = progress.iter().map(String::len).sum();
        assert!(!progress.is_empty() && bytes <= small_limits().output_bytes && !progress[0].contains('\u{200b}'));
    }
    for (tool, word, code, message) in [
        (&tool, "fail", Code::ToolFailed, "the disk is full.".to_owned()),
        (&hasty, "hang", Code::LimitTime, stopped("call exceeded its time limit of 200 ms (mcp.files.call_ms)")),
        (&tool, "flood", Code::LimitOutput, stopped("the response has more than LIMIT bytes (limits.output_bytes)")),
        (&tool, "pieces", Code::LimitOutput, stopped("the response has more than LIMIT bytes (limits.output_bytes)")),
    ] {
        let error = caller.says(tool, word).await.unwrap_err();
        assert_eq!((error.code(), error.to_string()), (code, message), "{word}");
    }
    let error = caller.says(&tool, "wail").await.unwrap_err().to_string();
    assert!(error.len() < 20_000 && error.contains("x … 1,032,192 characters are not shown … x"), "{}", error.len());
    let ran = tool.calls.load(Ordering::Relaxed);
    let invalid = within_30_seconds(caller.call(&tool, &json!({"do": 5}))).await.unwrap_err();
    let expected = format!(r#"input for '{NAME}' is invalid: at /do: 5 is not of type "string"."#);
    assert_eq!((invalid.code(), invalid.to_string()), (Code::InvalidInput, expected));
    assert_eq!(caller.says(&tool, &"x".repeat(1_000)).await.unwrap_err().code(), Code::LimitInput);
    assert_eq!(tool.calls.load(Ordering::Relaxed), ran);
}

fn stopped(why: &str) -> String {
    format!("tool '{NAME}' was stopped: {why}.").replace("LIMIT", &small_limits().output_bytes.to_string())
}

#[tokio::test]
async fn outside_call_that_may_not_run_says_how_to_allow_it() {
    let mut caller = Caller::new().await;
    let advice = "To allow it: write tools.write = \"allow\" in [mcp.files] of config.toml";
    let (ask, deny) = (FakeTool::new(ToolDecision::Ask, "Writes."), FakeTool::new(ToolDecision::Deny, "Writes."));
    let not_allowed = format!("tool '{NAME}' may not be called: it is not allowed. {advice}");
    let denied = format!("tool '{NAME}' may not be called: it is denied. {advice}");
    let error = caller.says(&ask, "go").await.unwrap_err();
    assert_eq!((error.code(), error.to_string()), (Code::Denied, not_allowed.clone()));
    let person = caller.asks(Approval::No);
    assert_eq!(caller.says(&ask, "go").await.unwrap_err().to_string(), not_allowed);
    assert_eq!(caller.says(&deny, "go").await.unwrap_err().to_string(), denied);
    assert_eq!(person.asked.lock().unwrap().len(), 1);
    assert_eq!((ask.calls.load(Ordering::Relaxed), deny.calls.load(Ordering::Relaxed)), (0, 0));
    assert!(journal(&caller.store).await.iter().all(|row| row.outcome() == "denied"));
}

/// The middle of such an input could never be displayed, whatever the user answers.
#[tokio::test]
async fn input_too_long_for_a_question_is_refused() {
    let mut caller = Caller::new().await;
    let person = caller.asks(Approval::Once);
    for decision in [ToolDecision::Ask, ToolDecision::Allow] {
        let mut tool = FakeTool::new(decision, "Runs.");
        Arc::get_mut(&mut tool).unwrap().is_shown_whole = true;
        caller.says(&tool, "short").await.unwrap();
        let error = caller.says(&tool, "long").await.unwrap_err();
        let why = "a question to the user can show 16384 characters, and this input has 16385; write long contents \
            to a file, and pass its path";
        assert_eq!((error.code(), error.to_string()), (Code::LimitInput, stopped(why)));
        assert_eq!(tool.calls.load(Ordering::Relaxed), 1);
    }
    assert_eq!(person.asked.lock().unwrap().len(), 1);
    // For other tools, the question has a note.
    caller.says(&FakeTool::new(ToolDecision::Ask, "Writes."), "long").await.unwrap();
    let asked = person.asked.lock().unwrap();
    let QuestionSubject::Tool(called) = &asked[1].subject else { panic!("{asked:?}") };
    assert!(called.input.contains("x … 1 characters are not shown … x"), "{}", called.input);
}

#[tokio::test]
async fn always_is_a_decision_for_the_tool_as_it_is_declared() {
    let mut caller = Caller::new().await;
    let tool = FakeTool::new(ToolDecision::Ask, "Writes.");
    let person = caller.asks(Approval::Always);
    caller.says(&tool, "one").await.unwrap();
    {
        let asked = person.asked.lock().unwrap();
        let QuestionSubject::Tool(called) = &asked[0].subject else { panic!("{asked:?}") };
        assert_eq!((&*called.input, called.is_destructive), (r#"{"do":"one"}"#, true));
        let grant = asked[0].grant.as_ref().unwrap();
        let expected = (format!("every call of {NAME}"), format!("patchbay grant forget {NAME}"));
        assert_eq!((grant.what.clone(), grant.take_back.clone()), expected);
        assert!(grant.scope.as_ref().unwrap().contains(&tool.spec.digest().to_string()));
    }
    // The answer applies to every input, in another process, and when no user can be asked.
    caller.says(&tool, "two").await.unwrap();
    caller.approvals = None;
    caller.says(&FakeTool::new(ToolDecision::Ask, "Writes."), "three").await.unwrap();
    assert_eq!(person.asked.lock().unwrap().len(), 1);
    // It does not apply to a tool that is declared differently, and never overrides a denial by the operator.
    assert_eq!(caller.says(&FakeTool::new(ToolDecision::Ask, "Deletes."), "x").await.unwrap_err().code(), Code::Denied);
    assert_eq!(caller.says(&FakeTool::new(ToolDecision::Deny, "Writes."), "x").await.unwrap_err().code(), Code::Denied);
    assert!(caller.store.forget_tool(&["mcp", "client"], NAME.to_owned()).await.unwrap());
    assert_eq!(caller.says(&tool, "four").await.unwrap_err().code(), Code::Denied);
    assert!(!caller.store.forget_tool(&["mcp", "client"], NAME.to_owned()).await.unwrap());
}

#[tokio::test]
async fn always_for_an_input_is_for_the_notes_that_were_shown() {
    let mut caller = Caller::new().await;
    let tool = FakeTool::new(ToolDecision::Ask, "Runs.");
    let person = caller.asks(Approval::Always);
    let terms = |note: &str| CallTerms { notes: vec![note.to_owned()], only_this_input: true, ..CallTerms::default() };
    let asked = || person.asked.lock().unwrap().len();
    *tool.terms.lock().unwrap() = terms("in a cage");
    caller.says(&tool, "one").await.unwrap();
    caller.says(&tool, "one").await.unwrap();
    assert_eq!(asked(), 1);
    *tool.terms.lock().unwrap() = terms("not fenced");
    caller.says(&tool, "one").await.unwrap();
    assert_eq!(asked(), 2);
    // There is no question about a call that would fail.
    *tool.terms.lock().unwrap() = CallTerms { refusal: Some("no such folder".to_owned()), ..terms("in a cage") };
    let error = caller.says(&tool, "one").await.unwrap_err();
    assert!(error.to_string().contains("no such folder"), "{error}");
    assert_eq!((asked(), tool.calls.load(Ordering::Relaxed)), (2, 3));
}

/// This holds whatever was decided about the tool, and no question is asked.
#[tokio::test]
async fn plan_mode_calls_only_what_the_operator_says_reads() {
    let mut caller = Caller::new().await;
    let person = caller.asks(Approval::Once);
    caller.mode.set(Mode::Plan);
    for decision in [ToolDecision::Allow, ToolDecision::Ask] {
        let error = caller.says(&FakeTool::new(decision, "Writes."), "x").await.unwrap_err();
        assert_eq!(error.code(), Code::Denied);
        assert!(error.to_string().contains("plan mode"), "{error}");
    }
    caller.says(&FakeTool::reading(), "x").await.unwrap();
    caller.mode.set(Mode::Edits);
    caller.says(&FakeTool::new(ToolDecision::Ask, "Writes."), "x").await.unwrap();
    assert_eq!(person.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn journal_has_outside_calls_from_their_begin() {
    let mut caller = Caller::new().await;
    let tool = FakeTool::new(ToolDecision::Ask, "Writes.");
    caller.asks(Approval::Session);
    caller.says(&tool, "go").await.unwrap();
    let input = json!({"do": "hang"});
    let begun = async {
        while tool.calls.load(Ordering::Relaxed) < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        ended = caller.call(&tool, &input) => panic!("{ended:?}"),
        () = within_30_seconds(begun) => {}
    }
    let rows = journal(&caller.store).await;
    assert_eq!(rows.iter().map(JournalRow::outcome).collect::<Vec<_>>(), ["ok", "outcome_unknown"]);
    let row = &rows[0];
    assert_eq!((&*row.root, &*row.skill, &*row.tool), ("mcp", "mcp__files", "write"));
    // The result and one progress report, including the cost per piece. A second report exceeds the limit.
    let report = "p\u{200b}".repeat(small_limits().output_bytes / 8).len() as u64 + 32;
    assert_eq!((row.component, row.output_bytes), (tool.spec.digest(), 2 + report));
    let approval = &row.approvals[0];
    assert_eq!((&*approval.capability, &*approval.answer), ("call:mcp__files__write", "session"));
}

#[tokio::test]
async fn equal_calls_of_an_outside_tool_are_each_asked() {
    let mut caller = Caller::new().await;
    let (person, tool) = (caller.asks(Approval::Once), FakeTool::new(ToolDecision::Ask, "Transfers 100."));
    let (one, two, three) = tokio::join!(caller.says(&tool, "go"), caller.says(&tool, "go"), caller.says(&tool, "go"));
    assert!(one.is_ok() && two.is_ok() && three.is_ok());
    assert_eq!((person.asked.lock().unwrap().len(), tool.calls.load(Ordering::Relaxed)), (3, 3));
}

#[tokio::test]
async fn outside_call_without_room_for_its_question_is_not_denied() {
    let mut caller = Caller::new().await;
    let person = Arc::new(WaitingPerson(Semaphore::new(0)));
    caller.approvals = Some(Approvals::new(Arc::clone(&person) as _));
    let (caller, tool) = (Arc::new(caller), FakeTool::new(ToolDecision::Ask, "Writes."));
    let mut calls = JoinSet::new();
    for word in ["a", "b", "c", "d", "e"] {
        let (caller, tool) = (Arc::clone(&caller), Arc::clone(&tool));
        calls.spawn(async move { caller.says(&tool, word).await });
    }
    let refused = calls.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!((refused.code(), refused.to_string()), (Code::Unavailable, stopped(NO_ROOM)));
    person.0.add_permits(4);
    while let Some(answered) = calls.join_next().await {
        answered.unwrap().unwrap();
    }
}
