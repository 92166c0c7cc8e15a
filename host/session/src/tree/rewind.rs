//! Continues the conversation of an agent from before one of its messages, as a new agent. No row is copied or removed.

use std::sync::Arc;

use patchbay_agent::Agent;
use patchbay_core::{AgentId, Code, EventKind, Outcome, RewoundData};
use patchbay_store::{NewAgent, SessionChange};
use serde_json::{Map, Value};

use super::lookup::dead;
use crate::{
    Session,
    agents::AgentParts,
    line::queue::StopScope,
    prepared::{Prepare, Prepared},
};

/// The message that a conversation goes back to.
pub(crate) struct RewoundMessage {
    /// The number of the message's row.
    pub(crate) row: u64,
    /// The text of the message, as it was typed.
    pub(crate) text: String,
    /// The names of the message's files.
    pub(crate) attached: Vec<String>,
    /// The results of restoring files that were changed since, for programs.
    pub(crate) files: Map<String, Value>,
}

impl Session {
    /// Returns the change that creates an agent with the conversation of `rewound` before `message`, and brings the new agent
    /// into view. Its parent is the parent of `rewound`, or the root if `rewound` is the root. `rewound` is then held. `said`
    /// returns the message of the outcome for the new agent's id.
    pub(crate) fn rewind(
        self: &Arc<Self>,
        rewound: Arc<Agent>,
        message: RewoundMessage,
        said: impl FnOnce(AgentId) -> String + Send + 'static,
    ) -> Prepare {
        let session = Arc::clone(self);
        Box::pin(async move {
            if rewound.is_dead() {
                return Err(dead(rewound.id()));
            }
            let id = AgentId::from_bytes(session.host.store.source().uuid());
            let ancestors = match rewound.ancestors() {
                [] => vec![rewound.id()],
                ancestors => ancestors.to_vec(),
            };
            let parent = ancestors.first().copied().unwrap_or(rewound.id());
            let chosen = rewound.chosen();
            let RewoundMessage { row, text, attached, files } = message;
            let rewinds = Some((rewound.id(), row));
            let new = NewAgent { id, parent, rewinds, foreground: true, model: chosen.to_row() };
            let depth = rewound.depth();
            let parts = AgentParts { id, ancestors, depth, is_rewound: true, foreground: true, chosen, tokens: 0 };
            let agent = session.factory().make(parts);
            let data = RewoundData { agent: id, rewound: rewound.id(), text, attached, files };
            let change = SessionChange { new_agent: Some(new), view: Some(id), ..SessionChange::default() };
            let applied = Box::new(move |_: &[_]| {
                session.queue.stop(rewound.id(), StopScope::Agent);
                session.agents().add(Arc::clone(&agent));
                session.agents().set_view(agent);
                session.log().publish(id, EventKind::AgentForked { parent, foreground: true });
                session.log().publish(id, EventKind::ViewMoved);
            });
            let outcome = Outcome::ok(Code::Rewound, said(id)).with_data(data);
            Ok(Prepared { change, applied, ..Prepared::shown(outcome, Value::Null) })
        })
    }
}
