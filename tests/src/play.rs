//! A session with several agents in the test's own process: runs lines, waits until all agents are idle, and reads what is
//! stored for each agent. For tests and plays of agents, with the demo provider or any other.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use patchbay_core::{AgentId, EventKind, MessageKind, Outcome, ToolRecordPart};
use patchbay_provider::{ProviderConfig, Settings};
use patchbay_sandbox::{BoxFuture, Limits};
use patchbay_session::{AgentInfo, AgentState, Approval, Approver, Host, Question, Received, Session};
use patchbay_store::MailRow;
use serde_json::Value;
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use crate::{
    binary::Patchbay,
    host::host_with,
    server::Server,
    session_events::{wait_for_end, wait_for_event},
};

/// The time limit of all waiting functions.
const PATIENCE: Duration = Duration::from_secs(60);

/// A session and its home.
pub struct Play {
    /// The home of the session.
    pub patchbay: Patchbay,
    /// The host that has the session open.
    pub host: Arc<Host>,
    /// The session.
    pub session: Arc<Session>,
}

/// Returns settings with which the provider `demo` does not wait between its words.
///
/// # Panics
/// Never.
pub fn quick_demo() -> Settings {
    let mut demo = ProviderConfig::default();
    demo.options.insert("delay-ms".to_owned(), "0".to_owned());
    let mut settings = Settings::default();
    settings.providers.insert("demo".parse().expect("a name"), demo);
    settings
}

/// As [`quick_demo`], with a further provider `local` at `server`, which has the model `local-1` with a context window of
/// `window` tokens. `local-1` is the default model.
///
/// # Panics
/// Never.
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
    /// Starts a session with default limits and a demo provider without delays.
    ///
    /// # Panics
    /// If it cannot be started.
    pub async fn new() -> Self {
        Self::with(quick_demo(), Limits::default()).await
    }

    /// As [`Play::new`], with other limits.
    ///
    /// # Panics
    /// If it cannot be started.
    pub async fn limited(change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        Self::with(quick_demo(), limits).await
    }

    /// Starts a session with these providers and limits.
    ///
    /// # Panics
    /// If it cannot be started.
    pub async fn with(settings: Settings, limits: Limits) -> Self {
        Self::at(Patchbay::new(), settings, limits).await
    }

    /// Starts a session in the home of `patchbay`.
    ///
    /// # Panics
    /// If it cannot be started.
    pub async fn at(patchbay: Patchbay, settings: Settings, limits: Limits) -> Self {
        let host = host_with(&patchbay, settings, limits);
        let session = host.new_session(&patchbay.workspace()).await.expect("a session");
        Self { patchbay, host, session }
    }

    /// Closes the session and resumes it, as a new process does.
    ///
    /// # Panics
    /// If it cannot be resumed.
    #[must_use]
    pub async fn resumed(self) -> Self {
        let Self { patchbay, host, session } = self;
        session.close().await;
        let session = host.resume(session.id()).await.expect("the session");
        Self { patchbay, host, session }
    }

    /// Runs a line for the agent in view and returns its outcome. Other agents may still run.
    ///
    /// # Panics
    /// If it does not end in time.
    pub async fn line(&self, line: &str) -> Outcome {
        wait_for_end(self.session.submit(line)).await
    }

    /// Runs a line and returns its text, as a front prints it.
    ///
    /// # Panics
    /// The same as [`Play::line`].
    pub async fn text(&self, line: &str) -> String {
        self.line(line).await.line().into_owned()
    }

    /// Runs a line and waits until all agents are idle.
    ///
    /// # Panics
    /// If they are not idle in time.
    pub async fn play(&self, line: &str) -> Outcome {
        let outcome = self.line(line).await;
        self.idle().await;
        outcome
    }

    /// Waits until no agent runs or is about to.
    ///
    /// # Panics
    /// If they are not idle in time.
    pub async fn idle(&self) {
        timeout(PATIENCE, self.session.wait_idle()).await.expect("all agents are idle");
    }

    /// Asserts the outcome of a line: code and text.
    ///
    /// # Panics
    /// If the outcome is another one.
    pub async fn assert_line(&self, line: &str, code: &str, text: &str) {
        let outcome = self.line(line).await;
        assert_eq!((outcome.code.as_str(), &*outcome.line()), (code, text), "{line}");
    }

    /// Runs a `/fork` command and returns the child, which is then in view.
    ///
    /// # Panics
    /// If it fails.
    pub async fn fork(&self, command: &str) -> AgentId {
        let outcome = self.line(command).await;
        assert_eq!(outcome.code.as_str(), "forked", "{command}: {}", outcome.message);
        self.session.view()
    }

    /// Moves the view.
    ///
    /// # Panics
    /// If it fails.
    pub async fn switch(&self, agent: AgentId) {
        self.assert_line(&format!("/switch {agent}"), "switched", &format!("Switched to {agent}.")).await;
    }

    /// Returns the living agents, children after their parents; the root is first.
    ///
    /// # Panics
    /// If the store cannot be read.
    pub async fn agents(&self) -> Vec<AgentInfo> {
        self.session.agent_tree().await.expect("the agents").living
    }

    /// Returns the ids of the living agents.
    ///
    /// # Panics
    /// If the store cannot be read.
    pub async fn ids(&self) -> Vec<AgentId> {
        self.agents().await.iter().map(|agent| agent.id).collect()
    }

    /// Returns a living agent.
    ///
    /// # Panics
    /// If it is dead.
    pub async fn agent(&self, id: AgentId) -> AgentInfo {
        self.agents().await.into_iter().find(|agent| agent.id == id).expect("a living agent")
    }

    /// Waits until an agent has this state.
    ///
    /// # Panics
    /// If it does not have it in time.
    pub async fn wait_for_state(&self, id: AgentId, state: AgentState) {
        self.wait_until(async || self.agent(id).await.state == state).await;
    }

    /// Waits until `condition` holds.
    ///
    /// # Panics
    /// If it does not hold in time.
    pub async fn wait_until(&self, condition: impl AsyncFn() -> bool) {
        let holds = async {
            while !condition().await {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, holds).await.expect("the condition holds");
    }

    /// Submits a message `say TEXT` to the agent in view, whose answer then hangs, and waits for the whole text. No other agent
    /// may answer meanwhile.
    ///
    /// # Panics
    /// If the text does not come in time.
    pub async fn hang(&self, message: &str) -> patchbay_session::Submitted {
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

    /// Returns the rows of an agent, without those that it inherits.
    ///
    /// # Panics
    /// If the store cannot be read.
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
    ///
    /// # Panics
    /// If the store cannot be read.
    pub async fn texts(&self, agent: AgentId, wanted: MessageKind) -> Vec<String> {
        let text = |row| match row {
            EventKind::Message { kind, content, .. } if kind == wanted => Some(content),
            _ => None,
        };
        self.rows(agent).await.into_iter().filter_map(text).collect()
    }

    /// Returns the texts of all answers of an agent that have text.
    ///
    /// # Panics
    /// If the store cannot be read.
    pub async fn answers(&self, agent: AgentId) -> Vec<String> {
        let mut texts = self.texts(agent, MessageKind::Assistant).await;
        texts.retain(|text| !text.is_empty());
        texts
    }

    /// Returns what the model of an agent received as the results of its tools.
    ///
    /// # Panics
    /// If the store cannot be read, or a result is not JSON.
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
    ///
    /// # Panics
    /// If the store cannot be read.
    pub async fn inbox(&self, agent: AgentId) -> Vec<MailRow> {
        self.host.store().inbox(agent, None).await.expect("the inbox")
    }

    /// Returns the bodies of an agent's mail in the order of their numbers.
    ///
    /// # Panics
    /// If the store cannot be read.
    pub async fn mails(&self, agent: AgentId) -> Vec<String> {
        let mut inbox = self.inbox(agent).await;
        inbox.sort_by_key(|mail| mail.number);
        inbox.into_iter().map(|mail| mail.body).collect()
    }

    /// Returns the stored turns of an agent: cause, state and code.
    ///
    /// # Panics
    /// If the database cannot be read.
    pub fn turns(&self, agent: AgentId) -> Vec<(String, String, String)> {
        let database = self.patchbay.database("patchbay.db");
        let query = "SELECT cause, state, coalesce(code, '') FROM turns WHERE agent = ? ORDER BY began";
        let mut query = database.prepare(query).expect("a query");
        let rows = query.query_map([agent.to_string()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        rows.expect("rows").collect::<Result<_, _>>().expect("rows")
    }
}

/// Answers each question with yes for the session, once the test releases it, and counts the questions. So a turn whose tool
/// asks stays at this call for as long as the test needs.
#[derive(Default)]
pub struct AllowsForSession {
    /// The number of questions so far.
    pub asked: AtomicUsize,
    /// Releases the open question, or the next one.
    pub released: Notify,
}

impl Approver for AllowsForSession {
    fn approve(&self, _: Question) -> BoxFuture<'_, Approval> {
        Box::pin(async {
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.released.notified().await;
            Approval::Session
        })
    }
}

/// Gives the same answer to each question at once, and keeps what the questions were about.
pub struct Answering {
    answer: Approval,
    /// The title and the facts of each question.
    pub asked: Mutex<Vec<(String, Vec<String>)>>,
}

impl Answering {
    /// Returns a person who always answers `answer`.
    pub fn new(answer: Approval) -> Arc<Self> {
        Arc::new(Self { answer, asked: Mutex::default() })
    }
}

impl Approver for Answering {
    fn approve(&self, question: Question) -> BoxFuture<'_, Approval> {
        let about = (question.subject.title(), question.subject.facts());
        self.asked.lock().expect("no panic").push(about);
        Box::pin(async { self.answer })
    }
}

/// Replaces the UUIDs in `text`, whole or as their first 8 characters, by `<1>`, `<2>`, … in the order of `agents`.
pub fn named(text: &str, agents: &[AgentId]) -> String {
    agents.iter().zip(1..).fold(text.to_owned(), |text, (agent, number)| {
        let name = format!("<{number}>");
        text.replace(&agent.to_string(), &name).replace(&agent.short(), &name)
    })
}
