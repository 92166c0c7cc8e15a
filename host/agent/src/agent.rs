//! An agent of a session. The session creates it and runs its turns; commands read and change its model.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
};

use parking_lot::Mutex;
use patchbay_core::{
    AgentId, AssistantRecord, DeltaPosition, EventKind, Hasher, MessageKind, Outcome, PrincipalId, RequestLimit,
    SessionId,
    completion::{RequestHints, RequestPurpose, TokenUsage},
    text,
};
use patchbay_events::EventLog;
use patchbay_provider::{Choice, Selector};
use patchbay_sandbox::ProgressSink;
use patchbay_store::{BudgetSettings, Hold, ModelUsage, NewMessage};
use patchbay_tools::{ApprovalSlot, Tools};
use tokio::sync::OwnedMutexGuard;

use crate::{
    Chosen, CompactionSettings, ContextSettings, Model, Requests, ResultRoom, SessionLimits,
    conversation::data,
    receive::{AnswerBuffer, RetryNotice},
    requests::WaitNotice,
    spending::Spender,
};

/// Length of a cache key in hexadecimal digits.
const CACHE_KEY: usize = 32;

/// The context in which an agent runs: its session, its ancestors, its workspace, its user.
#[derive(Clone)]
pub struct AgentContext {
    /// The right to write its session.
    pub hold: Hold,
    /// The id of the agent itself.
    pub agent: AgentId,
    /// The agent's parent, the parent's parent, and so on up to the root; empty for the root.
    pub ancestors: Vec<AgentId>,
    /// The number of levels below the root, as `limits.agent_depth` counts them. 0 for the root, and for an agent that continues
    /// the root's conversation.
    pub depth: u64,
    /// Whether it continues the conversation of another agent. Then it does not count toward `limits.agents`.
    pub is_rewound: bool,
    /// Whether the user created it. This is true for the root, and for the agents that `/fork` and `/rewind` create.
    pub foreground: bool,
    /// The limit of the session's requests to models.
    pub requests: Arc<Requests>,
    /// The limit of the bytes of tool results that the session stores.
    pub results: Arc<ResultRoom>,
    /// Canonical path of the workspace.
    pub workspace: String,
    /// The user on whose behalf it works.
    pub principal: PrincipalId,
    /// Where questions about grants are answered.
    pub approvals: ApprovalSlot,
}

/// The settings with which agents run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentSettings {
    /// When a conversation is summarised.
    pub compaction: CompactionSettings,
    /// How many skills and tools a model is shown.
    pub context: ContextSettings,
    /// How much models may cost.
    pub budget: BudgetSettings,
    /// The limits of a session, which its agents share.
    pub limits: SessionLimits,
}

/// An agent: a conversation, a model, and the tools that it may call.
pub struct Agent {
    pub(crate) place: AgentContext,
    pub(crate) log: Arc<EventLog>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) settings: AgentSettings,
    chosen: Mutex<Chosen>,
    selected: Mutex<LastSelected>,
    /// Locked while a turn runs.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The answer that is being received, and its position. The buffer is dropped once the answer is stored.
    answering: Mutex<(DeltaPosition, Weak<AnswerBuffer>)>,
    /// Whether the running turn waits for a permit for its request.
    waits_for_permit: Arc<AtomicBool>,
    dead: AtomicBool,
    /// Tokens that its requests used.
    tokens: AtomicU64,
    /// Used tokens that are not stored yet.
    unsaved_tokens: AtomicU64,
    /// The amount that the last refused request needed; see [`Spender`].
    refused: Arc<AtomicI64>,
}

/// The model that a selector selected for the last request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum LastSelected {
    /// This process has not sent a request yet. The agent's last stored answer names the model.
    #[default]
    Unknown,
    /// The last request used no selector, or another choice was made since.
    None,
    Model(Selector, String),
}

/// The text of an answer that is being received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerSoFar {
    /// The turn: the number of its first row.
    pub turn: u64,
    /// The answer's index in the turn, from 0.
    pub answer: u32,
    /// Number of attempts at the answer that were given up.
    pub given_up: u32,
    /// The text received so far: the published pieces, joined.
    pub text: String,
    /// The thinking received so far: each block with its index in the answer.
    pub thinking: Vec<(u32, String)>,
}

/// Permission to run a turn of one agent. The next turn starts when this is dropped.
#[derive(Debug)]
pub struct TurnPermit {
    _held: OwnedMutexGuard<()>,
}

impl Agent {
    /// Creates the agent at `place`, which writes to `log` and uses the model `chosen`. `tokens` is the number of tokens that it
    /// has used before.
    pub fn new(
        place: AgentContext,
        log: Arc<EventLog>,
        model: Arc<dyn Model>,
        tools: Arc<Tools>,
        settings: AgentSettings,
        chosen: Chosen,
        tokens: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            place,
            log,
            model,
            tools,
            settings,
            chosen: Mutex::new(chosen),
            selected: Mutex::default(),
            turn: Arc::default(),
            answering: Mutex::default(),
            waits_for_permit: Arc::default(),
            dead: AtomicBool::new(false),
            tokens: AtomicU64::new(tokens),
            unsaved_tokens: AtomicU64::new(0),
            refused: Arc::default(),
        })
    }

    /// Returns the model for the next request. If a selector now selects a different model than for the last request, the
    /// provider's list has changed, and a notice is published.
    pub(crate) async fn next_choice(&self) -> Result<Choice, Outcome> {
        let chosen = self.chosen();
        let choice = chosen.effective(&*self.model).await?;
        let now = match chosen.selector() {
            Some(size) => LastSelected::Model(size, choice.model.clone()),
            None => LastSelected::None,
        };
        let mut last = std::mem::replace(&mut *self.selected.lock(), now.clone());
        if let (LastSelected::Model(size, _), LastSelected::Unknown) = (&now, &last)
            && let Some(model) = self.last_selected_by(*size).await?
        {
            last = LastSelected::Model(*size, model);
        }
        if let (LastSelected::Model(size, model), LastSelected::Model(last_size, last_model)) = (now, last)
            && size == last_size
            && model != last_model
        {
            let agent = self.place.agent;
            let text = format!("'{}' is now {} for agent {agent}.", size.as_str(), text::clean_line(&model));
            self.log.publish(agent, EventKind::Notice { text });
        }
        Ok(choice)
    }

    /// Returns the id of the agent.
    pub fn id(&self) -> AgentId {
        self.place.agent
    }

    /// Returns the parent's id; `None` for the root.
    pub fn parent(&self) -> Option<AgentId> {
        self.place.ancestors.first().copied()
    }

    /// Returns the ids of the parent, of its parent, and so on up to the root.
    pub fn ancestors(&self) -> &[AgentId] {
        &self.place.ancestors
    }

    /// Returns the number of levels below the root, as `limits.agent_depth` counts them.
    pub fn depth(&self) -> u64 {
        self.place.depth
    }

    /// Returns whether the agent continues the conversation of another one.
    pub fn is_rewound(&self) -> bool {
        self.place.is_rewound
    }

    /// Returns the agent that receives reports about turns that the user did not begin; `None` for the root, and for an agent
    /// that continues the root's conversation.
    pub fn reports_to(&self) -> Option<AgentId> {
        self.parent().filter(|_| self.place.depth > 0)
    }

    /// Returns whether the user created the agent.
    pub fn is_foreground(&self) -> bool {
        self.place.foreground
    }

    /// Returns whether the agent was killed. The store accepts no more rows from it.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Notes that the agent was killed. The caller has already committed the kill.
    pub fn die(&self) {
        self.dead.store(true, Ordering::Release);
    }

    /// Returns the answer that is being received; `None` if there is none or its row is stored.
    pub fn answer_so_far(&self) -> Option<AnswerSoFar> {
        let (at, buffer) = self.answering.lock().clone();
        let (text, thinking, given_up) = buffer.upgrade()?.so_far();
        Some(AnswerSoFar { turn: at.turn, answer: at.answer, given_up, text, thinking })
    }

    /// Returns the row of the unfinished answer so far; `None` if nothing was received yet.
    pub fn unfinished_answer(&self) -> Option<NewMessage> {
        let (text, record) = self.answering.lock().1.upgrade()?.unfinished()?;
        // This cannot fail, because JSON can represent every value in the record.
        let data = serde_json::to_value(record).ok();
        Some(NewMessage { agent: self.id(), kind: MessageKind::Assistant, content: text, data })
    }

    /// Notes that an answer begins at `at`.
    pub(crate) fn set_answering(&self, at: DeltaPosition, buffer: &Arc<AnswerBuffer>) {
        *self.answering.lock() = (at, Arc::downgrade(buffer));
    }

    /// Returns whether the running turn waits until fewer requests are under way.
    pub fn waits_for_permit(&self) -> bool {
        self.waits_for_permit.load(Ordering::Relaxed)
    }

    /// Returns a callback that notes and publishes that a request of the agent waits for a permit.
    pub(crate) fn wait_notice(&self) -> WaitNotice {
        let (log, agent, waits) = (Arc::clone(&self.log), self.place.agent, Arc::clone(&self.waits_for_permit));
        Arc::new(move |limit: Option<&RequestLimit>| {
            waits.store(limit.is_some(), Ordering::Relaxed);
            log.publish(agent, EventKind::RequestWaits { limit: limit.cloned() });
        })
    }

    /// Returns the tokens that the agent's requests used.
    pub fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }

    /// Counts the tokens of a request of this agent, for the session and for the agent. Tokens that were read from a cache do not
    /// count.
    pub(crate) fn spend(&self, usage: TokenUsage) {
        let tokens = usage.uncached();
        self.log.budget().spend(tokens);
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
        self.unsaved_tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    /// Records the tokens of a request to the model of `choice`. If a request gets no row, this is needed in addition to
    /// [`Agent::spend`].
    pub(crate) fn record_usage(&self, choice: &Choice, usage: TokenUsage) {
        self.log.budget().record(used_by(choice, usage));
    }

    /// Returns the `Spender` that sends the agent's requests.
    pub(crate) fn spender(&self) -> Spender {
        Spender {
            model: Arc::clone(&self.model),
            requests: Arc::clone(&self.place.requests),
            log: Arc::clone(&self.log),
            agent: self.place.agent,
            budget: self.settings.budget,
            refused: Arc::clone(&self.refused),
        }
    }

    /// Returns the budget.
    pub fn budget(&self) -> &BudgetSettings {
        &self.settings.budget
    }

    /// Returns whether the agent may be woken, which requires that neither the session's tokens nor the budget are used up.
    pub async fn can_spend(&self) -> bool {
        if self.log.budget().check().is_err() {
            return false;
        }
        match self.chosen().effective(&*self.model).await {
            Ok(choice) if self.settings.budget.is_set() => self.spender().affords(&choice).await,
            _ => true,
        }
    }

    /// Returns a callback that publishes the retries of a request whose answer is not published.
    pub(crate) fn retry_notice(&self) -> RetryNotice {
        let (log, agent) = (Arc::clone(&self.log), self.place.agent);
        Arc::new(move |retrying| log.publish(agent, EventKind::Retrying(retrying.clone())))
    }

    /// Returns the tokens that the next commit stores.
    pub(crate) fn take_unsaved_tokens(&self) -> u64 {
        self.unsaved_tokens.swap(0, Ordering::Relaxed)
    }

    /// Returns the hints of a request that is made for `purpose`, except the hint about its messages.
    pub(crate) fn hints(&self, purpose: RequestPurpose) -> RequestHints {
        RequestHints { purpose, cache_key: Some(cache_key(self.log.session())), bound_from: None }
    }

    /// Returns the chosen model.
    pub fn chosen(&self) -> Chosen {
        self.chosen.lock().clone()
    }

    /// Changes the model for the next request. The caller has committed the change.
    pub fn choose(&self, chosen: Chosen) {
        *self.chosen.lock() = chosen;
        // After a new choice, a different model does not mean that the provider's list has changed.
        *self.selected.lock() = LastSelected::None;
    }

    /// Returns the model of the agent's last stored answer if `selector` selected it.
    async fn last_selected_by(&self, selector: Selector) -> Result<Option<String>, Outcome> {
        let rows = self.rows().await?;
        let mut own = rows.iter().rev().filter(|row| row.agent == self.place.agent);
        let last = own.find(|row| row.kind == MessageKind::Assistant).and_then(data::<AssistantRecord>);
        let last = last.filter(|record| record.selector.as_deref() == Some(selector.as_str()));
        Ok(last.map(|record| record.model))
    }

    /// Waits until no turn runs. No other turn runs until the permit is dropped.
    pub async fn begin_turn(&self) -> TurnPermit {
        TurnPermit { _held: Arc::clone(&self.turn).lock_owned().await }
    }

    /// Like [`Agent::begin_turn`], without waiting; returns `None` if a turn runs.
    pub fn try_begin_turn(&self) -> Option<TurnPermit> {
        let held = Arc::clone(&self.turn).try_lock_owned().ok()?;
        Some(TurnPermit { _held: held })
    }

    /// Returns whether a turn is running or about to start.
    pub fn is_answering(&self) -> bool {
        self.turn.try_lock().is_err()
    }

    /// Returns a sink that publishes progress of `tool` as events of this agent.
    pub fn progress(&self, tool: &str) -> Arc<dyn ProgressSink> {
        Arc::new(ToolProgress { log: Arc::clone(&self.log), agent: self.place.agent, tool: tool.to_owned() })
    }
}

/// Returns the tokens that a request to the model of `choice` used.
pub(crate) fn used_by(choice: &Choice, usage: TokenUsage) -> ModelUsage {
    ModelUsage { provider: choice.provider.to_string(), model: choice.model.clone(), usage }
}

/// Returns the key by which a provider finds the cache of a session: a digest, which reveals nothing about the session.
fn cache_key(session: SessionId) -> String {
    let mut hasher = Hasher::default();
    hasher.field("patchbay cache key").field(session.to_string());
    let mut key = hasher.finish().to_hex();
    key.truncate(CACHE_KEY);
    key
}

struct ToolProgress {
    log: Arc<EventLog>,
    agent: AgentId,
    tool: String,
}

impl ProgressSink for ToolProgress {
    fn report(&self, text: &str) {
        self.log.publish(self.agent, EventKind::Progress { tool: self.tool.clone(), text: text.to_owned() });
    }
}
