//! Ends an agent and its descendants. Their partial answers and the reports of their turns are committed first; then their turns
//! are cancelled. The commit does not wait for any turn, so a hanging turn cannot delay it.

use std::{collections::BTreeSet, sync::Arc};

use patchbay_agent::{Agent, TurnEnding, join_pieces};
use patchbay_core::{AgentId, Code, EventKind, KilledData, Outcome, TurnCause};
use patchbay_store::{AgentRow, NewMessage, SessionChange, StoreError};
use serde_json::json;

use super::lookup::not_found;
use crate::{
    Session,
    prepared::{Prepare, Prepared},
    recovery,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KilledBy {
    /// The user. If the agent in view dies, the view moves to its nearest living ancestor.
    Person,
    /// The tool of this agent, which cannot kill itself or its ancestors. The view stays.
    Agent(AgentId),
}

impl Session {
    /// Returns the change that kills `target` and its descendants.
    pub(crate) fn kill(self: &Arc<Self>, target: AgentRow, by: KilledBy) -> Prepare {
        let session = Arc::clone(self);
        Box::pin(async move {
            let failed = |error: StoreError| Outcome::error(error.code(), format_args!("{error}."));
            // A tool that would kill the root fails below, because the root is the caller or its ancestor.
            if target.parent.is_none() && by == KilledBy::Person {
                return Err(Outcome::error(Code::KillRoot, "cannot kill the root agent."));
            }
            let killed = session.agents().with_descendants(target.id);
            let Some(agent) = killed.first().filter(|agent| agent.id() == target.id) else {
                return Err(already_dead(target.id));
            };
            if let KilledBy::Agent(killer) = by {
                let killer = session.agent(killer).ok_or_else(|| not_found(&killer.to_string()))?;
                if killer.id() == target.id || killer.ancestors().contains(&target.id) {
                    let message = "an agent cannot kill itself or its ancestors.";
                    return Err(Outcome::error(Code::KillAncestor, message));
                }
            }
            let parent = agent.reports_to();
            let ids: BTreeSet<AgentId> = killed.iter().map(|agent| agent.id()).collect();
            let (mut change, reports) = session.end_turns_of(&ids, parent, by).await.map_err(failed)?;
            change.kills = killed.iter().map(|agent| agent.id()).collect();
            let view = session.agents().in_view().clone();
            let moves = by == KilledBy::Person && ids.contains(&view.id());
            let view = moves.then(|| session.nearest_living(&view, &ids));
            change.view = view.as_ref().map(|agent| agent.id());
            let lines: Vec<String> = killed.iter().flat_map(|agent| session.queue.texts(agent.id())).collect();
            let killed_ids: Vec<AgentId> = killed.iter().map(|agent| agent.id()).collect();
            let names: Vec<String> = killed_ids.iter().map(AgentId::to_string).collect();
            let s = if names.len() == 1 { "" } else { "s" };
            let message = format!("Killed {} agent{s}: {}", names.len(), names.join(", "));
            Ok(Prepared {
                outcome: Outcome::ok(Code::Killed, message).with_data(KilledData { killed: killed_ids, lines }),
                result: json!({"killed": names}),
                change,
                applied: Box::new(move |_| {
                    session.bury(&killed, view);
                    if let (true, Some(parent)) = (reports, parent) {
                        session.mail_came(parent, target.id);
                    }
                }),
            })
        })
    }

    /// Returns the change that ends the turns of the agents `ids`, and whether the parent gets a report. `parent` is the agent
    /// that the topmost of these agents reports to.
    async fn end_turns_of(
        &self,
        ids: &BTreeSet<AgentId>,
        parent: Option<AgentId>,
        by: KilledBy,
    ) -> Result<(SessionChange, bool), StoreError> {
        let store = self.log().store();
        let dying: Vec<AgentId> = ids.iter().copied().collect();
        let mut change = recovery::settle_calls(store, self.id(), &dying).await?;
        // Text received from the model can be newer than the stored pieces.
        let received: Vec<NewMessage> = dying.iter().filter_map(|id| self.agent(*id)?.unfinished_answer()).collect();
        let mut partial = store.partial_answers_of(&dying, join_pieces).await?;
        partial.retain(|row| received.iter().all(|other| other.agent != row.agent));
        partial.extend(received);
        change.ends_partial.clone_from(&dying);
        let mut reports = false;
        for turn in store.open_turns(self.id()).await?.into_iter().filter(|turn| ids.contains(&turn.agent)) {
            // A parent gets no report if it is killed as well, or if it is the killer.
            let told = self.agent(turn.agent).and_then(|agent| agent.reports_to()).filter(|told| {
                turn.cause != TurnCause::Person && Some(*told) == parent && by != KilledBy::Agent(*told)
            });
            let told = told.filter(|told| !ids.contains(told));
            reports |= told.is_some();
            let ending = TurnEnding { agent: turn.agent, began: turn.began, report_to: told };
            let last = match partial.iter().find(|row| row.agent == turn.agent) {
                Some(row) => row.content.clone(),
                None => recovery::last_text(store, self.id(), turn.agent, turn.began).await?,
            };
            ending.killed(&last, &mut change);
        }
        // Tool results must follow the answers that requested them.
        change.messages.splice(0..0, partial);
        Ok((change, reports))
    }

    /// Returns the nearest ancestor of `agent` that is not among `dying`.
    fn nearest_living(&self, agent: &Agent, dying: &BTreeSet<AgentId>) -> Arc<Agent> {
        let agents = self.agents();
        let ancestor = agent.ancestors().iter().find(|id| !dying.contains(id)).and_then(|id| agents.get(*id));
        Arc::clone(ancestor.unwrap_or_else(|| agents.root()))
    }

    /// Removes agents whose death is committed, and cancels their work.
    fn bury(&self, killed: &[Arc<Agent>], view: Option<Arc<Agent>>) {
        for agent in killed {
            agent.die();
            self.agents().remove(agent.id());
            self.queue.remove_agent(agent.id());
            self.gathering.end(agent.id());
            self.capture_ended(agent.id());
            self.cancel_work_of(agent.id());
            self.log().publish(agent.id(), EventKind::AgentKilled);
        }
        if let Some(view) = view {
            let id = view.id();
            self.agents().set_view(view);
            self.log().publish(id, EventKind::ViewMoved);
        }
    }
}

fn already_dead(agent: AgentId) -> Outcome {
    Outcome::error(Code::AgentDead, format_args!("agent '{agent}' is already dead."))
}
