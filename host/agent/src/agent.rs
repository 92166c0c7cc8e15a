use std::sync::{Arc, Mutex, PoisonError};

use patchbay_core::{AgentId, EventKind};
use patchbay_sandbox::Progress;
use patchbay_store::Hold;
use patchbay_tools::Tools;

use crate::{Chosen, CompactionSettings, Feed, Model, Spending};

/// Where an agent lives.
#[derive(Clone, Debug)]
pub struct Place {
    /// The right to write its session.
    pub hold: Hold,
    /// Itself.
    pub agent: AgentId,
    /// The workspace's canonical path.
    pub workspace: String,
}

/// One agent: a conversation, a model, and the tools that it may call.
pub struct Agent {
    pub(crate) place: Place,
    pub(crate) feed: Arc<Feed>,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) tools: Arc<Tools>,
    pub(crate) spending: Arc<Spending>,
    pub(crate) settings: CompactionSettings,
    chosen: Mutex<Chosen>,
}

impl Agent {
    /// The agent of `place`, which has the model `chosen`.
    pub fn new(
        place: Place,
        feed: Arc<Feed>,
        model: Arc<dyn Model>,
        tools: Arc<Tools>,
        spending: Arc<Spending>,
        settings: CompactionSettings,
        chosen: Chosen,
    ) -> Arc<Self> {
        Arc::new(Self { place, feed, model, tools, spending, settings, chosen: Mutex::new(chosen) })
    }

    /// Its id.
    pub fn id(&self) -> AgentId {
        self.place.agent
    }

    /// The model that was chosen for it.
    pub fn chosen(&self) -> Chosen {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has it work with another model from the next request on. The caller has committed it.
    pub fn choose(&self, chosen: Chosen) {
        *self.chosen.lock().unwrap_or_else(PoisonError::into_inner) = chosen;
    }

    /// Who tells the session's fronts how a tool gets on.
    pub fn progress(&self, tool: &str) -> Arc<dyn Progress> {
        Arc::new(ToolProgress { feed: Arc::clone(&self.feed), agent: self.place.agent, tool: tool.to_owned() })
    }
}

struct ToolProgress {
    feed: Arc<Feed>,
    agent: AgentId,
    tool: String,
}

impl Progress for ToolProgress {
    fn report(&self, text: &str) {
        self.feed.tell(self.agent, EventKind::Progress { tool: self.tool.clone(), text: text.to_owned() });
    }
}
