//! The tool `set_agent_model`: overrides the model of an agent, from its next request on.

use std::sync::Arc;

use patchbay_agent::{Agent, ModelOverride, try_model};
use patchbay_core::{AgentId, Code, Outcome, text};
use patchbay_provider::Selector;
use patchbay_store::SessionChange;
use serde_json::Value;

use super::lookup::dead;
use crate::{
    Session,
    prepared::{Prepare, Prepared},
};

impl Session {
    /// Returns the change that makes `target` use `model`: a size, or a model's name, which is tried first with one request that
    /// counts for `caller`.
    ///
    /// # Errors
    /// The error of the tool.
    pub(crate) async fn set_agent_model(
        self: &Arc<Self>,
        caller: &Arc<Agent>,
        target: AgentId,
        model: &str,
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
                let chosen = self.host.providers.select(&own.provider, selector).await;
                let mut message = format!("Model set to \"{model}\" selector for agent {id}.");
                if chosen.is_none() {
                    message.push_str(&format!(" Provider '{}' has no catalogue; the model stays.", own.provider));
                }
                (ModelOverride::Selector(selector), message)
            }
            None => {
                self.validate(caller, model).await.map_err(|reason| {
                    let model = text::excerpt(model, 80);
                    let message = format!("Model validation failed for \"{model}\": {reason}");
                    Outcome::error(Code::ModelValidationFailed, message)
                })?;
                let message = format!("Model set to \"{}\" for agent {id}.", text::clean_line(model));
                (ModelOverride::Model(model.to_owned()), message)
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

    /// Sends one small request to `model`. An error says why it cannot be used.
    async fn validate(&self, caller: &Arc<Agent>, model: &str) -> Result<(), String> {
        let reason = |outcome: Outcome| outcome.message_for_models().lines().next().unwrap_or_default().to_owned();
        let choice = self.host.providers.resolve(model).await.map_err(|error| reason(error.into()))?;
        if let Some(level) = choice.level {
            return Err(format!(
                "a thinking level ('{}') cannot be set here; the agent's level stays.",
                level.as_str()
            ));
        }
        try_model(caller, &choice).await.map_err(reason)
    }
}
