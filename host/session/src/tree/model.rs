//! The tool `set_agent_model`: overrides the model of an agent, from its next request on.

use std::sync::Arc;

use patchbay_agent::{Agent, ModelOverride, try_model};
use patchbay_core::{AgentId, Code, Outcome, text};
use patchbay_provider::{Choice, ModelError, Selector};
use patchbay_store::SessionChange;
use patchbay_tools::{PersonAccess, ProviderMove};
use serde_json::Value;

use super::lookup::dead;
use crate::{
    Session,
    prepared::{Prepare, Prepared},
};

/// The user's consent to moving agents to other providers, for one call of the tool. A provider receives the whole conversation,
/// so a model must not choose it alone.
pub(crate) struct MoveConsent<'a> {
    person: PersonAccess<'a>,
    /// The last move that the user allowed in this call.
    allowed: Option<ProviderMove>,
}

impl<'a> MoveConsent<'a> {
    pub(super) fn new(person: PersonAccess<'a>) -> Self {
        Self { person, allowed: None }
    }

    /// Asks the user, unless `moved` was allowed before.
    async fn ask(&mut self, moved: ProviderMove) -> Result<(), Outcome> {
        if self.allowed.as_ref() != Some(&moved) {
            self.person.allow_move(moved.clone()).await.map_err(|why| refused(&moved, &why))?;
            self.allowed = Some(moved);
        }
        Ok(())
    }
}

fn refused(moved: &ProviderMove, why: &str) -> Outcome {
    let ProviderMove { agent, to, model, .. } = moved;
    let model = model.as_deref().map_or(String::new(), text::clean_line);
    let message = format!(
        "Agent '{agent}' cannot be moved to provider '{to}', which would receive its whole conversation: {why}. The \
         user can do it with /model {to}:{model}",
    );
    Outcome::error(Code::Denied, message.trim_end_matches(':'))
}

impl Session {
    /// Returns the change that makes `target` use `model`, which is a size or a model's name. A named model is first tried with
    /// one request, which counts for `caller`. A model of another provider requires the user's `consent`.
    ///
    /// # Errors
    /// The error that the tool should report.
    pub(crate) async fn set_agent_model(
        self: &Arc<Self>,
        caller: &Arc<Agent>,
        target: AgentId,
        model: &str,
        consent: &mut MoveConsent<'_>,
    ) -> Result<Prepare, Outcome> {
        let target = self.agent(target).filter(|agent| !agent.is_dead()).ok_or_else(|| dead(target))?;
        let id = target.id();
        let selector = match model {
            "small" => Some(Selector::Small),
            "normal" => Some(Selector::Normal),
            "big" => Some(Selector::Big),
            _ => None,
        };
        let (model_override, message) = match selector {
            Some(selector) => {
                let own = target.chosen().own(self.host.providers.as_ref()).await?;
                self.ask_to_move(&target, own.provider.as_str(), None, consent).await?;
                let chosen = self.host.providers.select(&own.provider, selector).await;
                let mut message = format!("Model set to \"{model}\" selector for agent {id}.");
                if chosen.is_none() {
                    message.push_str(&format!(" Provider '{}' has no catalogue; the model stays.", own.provider));
                }
                (ModelOverride::Selector(selector), message)
            }
            None => {
                let failed = |reason| {
                    let model = text::excerpt(model, 80);
                    let message = format!("Model validation failed for \"{model}\": {reason}");
                    Outcome::error(Code::ModelValidationFailed, message)
                };
                let choice = self.resolve(model).await.map_err(failed)?;
                self.ask_to_move(&target, choice.provider.as_str(), Some(&choice.model), consent).await?;
                try_model(caller, &choice).await.map_err(reason).map_err(failed)?;
                let mut message = format!("Model set to \"{}\" for agent {id}.", text::clean_line(model));
                let cautions = self.host.providers.cautions(model, &choice).await?;
                message.extend(cautions.iter().map(|caution| format!("\n⚠ {caution}")));
                (self.pinned(model, choice).await, message)
            }
        };
        Ok(Box::pin(async move {
            if target.is_dead() {
                return Err(dead(id));
            }
            let mut chosen = target.chosen();
            chosen.model_override = Some(model_override);
            let change = SessionChange {
                requires_alive: vec![id],
                model: Some((id, chosen.to_row())),
                ..SessionChange::default()
            };
            let applied = Box::new(move |_: &[_]| target.choose(chosen));
            let outcome = Outcome::ok(Code::ModelSet, message.clone());
            Ok(Prepared { change, applied, ..Prepared::shown(outcome, Value::from(message)) })
        }))
    }

    /// Asks the user if `target` would move to another provider.
    async fn ask_to_move(
        &self,
        target: &Agent,
        provider: &str,
        model: Option<&str>,
        consent: &mut MoveConsent<'_>,
    ) -> Result<(), Outcome> {
        // If the current model is gone, it has no provider, and the user is asked as well.
        let now = target.chosen().effective(self.host.providers.as_ref()).await.ok();
        let now = now.map(|choice| choice.provider.to_string());
        if now.as_deref() == Some(provider) {
            return Ok(());
        }
        let (to, model) = (provider.to_owned(), model.map(str::to_owned));
        consent.ask(ProviderMove { agent: target.id(), from: now, to, model }).await
    }

    /// Returns the override for `choice`. It contains the provider that was tried, which stays the same if the model's name
    /// belongs to another provider later.
    async fn pinned(&self, model: &str, choice: Choice) -> ModelOverride {
        let pinned = choice.as_argument();
        // If the id ends like a thinking level, `PROVIDER:ID` means another model, and only the name is kept.
        let is_same = self.host.providers.resolve(&pinned).await.is_ok_and(|same| same == choice);
        ModelOverride::Model(if is_same { pinned } else { model.to_owned() })
    }

    /// Returns the model with the name `model`. An error says why it cannot be used.
    async fn resolve(&self, model: &str) -> Result<Choice, String> {
        let choice = self.host.providers.resolve(model).await.map_err(|error| match error {
            // The message of the command is for users.
            ModelError::NoModel(_) => {
                "the model's name is missing. Use \"small\", \"normal\" or \"big\", or the name of a model.".to_owned()
            }
            error => reason(error.into()),
        })?;
        if let Some(level) = choice.level {
            return Err(format!(
                "a thinking level ('{}') cannot be set here; the agent's level stays.",
                level.as_str()
            ));
        }
        Ok(choice)
    }
}

/// Returns the first line of an outcome, for models.
fn reason(outcome: Outcome) -> String {
    outcome.message_for_models().lines().next().unwrap_or_default().to_owned()
}
