//! The end of a command that begins no turn: its change and its row are committed together, and only then applied and shown.

use std::sync::Arc;

use patchbay_core::{CallId, MessageKind, Outcome};
use patchbay_store::{MessageRow, NewMessage, SessionChange, StoreError};

use super::context::{LineContext, not_kept};
use crate::{
    builtin::CommandChange,
    json::to_json,
    prepared::{Applied, Prepare, Prepared},
};

/// The state from which a change was computed has changed meanwhile, so the change must be computed again.
pub(super) struct Outdated;

impl LineContext {
    /// Commits a command's change together with its row, applies the change and returns the outcome.
    pub(super) async fn settle(&self, outcome: Outcome, change: Option<CommandChange>) -> Result<Outcome, Outdated> {
        let _committing = self.session.committing.lock().await;
        let mut messages = Vec::new();
        let mut stored = SessionChange::default();
        let (session, agent) = (Arc::clone(&self.session), Arc::clone(&self.agent));
        let apply: Box<dyn FnOnce() + Send> = match change {
            None => Box::new(|| {}),
            Some(CommandChange::Rows(rows)) => {
                messages = rows;
                Box::new(|| {})
            }
            Some(CommandChange::Title(title)) => {
                stored.title = Some(title);
                Box::new(|| {})
            }
            Some(CommandChange::Persona(persona)) => {
                stored.persona = Some(to_json(&persona));
                Box::new(move || session.change_state(|state| state.persona = Arc::new(persona)))
            }
            Some(CommandChange::Model(chosen)) => {
                stored.model = Some((agent.id(), chosen.to_row()));
                Box::new(move || agent.choose(chosen))
            }
            Some(CommandChange::Drop(message)) => {
                stored.drops = Some(message);
                Box::new(|| {})
            }
            Some(CommandChange::Snapshot(built)) => {
                if self.session.snapshot().version() != self.state.snapshot.version() {
                    return Err(Outdated);
                }
                stored.snapshot = Some((built.stored(), built.snapshot.version()));
                Box::new(move || session.change_state(|state| state.snapshot = Arc::new(built.snapshot)))
            }
        };
        messages.push(self.message(MessageKind::Command, &self.text, serde_json::to_value(&outcome).ok()));
        stored.messages = messages;
        stored.settles = vec![CallId::of_line(self.line)];
        stored.requires_alive.clone_from(&self.requires_alive);
        Ok(match self.commit_change(stored, apply).await {
            Ok(_) => outcome,
            Err(error) => not_kept(error),
        })
    }

    /// Commits a prepared change together with the command's row. If the change is refused, only the row is committed. The change
    /// of a kill is outdated if a tool of a dying agent began an effect meanwhile.
    pub(super) async fn commit_prepared(&self, prepare: Prepare) -> Result<Outcome, Outdated> {
        let _committing = self.session.committing.lock().await;
        let (row, line) = (self.message(MessageKind::Command, &self.text, None), self.line);
        let (alive, client) = (self.requires_alive.clone(), Arc::clone(&self.client));
        let prepare = async move {
            let prepared = prepare.await.unwrap_or_else(|refused| Prepared::shown(refused, serde_json::Value::Null));
            let Prepared { outcome, mut change, applied, .. } = prepared;
            let data = client.add_key(line, serde_json::to_value(&outcome).ok());
            change.messages.push(NewMessage { data, ..row });
            change.settles.push(CallId::of_line(line));
            change.requires_alive.extend(alive);
            Ok::<_, StoreError>((change, (outcome, applied)))
        };
        let applied = |rows: &[MessageRow], (outcome, applied): (Outcome, Applied)| {
            applied(rows);
            outcome
        };
        match self.session.log().commit_prepared(prepare, applied).await {
            Err(StoreError::CallBegan(_)) => Err(Outdated),
            committed => Ok(committed.unwrap_or_else(not_kept)),
        }
    }
}
