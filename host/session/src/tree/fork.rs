//! Creates a child of an agent. The child shares its parent's conversation up to the fork point; no row is copied.

use std::sync::Arc;

use patchbay_agent::{Agent, Chosen, SessionLimits, TurnEnding};
use patchbay_core::{AgentId, Code, EventKind, ForkedData, MessageKind, Outcome, TurnCause, TurnState, text};
use patchbay_provider::Choice;
use patchbay_store::{NewAgent, NewMessage, NewTurn, SessionChange};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::lookup::dead;
use crate::{
    Session,
    agents::AgentParts,
    line::queue::StopScope,
    prepared::{Prepare, Prepared},
    turns::BackgroundTurn,
};

#[derive(Clone, Debug)]
pub(crate) enum ForkedBy {
    /// The user: the view moves to the child, and captured text is its prompt.
    Person {
        /// Cancelled when the outcome of the command is published. The child's turn waits for this because fronts must
        /// show which agent speaks before its first words.
        line_ended: CancellationToken,
    },
    /// A model's tool. The parent is told how the child's turn ends.
    Tool,
}

impl Session {
    /// Returns the change that creates a child of `parent` with `model`. The child works on `prompt`; without a prompt, it is
    /// idle.
    pub(crate) fn fork(
        self: &Arc<Self>,
        parent: Arc<Agent>,
        model: Choice,
        prompt: Option<String>,
        by: ForkedBy,
    ) -> Prepare {
        let session = Arc::clone(self);
        let foreground = matches!(by, ForkedBy::Person { .. });
        Box::pin(async move {
            session.check_fork(&parent)?;
            let mut change = SessionChange::default();
            let mut prompt = prompt;
            if foreground && session.is_capturing_agent(parent.id()) {
                let captured = session.captured(parent.id()).await?;
                prompt = (!captured.is_empty()).then(|| captured.join("\n"));
                change.capture = Some((parent.id(), false));
            }
            let id = AgentId::from_bytes(session.host.store.source().uuid());
            let shown = shown_model(&model);
            let chosen = Chosen { model: Some(model), model_override: None };
            change.new_agent =
                Some(NewAgent { id, parent: parent.id(), rewinds: None, foreground, model: chosen.to_row() });
            let cause = if foreground { TurnCause::Person } else { TurnCause::Fork };
            let has_turn = prompt.is_some();
            if let Some(prompt) = prompt {
                change.messages.push(NewMessage { agent: id, kind: MessageKind::User, content: prompt, data: None });
                change.begins_turns.push(NewTurn { agent: id, cause, state: TurnState::Waiting, began: None });
            }
            if foreground {
                change.view = Some(id);
            }
            let ancestors = std::iter::once(parent.id()).chain(parent.ancestors().iter().copied()).collect();
            let child = session.factory().make(AgentParts {
                id,
                ancestors,
                depth: parent.depth() + 1,
                is_rewound: false,
                foreground,
                chosen,
                tokens: 0,
            });
            let message = format!("Forked child {id} ({shown})");
            let data = ForkedData { child_uuid: id, model: shown, turn: has_turn };
            Ok(Prepared {
                outcome: Outcome::ok(Code::Forked, message).with_data(data),
                result: json!({"child_uuid": id}),
                change,
                applied: Box::new(move |rows| {
                    let began = rows.iter().find(|row| row.agent == id).map(|row| row.seq);
                    session.add_child(&parent, child, cause, began, by);
                }),
            })
        })
    }

    /// Checks that `parent` may have one more child. No other fork can be committed meanwhile.
    fn check_fork(&self, parent: &Agent) -> Result<(), Outcome> {
        if parent.is_dead() {
            return Err(dead(parent.id()));
        }
        let SessionLimits { agents, agent_depth: depth, .. } = self.host.agent_settings.limits;
        if self.agents().living().filter(|agent| !agent.is_rewound()).count() >= agents as usize {
            let message = format!("this session has {agents} living agents. Kill one first (limits.agents).");
            return Err(Outcome::error(Code::LimitAgents, message));
        }
        if parent.depth() >= depth.into() {
            let message = format!(
                "agent '{}' is {depth} levels below the root; its children would be too deep (limits.agent_depth).",
                parent.id()
            );
            return Err(Outcome::error(Code::LimitDepth, message));
        }
        Ok(())
    }

    /// Adds a child whose creation is committed, and starts its turn.
    fn add_child(
        self: &Arc<Self>,
        parent: &Arc<Agent>,
        child: Arc<Agent>,
        cause: TurnCause,
        began: Option<u64>,
        by: ForkedBy,
    ) {
        let id = child.id();
        let line_ended = match by {
            ForkedBy::Person { line_ended } => Some(line_ended),
            ForkedBy::Tool => None,
        };
        let foreground = line_ended.is_some();
        self.agents().add(Arc::clone(&child));
        if foreground {
            self.capture_ended(parent.id());
            self.agents().set_view(Arc::clone(&child));
        }
        // If the session was stopped while the parent's call was being committed, the child is stopped, too.
        if !foreground && self.queue.is_stopped(parent.id()) {
            self.queue.stop(id, StopScope::Session);
        }
        self.log().publish(id, EventKind::AgentForked { parent: parent.id(), foreground });
        if foreground {
            self.log().publish(id, EventKind::ViewMoved);
        }
        let Some(began) = began else { return };
        let report_to = (cause == TurnCause::Fork).then(|| parent.id());
        let ending = TurnEnding { agent: id, began, report_to };
        let right = self.queue.begin_first(&child);
        let missing = report_to.map(|parent| self.gathering.begin(id, parent));
        self.start_background(BackgroundTurn { agent: child, right, after: line_ended, cause, ending, missing });
    }
}

/// Returns a model as `PROVIDER/MODEL/LEVEL`.
pub(crate) fn shown_model(choice: &Choice) -> String {
    let level = choice.level.map_or("default", |level| level.as_str());
    format!("{}/{}/{level}", choice.provider, text::clean_line(&choice.model))
}
