//! One open session: what it is made of, and how it is closed. Lines are in `lines`, what fronts show in `commands`,
//! `complete` and `notices`.

use std::sync::{Arc, Mutex, PoisonError};

use patchbay_agent::{Agent, AgentPlace, Chosen};
use patchbay_core::{Outcome, PrincipalId, SessionId};
use patchbay_events::{Broadcast, EventLog, Subscription, TokenBudget};
use patchbay_provider::Choice;
use patchbay_skill::Snapshot;
use patchbay_store::{AgentModel, Hold, SessionRow};
use patchbay_tools::{ApprovalSlot, Approver};
use tokio_util::sync::DropGuard;

use crate::{Host, agents::Agents, lines::RunningLines, lock::SessionLock, notices, persona::Persona};

/// One session, held by this process alone.
pub struct Session {
    pub(crate) host: Arc<Host>,
    workspace: String,
    /// The person that it belongs to.
    pub(crate) owner: PrincipalId,
    pub(crate) approvals: ApprovalSlot,
    pub(crate) home_notice: Option<String>,
    state: Mutex<SessionState>,
    agents: Mutex<Agents>,
    log: Arc<EventLog>,
    pub(crate) lines: RunningLines,
    /// Held while a command's change is checked and committed: the only part of a command that is serial.
    pub(crate) committing: tokio::sync::Mutex<()>,
    /// Stops what the session runs when it is dropped without being closed.
    _closes: DropGuard,
    /// `None` once the session is closed.
    lock: Mutex<Option<SessionLock>>,
}

/// What belongs to the session as a whole and what commands may change. It changes only after the change is committed.
#[derive(Clone)]
pub(crate) struct SessionState {
    pub(crate) persona: Arc<Persona>,
    pub(crate) snapshot: Arc<Snapshot>,
}

/// What a session is opened from.
pub(crate) struct Opened {
    pub(crate) hold: Hold,
    pub(crate) row: SessionRow,
    pub(crate) persona: Persona,
    pub(crate) snapshot: Snapshot,
    pub(crate) last_seq: u64,
    pub(crate) model: AgentModel,
    /// Tokens that it has used.
    pub(crate) tokens: u64,
    /// What the person is told once, at the beginning of a new session in their home folder.
    pub(crate) home_notice: Option<String>,
}

impl Session {
    pub(crate) fn new(host: Arc<Host>, opened: Opened, lock: SessionLock) -> Arc<Self> {
        let Opened { hold, row, persona, snapshot, last_seq, model, tokens, home_notice } = opened;
        let budget = TokenBudget::new(tokens, host.tools.sandbox().limits().session_tokens);
        let log = EventLog::new(hold.clone(), host.store.clone(), last_seq, budget, Broadcast::default());
        let approvals = ApprovalSlot::default();
        let place = AgentPlace {
            hold,
            agent: row.agent,
            workspace: row.workspace.clone(),
            principal: row.owner.clone(),
            approvals: approvals.clone(),
        };
        let root = Agent::new(
            place,
            Arc::clone(&log),
            Arc::clone(&host.providers) as Arc<dyn patchbay_agent::Model>,
            Arc::clone(&host.tools),
            host.compaction.clone(),
            Chosen::from_row(&model),
        );
        let lines = RunningLines::default();
        let closed = lines.closing().clone();
        lines.spawn(notices::forward(host.providers.notices(), Arc::clone(&log), root.id(), closed.clone()));
        Arc::new(Self {
            host,
            workspace: row.workspace,
            owner: row.owner,
            approvals,
            home_notice,
            state: Mutex::new(SessionState { persona: Arc::new(persona), snapshot: Arc::new(snapshot) }),
            agents: Mutex::new(Agents::new(root)),
            log,
            lines,
            committing: tokio::sync::Mutex::default(),
            _closes: closed.drop_guard(),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// Its id.
    pub fn id(&self) -> SessionId {
        self.log.session()
    }

    /// The workspace's canonical path.
    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    /// The number of its last row; 0 where it has none.
    pub fn last_seq(&self) -> u64 {
        self.log.last_seq()
    }

    /// The snapshot that it works with at this moment.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.state().snapshot
    }

    /// Events from row `from` on (1 is the first), first from the store and then live.
    pub fn subscribe(&self, from: u64) -> Subscription {
        self.log.subscribe(from)
    }

    /// Whether a turn runs at this moment, of any agent.
    pub fn is_answering(&self) -> bool {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|agent| agent.is_answering())
    }

    /// Has `approver` ask the person for what a skill is not granted, from the next call on. Without an approver such a call
    /// is denied, with the command that grants it.
    pub fn set_approver(&self, approver: Arc<dyn Approver>) {
        self.approvals.set(approver);
    }

    /// Closes the session: takes no more lines, stops those that run, waits until what came of them is committed, and gives
    /// the session's lock back. Then this process or another may resume it. Closing twice is closing once.
    pub async fn close(&self) {
        self.lines.close().await;
        self.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Whether [`Session::close`] has been called.
    pub(crate) fn is_closing(&self) -> bool {
        self.lines.closing().is_cancelled()
    }

    pub(crate) fn log(&self) -> &Arc<EventLog> {
        &self.log
    }

    pub(crate) fn agent_in_view(&self) -> Arc<Agent> {
        Arc::clone(self.agents.lock().unwrap_or_else(PoisonError::into_inner).in_view())
    }

    /// The model that the next message to `agent` goes to.
    ///
    /// # Errors
    /// What the person is told where there is none.
    pub(crate) async fn model_of(&self, agent: &Agent) -> Result<Choice, Outcome> {
        let choice = agent.chosen().effective(self.host.providers.as_ref()).await?;
        self.host.providers.check_choice(&choice).await?;
        Ok(choice)
    }

    pub(crate) fn state(&self) -> SessionState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the state. The caller has committed the change.
    pub(crate) fn change_state(&self, change: impl FnOnce(&mut SessionState)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
