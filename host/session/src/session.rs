//! An open session: its parts and how it is closed. `lines` runs its lines; `commands`, `complete` and `notices` serve
//! fronts.

use std::sync::Arc;

use parking_lot::Mutex;
use patchbay_agent::{Agent, AgentPlace, Chosen};
use patchbay_core::{AgentId, Outcome, PrincipalId, SessionId};
use patchbay_events::{Broadcast, EventLog, Subscription, TokenBudget};
use patchbay_provider::Choice;
use patchbay_skill::Snapshot;
use patchbay_store::{AgentModel, Hold, SessionRow};
use patchbay_tools::{ApprovalSlot, Approver};
use tokio_util::sync::DropGuard;

use crate::{
    Host, agents::Agents, lines::RunningLines, lock::SessionLock, notices, persona::Persona, queue::LineQueue,
    workspace_files::PathIndex,
};

/// A session, open in this process only.
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
    /// The lines that wait for their turns.
    pub(crate) queue: Arc<LineQueue>,
    /// The files of the workspace, for completion.
    pub(crate) files: Arc<PathIndex>,
    /// Locked while a command's change is checked and committed: the only serial part of a command.
    pub(crate) committing: tokio::sync::Mutex<()>,
    /// Stops the session's lines if it is dropped without being closed.
    _closes: DropGuard,
    /// `None` once the session is closed.
    lock: Mutex<Option<SessionLock>>,
}

/// Session-wide state that commands may change, always after the change is committed.
#[derive(Clone)]
pub(crate) struct SessionState {
    pub(crate) persona: Arc<Persona>,
    pub(crate) snapshot: Arc<Snapshot>,
}

/// The parts that a session is opened from.
pub(crate) struct Opened {
    pub(crate) hold: Hold,
    pub(crate) row: SessionRow,
    pub(crate) persona: Persona,
    pub(crate) snapshot: Snapshot,
    pub(crate) last_seq: u64,
    pub(crate) model: AgentModel,
    /// Tokens used so far.
    pub(crate) tokens: u64,
    /// A notice for a new session in the user's home folder.
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
            files: PathIndex::new(row.workspace.clone().into(), host.protected.clone()),
            host,
            workspace: row.workspace,
            owner: row.owner,
            approvals,
            home_notice,
            state: Mutex::new(SessionState { persona: Arc::new(persona), snapshot: Arc::new(snapshot) }),
            agents: Mutex::new(Agents::new(root)),
            queue: LineQueue::new(Arc::clone(&log)),
            log,
            lines,
            committing: tokio::sync::Mutex::default(),
            _closes: closed.drop_guard(),
            lock: Mutex::new(Some(lock)),
        })
    }

    /// Returns the session's id.
    pub fn id(&self) -> SessionId {
        self.log.session()
    }

    /// Returns the canonical path of the workspace.
    pub fn workspace(&self) -> &str {
        &self.workspace
    }

    /// Returns the number of the last row; 0 if there is none.
    pub fn last_seq(&self) -> u64 {
        self.log.last_seq()
    }

    /// Returns the current snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.state().snapshot
    }

    /// Subscribes to the events from row `from` on (1 is the first): first rows from the store, then live events.
    pub fn subscribe(&self, from: u64) -> Subscription {
        self.log.subscribe(from)
    }

    /// Returns whether any agent is running a turn.
    pub fn is_answering(&self) -> bool {
        self.agents.lock().iter().any(|agent| agent.is_answering())
    }

    /// Returns whether the session has more than one agent.
    pub fn has_several_agents(&self) -> bool {
        self.agents.lock().iter().nth(1).is_some()
    }

    /// Sets the approver that asks the user for missing grants, from the next call on. Without an approver, such a call is
    /// denied with the command that grants the capability.
    pub fn set_approver(&self, approver: Arc<dyn Approver>) {
        self.approvals.set(approver);
    }

    /// Closes the session: rejects new lines, stops running ones, waits until their results are committed, and releases the
    /// session's lock. After that, this or another process may resume it. A second call does nothing.
    pub async fn close(&self) {
        self.lines.close().await;
        self.lock.lock().take();
    }

    /// Returns whether [`Session::close`] has been called.
    pub(crate) fn is_closing(&self) -> bool {
        self.lines.closing().is_cancelled()
    }

    pub(crate) fn log(&self) -> &Arc<EventLog> {
        &self.log
    }

    pub(crate) fn agent(&self, id: AgentId) -> Option<Arc<Agent>> {
        self.agents.lock().get(id).cloned()
    }

    pub(crate) fn agent_in_view(&self) -> Arc<Agent> {
        Arc::clone(self.agents.lock().in_view())
    }

    /// Returns the model for the next message to `agent`.
    ///
    /// # Errors
    /// An outcome for the user if no model can be used.
    pub(crate) async fn model_of(&self, agent: &Agent) -> Result<Choice, Outcome> {
        let choice = agent.chosen().effective(self.host.providers.as_ref()).await?;
        self.host.providers.check_choice(&choice).await?;
        Ok(choice)
    }

    pub(crate) fn state(&self) -> SessionState {
        self.state.lock().clone()
    }

    /// Changes the state. The caller has committed the change.
    pub(crate) fn change_state(&self, change: impl FnOnce(&mut SessionState)) {
        change(&mut self.state.lock());
    }
}
