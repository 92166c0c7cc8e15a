//! Tests of the host functions, called without a component.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use patchbay_core::{Code, Digest};
use patchbay_policy::{Capability, Denial, Grant, Identity, Permits, Root, WorkspaceTrust};

use crate::{
    Auth, Budget, CallClock, CallIdentity, CallableTool, CompletionFuture, Content, Failure, Fault, FileEntry,
    FilesFuture, Finished, FixedInputs, GuestEffect, Http, HttpFuture, HttpRequest, HttpResponse, Inference, Kv,
    KvEntry, KvError, KvFuture, Limits, LocalFiles, LogLevel, LogSink, NameQuery, NameResults, NestedCallFuture,
    Permission, PermitSource, ProgressSink, Scope, SearchBounds, Services, TextQuery, TextResults, ToolCaller, Usage,
    WorkspaceAccess, WorkspaceFiles,
    bindings::{
        patchbay::host::{
            http, inference, kv, log, progress, types::Error as WitError, workspace_read, workspace_write,
        },
        unlisted::patchbay::host::{
            call,
            tool_calls::{Content as WitContent, Request},
            tool_index::Tool,
            workspace_search,
        },
    },
    budget::Spent,
    state::{CallAccess, GuestState},
};

/// A store in memory that also records every call.
#[derive(Default)]
struct Fake {
    entries: Mutex<BTreeMap<(Scope, String), KvEntry>>,
    heard: Mutex<Vec<String>>,
    /// Calls of `meets__x` end once eight of them are running.
    meeting: Option<tokio::sync::Barrier>,
}

impl Kv for Fake {
    fn get<'a>(&'a self, scope: Scope, key: &'a str) -> KvFuture<'a, Option<KvEntry>> {
        Box::pin(async move { Ok(self.entries.lock().unwrap().get(&(scope, key.to_owned())).cloned()) })
    }

    fn put<'a>(&'a self, scope: Scope, key: &'a str, value: Vec<u8>, expect: Option<u64>) -> KvFuture<'a, u64> {
        Box::pin(async move {
            let mut entries = self.entries.lock().unwrap();
            let found = entries.get(&(scope, key.to_owned())).map_or(0, |entry| entry.version);
            if let Some(expected) = expect.filter(|expected| *expected != found) {
                return Err(KvError::Conflict { key: key.to_owned(), expected, found });
            }
            entries.insert((scope, key.to_owned()), KvEntry { value, version: found + 1 });
            Ok(found + 1)
        })
    }

    fn delete<'a>(&'a self, scope: Scope, key: &'a str) -> KvFuture<'a, bool> {
        Box::pin(async move { Ok(self.entries.lock().unwrap().remove(&(scope, key.to_owned())).is_some()) })
    }

    fn keys<'a>(&'a self, _: Scope, _: &'a str, _: Option<&'a str>, _: u32) -> KvFuture<'a, Vec<String>> {
        Box::pin(async move { Ok(self.entries.lock().unwrap().keys().map(|(_, key)| key.clone()).collect()) })
    }
}

impl CallIdentity for Fake {
    fn call_id(&self) -> String {
        "id".to_owned()
    }
}

impl LogSink for Fake {
    fn write(&self, level: LogLevel, message: &str) {
        self.heard.lock().unwrap().push(format!("{level:?} {message}"));
    }
}

impl ProgressSink for Fake {
    fn report(&self, text: &str) {
        self.heard.lock().unwrap().push(text.to_owned());
    }
}

/// Echoes the URL and the timeout.
impl Http for Fake {
    fn check(&self, _: &str, _: &[Auth], permits: &Permits) -> Result<(), Fault> {
        Ok(permits.check(&"http:example.com".parse().unwrap())?)
    }

    fn send<'a>(&'a self, request: HttpRequest, permits: &'a Permits) -> HttpFuture<'a> {
        Box::pin(async move {
            let capability: Capability = "http:example.com".parse().unwrap();
            permits.check(&capability)?;
            self.heard.lock().unwrap().push(format!("{} {:?}", request.url, request.timeout));
            let response = HttpResponse { status: 200, headers: vec![], body: request.url.into_bytes() };
            Ok((response, vec![capability]))
        })
    }
}

/// Echoes the prompt, unless it begins with `never ends`; uses a token for each of its bytes.
impl Inference for Fake {
    fn complete<'a>(&'a self, system: &'a str, prompt: &'a str, tokens: u64) -> CompletionFuture<'a> {
        Box::pin(async move {
            if prompt.starts_with("never ends") {
                std::future::pending::<()>().await;
            }
            self.heard.lock().unwrap().push(format!("{system} {prompt} {tokens}"));
            let answer = match prompt {
                "fail" => Err(Fault::Failed { kind: "timeout".to_owned(), message: "too slow".to_owned() }),
                _ => Ok(prompt.repeat(2)),
            };
            (answer, prompt.len() as u64)
        })
    }
}

const SEARCH_FUEL: u64 = 70;

/// Uses half of the budget, or twice the budget (but not fuel) for `exceeds__x`. Returns a result; `reports__x` reports progress.
impl ToolCaller for Fake {
    fn call(self: Arc<Self>, tool: String, input: String, budget: Budget) -> NestedCallFuture {
        Box::pin(async move {
            if tool == "never__ends" {
                std::future::pending::<()>().await;
            }
            if tool == "meets__x"
                && let Some(meeting) = &self.meeting
            {
                meeting.wait().await;
            }
            self.heard.lock().unwrap().push(format!("{tool} {input} depth {} fuel {}", budget.depth, budget.fuel));
            let (times, parts) = if tool == "exceeds__x" { (2, 1) } else { (1, 2) };
            let output_bytes = budget.output_bytes * times as usize / parts as usize;
            let usage = Usage {
                fuel: budget.fuel / 2,
                host_calls: budget.host_calls * times / parts,
                output_bytes,
                result_bytes: if tool == "reports__x" { 0 } else { output_bytes },
                inference_tokens: budget.inference_tokens * u64::from(times) / u64::from(parts),
                ..Usage::default()
            };
            Finished { result: Ok(vec![Content::Text("done".to_owned())]), usage }
        })
    }

    fn entries(&self, after: Option<&str>, limit: usize) -> Vec<CallableTool> {
        let names = ["a__b", "c__d"].into_iter().filter(|name| after.is_none_or(|after| *name > after));
        names.take(limit).map(callable).collect()
    }

    fn find<'a>(&'a self, query: &'a str, limit: usize) -> BoxFuture<'a, (Vec<CallableTool>, u64)> {
        Box::pin(async move { (std::iter::repeat_n(callable(query), limit).collect(), SEARCH_FUEL) })
    }
}

/// Returns a tool that fills two fifths of a page.
fn callable(name: &str) -> CallableTool {
    let description = "d".repeat(Limits::INDEX_BYTES * 2 / 5);
    CallableTool { name: name.to_owned(), description, input_schema: "{}".to_owned(), extra: vec![] }
}

fn state(limits: Limits, asked: &[Capability], granted: &[Capability]) -> (GuestState, Arc<Fake>) {
    let fake = Arc::new(Fake::default());
    let grants = granted.iter().map(|capability| Grant::holding(capability.clone())).collect();
    let identity = Identity::new(Root::User, "", "test".parse().unwrap());
    let permits = Arc::new(Permits::new(identity, asked.to_vec(), grants));
    let services = Services {
        kv: fake.clone(),
        http: fake.clone(),
        call: fake.clone(),
        tools: fake.clone(),
        skill_files: None,
        workspace: files(&std::env::temp_dir()),
        written: Arc::default(),
        inference: Some(fake.clone()),
        permit_source: None,
        gate: None,
        fixed: None,
        progress: fake.clone(),
        log: fake.clone(),
    };
    let budget = Budget::whole(&limits);
    let access = Arc::new(CallAccess::new(permits, services, budget.clock.clone()));
    (GuestState::new(Arc::new(limits), budget, fake.clone(), Some(access)), fake)
}

/// Returns the permits and services of the call, which a test can then change.
fn access(state: &mut GuestState) -> &mut CallAccess {
    state.access.as_mut().and_then(Arc::get_mut).unwrap()
}

fn files(folder: &Path) -> Arc<LocalFiles> {
    Arc::new(LocalFiles::new(WorkspaceAccess { root: folder.to_owned(), ..WorkspaceAccess::default() }))
}

#[tokio::test]
async fn kv_needs_manifest_and_grant() {
    use kv::Host as _;
    let (mut state, _) = state(Limits::default(), &[Capability::Kv], &[Capability::Kv]);
    let put = state.put(kv::Scope::User, "k".into(), b"v".to_vec(), Some(0)).await.unwrap();
    assert_eq!(put.unwrap(), 1);
    let entry = state.get(kv::Scope::User, "k".into()).await.unwrap().unwrap().unwrap();
    assert_eq!((&entry.value[..], entry.version), (&b"v"[..], 1));
    assert!(state.get(kv::Scope::Session, "k".into()).await.unwrap().unwrap().is_none());
    assert_eq!(state.keys(kv::Scope::User, String::new(), None, 10).await.unwrap().unwrap(), ["k"]);
    let conflict = state.put(kv::Scope::User, "k".into(), vec![], Some(7)).await.unwrap().unwrap_err();
    assert_eq!(
        (conflict.kind.as_str(), conflict.message.as_str()),
        ("conflict", "key 'k' is at version 1, not 7; read it again")
    );
    assert!(state.delete(kv::Scope::User, "k".into()).await.unwrap().unwrap());
}

#[tokio::test]
async fn kv_denial_is_the_message_of_the_host() {
    use kv::Host as _;
    for (asked, words) in [
        (&[][..], "its SKILL.md does not ask for it"),
        (&[Capability::Kv][..], "To grant it: patchbay grant add test kv"),
    ] {
        let (mut state, fake) = state(Limits::default(), asked, &[]);
        let denied = state.put(kv::Scope::User, "k".into(), vec![], None).await.unwrap().unwrap_err();
        assert_eq!(denied.kind, "denied");
        assert!(denied.message.contains(words), "{}", denied.message);
        assert!(fake.entries.lock().unwrap().is_empty(), "the denied write was performed");
    }
}

#[tokio::test]
async fn describing_a_component_grants_nothing() {
    let mut state = {
        let limits = Limits::default();
        let budget = Budget::whole(&limits);
        GuestState::new(Arc::new(limits), budget, Arc::new(Fake::default()), None)
    };
    let denied = kv::Host::get(&mut state, kv::Scope::User, "k".into()).await.unwrap().unwrap_err();
    assert_eq!(denied.kind, "denied");
    log::Host::write(&mut state, log::Level::Info, "hello".into()).await.unwrap();
    progress::Host::report(&mut state, "hello".into()).await.unwrap();
}

#[tokio::test]
async fn log_and_progress_are_cleaned_and_bounded() {
    let limits = Limits { log_lines: 2, output_bytes: 20, ..Limits::default() };
    let (mut state, fake) = state(limits, &[], &[]);
    log::Host::write(&mut state, log::Level::Warn, "a\u{1b}[31m\nb".into()).await.unwrap();
    progress::Host::report(&mut state, "half\u{202e} done".into()).await.unwrap();
    assert_eq!(*fake.heard.lock().unwrap(), ["Warn a[31m b", "half done"]);
    log::Host::write(&mut state, log::Level::Warn, "2".into()).await.unwrap();
    let stopped = log::Host::write(&mut state, log::Level::Warn, "3".into()).await.unwrap_err();
    assert!(matches!(stopped.downcast_ref(), Some(Failure::Log { lines: 2, .. })));
    let stopped = progress::Host::report(&mut state, "more than there is room for".into()).await.unwrap_err();
    assert!(matches!(stopped.downcast_ref(), Some(Failure::Output { limit: 20 })));
}

#[tokio::test]
async fn every_function_counts_as_a_host_call() {
    let (mut state, _) = state(Limits { host_calls: 0, ..Limits::default() }, &[Capability::Kv], &[Capability::Kv]);
    let s = &mut state;
    let text = String::new;
    let stopped = [
        log::Host::write(s, log::Level::Info, text()).await.unwrap_err(),
        progress::Host::report(s, text()).await.unwrap_err(),
        kv::Host::get(s, kv::Scope::User, text()).await.unwrap_err(),
        kv::Host::put(s, kv::Scope::User, text(), vec![], None).await.unwrap_err(),
        kv::Host::delete(s, kv::Scope::User, text()).await.unwrap_err(),
        kv::Host::keys(s, kv::Scope::User, text(), None, 1).await.unwrap_err(),
        workspace_read::Host::read(s, text(), 0, 1).await.unwrap_err(),
        workspace_read::Host::walk(s, text(), None, 1).await.unwrap_err(),
        workspace_search::Host::search(s, text_query("a")).await.map(drop).unwrap_err(),
        workspace_search::Host::find(s, name_query("a")).await.map(drop).unwrap_err(),
        workspace_write::Host::write(s, text(), vec![]).await.unwrap_err(),
        workspace_write::Host::delete(s, text()).await.unwrap_err(),
        inference::Host::complete(s, text(), text()).await.unwrap_err(),
        s.call_tool("a__b".to_owned(), "{}".to_owned(), 1).await.unwrap_err(),
        s.start_calls(vec![], 1).await.map(drop).unwrap_err(),
        s.wait_for_calls().await.map(drop).unwrap_err(),
        s.cancel_calls(&[]).unwrap_err(),
        s.list_tools(None, 1).await.map(drop).unwrap_err(),
        s.find_tools(text(), 1).await.map(drop).unwrap_err(),
        http::Host::send(s, request("https://example.com")).await.map(drop).unwrap_err(),
    ];
    for error in stopped {
        assert!(matches!(error.downcast_ref(), Some(Failure::HostCalls { limit: 0 })), "{error:#}");
    }
}

fn request(url: &str) -> http::Request {
    http::Request {
        method: "GET".into(),
        url: url.into(),
        headers: vec![],
        auth: vec![],
        body: None,
        timeout_ms: Some(70),
    }
}

#[tokio::test]
async fn request_timeout_is_bounded_by_the_call() {
    let http: Capability = "http:example.com".parse().unwrap();
    let (mut allowed, fake) = state(Limits::default(), std::slice::from_ref(&http), std::slice::from_ref(&http));
    let response = http::Host::send(&mut allowed, request("https://example.com/a")).await.unwrap().unwrap();
    assert_eq!((response.status, &response.body[..]), (200, &b"https://example.com/a"[..]));
    assert_eq!(*fake.heard.lock().unwrap(), ["https://example.com/a 70ms"]);
    assert!(allowed.take_used().into_iter().eq([http.clone()]));

    let (mut denied, fake) = state(Limits::default(), &[http], &[]);
    let told = http::Host::send(&mut denied, request("https://example.com/a")).await.unwrap().map(drop).unwrap_err();
    assert_eq!(told.kind, "denied");
    assert!(told.message.ends_with("patchbay grant add test http:example.com"), "{}", told.message);
    assert!(denied.take_denial().is_some() && fake.heard.lock().unwrap().is_empty());
}

#[tokio::test]
async fn nested_call_uses_the_remaining_budget() {
    let limits = Limits { host_calls: 101, output_bytes: 1000, ..Limits::default() };
    let (mut state, fake) = state(limits, &[Capability::Tools], &[Capability::Tools]);
    let (answer, fuel) = state.call_tool("a__b".to_owned(), "{}".to_owned(), 900).await.unwrap();
    assert_eq!((answer.unwrap().as_str(), fuel), ("done", 450));
    assert_eq!(*fake.heard.lock().unwrap(), ["a__b {} depth 1 fuel 900"]);
    assert_eq!((state.spent.host_calls, state.spent.output_bytes), (51, 0));
    assert_eq!(state.spent.inference_tokens, Limits::default().inference_tokens / 2);

    state.budget.depth = Limits::DEPTH;
    let (answer, _) = state.call_tool("a__b".to_owned(), "{}".to_owned(), 900).await.unwrap();
    assert_eq!(answer.unwrap_err().kind, "too-deep");
    assert_eq!(fake.heard.lock().unwrap().len(), 1);
}

fn requests(tools: &[&str]) -> Vec<Request> {
    let request = |tool: &&str| Request { tool: (*tool).to_owned(), input: "{}".to_owned(), extra: vec![] };
    tools.iter().map(request).collect()
}

/// Returns a state that may call tools, with 1,003 host calls and 3,000 bytes of output.
fn caller() -> (GuestState, Arc<Fake>) {
    let limits = Limits { host_calls: 1_003, output_bytes: 3_000, ..Limits::default() };
    state(limits, &[Capability::Tools], &[Capability::Tools])
}

#[tokio::test]
async fn started_calls_have_equal_shares_and_return_the_rest() {
    let (mut state, fake) = caller();
    let memory = state.limiter.left();
    let (started, reserved) = state.start_calls(requests(&["a__b", "c__d"]), 900).await.unwrap();
    assert_eq!((started.unwrap(), reserved), (vec![0, 1], 600));
    assert_eq!((state.spent.host_calls, state.spent.output_bytes), (1 + 2 * 334, 2_000));
    assert_eq!(state.limiter.left(), memory - 2 * (memory / 3));

    let (mut ids, mut fuel) = (Vec::new(), 0);
    while ids.len() < 2 {
        let (outcomes, unused) = state.wait_for_calls().await.unwrap();
        fuel += unused;
        for outcome in outcomes {
            assert!(matches!(&outcome.answer.unwrap()[..], [WitContent::Text(text)] if text == "done"));
            ids.push(outcome.id);
        }
    }
    assert_eq!((ids, fuel), (vec![0, 1], 300));
    let waits = state.spent.host_calls - 1 - 2 * 167;
    // No output is counted for the results, because the shares have already limited them.
    assert!((1..=2).contains(&waits) && state.spent.output_bytes == 0 && state.limiter.left() == memory);
    let mut heard = fake.heard.lock().unwrap().clone();
    heard.sort();
    assert_eq!(heard, ["a__b {} depth 1 fuel 300", "c__d {} depth 1 fuel 300"]);
    assert!(state.wait_for_calls().await.unwrap().0.is_empty(), "nothing runs");
}

#[tokio::test]
async fn progress_of_nested_calls_counts_for_the_caller() {
    let (mut state, _) = caller();
    state.call_tool("reports__x".to_owned(), "{}".to_owned(), 900).await.unwrap().0.unwrap();
    assert_eq!(state.spent.output_bytes, 1_500);
    state.start_calls(requests(&["reports__x"]), 900).await.unwrap().0.unwrap();
    assert_eq!(state.spent.output_bytes, 1_500 + 750);
    state.wait_for_calls().await.unwrap();
    assert_eq!(state.spent.output_bytes, 1_500 + 375);
    progress::Host::report(&mut state, "p".repeat(1_125)).await.unwrap();
    let stopped = progress::Host::report(&mut state, "p".to_owned()).await.unwrap_err();
    assert!(matches!(stopped.downcast_ref(), Some(Failure::Output { limit: 3_000 })), "{stopped:#}");
}

#[tokio::test]
async fn use_beyond_a_share_counts() {
    let (mut state, _) = caller();
    state.start_calls(requests(&["exceeds__x"]), 900).await.unwrap().0.unwrap();
    assert_eq!((state.spent.host_calls, state.spent.output_bytes), (1 + 501, 1_500));
    let (outcomes, _) = state.wait_for_calls().await.unwrap();
    assert!(outcomes[0].answer.is_ok());
    assert_eq!((state.spent.host_calls, state.spent.output_bytes), (2 + 2 * 501, 0));
    assert_eq!(state.inference_tokens_left(), 0);
    let stopped = state.wait_for_calls().await.map(drop).unwrap_err();
    assert!(matches!(stopped.downcast_ref(), Some(Failure::HostCalls { limit: 1_003 })), "{stopped:#}");
}

#[test]
fn call_with_tools_has_more_host_calls() {
    let limits = Limits { host_calls: 7, ..Limits::default() };
    let budget = Budget::whole(&limits).with_tools(&limits);
    let spent = |host_calls| Spent { host_calls, ..Spent::default() };
    assert_eq!(spent(70).check_host_calls(&budget), Ok(()));
    let failure = spent(71).check_host_calls(&budget).unwrap_err();
    let expected = "the call and the tools that it called made more than 70 host calls (10 times limits.host_calls)";
    assert_eq!((failure.code(), failure.to_string()), (Code::LimitHostCalls, expected.to_owned()));
}

#[test]
fn failure_of_a_nested_call_names_its_share() {
    let limits = Limits { host_calls: 7, output_bytes: 100, ..Limits::default() };
    let nested = Budget { depth: 1, output_bytes: 50, ..Budget::whole(&limits).with_tools(&limits) };
    let mut spent = Spent { host_calls: 71, ..Spent::default() };
    let over = [spent.check_host_calls(&nested), spent.output(51, &nested)];
    let over = over.map(|failed| failed.map_err(|failure| (failure.code(), failure.to_string())).unwrap_err());
    let share = "this limit is the call's share of the caller's remaining budget";
    let calls = format!("the call made more than 70 host calls (limits.host_calls); {share}");
    let bytes = format!("component passed more than 50 bytes to the host (limits.output_bytes); {share}");
    assert_eq!(over, [(Code::LimitHostCalls, calls), (Code::LimitOutput, bytes)]);
}

#[tokio::test]
async fn started_calls_run_at_the_same_time() {
    let (mut state, _) = caller();
    let meeting = Some(tokio::sync::Barrier::new(Limits::RUNNING_CALLS));
    access(&mut state).services.tools = Arc::new(Fake { meeting, ..Fake::default() });
    state.start_calls(requests(&["meets__x"; Limits::RUNNING_CALLS]), 900).await.unwrap().0.unwrap();
    let mut ended = 0;
    while ended < Limits::RUNNING_CALLS {
        ended += state.wait_for_calls().await.unwrap().0.len();
    }
}

#[tokio::test]
async fn calls_side_by_side_are_bounded_in_number_and_depth() {
    let (mut state, _) = caller();
    let full = vec!["never__ends"; Limits::RUNNING_CALLS - 1];
    assert!(state.start_calls(requests(&full), 900).await.unwrap().0.is_ok());
    let (refused, reserved) = state.start_calls(requests(&["a__b", "c__d"]), 900).await.unwrap();
    let refused = refused.unwrap_err();
    assert_eq!((refused.kind.as_str(), reserved), ("quota", 0));
    assert!(
        refused.message.contains("at most 8 nested calls can run at once: 7 are running, and 2 more"),
        "{}",
        refused.message
    );
    assert_eq!(state.start_calls(requests(&["a__b"]), 900).await.unwrap().0.unwrap(), [7]);

    state.budget.depth = Limits::DEPTH;
    assert_eq!(state.start_calls(requests(&["a__b"]), 900).await.unwrap().0.unwrap_err().kind, "too-deep");
    let (mut denied, fake) = self::state(Limits::default(), &[Capability::Tools], &[]);
    assert_eq!(denied.start_calls(requests(&["a__b"]), 900).await.unwrap().0.unwrap_err().kind, "denied");
    assert!(fake.heard.lock().unwrap().is_empty() && denied.take_denial().is_some());
}

#[tokio::test]
async fn cancelled_calls_end_and_keep_their_share() {
    let (mut state, _) = caller();
    state.start_calls(requests(&["never__ends", "never__ends"]), 900).await.unwrap().0.unwrap();
    state.cancel_calls(&[1, 5]).unwrap();
    let (outcomes, unused) = state.wait_for_calls().await.unwrap();
    assert_eq!((outcomes.len(), outcomes[0].id, unused), (1, 1, 0));
    assert_eq!(outcomes[0].answer.as_ref().unwrap_err().kind, "cancelled");
    assert_eq!(state.spent.output_bytes, 2_000);
    state.nested.end().await;
    assert!(state.wait_for_calls().await.unwrap().0.is_empty());
}

#[tokio::test]
async fn pages_of_the_index_are_bounded() {
    let (mut state, _) = caller();
    let names = |tools: Vec<Tool>| tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>();
    let listed = state.list_tools(Some("b".into()), 9).await.unwrap().unwrap();
    assert_eq!(names(listed), ["c__d"]);
    let (found, fuel) = state.find_tools("x".into(), 9).await.unwrap();
    assert_eq!((names(found.unwrap()), fuel), (vec!["x".to_owned(), "x".to_owned()], SEARCH_FUEL));
    let long = "x".repeat(Limits::QUERY_BYTES + 1);
    let (refused, fuel) = state.find_tools(long, 9).await.unwrap();
    assert_eq!((refused.unwrap_err().kind.as_str(), fuel), ("too-large", 0));
}

#[test]
fn tools_behind_a_page_are_not_evaluated() {
    let mut made = 0;
    let page = CallableTool::page(std::iter::repeat_with(|| callable("a__b")).inspect(|_| made += 1).take(1_000));
    // After two tools, a fifth of the page is left.
    assert_eq!((page.len(), made), (2, 3));
}

#[tokio::test]
async fn search_ends_with_the_clock() {
    let (mut state, _) = caller();
    let (clock, search) = (state.budget.clock.clone(), state.find_tools("x".into(), 1));
    clock.restart(std::time::Duration::ZERO);
    assert!(clock.limit(search).await.is_none(), "the search went on after the end of its time");
}

#[tokio::test]
async fn workspace_files_need_grants() {
    let all = [Capability::WorkspaceRead, Capability::WorkspaceWrite, Capability::WorkspaceDelete];
    let (mut denied, _) = state(Limits::default(), &all, &[]);
    for told in [
        workspace_read::Host::read(&mut denied, "a".into(), 0, 1).await.unwrap().map(drop).unwrap_err(),
        workspace_read::Host::walk(&mut denied, "**".into(), None, 1).await.unwrap().map(drop).unwrap_err(),
        workspace_search::Host::search(&mut denied, text_query("a")).await.unwrap().map(drop).unwrap_err(),
        workspace_search::Host::find(&mut denied, name_query("a")).await.unwrap().map(drop).unwrap_err(),
        workspace_write::Host::write(&mut denied, "a".into(), vec![]).await.unwrap().unwrap_err(),
        workspace_write::Host::delete(&mut denied, "a".into()).await.unwrap().unwrap_err(),
    ] {
        assert_eq!(told.kind, "denied");
    }

    let folder = tempfile::tempdir().unwrap();
    let (mut writing, _) = state(Limits::default(), &all, &all[..2]);
    access(&mut writing).services.workspace = files(folder.path());
    workspace_write::Host::write(&mut writing, "kept.md".into(), b"hello".to_vec()).await.unwrap().unwrap();
    let told = workspace_write::Host::delete(&mut writing, "kept.md".into()).await.unwrap().unwrap_err();
    assert_eq!(told.kind, "denied");
    assert!(told.message.contains("'workspace-delete': it is not granted"), "{}", told.message);
    assert!(folder.path().join("kept.md").exists());

    let (mut allowed, _) = state(Limits::default(), &all, &all);
    access(&mut allowed).services.workspace = files(folder.path());
    workspace_write::Host::write(&mut allowed, "d/a.txt".into(), b"hello".to_vec()).await.unwrap().unwrap();
    let read = workspace_read::Host::read(&mut allowed, "d/a.txt".into(), 1, 3).await.unwrap().unwrap();
    assert_eq!(read, b"ell");
    let listed = workspace_read::Host::walk(&mut allowed, "**/*.txt".into(), None, 9).await.unwrap().unwrap();
    assert_eq!(listed.iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["d/a.txt"]);
    workspace_write::Host::delete(&mut allowed, "d/a.txt".into()).await.unwrap().unwrap();
    let gone = workspace_read::Host::read(&mut allowed, "d/a.txt".into(), 0, 1).await.unwrap().unwrap_err();
    assert_eq!(gone.kind, "not-found");
}

fn text_query(pattern: &str) -> workspace_search::TextQuery {
    workspace_search::TextQuery {
        pattern: pattern.to_owned(),
        fixed: false,
        ignore_case: false,
        globs: vec![],
        after: None,
        context: 0,
        max_lines: 10,
        max_line_bytes: 100,
        time_ms: None,
        extra: vec![],
    }
}

fn name_query(glob: &str) -> workspace_search::NameQuery {
    workspace_search::NameQuery {
        globs: vec![glob.to_owned()],
        ignore_case: false,
        directories: false,
        after: None,
        max_entries: 10,
        time_ms: None,
        extra: vec![],
    }
}

#[tokio::test]
async fn files_are_searched_by_text_and_by_name() {
    let read = [Capability::WorkspaceRead];
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [("a.txt", "x\na needle\n"), ("b.md", "needle"), ("c.txt", "\0needle")] {
        std::fs::write(folder.path().join(path), text).unwrap();
    }
    let (mut state, _) = state(Limits::default(), &read, &read);
    access(&mut state).services.workspace = files(folder.path());
    let query = workspace_search::TextQuery { max_lines: 1, ..text_query("needle") };
    let found = workspace_search::Host::search(&mut state, query).await.unwrap().unwrap();
    let line = &found.files[0].lines[0];
    assert_eq!((&*found.files[0].path, line.number, &*line.text), ("a.txt", 2, "a needle"));
    assert_eq!(line.matched.as_ref().map(|span| (span.start, span.end)), Some((2, 8)));
    let next = found.next.unwrap();
    assert_eq!((found.stopped.as_deref(), &*next.path, next.line), (Some("lines"), "a.txt", None));
    let query = workspace_search::TextQuery { after: Some(next), ..text_query("needle") };
    let found = workspace_search::Host::search(&mut state, query).await.unwrap().unwrap();
    assert_eq!((found.files.len(), &*found.files[0].path, found.stopped), (1, "b.md", None));
    assert_eq!((&*found.skipped[0].reason, found.skipped[0].count), ("binary", 1));
    let named = workspace_search::Host::find(&mut state, name_query("*.txt")).await.unwrap().unwrap();
    let paths: Vec<_> = named.entries.iter().map(|entry| (entry.path.as_str(), entry.size)).collect();
    assert_eq!(paths, [("a.txt", 11), ("c.txt", 7)]);
    let invalid = workspace_search::Host::search(&mut state, text_query("(")).await.unwrap().map(drop).unwrap_err();
    assert_eq!(invalid.kind, "invalid");
    // No time is left to search.
    state.budget.clock.restart(Duration::ZERO);
    let late = workspace_search::Host::search(&mut state, text_query("x")).await.unwrap().map(drop).unwrap_err();
    assert_eq!(late.kind, "timeout");
}

#[tokio::test]
async fn instructions_and_home_folders_need_write_trust() {
    let write = [Capability::WorkspaceWrite];
    let folder = tempfile::tempdir().unwrap();
    let in_place = |holds_home, trusted| {
        let (mut state, _) = state(Limits::default(), &write, &write);
        let path = folder.path().to_str().unwrap().to_owned();
        let files = WorkspaceAccess {
            root: folder.path().to_owned(),
            write_instructions: trusted,
            ..WorkspaceAccess::default()
        };
        let access = access(&mut state);
        access.services.workspace = Arc::new(LocalFiles::new(files));
        let permits = Permits::clone(&access.permits);
        access.permits = Arc::new(permits.in_workspace(WorkspaceTrust { path, holds_home, write: trusted }));
        state
    };
    async fn write_to(state: &mut GuestState, path: &str) -> Result<(), WitError> {
        workspace_write::Host::write(state, path.into(), b"x".to_vec()).await.unwrap()
    }
    let mut plain = in_place(false, false);
    write_to(&mut plain, "a").await.unwrap();
    let denied = write_to(&mut plain, "docs/Agents.md").await.unwrap_err();
    assert_eq!(denied.kind, "denied");
    assert!(denied.message.contains("To allow it: patchbay trust add --write "), "{}", denied.message);
    assert!(matches!(plain.take_denial(), Some(Denial::Instructions { path, .. }) if path == "docs/Agents.md"));
    assert_eq!(write_to(&mut in_place(true, false), "a").await.unwrap_err().kind, "denied");
    let mut trusted = in_place(true, true);
    write_to(&mut trusted, "AGENTS.md").await.unwrap();
    assert_eq!(write_to(&mut trusted, ".patchbay/x").await.unwrap_err().kind, "denied");
}

#[tokio::test]
async fn writes_stop_at_the_limit() {
    let write = [Capability::WorkspaceWrite];
    let folder = tempfile::tempdir().unwrap();
    let (mut state, _) = state(Limits { write_bytes: 10_000, ..Limits::default() }, &write, &write);
    access(&mut state).services.workspace = files(folder.path());
    let contents = vec![b'x'; 1_000];
    workspace_write::Host::write(&mut state, "a".into(), contents.clone()).await.unwrap().unwrap();
    // A folder and a file count 4096 bytes each.
    let over = workspace_write::Host::write(&mut state, "b/c".into(), contents.clone()).await.unwrap_err();
    assert_eq!(over.downcast_ref(), Some(&Failure::Written { limit: 10_000 }));
    assert!(!folder.path().join("b").exists());
    workspace_write::Host::write(&mut state, "a".into(), contents[..500].to_vec()).await.unwrap().unwrap();
    assert!(workspace_write::Host::write(&mut state, "a".into(), contents).await.is_err());
}

/// Files whose writes take a while.
struct SlowFiles {
    files: Arc<LocalFiles>,
    asks: bool,
    clock: CallClock,
    /// Whether the clock of the call was paused during the last write.
    was_paused: Mutex<bool>,
}

impl WorkspaceFiles for SlowFiles {
    fn read(&self, path: String, offset: u64, max: u32) -> FilesFuture<'_, Vec<u8>> {
        self.files.read(path, offset, max)
    }

    fn walk(&self, glob: String, after: Option<String>, limit: u32) -> FilesFuture<'_, Vec<FileEntry>> {
        self.files.walk(glob, after, limit)
    }

    fn search(&self, query: TextQuery, bounds: SearchBounds) -> FilesFuture<'_, TextResults> {
        self.files.search(query, bounds)
    }

    fn find(&self, query: NameQuery, bounds: SearchBounds) -> FilesFuture<'_, NameResults> {
        self.files.find(query, bounds)
    }

    fn write(&self, _: String, _: Vec<u8>) -> FilesFuture<'_, ()> {
        Box::pin(async {
            let left = self.clock.time_left();
            tokio::time::sleep(Duration::from_millis(5)).await;
            *self.was_paused.lock().unwrap() = self.clock.time_left() == left;
            Ok(())
        })
    }

    fn write_may_ask(&self) -> bool {
        self.asks
    }

    fn delete(&self, path: String) -> FilesFuture<'_, ()> {
        self.files.delete(path)
    }
}

#[tokio::test]
async fn clock_stands_still_while_a_write_may_ask() {
    let write = [Capability::WorkspaceWrite];
    for asks in [true, false] {
        let (mut state, _) = state(Limits::default(), &write, &write);
        let (clock, files) = (state.budget.clock.clone(), files(&std::env::temp_dir()));
        let slow = Arc::new(SlowFiles { files, asks, clock, was_paused: Mutex::new(!asks) });
        access(&mut state).services.workspace = slow.clone();
        workspace_write::Host::write(&mut state, "a".into(), vec![]).await.unwrap().unwrap();
        assert_eq!(*slow.was_paused.lock().unwrap(), asks);
        let left = state.budget.clock.time_left();
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(state.budget.clock.time_left() < left, "it runs again");
    }
}

async fn complete(state: &mut GuestState, prompt: &str) -> Result<String, (String, String)> {
    let answer = inference::Host::complete(state, "s".into(), prompt.into()).await.unwrap();
    answer.map_err(|told| (told.kind, told.message))
}

#[tokio::test]
async fn deterministic_call_learns_nothing_of_itself() {
    let read = [Capability::WorkspaceRead];
    let (mut pure, _) = state(Limits::default(), &[Capability::WorkspaceRead, Capability::Kv], &read);
    let unavailable = "a call with no granted capability other than 'workspace-read' is deterministic";
    let refused = call::Host::info(&mut pure).await.unwrap().unwrap_err();
    assert!(refused.kind == "unavailable" && refused.message.starts_with(unavailable), "{}", refused.message);
    assert_eq!(call::Host::remaining(&mut pure, "time-ms".to_owned()).await.unwrap().unwrap_err().kind, "unavailable");
}

#[tokio::test]
async fn call_learns_its_id_and_what_is_left() {
    let limits = Limits { host_calls: 9, ..Limits::default() };
    let (mut state, _) = state(limits, &[Capability::Kv], &[Capability::Kv]);
    let info = call::Host::info(&mut state).await.unwrap().unwrap();
    assert_eq!((&*info.id, info.attempt, info.extra.len()), ("id", 1, 0));
    let mut left = async |limit: &str| call::Host::remaining(&mut state, limit.to_owned()).await.unwrap();
    assert_eq!(left("host-calls").await.unwrap(), 7);
    assert!((1..=Limits::default().time().as_millis() as u64).contains(&left("time-ms").await.unwrap()));
    assert_eq!(left("output-bytes").await.unwrap(), Limits::default().output_bytes as u64);
    assert_eq!(left("inference-tokens").await.unwrap(), Limits::default().inference_tokens);
    let unknown = left("money").await.unwrap_err();
    assert_eq!(
        (&*unknown.kind, unknown.message.starts_with("unknown limit 'money'; use time-ms, ")),
        ("invalid", true)
    );
}

#[tokio::test]
async fn call_with_fixed_inputs_has_a_fixed_rest_of_its_time() {
    let (mut state, _) = state(Limits::default(), &[Capability::Kv], &[Capability::Kv]);
    let time_left = std::time::Duration::from_millis(1_234);
    access(&mut state).services.fixed = Some(FixedInputs { start: time_left, seed: 0, time_left });
    assert_eq!(call::Host::remaining(&mut state, "time-ms".to_owned()).await.unwrap().unwrap(), 1_234);
}

#[tokio::test]
async fn inference_needs_grant_and_model() {
    let asked = [Capability::Inference];
    let (mut denied, fake) = state(Limits::default(), &asked, &[]);
    let (kind, message) = complete(&mut denied, "p").await.unwrap_err();
    assert!(kind == "denied" && message.ends_with("patchbay grant add test inference"), "{message}");
    assert!(denied.take_denial().is_some() && fake.heard.lock().unwrap().is_empty());

    let (mut alone, _) = state(Limits::default(), &asked, &asked);
    access(&mut alone).services.inference = None;
    let told = complete(&mut alone, "p").await.unwrap_err();
    assert_eq!(told, ("unavailable".into(), "no model is available to this call".into()));

    let (mut allowed, fake) = state(Limits::default(), &asked, &asked);
    assert_eq!(complete(&mut allowed, "a\u{202e}b").await, Ok("abab".into()));
    assert_eq!(*fake.heard.lock().unwrap(), ["s a\u{202e}b 100000"]);
    assert!(allowed.take_used().into_iter().eq(asked));
    assert_eq!(complete(&mut allowed, "fail").await, Err(("timeout".into(), "too slow".into())));
    assert_eq!(allowed.spent.inference_tokens, 5 + 4);
}

#[tokio::test]
async fn inference_is_bounded_in_tokens_and_bytes() {
    let asked = [Capability::Inference];
    let limits = Limits { inference_tokens: 10, output_bytes: 20, ..Limits::default() };
    let (mut state, fake) = state(limits, &asked, &asked);
    let told = complete(&mut state, &"p".repeat(20)).await.unwrap_err();
    assert_eq!(told, ("too-large".into(), "the prompt has more than 20 bytes (limits.output_bytes)".into()));
    assert_eq!(complete(&mut state, "six by").await, Ok("six bysix by".into()));
    // Only the answer is too large; its tokens are counted.
    let told = complete(&mut state, "eleven more").await.unwrap_err();
    assert_eq!(told, ("too-large".into(), "the answer has more than 20 bytes (limits.output_bytes)".into()));
    let told = complete(&mut state, "p").await.unwrap_err();
    assert_eq!(told, ("quota".into(), "the call has used up its 10 tokens (limits.inference_tokens)".into()));
    assert_eq!(*fake.heard.lock().unwrap(), ["s six by 10", "s eleven more 4"]);
    // A prompt with a higher estimate than the remaining tokens is not sent: 34 bytes are 12 tokens.
    let limits = Limits { inference_tokens: 10, ..Limits::default() };
    let (mut long, fake) = self::state(limits, &asked, &asked);
    let (kind, message) = complete(&mut long, &"p".repeat(33)).await.unwrap_err();
    assert!(
        kind == "quota" && message.contains("about 12 tokens, but the call has only 10 of its 10 tokens left"),
        "{message}"
    );
    assert!(message.contains("(limits.inference_tokens)") && fake.heard.lock().unwrap().is_empty(), "{message}");
    assert_eq!(long.inference_tokens_left(), 10);
    // A nested call has no tokens left, either.
    let limits = Limits { inference_tokens: 10, ..Limits::default() };
    let both = [Capability::Inference, Capability::Tools];
    let (mut state, _) = self::state(limits, &both, &both);
    complete(&mut state, "four").await.unwrap();
    state.call_tool("a__b".to_owned(), "{}".to_owned(), 900).await.unwrap().0.unwrap();
    assert_eq!(state.inference_tokens_left(), 3);
}

/// The timeout drops the future. The number of tokens used by then is unknown, so the estimate counts.
#[tokio::test]
async fn cancelled_inference_counts_its_estimate() {
    let asked = [Capability::Inference];
    let (mut state, _) = state(Limits { inference_tokens: 10, ..Limits::default() }, &asked, &asked);
    let asking = inference::Host::complete(&mut state, "s".into(), "never ends, 20 bytes".into());
    assert!(tokio::time::timeout(std::time::Duration::from_millis(10), asking).await.is_err());
    assert_eq!(state.inference_tokens_left(), 3);
}

/// Gives the same answer to every question after a delay, and records the questions with their effects.
struct TestPermitSource {
    answer: Permission,
    asked: Mutex<Vec<(Capability, Digest)>>,
}

impl TestPermitSource {
    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl PermitSource for TestPermitSource {
    fn request<'a>(
        &'a self,
        capability: &'a Capability,
        effect: GuestEffect<'a>,
    ) -> BoxFuture<'a, Result<Permission, Fault>> {
        Box::pin(async move {
            self.asked.lock().unwrap().push((capability.clone(), effect.digest()));
            tokio::time::sleep(std::time::Duration::from_millis(150)).await;
            Ok(self.answer.clone())
        })
    }
}

fn asking(answer: Permission, time_ms: u64, asked: &[Capability]) -> (GuestState, Arc<TestPermitSource>) {
    let (mut state, _) = state(Limits { time_ms, ..Limits::default() }, asked, &[]);
    let person = Arc::new(TestPermitSource { answer, asked: Mutex::default() });
    access(&mut state).services.permit_source = Some(person.clone());
    (state, person)
}

#[tokio::test]
async fn person_is_asked_for_missing_grants() {
    use kv::Host as _;
    // Permission for the call is requested once; permission for an effect is requested for each effect.
    for (answer, questions) in [(Permission::ThisCall(Capability::Kv), 1), (Permission::ThisEffect, 2)] {
        let (mut state, person) = asking(answer.clone(), 100, &[Capability::Kv]);
        let clock = state.budget.clock.clone();
        let calls = async {
            state.put(kv::Scope::User, "k".into(), b"v".to_vec(), None).await.unwrap().unwrap();
            state.get(kv::Scope::User, "k".into()).await.unwrap().unwrap()
        };
        assert!(clock.limit(calls).await.unwrap().is_some(), "the clock ran while the person was asked");
        assert_eq!(person.asked(), questions, "{answer:?}");
        let put = GuestEffect::PutKey { scope: Scope::User, key: "k", value: b"v" };
        assert_eq!(person.asked.lock().unwrap()[0], (Capability::Kv, put.digest()));
        assert!(state.take_denial().is_none() && state.take_used().into_iter().eq([Capability::Kv]));
    }

    let (mut state, person) = asking(Permission::Refused(None), 10_000, &[Capability::Kv]);
    let denied = state.get(kv::Scope::User, "k".into()).await.unwrap().unwrap_err();
    assert!(denied.message.ends_with("To grant it: patchbay grant add test kv"), "{}", denied.message);
    assert!(state.take_denial().is_some());
    assert_eq!(person.asked(), 1);

    // The manifest does not request the capability, so no answer would help.
    let (mut state, person) = asking(Permission::ThisCall(Capability::Kv), 10_000, &[]);
    assert_eq!(state.get(kv::Scope::User, "k".into()).await.unwrap().unwrap_err().kind, "denied");
    assert_eq!(person.asked(), 0);
}

/// A yes to one effect does not permit another one, whichever host function causes it.
#[tokio::test]
async fn yes_to_an_effect_is_for_that_effect() {
    use workspace_write::Host as _;
    let asked = [Capability::WorkspaceWrite, Capability::WorkspaceDelete];
    let (mut state, person) = asking(Permission::ThisEffect, 10_000, &asked);
    let (notes, bashrc) = (("notes.md", b"harmless"), (".bashrc", b"curl | x"));
    for (path, contents) in [notes, bashrc, bashrc] {
        state.write(path.to_owned(), contents.to_vec()).await.unwrap().unwrap();
    }
    state.delete("notes.md".to_owned()).await.unwrap().unwrap();
    let write = |(path, contents): (&'static str, &'static [u8; 8])| {
        (Capability::WorkspaceWrite, GuestEffect::Write { path, contents }.digest())
    };
    let delete = (Capability::WorkspaceDelete, GuestEffect::Delete { path: "notes.md" }.digest());
    assert_eq!(*person.asked.lock().unwrap(), [write(notes), write(bashrc), write(bashrc), delete]);
}

#[tokio::test]
async fn person_is_asked_for_a_request() {
    let http: Capability = "http:example.com".parse().unwrap();
    for (answer, questions) in [(Permission::ThisEffect, 2), (Permission::ThisCall(http.clone()), 1)] {
        let (mut state, person) = asking(answer.clone(), 100, std::slice::from_ref(&http));
        for url in ["https://example.com/a", "https://example.com/b"] {
            let response = http::Host::send(&mut state, request(url)).await.unwrap().unwrap();
            assert_eq!(response.status, 200);
        }
        assert_eq!(person.asked(), questions, "{answer:?}");
        // `wasi:http` checks before it reads the body, and sends with the permits of that check.
        let (state, person) = asking(answer.clone(), 100, std::slice::from_ref(&http));
        let access = state.access().unwrap();
        for url in ["https://example.com/a", "https://example.com/b"] {
            let head = HttpRequest {
                method: "GET".to_owned(),
                url: url.to_owned(),
                headers: Vec::new(),
                auth: Vec::new(),
                body: None,
                timeout: std::time::Duration::from_secs(1),
            };
            let permits = super::http::check(access, &head, false).await.unwrap();
            assert_eq!(super::http::send(access, head, &permits).await.unwrap().status, 200);
        }
        assert_eq!(person.asked(), questions, "{answer:?}");
    }
}

#[tokio::test]
async fn yes_to_inference_during_a_call_adds_its_time_once() {
    let (mut state, _) = asking(Permission::ThisEffect, 1_000, &[Capability::Inference]);
    let (clock, extra) = (state.budget.clock.clone(), Limits::default().inference_time());
    for _ in 0..2 {
        inference::Host::complete(&mut state, "s".into(), "prompt".into()).await.unwrap().unwrap();
        let left = clock.time_left();
        assert!(left > extra && left <= extra + Duration::from_secs(1), "{left:?}");
    }
    assert!(matches!(state.budget.late(), Failure::InferenceTime { .. }));
}

#[test]
fn call_with_inference_has_extra_time() {
    let limits = Limits { time_ms: 1_000, inference_ms: 60_000, ..Limits::default() };
    let whole = Budget::whole(&limits);
    assert_eq!(whole.late(), Failure::Time { limit_ms: 1_000 });
    let pause = whole.clock.pause();
    let left = whole.clock.time_left();
    let asking = whole.with_inference(&limits);
    assert_eq!(asking.clock.time_left() - left, std::time::Duration::from_secs(60));
    drop(pause);
    assert_eq!(
        asking.late().to_string(),
        "call exceeded its time limit of 61000 ms (limits.time_ms with limits.inference_ms)"
    );
}
