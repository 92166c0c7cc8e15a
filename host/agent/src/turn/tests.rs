//! Tests of turns with a scripted model.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use futures_util::future::BoxFuture;
use patchbay_core::{
    AgentId, Attachment, DeltaKind, Digest, FailedAttempts, PrincipalId, Retrying, SessionId, TEXT_MEDIA, ToolRecord,
    ToolSpec,
    completion::{Block, BlockKind, Finish, Message, Part, Role, Stop, StreamEvent, TokenUsage, ToolChoice},
};
use patchbay_egress::{Credentials, Egress, EgressLimits};
use patchbay_events::{Broadcast, EventLog, Received, Subscription, TokenBudget};
use patchbay_provider::{ModelInfo, Selector, Sink};
use patchbay_sandbox::{Limits, Sandbox};
use patchbay_store::{BudgetSettings, KvStore, ModelUsage, NewSnapshot, SessionRow, Store};
use patchbay_tools::{ApprovalSlot, Internal, InternalAnswer, InternalCall, InternalError, Tools};

use self::Reply::{Breaks, BreaksOff, Calls, CutOff, Ends, Fails, Hangs, Refuses, Says, SaysAndCalls, TooLong};
use super::*;
use crate::{AgentContext, AgentSettings, Chosen, Model, ModelOverride, Requests, ResultRoom, SessionLimits};

pub(crate) enum Reply {
    /// Streams this text as one block, a word at a time, and ends.
    Says(&'static str),
    /// Calls tools, each with an input, and waits for the results.
    Calls(&'static [(&'static str, &'static str)]),
    /// Streams a text, and calls a tool beside it.
    SaysAndCalls(&'static str, &'static str),
    /// Calls a tool, and is cut off after the call.
    CutOff(Stop, &'static str),
    /// Streams some text, then fails.
    Breaks(&'static str),
    Fails,
    /// Refuses the conversation, since it is too long.
    TooLong,
    /// Refuses to answer, with this reason.
    Refuses(&'static str),
    /// Streams some text, then nothing more.
    Hangs(&'static str),
    /// Streams some text, which is stored; the answer breaks off and is given up. Then streams these words, or nothing more.
    BreaksOff(&'static str, Option<&'static str>),
    /// Reports its usage, and then streams a text and ends for this reason, or never ends.
    Ends(Option<TokenUsage>, Option<(&'static str, Stop)>),
}

/// A model that follows a script and records its requests.
pub(crate) struct ScriptedModel {
    does: Mutex<VecDeque<Reply>>,
    asked: Mutex<Vec<(Choice, CompletionRequest)>>,
    about: ModelInfo,
    /// The model that the selector `big` selects.
    big: Mutex<&'static str>,
}

const USAGE: TokenUsage = TokenUsage { input: 100, output: 10, thinking: 0, cache_read: 0, cache_write: 0 };

fn choice(model: &str) -> Choice {
    Choice { provider: "demo".parse().unwrap(), model: model.to_owned(), level: None }
}

fn of_demo(usage: TokenUsage) -> ModelUsage {
    ModelUsage { provider: "demo".to_owned(), model: "demo-1".to_owned(), usage }
}

fn finished(stop: Stop) -> Completed {
    Completed { finish: Finish { stop, raw: "raw".to_owned() }, usage: USAGE }
}

fn say<'a>(sink: &mut dyn Sink, words: impl IntoIterator<Item = &'a str>) {
    sink.event(StreamEvent::Started("demo-1-exactly".to_owned()));
    sink.event(StreamEvent::BlockStart { index: 0, kind: BlockKind::Text });
    for word in words {
        sink.event(StreamEvent::BlockDelta { index: 0, text: word.to_owned() });
    }
}

/// A call of a tool that does not exist.
const NO_TOOL: Reply = Calls(&[("no__tool", "{}")]);

impl ScriptedModel {
    pub(crate) fn new(does: impl IntoIterator<Item = Reply>, about: ModelInfo) -> Arc<Self> {
        let does = Mutex::new(does.into_iter().collect());
        Arc::new(Self { does, asked: Mutex::default(), about, big: Mutex::new("demo-big") })
    }

    pub(crate) fn requests(&self) -> Vec<CompletionRequest> {
        self.asked.lock().unwrap().iter().map(|(_, request)| request.clone()).collect()
    }
}

impl Model for ScriptedModel {
    fn default_choice(&self) -> BoxFuture<'_, Result<Choice, Outcome>> {
        Box::pin(async { Ok(choice("demo-1")) })
    }

    fn select<'a>(&'a self, _: &'a Choice, size: Selector) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move { (size == Selector::Big).then(|| (*self.big.lock().unwrap()).to_owned()) })
    }

    fn resolve<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Choice, Outcome>> {
        Box::pin(async move { Ok(choice(text)) })
    }

    fn about<'a>(&'a self, _: &'a Choice) -> BoxFuture<'a, ModelInfo> {
        Box::pin(async { self.about.clone() })
    }

    fn complete<'a>(
        &'a self,
        choice: &'a Choice,
        request: CompletionRequest,
        sink: &'a mut dyn Sink,
    ) -> BoxFuture<'a, Result<Completed, Outcome>> {
        Box::pin(async move {
            self.asked.lock().unwrap().push((choice.clone(), request));
            let does = self.does.lock().unwrap().pop_front();
            let failed = || Outcome::error(Code::Internal, "it broke.");
            match does.expect("the script has no further reply") {
                Says(text) => {
                    say(sink, text.split_inclusive(' '));
                    sink.event(StreamEvent::BlockEnd { index: 0, opaque: Some("signed".to_owned()) });
                    sink.event(StreamEvent::Usage(USAGE));
                    Ok(finished(Stop::EndTurn))
                }
                Calls(calls) => {
                    for (index, (name, input)) in (0..).zip(calls) {
                        let (id, name) = (format!("call_{index}"), (*name).to_owned());
                        sink.event(StreamEvent::BlockStart { index, kind: BlockKind::ToolCall { id, name } });
                        sink.event(StreamEvent::BlockDelta { index, text: (*input).to_owned() });
                        sink.event(StreamEvent::BlockEnd { index, opaque: None });
                    }
                    sink.event(StreamEvent::Usage(USAGE));
                    Ok(finished(Stop::ToolUse))
                }
                SaysAndCalls(text, name) => {
                    say(sink, [text]);
                    sink.event(StreamEvent::BlockEnd { index: 0, opaque: None });
                    let kind = BlockKind::ToolCall { id: "call_0".to_owned(), name: name.to_owned() };
                    sink.event(StreamEvent::BlockStart { index: 1, kind });
                    sink.event(StreamEvent::BlockEnd { index: 1, opaque: None });
                    sink.event(StreamEvent::Usage(USAGE));
                    Ok(finished(Stop::ToolUse))
                }
                CutOff(stop, name) => {
                    let name = name.to_owned();
                    let kind = BlockKind::ToolCall { id: "call_0".to_owned(), name };
                    sink.event(StreamEvent::BlockStart { index: 0, kind });
                    sink.event(StreamEvent::BlockEnd { index: 0, opaque: None });
                    Ok(finished(stop))
                }
                Refuses(why) => {
                    say(sink, ["Sorry."]);
                    sink.event(StreamEvent::BlockEnd { index: 0, opaque: None });
                    sink.event(StreamEvent::Extra { name: "refusal".to_owned(), value: why.to_owned() });
                    Ok(finished(Stop::Refusal))
                }
                Breaks(word) => {
                    say(sink, [word]);
                    Err(failed())
                }
                Fails => Err(failed()),
                TooLong => Err(Outcome::error(Code::ProviderContextWindow, "demo: prompt is too long")),
                Hangs(word) => {
                    say(sink, [word]);
                    std::future::pending().await
                }
                Ends(used, answer) => {
                    used.into_iter().for_each(|used| sink.event(StreamEvent::Usage(used)));
                    let Some((text, stop)) = answer else { return std::future::pending().await };
                    say(sink, [text]);
                    sink.event(StreamEvent::BlockEnd { index: 0, opaque: None });
                    Ok(Completed { usage: used.unwrap_or_default(), ..finished(stop) })
                }
                BreaksOff(word, again) => {
                    say(sink, [word]);
                    sink.event(StreamEvent::Usage(USAGE));
                    tokio::time::sleep(CHECKPOINT * 2).await;
                    let [provider, what, cause] = ["demo", "Server error", "overloaded"].map(str::to_owned);
                    sink.given_up(&Retrying { provider, what, cause, wait_ms: 1_000, attempt: 1, of: 4 });
                    tokio::time::sleep(CHECKPOINT * 2).await;
                    let Some(again) = again else { return std::future::pending().await };
                    say(sink, [again]);
                    sink.event(StreamEvent::Usage(USAGE));
                    Ok(finished(Stop::EndTurn))
                }
            }
        })
    }
}

/// An agent with its own store.
pub(crate) struct TestAgent {
    /// Tools of the host for the next turn.
    internal: Vec<Arc<dyn Internal>>,
    _home: tempfile::TempDir,
    pub(crate) store: Store,
    script: Arc<ScriptedModel>,
    pub(crate) agent: Arc<Agent>,
    pub(crate) log: Arc<EventLog>,
    snapshot: Arc<Snapshot>,
    pub(crate) cancel: CancellationToken,
}

impl TestAgent {
    /// Returns an agent whose model has a window of 1,000 tokens.
    async fn new(does: impl IntoIterator<Item = Reply>) -> Self {
        Self::with_window(does, 1_000).await
    }

    /// Returns an agent whose conversation is never too long for the window.
    async fn wide(does: impl IntoIterator<Item = Reply>) -> Self {
        Self::with_window(does, 1_000_000).await
    }

    async fn with_window(does: impl IntoIterator<Item = Reply>, window: u64) -> Self {
        Self::with_limits(does, 0, window, SessionLimits::default()).await
    }

    pub(crate) async fn with_limits(
        does: impl IntoIterator<Item = Reply>,
        ceiling: u64,
        window: u64,
        limits: SessionLimits,
    ) -> Self {
        Self::with_model(does, ceiling, limits, |about| about.context_window = Some(window), BudgetSettings::default())
            .await
    }

    /// Returns an agent. `change` edits the known facts about its model.
    pub(crate) async fn with_model(
        does: impl IntoIterator<Item = Reply>,
        ceiling: u64,
        limits: SessionLimits,
        change: impl FnOnce(&mut ModelInfo),
        money: BudgetSettings,
    ) -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path()).unwrap();
        let kv = KvStore::open(home.path(), store.clone()).unwrap();
        let (session, agent) = (SessionId::random(), AgentId::random());
        let components = store.retain_components().unwrap();
        let kept = NewSnapshot::empty(Digest::of(b""), String::new(), components);
        let row = SessionRow {
            id: session,
            workspace: "/".to_owned(),
            agent,
            persona: String::new(),
            snapshot: kept.digest,
            snapshot_version: 1,
            owner: PrincipalId::LOCAL,
        };
        let hold = store.create_session(row, kept).await.unwrap();
        let empty = r#"{"skills":{},"diagnostics":[]}"#;
        let snapshot = Snapshot::from_json(empty.to_owned(), Digest::of(empty.as_bytes()), 1).unwrap();
        let results = ResultRoom::new(limits.result_bytes);
        let sandbox = Arc::new(Sandbox::new(Limits::default()));
        let egress = Egress::new(EgressLimits::default());
        let credentials = Credentials::open(home.path(), BTreeMap::new());
        let tools = Arc::new(Tools::new(sandbox, store.clone(), kv, egress, credentials, &[]));
        let mut about = ModelInfo {
            adapter: "demo".to_owned(),
            input_media: vec!["image/webp".to_owned()],
            ..ModelInfo::default()
        };
        change(&mut about);
        let script = ScriptedModel::new(does, about);
        let budget = TokenBudget::new(0, ceiling);
        let log = EventLog::new(hold.clone(), store.clone(), 0, budget, Broadcast::default());
        let place = AgentContext {
            hold,
            agent,
            ancestors: Vec::new(),
            depth: 0,
            is_rewound: false,
            foreground: true,
            requests: Requests::new(4, 1_000),
            results,
            workspace: "/".to_owned(),
            principal: PrincipalId::LOCAL,
            approvals: ApprovalSlot::default(),
        };
        let model = Arc::clone(&script) as _;
        let settings = AgentSettings { budget: money, limits, ..AgentSettings::default() };
        let agent = Agent::new(place, Arc::clone(&log), model, tools, settings, Chosen::default(), 0);
        let (internal, snapshot, cancel) = (Vec::new(), Arc::new(snapshot), CancellationToken::new());
        Self { internal, _home: home, store, script, agent, log, snapshot, cancel }
    }

    pub(crate) async fn say(&self, text: &str) -> Outcome {
        let began = self.add(self.row(MessageKind::User, text, None)).await;
        self.run(began, 0).await
    }

    fn row(&self, kind: MessageKind, content: &str, data: Option<serde_json::Value>) -> NewMessage {
        NewMessage { agent: self.agent.id(), kind, content: content.to_owned(), data }
    }

    /// Appends a row and returns its number.
    async fn add(&self, row: NewMessage) -> u64 {
        let change = SessionChange { messages: vec![row], ..SessionChange::default() };
        self.log.commit(change, || {}).await.unwrap()[0].seq
    }

    pub(crate) async fn compact(&self) -> Result<crate::Compacted, Outcome> {
        self.agent.compact_now(&self.turn(0, 0), "").await.map(Option::unwrap)
    }

    async fn run(&self, began: u64, answers: u32) -> Outcome {
        self.agent.run(&self.turn(began, answers)).await
    }

    fn turn(&self, began: u64, answers: u32) -> Turn {
        Turn {
            snapshot: Arc::clone(&self.snapshot),
            persona: vec!["You are a test.".to_owned()],
            surroundings: Surroundings::default(),
            internal: self.internal.clone(),
            outside: OutsideTools::default(),
            editor: None,
            cause: TurnCause::Person,
            ending: TurnEnding { agent: self.agent.id(), began, report_to: None },
            answers,
            joins: None,
            cancel: self.cancel.clone(),
        }
    }

    /// Returns the agent as another process resumes it.
    fn resumed(self) -> Self {
        let chosen = self.agent.chosen();
        self.resumed_with(chosen)
    }

    /// Like [`TestAgent::resumed`], with another choice of the model.
    fn resumed_with(self, chosen: Chosen) -> Self {
        let (place, log, tools) = (self.agent.place.clone(), Arc::clone(&self.log), Arc::clone(&self.agent.tools));
        let model = Arc::clone(&self.script) as _;
        let agent = Agent::new(place, log, model, tools, AgentSettings::default(), chosen, 0);
        Self { agent, ..self }
    }

    async fn rows(&self) -> Vec<Row> {
        self.store.messages(self.log.session(), 1, 1_000).await.unwrap()
    }

    async fn kinds(&self) -> Vec<&'static str> {
        self.rows().await.iter().map(|row| row.kind.as_str()).collect()
    }

    async fn last(&self) -> Row {
        self.rows().await.pop().unwrap()
    }

    async fn answer(&self) -> AssistantRecord {
        serde_json::from_value(self.last().await.data.unwrap()).unwrap()
    }

    pub(crate) fn requests(&self) -> Vec<CompletionRequest> {
        self.script.requests()
    }

    /// Returns all requests, which must be `N`.
    fn all_requests<const N: usize>(&self) -> [CompletionRequest; N] {
        self.requests().try_into().unwrap()
    }

    /// Returns the messages of the last request.
    fn asked(&self) -> Vec<Message> {
        self.requests().pop().unwrap().messages
    }
}

/// Returns the published events.
async fn published(events: &mut Subscription) -> Vec<EventKind> {
    let mut kinds = Vec::new();
    while let Some(received) = events.try_next().await.unwrap() {
        if let Received::Event(event) = received {
            kinds.push(event.kind);
        }
    }
    kinds
}

async fn notices(events: &mut Subscription) -> Vec<String> {
    let text = |kind| if let EventKind::Notice { text } = kind { Some(text) } else { None };
    published(events).await.into_iter().filter_map(text).collect()
}

async fn wait_for(events: &mut Subscription, is_it: impl Fn(&EventKind) -> bool) {
    while let Some(received) = events.next().await.unwrap() {
        if let Received::Event(event) = received
            && is_it(&event.kind)
        {
            return;
        }
    }
}

/// Returns the texts of a message without the agent's introduction.
fn texts(message: &Message) -> Vec<&str> {
    let text = |part| match part {
        &Part { block: Block::Text(ref text), .. } => Some(text.as_str()),
        _ => None,
    };
    message.parts.iter().filter_map(text).filter(|text| !text.starts_with("You are the agent ")).collect()
}

#[tokio::test]
async fn answer_is_streamed_and_then_stored() {
    let stage = TestAgent::new([Says("Good day.")]).await;
    let mut events = stage.log.subscribe(1);
    let outcome = stage.say("hello").await;
    assert_eq!((outcome.code, outcome.message.as_str()), (Code::Answered, "Good day."));
    let told = published(&mut events).await.into_iter().map(|kind| match kind {
        EventKind::Delta { text, .. } => text,
        EventKind::Message { kind, content, .. } => format!("{}={content}", kind.as_str()),
        other => format!("{other:?}"),
    });
    let mut told: Vec<_> = told.collect();
    // Rows are read from the store before pending live events.
    told.sort();
    assert_eq!(told, ["Good ", "assistant=Good day.", "day.", "user=hello"]);
    let answer = stage.answer().await;
    let about = (answer.provider.as_str(), answer.model.as_str(), answer.effective_model.as_deref());
    assert_eq!(about, ("demo", "demo-1", Some("demo-1-exactly")));
    assert_eq!((answer.usage, answer.stop, answer.interrupted), (USAGE, Some(Stop::EndTurn), false));
    let parts = [AssistantPart::Text { text: "Good day.".to_owned(), opaque: Some("signed".to_owned()) }];
    assert_eq!(answer.parts, parts);
    assert_eq!(stage.store.tokens(stage.log.session()).await.unwrap(), 110);
}

#[tokio::test]
async fn tool_results_are_sent_back_to_the_model() {
    let calls = Calls(&[("no__tool", r#"{"x": 1}"#), ("calc__eval", "not JSON")]);
    let stage = TestAgent::new([calls, Says("I see.")]).await;
    let outcome = stage.say("try").await;
    assert_eq!(outcome.message, "I see.");
    assert_eq!(stage.kinds().await, ["user", "assistant", "tool", "tool", "assistant"]);
    let messages = stage.asked();
    let roles: Vec<_> = messages.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User]);
    let results: Vec<_> = messages[2]
        .parts
        .iter()
        .map(|part| match &part.block {
            Block::ToolResult(result) => format!("{} {} {:?}", result.call_id, result.is_error, result.content),
            other => format!("{other:?}"),
        })
        .collect();
    assert!(results[0].starts_with("call_0 true") && results[0].contains("tool_not_found"), "{results:?}");
    assert!(results[1].starts_with("call_1 true") && results[1].contains("it is not valid JSON"), "{results:?}");
}

#[tokio::test]
async fn messages_join_between_the_results_and_the_next_request() {
    let calls = Calls(&[("no__tool", "{}"), ("no__tool", "{}")]);
    let stage = TestAgent::new([calls, NO_TOOL, Says("I see.")]).await;
    let began = stage.add(stage.row(MessageKind::User, "try", None)).await;
    let rows = [stage.row(MessageKind::User, "faster", None), stage.row(MessageKind::User, "and shorter", None)];
    let waiting = Arc::new(Mutex::new(Some(rows.to_vec())));
    let log = Arc::clone(&stage.log);
    let joins: MessageJoin = Box::new(move || {
        let (log, messages) = (Arc::clone(&log), waiting.lock().unwrap().take().unwrap_or_default());
        Box::pin(async move {
            log.commit(SessionChange { messages, ..SessionChange::default() }, || {}).await.unwrap();
        })
    });
    let outcome = stage.agent.run(&Turn { joins: Some(joins), ..stage.turn(began, 0) }).await;
    assert_eq!(outcome.message, "I see.");
    let kinds = ["user", "assistant", "tool", "tool", "user", "user", "assistant", "tool", "assistant"];
    assert_eq!(stage.kinds().await, kinds);
    let [first, second, third] = stage.all_requests();
    assert_eq!(
        second.messages.iter().map(texts).collect::<Vec<_>>(),
        [vec!["try"], vec![], vec!["faster", "and shorter"]]
    );
    let is_result = |part: &Part| matches!(part.block, Block::ToolResult(_));
    assert_eq!(second.messages[2].parts.iter().map(is_result).collect::<Vec<_>>(), [true, true, false, false]);
    // Each request begins with the one before it.
    assert!(second.messages.starts_with(&first.messages) && third.messages.starts_with(&second.messages));
}

#[tokio::test]
async fn cancelled_turn_keeps_the_partial_answer() {
    let stage = TestAgent::new([Hangs("Half a"), Says("Whole.")]).await;
    let cancel = stage.cancel.clone();
    let mut events = stage.log.subscribe(1);
    let cancelling = async {
        wait_for(&mut events, |kind| matches!(kind, EventKind::Delta { .. })).await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(stage.say("hello"), cancelling);
    assert_eq!(outcome.code, Code::TurnCancelled);
    let answer = stage.answer().await;
    assert!(answer.interrupted && answer.stop.is_none());
    assert_eq!(stage.last().await.content, "Half a");
    let again = TestAgent { cancel: CancellationToken::new(), ..stage };
    assert_eq!(again.say("and?").await.message, "Whole.");
    let messages = again.asked();
    assert_eq!(messages.iter().map(texts).collect::<Vec<_>>(), [["hello"], ["Half a"], ["and?"]]);
}

#[tokio::test]
async fn turn_that_runs_again_continues_after_its_message() {
    let stage = TestAgent::new([Fails, Says("Yes.")]).await;
    assert_eq!(stage.say("one").await.code, Code::Internal);
    // An answer that was interrupted in its thinking.
    let thinking = AssistantRecord {
        provider: "demo".to_owned(),
        adapter: "demo".to_owned(),
        model: "demo-1".to_owned(),
        usage: USAGE,
        interrupted: true,
        parts: vec![AssistantPart::Thinking { text: "Hm".to_owned(), opaque: Some("signed".to_owned()) }],
        ..AssistantRecord::default()
    };
    stage.add(stage.row(MessageKind::Assistant, "", Some(json!(thinking)))).await;
    let mut events = stage.log.subscribe(3);
    assert_eq!(stage.run(1, 1).await.message, "Yes.");
    assert_eq!(stage.asked().iter().map(texts).collect::<Vec<_>>(), [["one"]]);
    let deltas = published(&mut events).await.into_iter().filter_map(|kind| match kind {
        EventKind::Delta { at, .. } => Some((at.turn, at.answer)),
        _ => None,
    });
    assert_eq!(deltas.collect::<Vec<_>>(), [(1, 1)]);
}

#[tokio::test]
async fn failed_answer_keeps_its_text_only() {
    let stage = TestAgent::new([Breaks("Half a"), Fails, Says("Yes.")]).await;
    assert_eq!(stage.say("one").await.line(), "Error: it broke.");
    assert!(stage.answer().await.interrupted);
    assert_eq!(stage.say("two").await.code, Code::Internal);
    assert_eq!(stage.kinds().await, ["user", "assistant", "user"]);
    assert_eq!(stage.say("three").await.message, "Yes.");
    let messages = stage.asked();
    assert_eq!(messages.iter().map(texts).collect::<Vec<_>>(), [vec!["one"], vec!["Half a"], vec!["two", "three"]]);
}

/// Waits until `is_so` returns true for the stored parts of answers.
async fn wait_for_stored_part(stage: &TestAgent, is_so: impl Fn(&[NewMessage]) -> bool) {
    let wait = async {
        while !is_so(&stage.store.partial_answers(stage.log.session(), crate::join_pieces).await.unwrap()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap();
}

#[tokio::test]
async fn partial_answer_survives_the_process() {
    let stage = TestAgent::new([Hangs("Half a")]).await;
    let mut events = stage.log.subscribe(1);
    tokio::select! {
        _ = stage.say("hello") => panic!("it hangs"),
        () = async {
            // Dropping the turn simulates the death of the process.
            wait_for(&mut events, |kind| matches!(kind, EventKind::Delta { .. })).await;
            let is_stored = |answers: &[NewMessage]| answers.iter().any(|answer| answer.content == "Half a");
            wait_for_stored_part(&stage, is_stored).await;
        } => {}
    }
    assert_eq!(stage.kinds().await, ["user"]);
    stage.store.recover(stage.log.hold(), crate::join_pieces).await.unwrap();
    assert_eq!(stage.last().await.content, "Half a");
    assert!(stage.answer().await.interrupted);
    stage.store.recover(stage.log.hold(), crate::join_pieces).await.unwrap();
    assert_eq!(stage.kinds().await, ["user", "assistant"]);
}

#[tokio::test]
async fn answer_that_broke_off_is_replaced_and_its_tokens_count() {
    let stage = TestAgent::new([BreaksOff("Half a", Some("Whole."))]).await;
    let mut events = stage.log.subscribe(2);
    assert_eq!(stage.say("hello").await.message, "Whole.");
    let answer = stage.answer().await;
    assert_eq!((stage.last().await.content.as_str(), answer.parts.len(), answer.usage), ("Whole.", 1, USAGE));
    assert_eq!(answer.failed_attempts, FailedAttempts { given_up: 1, usage: USAGE });
    let shown = published(&mut events).await.into_iter().filter_map(|kind| match kind {
        EventKind::Delta { text, at, .. } => Some(format!("{text} {} {}", at.given_up, at.offset)),
        EventKind::GivenUp { turn, answer, given_up, retry } => {
            Some(format!("{turn} {answer} {given_up}: {}", retry.broke_off(true)))
        }
        _ => None,
    });
    let line = "1 0 1: The answer broke off; asking again (attempt 2 of 5). Ignore the part that was already printed.";
    assert_eq!(shown.collect::<Vec<_>>(), ["Half a 0 0", line, "Whole. 1 0"]);
    // The session, the agent and the model have used the tokens of both attempts.
    let session = stage.log.session();
    assert_eq!((stage.store.tokens(session).await.unwrap(), stage.agent.tokens()), (220, 220));
    let usage = stage.store.usage(session).await.unwrap();
    assert_eq!((usage.len(), usage[0].usage), (1, USAGE.plus(USAGE)));
    // The length of the conversation is only known from the last attempt.
    assert_eq!(answer.usage.total(), 110);
}

/// Text of an abandoned attempt is not an answer, whether the process dies while it waits for the next
/// attempt, or the turn is stopped.
#[tokio::test]
async fn part_that_was_given_up_never_becomes_an_answer() {
    for dies in [true, false] {
        let stage = TestAgent::new([BreaksOff("Half a", None)]).await;
        let mut events = stage.log.subscribe(1);
        let given_up = async {
            wait_for(&mut events, |kind| matches!(kind, EventKind::GivenUp { .. })).await;
            if dies {
                wait_for_stored_part(&stage, <[NewMessage]>::is_empty).await;
            } else {
                stage.cancel.cancel();
                std::future::pending().await
            }
        };
        let session = stage.log.session();
        tokio::select! {
            outcome = stage.say("hello") => assert_eq!((dies, outcome.code), (false, Code::TurnCancelled)),
            () = given_up => {}
        }
        assert!(stage.store.partial_answers(session, crate::join_pieces).await.unwrap().is_empty(), "{dies}");
        stage.store.recover(stage.log.hold(), crate::join_pieces).await.unwrap();
        assert_eq!(stage.kinds().await, ["user"]);
        // The tokens of the attempt were used.
        assert_eq!(stage.agent.tokens(), if dies { 0 } else { 110 });
        let used = stage.log.usage().await.unwrap();
        assert_eq!(used, if dies { vec![] } else { vec![of_demo(USAGE)] });
    }
}

#[tokio::test]
async fn turn_ends_at_its_request_limit() {
    let limits = SessionLimits { turn_requests: 3, ..SessionLimits::default() };
    let calls = (0..4).map(|_| NO_TOOL);
    let stage = TestAgent::with_limits(calls, 0, 1_000_000, limits).await;
    let outcome = stage.say("go").await;
    assert_eq!(outcome.code, Code::TurnRounds);
    let words = "this turn was stopped after 3 requests to the model (limits.turn_requests)";
    assert!(outcome.message.starts_with(words), "{}", outcome.message);
    assert_eq!(stage.requests().len(), 3);
    // The last calls were made as well.
    assert_eq!(stage.kinds().await, ["user", "assistant", "tool", "assistant", "tool", "assistant", "tool"]);
}

#[tokio::test]
async fn long_turn_continues_and_repeats_are_reported_once() {
    let calls = (0..120).map(|_| NO_TOOL).chain([Says("Done.")]);
    let stage = TestAgent::wide(calls).await;
    let mut events = stage.log.subscribe(1);
    assert_eq!(stage.say("go").await.message, "Done.");
    assert_eq!(notices(&mut events).await, ["no__tool was called 5 times with the same input and result."]);
}

#[tokio::test]
async fn session_stops_at_its_token_ceiling() {
    let does = [NO_TOOL, Says("."), Says(".")];
    let stage = TestAgent::with_limits(does, 200, 1_000, SessionLimits::default()).await;
    assert_eq!(stage.say("one").await.code, Code::Answered);
    let outcome = stage.say("two").await;
    assert_eq!(outcome.code, Code::LimitTokens);
    assert!(outcome.message.starts_with("this session has used 220 tokens; the limit is 200"), "{outcome:?}");
    assert_eq!(stage.requests().len(), 2);
}

#[tokio::test]
async fn tokens_read_from_a_cache_do_not_count() {
    let stage = TestAgent::with_limits([Says("."), Says(".")], 129, 1_000, SessionLimits::default()).await;
    stage.agent.spend(TokenUsage { input: 5_000, output: 8, cache_read: 4_990, ..TokenUsage::default() });
    assert_eq!((stage.agent.tokens(), stage.log.budget().used()), (18, 18));
    assert_eq!(stage.say("one").await.code, Code::Answered);
    assert_eq!(stage.say("two").await.code, Code::Answered);
    assert_eq!(stage.say("three").await.code, Code::LimitTokens);
}

#[tokio::test]
async fn long_conversation_is_summarised_and_continues() {
    let stage = TestAgent::new([Says("Yes."), Says("In short."), Says("Right.")]).await;
    // The window has 1,000 tokens and the threshold is 800; the model reports 110 for the first exchange.
    stage.say("one").await;
    let long = "word ".repeat(500);
    assert_eq!(stage.say(&long).await.message, "Right.");
    assert_eq!(stage.kinds().await, ["user", "assistant", "user", "compaction", "assistant"]);
    assert_eq!(stage.store.tokens(stage.log.session()).await.unwrap(), 330);
    let [_, summary, next] = stage.all_requests();
    assert!(texts(summary.messages.last().unwrap())[0].starts_with("Summarise the conversation so far."));
    assert_eq!(next.messages.len(), 1);
    let said = texts(&next.messages[0]);
    assert!(said[0].ends_with("In short.") && said[1] == long, "{said:?}");
}

/// Either the first round is longer than the threshold, or the model refuses the conversation.
#[tokio::test]
async fn long_turn_is_summarised_in_the_middle() {
    for (refusal, window) in [(None, 100), (Some(TooLong), 1_000_000)] {
        let does = [NO_TOOL].into_iter().chain(refusal).chain([Says("In short."), Says("Done.")]);
        let stage = TestAgent::with_window(does, window).await;
        assert_eq!(stage.say("find it").await.message, "Done.");
        assert_eq!(stage.kinds().await, ["user", "assistant", "tool", "compaction", "assistant"]);
        let asked = stage.asked();
        assert_eq!(asked.len(), 1);
        let said = texts(&asked[0]);
        assert!(said[0].ends_with("In short.") && said[1..] == ["What is being worked on:", "find it"], "{said:?}");
    }
}

/// The provider has cached the common beginning of the turn's requests.
#[tokio::test]
async fn summary_is_requested_as_the_turn_is() {
    let does = [Says("Yes."), Says("In short.")];
    let mut stage = TestAgent::wide(does).await;
    stage.internal = vec![MeetingTool::new("read", true, 1)];
    let level = Some(patchbay_core::completion::ThinkingLevel::High);
    stage.agent.choose(Chosen { model: Some(Choice { level, ..choice("demo-1") }), model_override: None });
    stage.say("one").await;
    stage.compact().await.unwrap();
    let [turn, summary] = stage.all_requests();
    assert_eq!((&summary.system, &summary.tools, &summary.tool_choice), (&turn.system, &turn.tools, &turn.tool_choice));
    assert_eq!((summary.thinking, turn.tools.len()), (level, 1));
    assert_eq!(summary.messages[0], turn.messages[0]);
    let purposes = [&turn, &summary].map(|request| request.hints.purpose);
    assert_eq!(purposes, [RequestPurpose::Turn, RequestPurpose::Summary]);
    assert_eq!(summary.hints.cache_key, turn.hints.cache_key);
    // The answer in the summary request was made with the messages before it.
    assert_eq!(summary.hints.bound_from, Some(0));
}

#[tokio::test]
async fn refused_conversation_is_summarised_and_sent_again() {
    let does = [Says("Yes."), TooLong, Says("In short."), Says("Right.")];
    // The window is far larger than the conversation.
    let stage = TestAgent::wide(does).await;
    stage.say("one").await;
    let mut events = stage.log.subscribe(3);
    assert_eq!(stage.say("two").await.message, "Right.");
    assert_eq!(stage.kinds().await, ["user", "assistant", "user", "compaction", "assistant"]);
    let said = stage.asked();
    assert!(texts(&said[0])[0].ends_with("In short.") && texts(&said[0])[1] == "two", "{said:?}");
    assert_eq!(notices(&mut events).await, ["The conversation is longer than demo-1 can read; summarising it."]);
}

#[tokio::test]
async fn conversation_that_stays_too_long_is_an_error_with_advice() {
    let does = [Says("Yes."), TooLong, Says("In short."), TooLong, TooLong];
    let stage = TestAgent::wide(does).await;
    stage.say("one").await;
    let outcome = stage.say("two").await;
    let expected = "the conversation is too long for demo-1, even after a summary: demo: prompt is too long. To \
        summarise it once more: /compact FOCUS. To choose a model with a larger context window: /model MODEL.";
    assert_eq!((outcome.code, outcome.message.as_str()), (Code::ProviderContextWindow, expected));
    // A first message has nothing before it.
    let stage = TestAgent::wide([TooLong]).await;
    let outcome = stage.say("one").await;
    assert_eq!(outcome.code, Code::ProviderContextWindow);
    assert!(
        outcome.message.contains("prompt is too long. There is nothing to summarise: send less at once"),
        "{outcome:?}"
    );
}

/// The request for the summary is too long as well, so it is sent again with less of the conversation.
#[tokio::test]
async fn refused_summary_is_asked_for_with_less() {
    let exchanges = (0..6).map(|_| Says("Yes."));
    let does = exchanges.chain([TooLong, TooLong, Says("In short."), Says("Right.")]);
    let stage = TestAgent::wide(does).await;
    for number in 0..6 {
        stage.say(&format!("{number} {}", "word ".repeat(50))).await;
    }
    assert_eq!(stage.say("last").await.message, "Right.");
    let asked = stage.requests();
    let lengths: Vec<_> = asked[6..].iter().map(|request| request.messages.len()).collect();
    let [refused, half, quarter, last] = lengths[..] else { panic!("{lengths:?}") };
    assert!(refused == 13 && half < refused && quarter < half && last == 1, "{lengths:?}");
    // The request begins after a cut, so no answer in it is bound to the text before it.
    assert!(asked[8].hints.bound_from.unwrap() > quarter - 3, "{:?}", asked[8].hints);
}

/// Models in the middle of their work often call a tool beside the summary.
#[tokio::test]
async fn text_beside_a_call_is_no_summary() {
    let announces = || SaysAndCalls("Let me read the file.", "no__tool");
    let does = [Says("Yes."), announces(), Says("In short."), Says("Right.")];
    let stage = TestAgent::wide(does).await;
    stage.say("one").await;
    stage.compact().await.unwrap();
    assert_eq!(
        (stage.kinds().await, &*stage.last().await.content),
        (vec!["user", "assistant", "compaction"], "In short.")
    );
    assert_eq!(stage.say("two").await.message, "Right.");
    // The model calls a tool although it may not. Its text still counts.
    let does = [Says("Yes."), announces(), SaysAndCalls("In short.", "no__tool")];
    let stage = TestAgent::wide(does).await;
    stage.say("one").await;
    stage.compact().await.unwrap();
    assert_eq!(stage.last().await.content, "In short.");
}

#[tokio::test]
async fn summary_without_text_is_asked_for_once_more_without_tools() {
    let does = [Says("Yes."), NO_TOOL, Says("In short.")];
    let mut stage = TestAgent::wide(does).await;
    stage.internal = vec![MeetingTool::new("read", true, 1)];
    stage.say("one").await;
    stage.compact().await.unwrap();
    assert_eq!(stage.last().await.content, "In short.");
    let [_, first, second] = stage.all_requests();
    assert_eq!((&first.tool_choice, &second.tool_choice), (&ToolChoice::Auto, &ToolChoice::None));
    // The tools stay because thinking is bound to them.
    assert_eq!((first.tools.len(), &second.tools, &second.messages), (1, &first.tools, &first.messages));
    assert_eq!(stage.log.usage().await.unwrap(), [of_demo(USAGE.plus(USAGE).plus(USAGE))]);

    let stage = TestAgent::wide([Says("Yes."), NO_TOOL, NO_TOOL]).await;
    stage.say("one").await;
    let outcome = stage.compact().await.unwrap_err();
    assert!(outcome.message.contains("could not be summarised: its answer was empty."), "{outcome:?}");
    // The tokens of requests without a row are recorded for their model.
    assert_eq!(stage.log.usage().await.unwrap(), [of_demo(USAGE.plus(USAGE).plus(USAGE))]);
    assert_eq!(stage.log.budget().used(), 330);
}

/// A tool whose answer does not depend on its input.
struct FixedTool {
    spec: ToolSpec,
    hidden: bool,
    answer: InternalAnswer,
}

impl FixedTool {
    fn new(name: &str, answer: InternalAnswer) -> Self {
        Self { spec: spec(name), hidden: false, answer }
    }
}

impl Internal for FixedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn only_reads(&self) -> bool {
        true
    }

    fn is_hidden(&self) -> bool {
        self.hidden
    }

    fn run<'a>(&'a self, _: InternalCall<'a>) -> BoxFuture<'a, Result<InternalAnswer, InternalError>> {
        assert!(!self.hidden);
        Box::pin(async { Ok(self.answer.clone()) })
    }
}

fn spec(name: &str) -> ToolSpec {
    let input_schema = json!({"type": "object"});
    ToolSpec { name: name.parse().unwrap(), description: String::new(), input_schema, extra: vec![] }
}

/// Returns an agent with the tool `shoot`, whose result has an image.
async fn with_image_tool(does: impl IntoIterator<Item = Reply>) -> TestAgent {
    let mut stage = TestAgent::wide(does).await;
    let answer = InternalAnswer { value: json!("shot"), blobs: vec![("image/webp".to_owned(), vec![7; 1_000])] };
    stage.internal = vec![Arc::new(FixedTool::new("shoot", answer))];
    stage
}

const SHOOT: Reply = Calls(&[("shoot", "{}")]);

/// Returns the number of images in a request, and whether it says that one is left out.
fn images(request: &CompletionRequest) -> (usize, bool) {
    let shown = format!("{:?}", request.messages);
    (shown.matches("Blob(image/webp").count(), shown.contains("[image left out]"))
}

/// A row names the image by its digest. Rows of earlier builds contain the image in base64.
#[tokio::test]
async fn images_of_results_are_stored_by_their_digests() {
    let stage = with_image_tool([Calls(&[("shoot", "{}"); 2]), Says("Seen."), Says("Again.")]).await;
    stage.say("look").await;
    let rows = stage.agent.rows().await.unwrap();
    let data = rows[2].data.clone().unwrap();
    let digest = Digest::of(&[7; 1_000]);
    let named = json!({"type": "stored_blob", "media_type": "image/webp", "digest": digest, "size": 1_000});
    assert_eq!(data["content"][1], named);
    assert_eq!(stage.store.attachment(&digest).unwrap(), Some(vec![7; 1_000]));
    assert_eq!(stage.store.collect().await.unwrap().attachments, 0, "the rows name it");
    assert_eq!(images(&stage.requests()[1]), (2, false));
    let mut old = data;
    old["content"][1] = json!({"type": "blob", "media_type": "image/webp", "data": "BwcH"});
    stage.add(stage.row(MessageKind::Assistant, "", rows[1].data.clone())).await;
    stage.add(stage.row(MessageKind::Tool, "", Some(old))).await;
    stage.say("again").await;
    let shown = format!("{:?}", stage.asked());
    assert!(shown.contains("Blob(image/webp, 3 bytes)") && shown.contains("Blob(image/webp, 1000 bytes)"), "{shown}");
    stage.store.remove_session(stage.log.session()).await.unwrap();
    assert_eq!(stage.store.collect().await.unwrap().attachments, 1);
}

#[tokio::test]
async fn refused_request_with_images_is_summarised_without_them() {
    let does = [Says("Yes."), SHOOT, TooLong, Says("In short."), Says("Done.")];
    let stage = with_image_tool(does).await;
    stage.say("one").await;
    assert_eq!(stage.say("look").await.message, "Done.");
    let [_, _, refused, summary, _] = stage.all_requests();
    assert_eq!((images(&refused), images(&summary)), ((1, false), (0, true)));
    // Nothing else is left out.
    assert_eq!((summary.messages.len(), texts(&summary.messages[0])), (refused.messages.len(), vec!["one"]));
}

#[tokio::test]
async fn refused_summary_is_asked_for_without_images() {
    let says = [Says("Yes."), SHOOT, Says("Seen.")];
    let stage = with_image_tool(says.into_iter().chain([TooLong, Says("In short.")])).await;
    stage.say("one").await;
    stage.say("look").await;
    stage.compact().await.unwrap();
    let [_, _, _, first, second] = stage.all_requests();
    assert_eq!((images(&first), images(&second)), ((1, false), (0, true)));
    assert_eq!((second.messages.len(), texts(&second.messages[0])), (first.messages.len(), vec!["one"]));
}

/// An answer whose results have more than 600,000 estimated tokens.
const LONG_CALLS: Reply = Calls(&[("long", "{}"); 20]);

/// Returns an agent with the tool `long`, whose result has 100,000 bytes.
async fn with_long_tool(does: impl IntoIterator<Item = Reply>, window: u64, limits: SessionLimits) -> TestAgent {
    let mut stage = TestAgent::with_limits(does, 0, window, limits).await;
    stage.internal = vec![Arc::new(FixedTool::new("long", json!("word ".repeat(20_000)).into()))];
    stage
}

/// Each result counts 200,000 bytes, because it is stored twice: for the user and for the model.
#[tokio::test]
async fn turn_ends_when_results_reach_their_limit() {
    let calls = || Calls(&[("long", "{}"); 12]);
    let does = [calls(), Says("Go on."), calls()];
    let limits = SessionLimits { result_bytes: 500_000, ..SessionLimits::default() };
    let stage = with_long_tool(does, 10_000_000, limits).await;
    let outcome = stage.say("one").await;
    assert_eq!(outcome.code, Code::LimitResults, "{outcome:?}");
    assert!(outcome.message.ends_with("Send any message to continue."), "{outcome:?}");
    let rows = stage.agent.rows().await.unwrap();
    let results: Vec<_> = rows.iter().filter(|row| row.kind == MessageKind::Tool).collect();
    let long = results.iter().filter(|row| row.content.len() == 100_000).count();
    let stored: usize = results.iter().map(|row| row.content.len() + json!(row.data).to_string().len()).sum();
    assert_eq!((results.len(), long), (12, 2), "each call has its result");
    assert!(stored < 500_000, "{stored}");
    let refused = "'long' ran, but its result of ";
    let said = |start: &str| results.iter().filter(|row| row.content.starts_with(start)).count();
    // Eight run at once.
    assert!(said(refused) >= 1 && said(refused) + said("'long' was not run: ") == 10, "{}", said(refused));
    // No turn of the session calls tools until the next message of the user is counted.
    assert_eq!(stage.say("two").await.code, Code::LimitResults);
    stage.agent.place.results.message_came();
    assert_eq!(stage.say("three").await.message, "Go on.");
    assert_eq!(stage.say("four").await.code, Code::LimitResults);
}

#[tokio::test]
async fn results_longer_than_the_window_are_summarised() {
    let does = [LONG_CALLS, Says("In short."), Says("Done.")];
    let stage = with_long_tool(does, 128_000, SessionLimits::default()).await;
    assert_eq!(stage.say("read all").await.message, "Done.");
    let [_, summary, next] = stage.all_requests();
    let size = crate::tokens::tokens(&summary.messages);
    assert!((90_000..110_000).contains(&size), "{size}");
    let results = summary.messages[2].parts.iter().filter_map(|part| match &part.block {
        Block::ToolResult(result) => Some(format!("{:?}", result.content)),
        _ => None,
    });
    let results: Vec<_> = results.collect();
    assert!(results.len() == 20 && results.iter().all(|result| result.contains(" bytes were left out]")));
    assert!(texts(&summary.messages[2])[0].starts_with("Summarise the conversation so far."));
    assert_eq!(summary.hints.bound_from, Some(2));
    // The results are not sent again.
    assert_eq!((next.messages.len(), next.messages[0].parts.len()), (1, 4));
    assert_eq!(texts(&next.messages[0])[1..], ["What is being worked on:", "read all"]);
}

#[tokio::test]
async fn refused_results_are_shortened_until_they_fit() {
    let does = [LONG_CALLS, TooLong, TooLong, Says("In short."), Says("Done.")];
    let stage = with_long_tool(does, 1_000_000, SessionLimits::default()).await;
    assert_eq!(stage.say("read all").await.message, "Done.");
    let sizes = stage.all_requests().map(|request| crate::tokens::tokens(&request.messages));
    let [_, turn, first, second, next] = sizes;
    assert!(turn > 600_000 && first < turn / 2 + 1_000 && second < first / 2 + 1_000 && next < 1_000, "{sizes:?}");
}

/// The conversation is not lost: the command and the next message work.
#[tokio::test]
async fn summary_is_requested_six_times_at_most() {
    let refusals = (0..7).map(|_| TooLong);
    let later = [Says("In short."), Says("Right.")];
    let stage =
        with_long_tool([LONG_CALLS].into_iter().chain(refusals).chain(later), 1_000_000, SessionLimits::default())
            .await;
    let outcome = stage.say("read all").await;
    assert_eq!(outcome.code, Code::CompactionFailed);
    assert!(outcome.message.contains("could not be summarised: demo: prompt is too long."), "{outcome:?}");
    assert_eq!(stage.requests().len(), 8);
    let compacted = stage.compact().await.unwrap();
    assert!(compacted.before > 600_000 && compacted.after < 100, "{compacted:?}");
    assert_eq!(stage.say("and now?").await.message, "Right.");
    assert_eq!(texts(&stage.asked()[0])[1..], ["and now?"]);
}

#[tokio::test]
async fn runaway_answer_is_summarised_before_the_next_request() {
    let endless = "word ".repeat(800_000).leak();
    let does = [Breaks(endless), Says("In short."), Says("Right.")];
    let stage = TestAgent::with_window(does, 128_000).await;
    assert_eq!(stage.say("one").await.code, Code::Internal);
    assert_eq!(stage.say("two").await.message, "Right.");
    let [_, summary, next] = stage.all_requests();
    let said = texts(&summary.messages[1])[0];
    assert!(said.starts_with("word word") && said.contains(" bytes were left out]\n"), "{}", said.len());
    assert!(crate::tokens::tokens(&summary.messages) < 110_000);
    assert_eq!((next.messages.len(), texts(&next.messages[0])[1]), (1, "two"));
}

#[tokio::test]
async fn middle_of_a_summary_that_is_too_long_is_left_out() {
    let text: &'static str = format!("The beginning. {}The end.", "word ".repeat(400)).leak();
    let stage = TestAgent::new([Says("Yes."), Says(text), Says("Right.")]).await;
    stage.say("one").await;
    assert_eq!(stage.say(&"word ".repeat(500)).await.message, "Right.");
    let rows = stage.rows().await;
    let summary = rows.iter().find(|row| row.kind == MessageKind::Compaction).unwrap().content.as_str();
    // Half of the window's 1,000 tokens.
    assert!((1_400..1_500).contains(&summary.len()), "{}", summary.len());
    assert!(summary.starts_with("The beginning. word") && summary.ends_with("word The end."), "{summary}");
    assert!(summary.contains(" bytes were left out]\n"), "{summary}");
    let [_, request, _] = stage.all_requests();
    let instruction = texts(request.messages.last().unwrap())[0];
    assert!(instruction.contains("at most 125 words"), "{instruction}");
}

#[tokio::test]
async fn failed_command_advises_the_command() {
    let stage = TestAgent::wide([Says("Yes."), Fails]).await;
    stage.say("one").await;
    let outcome = stage.compact().await.unwrap_err();
    let expected = "the conversation could not be summarised: it broke. It is kept as it was; try /compact again, \
        or choose a model with a larger context window with /model.";
    assert_eq!((outcome.code, outcome.message.as_str()), (Code::CompactionFailed, expected));
}

#[tokio::test]
async fn repeated_request_keeps_its_attachments() {
    let does = [NO_TOOL, Says("In short."), Says("Done.")];
    let stage = TestAgent::with_window(does, 100).await;
    let file = |name: &str, media_type: &str, digest| {
        let (name, media_type) = (name.to_owned(), media_type.to_owned());
        Attachment { name, media_type, digest, size: 4 }
    };
    let files = [
        file("a.txt", TEXT_MEDIA, Digest::of(b"text")),
        file("b.txt", TEXT_MEDIA, Digest::of(b"gone")),
        file("c.png", "image/png", Digest::of(b"text")),
    ];
    let message = stage.row(MessageKind::User, "find it", Attachment::to_data(&files));
    let attachments = Some(stage.store.store_attachments([&b"text"[..]]).unwrap());
    let change = SessionChange { messages: vec![message], attachments, ..SessionChange::default() };
    let rows = stage.log.commit(change, || {}).await.unwrap();
    assert_eq!(stage.run(rows[0].seq, 0).await.message, "Done.");
    let sent =
        ["a.txt:\n\ntext", "[file missing: b.txt]", "[image, not readable by this model: c.png]"].map(str::to_owned);
    let first = &stage.requests()[0].messages[0];
    assert_eq!(texts(first), [&*sent[0], &*sent[1], &*sent[2], "find it"]);
    let asked = stage.asked();
    let said = texts(&asked[0]);
    assert!(said[0].ends_with("In short."), "{said:?}");
    assert_eq!(said[1..], ["What is being worked on:", &*sent[0], &*sent[1], &*sent[2], "find it"]);
}

#[tokio::test]
async fn failed_summary_ends_the_turn_without_loss() {
    let stage = TestAgent::new([Says("Yes."), Fails, Says("In short."), Says(".")]).await;
    stage.say("one").await;
    let outcome = stage.say(&"word ".repeat(500)).await;
    assert_eq!(outcome.code, Code::CompactionFailed);
    assert!(outcome.message.contains("could not be summarised: it broke."), "{outcome:?}");
    assert_eq!(stage.kinds().await, ["user", "assistant", "user"]);
    assert_eq!(stage.say("again").await.code, Code::Answered);
}

#[tokio::test]
async fn override_replaces_the_model() {
    let stage = TestAgent::new((0..4).map(|_| Says("."))).await;
    let level = Some(patchbay_core::completion::ThinkingLevel::High);
    let own = Choice { level, ..choice("demo-1") };
    let chosen = |model_override| Chosen { model: Some(own.clone()), model_override };
    for (model_override, model) in [
        (None, "demo-1"),
        (Some(ModelOverride::Selector(Selector::Big)), "demo-big"),
        // No model of this size exists; the override has no effect.
        (Some(ModelOverride::Selector(Selector::Small)), "demo-1"),
        (Some(ModelOverride::Model("other".to_owned())), "other"),
    ] {
        let chosen = chosen(model_override);
        assert_eq!(Chosen::from_row(&chosen.to_row()), chosen);
        stage.agent.choose(chosen);
        stage.say("hello").await;
        let asked = stage.script.asked.lock().unwrap();
        let (choice, request) = asked.last().unwrap();
        assert_eq!((choice.model.as_str(), request.model.as_str(), request.thinking), (model, model, level));
    }
}

#[tokio::test]
async fn selector_that_selects_another_model_is_reported() {
    let stage = TestAgent::new((0..4).map(|_| Says("."))).await;
    let mut events = stage.log.subscribe(1);
    let model_override = Some(ModelOverride::Selector(Selector::Big));
    stage.agent.choose(Chosen { model: Some(choice("demo-1")), model_override });
    stage.say("one").await;
    stage.say("two").await;
    *stage.script.big.lock().unwrap() = "demo-2-big";
    stage.say("three").await;
    stage.say("four").await;
    assert_eq!(notices(&mut events).await, [format!("'big' is now demo-2-big for agent {}.", stage.agent.id())]);
}

#[tokio::test]
async fn selector_is_compared_with_the_last_answer_after_a_restart() {
    let big = Chosen { model: Some(choice("demo-1")), model_override: Some(ModelOverride::Selector(Selector::Big)) };
    let stage = TestAgent::new((0..7).map(|_| Says("."))).await;
    let mut events = stage.log.subscribe(1);
    stage.agent.choose(big.clone());
    stage.say("one").await;
    *stage.script.big.lock().unwrap() = "demo-2-big";
    let stage = stage.resumed();
    stage.say("two").await;
    assert_eq!(notices(&mut events).await, [format!("'big' is now demo-2-big for agent {}.", stage.agent.id())]);
    // Neither the same model as before the restart nor a new selector counts as news.
    let stage = stage.resumed();
    stage.say("three").await;
    stage.agent.choose(Chosen { model_override: None, ..big.clone() });
    stage.say("four").await;
    let stage = stage.resumed();
    stage.agent.choose(big.clone());
    stage.say("five").await;
    assert_eq!(stage.script.asked.lock().unwrap().last().unwrap().0.model, "demo-2-big");
    // The last answer before the restart was not by this selector.
    stage.agent.choose(Chosen { model_override: None, ..big.clone() });
    stage.say("six").await;
    let stage = stage.resumed_with(big);
    stage.say("seven").await;
    assert_eq!(notices(&mut events).await, [] as [&str; 0]);
}

#[tokio::test]
async fn deltas_have_their_positions() {
    let stage = TestAgent::new([]).await;
    let mut events = stage.log.subscribe(1);
    let at = DeltaPosition { turn: 5, answer: 1, ..DeltaPosition::default() };
    let buffer = AnswerBuffer::new(AssistantRecord::default());
    let (log, agent) = (Arc::clone(&stage.log), stage.agent.id());
    let mut receiver = AnswerSink { log, agent, at, buffer: Arc::clone(&buffer) };
    let blocks = [(BlockKind::Thinking, "hmm"), (BlockKind::Text, "One two"), (BlockKind::Text, "three ä")];
    for (index, (kind, text)) in (0..).zip(blocks) {
        receiver.event(StreamEvent::BlockStart { index, kind });
        for piece in text.split_inclusive(' ') {
            receiver.event(StreamEvent::BlockDelta { index, text: piece.to_owned() });
        }
        receiver.event(StreamEvent::BlockEnd { index, opaque: None });
    }
    let (mut text, mut thinking) = (String::new(), String::new());
    for kind in published(&mut events).await {
        let EventKind::Delta { block, text: piece, at } = kind else { panic!("{kind:?}") };
        let whole = if block == DeltaKind::Text { &mut text } else { &mut thinking };
        assert_eq!((at.turn, at.answer, at.offset), (5, 1, whole.len() as u64), "{piece:?}");
        whole.push_str(&piece);
    }
    assert_eq!((text.as_str(), thinking.as_str()), ("One two\n\nthree ä", "hmm"));
    assert_eq!(buffer.take().text(), text);
}

#[tokio::test]
async fn call_of_an_answer_that_was_cut_off_is_not_run() {
    let stage = TestAgent::new([CutOff(Stop::MaxTokens, "no__tool"), Says("Again.")]).await;
    assert_eq!(stage.say("go").await.message, "Again.");
    assert_eq!(stage.kinds().await, ["user", "assistant", "tool", "assistant"]);
    let rows = stage.rows().await;
    let record: ToolRecord = serde_json::from_value(rows[2].data.clone().unwrap()).unwrap();
    assert_eq!(record.error, Some(Code::NotRun));
    assert!(rows[2].content.starts_with("'no__tool' was not run: the answer was cut off."), "{}", rows[2].content);
    // A refusal and a provider's filter end the turn, and a notice says so.
    for (stop, words) in [
        (Stop::Refusal, "The model refuses to answer this."),
        (Stop::ContentFilter, "The provider's filter cut the answer off."),
    ] {
        let stage = TestAgent::new([CutOff(stop, "no__tool")]).await;
        let mut events = stage.log.subscribe(1);
        assert_eq!(stage.say("go").await.code, Code::Answered);
        assert_eq!(notices(&mut events).await, [words]);
        assert_eq!(stage.kinds().await, ["user", "assistant", "tool"]);
    }
}

/// A call that is too long for the model is not requested again and again. The report to the parent says that the turn failed.
#[tokio::test]
async fn third_answer_that_is_cut_off_ends_the_turn() {
    let cut_off = || CutOff(Stop::MaxTokens, "no__tool");
    // A complete answer begins a new count.
    let does = [cut_off(), cut_off(), NO_TOOL, cut_off(), cut_off(), cut_off()];
    let stage = TestAgent::wide(does).await;
    let mut events = stage.log.subscribe(1);
    let began = stage.add(stage.row(MessageKind::User, "go", None)).await;
    let mut turn = stage.turn(began, 0);
    turn.ending.report_to = Some(stage.agent.id());
    let outcome = stage.agent.run(&turn).await;
    let words = "The answer is cut off: it reached the model's output limit.";
    let data = serde_json::to_value(&outcome.data).unwrap();
    assert_eq!((outcome.code, &data["stop"], &data["failure"]), (Code::Answered, &json!("max-tokens"), &json!(words)));
    assert_eq!(stage.requests().len(), 6);
    assert_eq!(stage.kinds().await[1..], ["assistant", "tool"].repeat(6));
    assert_eq!(notices(&mut events).await, [words]);
    let mail = stage.store.mail(stage.agent.id(), 1).await.unwrap().unwrap();
    assert_eq!(mail.body, format!(r#"{{"status":"idle","success":false,"summary":"","error":"{words}"}}"#));
}

/// A tool that ends when as many calls run as its barrier expects.
struct MeetingTool {
    spec: ToolSpec,
    reads: bool,
    barrier: tokio::sync::Barrier,
    running: AtomicU32,
    most: AtomicU32,
    ended: AtomicU32,
}

impl MeetingTool {
    fn new(name: &str, reads: bool, calls: usize) -> Arc<Self> {
        let [running, most, ended] = [0; 3].map(AtomicU32::new);
        Arc::new(Self { spec: spec(name), reads, barrier: tokio::sync::Barrier::new(calls), running, most, ended })
    }
}

impl Internal for MeetingTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn only_reads(&self) -> bool {
        self.reads
    }

    fn run<'a>(&'a self, call: InternalCall<'a>) -> BoxFuture<'a, Result<InternalAnswer, InternalError>> {
        Box::pin(async move {
            let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(running, Ordering::Relaxed);
            self.barrier.wait().await;
            self.running.fetch_sub(1, Ordering::Relaxed);
            self.ended.fetch_add(1, Ordering::Relaxed);
            Ok(call.input.clone().into())
        })
    }
}

/// Returns a call for each name, with its position as the input.
fn numbered(names: &'static str) -> &'static [(&'static str, &'static str)] {
    let call = |(n, name)| (name, &*format!(r#"{{"n":{n}}}"#).leak());
    names.split(' ').enumerate().map(call).collect::<Vec<_>>().leak()
}

#[tokio::test]
async fn reading_calls_run_side_by_side_and_others_alone() {
    let calls = Calls(numbered("read read read write write read read read"));
    let mut stage = TestAgent::new([calls, Says("Done.")]).await;
    let (read, write) = (MeetingTool::new("read", true, 3), MeetingTool::new("write", false, 1));
    stage.internal = vec![read.clone(), write.clone()];
    // Three calls of `read` at a time must meet, or this hangs.
    let outcome = tokio::time::timeout(Duration::from_secs(60), stage.say("go")).await.unwrap();
    assert_eq!(outcome.message, "Done.");
    assert_eq!((read.most.load(Ordering::Relaxed), write.most.load(Ordering::Relaxed)), (3, 1));
    let results: Vec<String> =
        stage.rows().await.into_iter().filter(|row| row.kind == MessageKind::Tool).map(|row| row.content).collect();
    assert_eq!(results, (0..8).map(|n| format!("{{\n  \"n\": {n}\n}}")).collect::<Vec<_>>());
}

/// A tool that ends the turn or fails if its input says so.
struct EndingTool(ToolSpec);

impl Internal for EndingTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn ends_turn(&self, input: &serde_json::Value) -> bool {
        input["ends"] == true
    }

    fn run<'a>(&'a self, call: InternalCall<'a>) -> BoxFuture<'a, Result<InternalAnswer, InternalError>> {
        Box::pin(async move {
            if call.input["fails"] == true {
                return Err(InternalError { code: Code::LimitAgents, message: "no more.".to_owned() });
            }
            Ok(json!("begun").into())
        })
    }
}

#[tokio::test]
async fn call_that_ends_the_turn_saves_the_next_request() {
    const ENDS: (&str, &str) = ("begin", r#"{"ends": true}"#);
    const FAILS: (&str, &str) = ("begin", r#"{"ends": true, "fails": true}"#);
    const BOTH_END: &[(&str, &str)] = &[ENDS, ("begin", "{}"), ENDS];
    const ONE_FAILS: &[(&str, &str)] = &[FAILS, ENDS];
    const NONE_ENDS: &[(&str, &str)] = &[("begin", "{}")];
    for (calls, requests, message) in [(BOTH_END, 1, ""), (ONE_FAILS, 2, "I see."), (NONE_ENDS, 2, "I see.")] {
        let mut stage = TestAgent::new([Calls(calls), Says("I see.")]).await;
        stage.internal = vec![Arc::new(EndingTool(spec("begin")))];
        let outcome = stage.say("go").await;
        assert_eq!((outcome.code, &*outcome.message), (Code::Answered, message), "{calls:?}");
        assert_eq!(stage.requests().len(), requests, "{calls:?}");
        let results = stage.rows().await.into_iter().filter(|row| row.kind == MessageKind::Tool).count();
        assert_eq!(results, calls.len());
    }
}

/// A call that waits, for example for the user, does not hold up the calls after it. All are cancelled together, and the
/// results of calls that have ended are kept.
#[tokio::test]
async fn cancelled_calls_keep_the_results_of_the_others() {
    let calls = numbered("hang read read read read read read read read hang read");
    let mut stage = TestAgent::new([Calls(calls), Says("Done.")]).await;
    let (hang, read) = (MeetingTool::new("hang", true, 3), MeetingTool::new("read", true, 1));
    stage.internal = vec![hang.clone(), read.clone()];
    let cancelling = async {
        while read.ended.load(Ordering::Relaxed) < 9 || hang.running.load(Ordering::Relaxed) < 2 {
            tokio::task::yield_now().await;
        }
        stage.cancel.cancel();
    };
    let both = async { tokio::join!(stage.say("go"), cancelling) };
    let (outcome, ()) = tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
    assert_eq!(outcome.code, Code::TurnCancelled);
    let results: Vec<String> =
        stage.rows().await.into_iter().filter(|row| row.kind == MessageKind::Tool).map(|row| row.content).collect();
    let read: Vec<_> = calls.iter().filter(|(name, _)| *name == "read").map(|(_, input)| input).collect();
    assert_eq!(results.len(), 9);
    for (result, input) in results.iter().zip(read) {
        assert_eq!(result.split_whitespace().collect::<String>(), *input);
    }
    // The next request has a result for each call.
    let again = TestAgent { cancel: CancellationToken::new(), ..stage };
    assert_eq!(again.say("again").await.message, "Done.");
    let messages = again.asked();
    let parts = messages.iter().flat_map(|message| &message.parts);
    assert_eq!(parts.filter(|part| matches!(part.block, Block::ToolResult(_))).count(), 11);
}

#[tokio::test]
async fn hidden_tool_is_neither_declared_nor_run() {
    let mut stage = TestAgent::new([Calls(&[("secret", "{}")]), Says("Done.")]).await;
    let secret = FixedTool { hidden: true, ..FixedTool::new("secret", json!({}).into()) };
    stage.internal = vec![Arc::new(secret), MeetingTool::new("read", true, 1)];
    assert_eq!(stage.say("go").await.message, "Done.");
    let result = stage.rows().await[2].content.clone();
    assert_eq!(result, "tool 'secret' not found in snapshot.");
    let declared: Vec<_> = stage.requests()[0].tools.iter().map(|tool| tool.name.as_str().to_owned()).collect();
    assert_eq!(declared, ["read"]);
}

/// The process may die while an earlier call of the same answer runs.
#[tokio::test]
async fn result_behind_a_running_call_is_stored() {
    let mut stage = TestAgent::new([Calls(&[("hang", "{}"), ("read", r#"{"n":1}"#), ("hang", "{}")])]).await;
    stage.internal = vec![MeetingTool::new("hang", true, 3), MeetingTool::new("read", true, 1)];
    let id = |index| CallId::of_answer(stage.log.session(), 2, index);
    let stored = async {
        loop {
            match stage.store.kept_result(id(1)).await.unwrap() {
                Some(result) => return result,
                None => tokio::task::yield_now().await,
            }
        }
    };
    // Dropping the turn simulates the death of the process.
    let result = tokio::select! {
        outcome = stage.say("go") => panic!("it hangs: {outcome:?}"),
        stored = tokio::time::timeout(Duration::from_secs(60), stored) => stored.unwrap(),
    };
    assert_eq!(result.content.split_whitespace().collect::<String>(), r#"{"n":1}"#);
    let record: ToolRecord = serde_json::from_value(result.data.unwrap()).unwrap();
    assert_eq!((&*record.call_id, record.error), ("call_1", None));
    assert!(stage.store.kept_result(id(0)).await.unwrap().is_none());
    assert_eq!(stage.kinds().await, ["user", "assistant"]);
}

#[tokio::test]
async fn refusal_says_what_the_provider_says() {
    let stage = TestAgent::new([Refuses("It is about\u{1b} weather.")]).await;
    let mut events = stage.log.subscribe(1);
    assert_eq!(stage.say("go").await.code, Code::Answered);
    let expected = "The model refuses to answer this. The provider says: It is about weather.";
    assert_eq!(notices(&mut events).await, [expected]);
}
