//! A session with several agents in the test's own process. [`Play`] runs lines, waits until all agents are idle, and reads the
//! stored rows of each agent. It works with the demo provider or any other.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use patchbay_core::{AgentId, EventKind, MessageKind, Outcome, SessionId, ToolRecordPart, notification_line};
use patchbay_provider::{ProviderConfig, Settings};
use patchbay_session::{
    AgentInfo, AgentState, Approval, Approver, Host, PersonAnswer, Question, Received, Session, SessionLimits,
    Submitted,
};
use patchbay_store::MailRow;
use serde_json::{Value, json};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use crate::{
    PATIENCE,
    binary::Patchbay,
    host::{HostLimits, host_with},
    server::Server,
    session_events::{wait_for_end, wait_for_event},
    tree_check,
};

/// How every mail notification begins.
const NOTIFICATION: &str = "[Notification: ";

/// An open session and its home.
pub struct Play {
    /// The home that the session uses.
    pub patchbay: Patchbay,
    /// The host that has the session open.
    pub host: Arc<Host>,
    /// The session under test.
    pub session: Arc<Session>,
    settings: Settings,
    limits: HostLimits,
}

/// Returns settings that let the provider `demo` answer without pauses between words.
pub fn quick_demo() -> Settings {
    let mut demo = ProviderConfig::default();
    demo.options.insert("delay-ms".to_owned(), "0".to_owned());
    let mut settings = Settings::default();
    settings.providers.insert("demo".parse().expect("a name"), demo);
    settings
}

/// Like [`quick_demo`], with an additional provider `local` at `server`. Its model `local-1`, the default model, has a context
/// window of `window` tokens.
pub fn with_local_model(server: &Server, window: u64) -> Settings {
    let mut settings = quick_demo();
    let table = format!(
        "adapter = \"openai-compatible\"\norigin = \"http://{}/v1\"\nmodels = [{{ id = \"local-1\", context_window = {window} }}]",
        server.host()
    );
    settings.providers.insert("local".parse().expect("a name"), toml::from_str(&table).expect("a table"));
    settings.default_model = Some("local-1".to_owned());
    settings
}

impl Play {
    /// Starts a session with default limits and a demo provider without pauses.
    pub async fn new() -> Self {
        Self::with(quick_demo(), HostLimits::default()).await
    }

    /// Like [`Play::new`], with these session limits.
    pub async fn limited(change: impl FnOnce(&mut SessionLimits)) -> Self {
        let mut limits = SessionLimits::default();
        change(&mut limits);
        Self::with(quick_demo(), limits).await
    }

    /// Starts a session with these providers and limits.
    pub async fn with(settings: Settings, limits: impl Into<HostLimits>) -> Self {
        Self::at(Patchbay::new(), settings, limits).await
    }

    /// Starts a session in the home of `patchbay`.
    pub async fn at(patchbay: Patchbay, settings: Settings, limits: impl Into<HostLimits>) -> Self {
        let limits = limits.into();
        let host = host_with(&patchbay, settings.clone(), limits.clone());
        Self::on(host, patchbay, settings, limits).await
    }

    /// Starts a session on `host`, which has the home of `patchbay` and these providers and limits.
    pub async fn on(host: Arc<Host>, patchbay: Patchbay, settings: Settings, limits: impl Into<HostLimits>) -> Self {
        let session = host.new_session(&patchbay.workspace()).await.expect("a session");
        Self { patchbay, host, session, settings, limits: limits.into() }
    }

    /// Resumes a stored session in the home of `patchbay` in a new host.
    pub async fn resume(patchbay: Patchbay, id: SessionId, settings: Settings, limits: impl Into<HostLimits>) -> Self {
        let limits = limits.into();
        let host = host_with(&patchbay, settings.clone(), limits.clone());
        let session = host.resume(id).await.expect("a stored session");
        Self { patchbay, host, session, settings, limits }
    }

    /// Closes the session and resumes it in a new host, as a new process would.
    #[must_use]
    pub async fn restarted(self) -> Self {
        let Self { patchbay, host, session, settings, limits } = self;
        session.close().await;
        let id = session.id();
        drop((host, session));
        Self::resume(patchbay, id, settings, limits).await
    }

    /// Copies the home as `kill -9` would leave it now, with nothing running in the copy. No row may be written meanwhile.
    pub fn killed_home(&self) -> Patchbay {
        self.patchbay.copied_home()
    }

    /// Runs a line for the agent in view and returns its outcome. Other agents may still run.
    pub async fn run(&self, line: &str) -> Outcome {
        wait_for_end(self.session.submit(line)).await
    }

    /// Runs a line, which must succeed.
    pub async fn ok(&self, line: &str) -> Outcome {
        let outcome = self.run(line).await;
        assert!(outcome.is_ok(), "{line}: {}", outcome.line());
        outcome
    }

    /// Runs a line and waits until all agents are idle.
    pub async fn finish(&self, line: &str) -> Outcome {
        let outcome = self.run(line).await;
        self.idle().await;
        outcome
    }

    /// Runs a line and returns its code.
    pub async fn code(&self, line: &str) -> String {
        self.run(line).await.code.to_string()
    }

    /// Runs a line and returns the text that a front prints for it.
    pub async fn text(&self, line: &str) -> String {
        self.run(line).await.line().into_owned()
    }

    /// Asserts the code and the text of a line's outcome.
    pub async fn assert_line(&self, line: &str, code: &str, text: &str) {
        let outcome = self.run(line).await;
        assert_eq!((outcome.code.as_str(), &*outcome.line()), (code, text), "{line}");
    }

    /// Waits until no agent is running or about to run.
    pub async fn idle(&self) {
        timeout(PATIENCE, self.session.wait_idle()).await.expect("all agents are idle");
    }

    /// Runs `/fork` with `argument` and returns the child, which is then in view.
    pub async fn fork(&self, argument: &str) -> AgentId {
        let outcome = self.run(format!("/fork {argument}").trim_end()).await;
        assert_eq!(outcome.code.as_str(), "forked", "{argument}: {}", outcome.message);
        outcome.forked().expect("a child").child_uuid
    }

    /// Lets the model of the agent in view fork a child. Returns the child, whose turn may still be running.
    pub async fn call_fork(&self, prompt: &str) -> AgentId {
        let before = self.ids().await;
        let outcome = self.run(&format!("call fork {}", json!({"prompt": prompt}))).await;
        assert_eq!(outcome.code.as_str(), "answered", "{}", outcome.message);
        self.ids().await.into_iter().find(|id| !before.contains(id)).expect("a child")
    }

    /// Moves the view to this agent.
    pub async fn switch(&self, agent: AgentId) {
        self.assert_line(&format!("/switch {agent}"), "switched", &format!("Switched to {agent}.")).await;
    }

    /// Returns the living agents, children after their parents; the root is first.
    pub async fn living(&self) -> Vec<AgentInfo> {
        self.session.agent_tree().await.expect("the agents").living
    }

    /// Returns the ids of the living agents.
    pub async fn ids(&self) -> Vec<AgentId> {
        self.living().await.iter().map(|agent| agent.id).collect()
    }

    /// Returns the ids of the living agents besides the root.
    pub async fn children(&self) -> Vec<AgentId> {
        self.ids().await.split_off(1)
    }

    /// Returns the living agent with this id.
    pub async fn agent(&self, id: AgentId) -> AgentInfo {
        self.living().await.into_iter().find(|agent| agent.id == id).expect("a living agent")
    }

    /// Waits until an agent has this state.
    pub async fn wait_for_state(&self, id: AgentId, state: AgentState) {
        self.wait_until(&format!("{id} is {state:?}"), async || self.agent(id).await.state == state).await;
    }

    /// Waits until `condition` holds; `what` describes it in the panic message.
    pub async fn wait_until(&self, what: &str, mut condition: impl AsyncFnMut() -> bool) {
        let holds = async {
            while !condition().await {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, holds).await.unwrap_or_else(|_| panic!("this never happened: {what}"));
    }

    /// Waits until the text of a hanging answer is stored, which happens a moment after the text arrived.
    pub async fn wait_for_partial(&self, text: &str) {
        let stored = async || {
            let partial = self.host.store().partial_answers(self.session.id(), patchbay_agent::join_pieces).await;
            partial.expect("the answers").iter().any(|row| row.content == text)
        };
        self.wait_until(&format!("{text:?} is stored"), stored).await;
    }

    /// Submits the message `say TEXT` to the agent in view, whose answer then hangs, and waits for the whole text. No other agent
    /// may answer meanwhile.
    pub async fn hang(&self, message: &str) -> Submitted {
        let said: Vec<&str> = message.lines().filter_map(|line| line.strip_prefix("say ")).collect();
        let said = said.join("\n");
        let mut events = self.session.subscribe(self.session.last_seq() + 1);
        let line = self.session.submit(message);
        let mut so_far = String::new();
        while so_far != said {
            let delta = wait_for_event(&mut events, |kind| matches!(kind, EventKind::Delta { .. })).await;
            if let EventKind::Delta { text, .. } = delta {
                so_far += &text;
            }
        }
        line
    }

    /// Returns the rows of an agent, without inherited rows.
    pub async fn rows(&self, agent: AgentId) -> Vec<EventKind> {
        let mut events = self.session.subscribe(1);
        let mut rows = Vec::new();
        while let Some(received) = events.try_next().await.expect("the store can be read") {
            if let Received::Event(event) = received
                && event.agent == agent
                && matches!(event.kind, EventKind::Message { .. })
            {
                rows.push(event.kind);
            }
        }
        rows
    }

    /// Returns the texts of an agent's own rows of one kind.
    pub fn texts(&self, agent: AgentId, kind: MessageKind) -> Vec<String> {
        let database = self.patchbay.database("patchbay.db");
        let sql = "SELECT content FROM messages WHERE agent = ? AND kind = ? ORDER BY seq";
        let mut query = database.prepare(sql).expect("a query");
        let kind = json!(kind);
        let rows = query.query_map((agent.to_string(), kind.as_str()), |row| row.get(0)).expect("rows");
        rows.collect::<Result<_, _>>().expect("rows")
    }

    /// Returns the messages to an agent. Mail notifications appear as the lines that fronts show.
    pub fn said(&self, agent: AgentId) -> Vec<String> {
        let mut texts = self.texts(agent, MessageKind::User);
        for text in texts.iter_mut().filter(|text| text.starts_with(NOTIFICATION)) {
            *text = notification_line(text).to_owned();
        }
        texts
    }

    /// Returns the mail notifications to an agent, as the lines that fronts show.
    pub fn notifications(&self, agent: AgentId) -> Vec<String> {
        let mut texts = self.said(agent);
        texts.retain(|text| text.starts_with(NOTIFICATION));
        texts
    }

    /// Returns the mail that an agent's notifications contain, in order and in the form that `mail_read` returns.
    pub fn notified(&self, agent: AgentId) -> Vec<Value> {
        let texts = self.texts(agent, MessageKind::User);
        let notifications = texts.iter().filter(|text| text.starts_with(NOTIFICATION));
        let lines = notifications.flat_map(|text| text.lines()).filter(|line| line.starts_with("{\"number\":"));
        lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Returns the texts of all answers of an agent that have text.
    pub fn answers(&self, agent: AgentId) -> Vec<String> {
        let mut texts = self.texts(agent, MessageKind::Assistant);
        texts.retain(|text| !text.is_empty());
        texts
    }

    /// Returns the tool results that an agent's model has received.
    pub async fn results(&self, agent: AgentId) -> Vec<Value> {
        let rows = self.rows(agent).await;
        let records = rows.iter().filter_map(EventKind::tool_result);
        let parts = records.flat_map(|record| record.content);
        let texts = parts.filter_map(|part| match part {
            ToolRecordPart::Text { text } => Some(text),
            _ => None,
        });
        texts.map(|text| serde_json::from_str(&text).expect("JSON")).collect()
    }

    /// Returns the inbox of an agent, in the order of `/mail-check`.
    pub async fn inbox(&self, agent: AgentId) -> Vec<MailRow> {
        self.host.store().inbox(agent, None).await.expect("the inbox")
    }

    /// Returns the bodies of an agent's mail in the order of their numbers.
    pub async fn mails(&self, agent: AgentId) -> Vec<String> {
        let mut inbox = self.inbox(agent).await;
        inbox.sort_by_key(|mail| mail.number);
        inbox.into_iter().map(|mail| mail.body).collect()
    }

    /// Returns the stored turns of an agent: cause, state and code.
    pub fn turns(&self, agent: AgentId) -> Vec<(String, String, String)> {
        let database = self.patchbay.database("patchbay.db");
        let query = "SELECT cause, state, coalesce(code, '') FROM turns WHERE agent = ? ORDER BY began";
        let mut query = database.prepare(query).expect("a query");
        let rows = query.query_map([agent.to_string()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        rows.expect("rows").collect::<Result<_, _>>().expect("rows")
    }

    /// Checks the stored tree. Nothing may be running.
    pub fn check(&self) {
        tree_check::check(&self.patchbay.database("patchbay.db"), &self.session.id().to_string());
    }
}

/// Approves each question for the session once the test releases it, and counts the questions. A turn whose tool asks therefore
/// stays at this call as long as the test needs.
#[derive(Default)]
pub struct AllowsForSession {
    /// The number of questions so far.
    pub asked: AtomicUsize,
    /// Releases the open question, or the next one.
    pub released: Notify,
}

impl Approver for AllowsForSession {
    fn approve(&self, _: Question) -> BoxFuture<'_, PersonAnswer> {
        Box::pin(async {
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.released.notified().await;
            Approval::Session.into()
        })
    }
}

/// Gives the same answer to every question immediately, and records the questions.
pub struct Answering {
    answer: Approval,
    /// The title of each question, followed by its facts and a file's diff.
    pub asked: Mutex<Vec<(String, Vec<String>)>>,
}

impl Answering {
    /// Returns a user who always answers `answer`.
    pub fn new(answer: Approval) -> Arc<Self> {
        Arc::new(Self { answer, asked: Mutex::default() })
    }
}

impl Approver for Answering {
    fn approve(&self, question: Question) -> BoxFuture<'_, PersonAnswer> {
        let diff = question.subject.diff().map(ToString::to_string);
        let about = (question.subject.title(), question.subject.facts().into_iter().chain(diff).collect());
        self.asked.lock().expect("no panic").push(about);
        Box::pin(async { self.answer.into() })
    }
}

/// Replaces each UUID in `text`, in full or shortened to 8 characters, with `<1>`, `<2>`, … in the order of `agents`.
pub fn named(text: &str, agents: &[AgentId]) -> String {
    agents.iter().zip(1..).fold(text.to_owned(), |text, (agent, number)| {
        let name = format!("<{number}>");
        text.replace(&agent.to_string(), &name).replace(&agent.short(), &name)
    })
}
