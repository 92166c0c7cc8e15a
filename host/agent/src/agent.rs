//! One agent of a session. The session makes it and runs its turns; the commands read and change its model.

use std::{
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

use patchbay_core::{AgentId, EventKind};
use patchbay_events::EventLog;
use patchbay_sandbox::ProgressSink;
use patchbay_store::Hold;
use patchbay_tools::Tools;
use tokio::sync::OwnedMutexGuard;

use crate::{Chosen, CompactionSettings, Model};

/// Where an agent lives.
#[derive(Clone, Debug)]
pub struct AgentIds {
    /// The right to write its session.
    pub hold: Hold,
    /// Itself.
    pub agent: AgentId,
    /// The workspace's canonical path.
    pub workspace: String,
}

/// One agent: a conversation, a model, and the tools that it may call.
pub struct Agent {
    pub(crate) ids: AgentIds,
    pub(crate) log: Arc<EventLog>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) settings: CompactionSettings,
    chosen: Mutex<Chosen>,
    /// Held by the turn that runs.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// The right to run a turn of one agent. The next turn begins when this is dropped.
#[derive(Debug)]
pub struct TurnPermit {
    _held: OwnedMutexGuard<()>,
}

impl Agent {
    /// The agent of `place`, which writes to `log` and has the model `chosen`.
    pub fn new(
        ids: AgentIds,
        log: Arc<EventLog>,
        model: Arc<dyn Model>,
        tools: Arc<Tools>,
        settings: CompactionSettings,
        chosen: Chosen,
    ) -> Arc<Self> {
        Arc::new(Self { ids, log, model, tools, settings, chosen: Mutex::new(chosen), turn: Arc::default() })
    }

    /// Its id.
    pub fn id(&self) -> AgentId {
        self.ids.agent
    }

    /// The model that was chosen for it.
    pub fn chosen(&self) -> Chosen {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes its model from the next request on. The caller has committed the change.
    pub fn choose(&self, chosen: Chosen) {
        *self.chosen.lock().unwrap_or_else(PoisonError::into_inner) = chosen;
    }

    /// Takes a place in the queue of turns at once. The future waits until the turns before it have ended, and keeps others
    /// from beginning as long as its permit lives. Dropping the future gives the place back.
    pub fn begin_turn(&self) -> impl Future<Output = TurnPermit> + Send + 'static {
        let mut waiting = Box::pin(Arc::clone(&self.turn).lock_owned());
        // The mutex is fair: its first poll takes the place.
        let held = match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(held) => Some(held),
            Poll::Pending => None,
        };
        async move {
            let held = match held {
                Some(held) => held,
                None => waiting.await,
            };
            TurnPermit { _held: held }
        }
    }

    /// Whether a turn runs, or is about to.
    pub fn is_answering(&self) -> bool {
        self.turn.try_lock().is_err()
    }

    /// Returns what publishes the progress of `tool` as events of this agent.
    pub fn progress(&self, tool: &str) -> Arc<dyn ProgressSink> {
        Arc::new(ToolProgress { log: Arc::clone(&self.log), agent: self.ids.agent, tool: tool.to_owned() })
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
