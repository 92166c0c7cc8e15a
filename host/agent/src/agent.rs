//! An agent of a session. The session creates it and runs its turns; commands read and change its model.

use std::sync::Arc;

use parking_lot::Mutex;
use patchbay_core::{AgentId, EventKind, PrincipalId};
use patchbay_events::EventLog;
use patchbay_sandbox::ProgressSink;
use patchbay_store::Hold;
use patchbay_tools::{ApprovalSlot, Tools};
use tokio::sync::OwnedMutexGuard;

use crate::{Chosen, CompactionSettings, Model};

/// What an agent works with besides its conversation: its session, its workspace, its person.
#[derive(Clone, Debug)]
pub struct AgentPlace {
    /// The right to write its session.
    pub hold: Hold,
    /// The agent's own id.
    pub agent: AgentId,
    /// Canonical path of the workspace.
    pub workspace: String,
    /// The person on whose behalf it works.
    pub principal: PrincipalId,
    /// Who answers questions about grants.
    pub approvals: ApprovalSlot,
}

/// An agent: a conversation, a model, and the tools that it may call.
pub struct Agent {
    pub(crate) place: AgentPlace,
    pub(crate) log: Arc<EventLog>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) settings: CompactionSettings,
    chosen: Mutex<Chosen>,
    /// Locked while a turn runs.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// Permission to run a turn of one agent. The next turn starts when this is dropped.
#[derive(Debug)]
pub struct TurnPermit {
    _held: OwnedMutexGuard<()>,
}

impl Agent {
    /// Creates the agent `ids`, which writes to `log` and uses the model `chosen`.
    pub fn new(
        place: AgentPlace,
        log: Arc<EventLog>,
        model: Arc<dyn Model>,
        tools: Arc<Tools>,
        settings: CompactionSettings,
        chosen: Chosen,
    ) -> Arc<Self> {
        Arc::new(Self { place, log, model, tools, settings, chosen: Mutex::new(chosen), turn: Arc::default() })
    }

    /// Returns the agent's id.
    pub fn id(&self) -> AgentId {
        self.place.agent
    }

    /// Returns the chosen model.
    pub fn chosen(&self) -> Chosen {
        self.chosen.lock().clone()
    }

    /// Changes the model for the next request. The caller has committed the change.
    pub fn choose(&self, chosen: Chosen) {
        *self.chosen.lock() = chosen;
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
