//! `/model MODEL[/THINKING]`: changes the model of the agent in view.

use patchbay_agent::Chosen;
use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};
use serde_json::json;

use super::{BeginsTurn, BuiltIn, CommandChange, Effect};
use crate::line::context::LineContext;

pub(super) static COMMAND: BuiltIn = BuiltIn {
    needs_living_agent: true,
    begins_turn: |_, _| BeginsTurn::NoButDelays,
    ..BuiltIn::new(
        Spec {
            name: "model",
            argument: Argument::Required { usage: "MODEL[/THINKING]", what: "a model name" },
            summary: "Switch the model of the agent in view",
            completion: Completion::Models,
        },
        |line, text| Box::pin(async move { set(line, text).await.into() }),
    )
};

async fn set(line: &LineContext, text: &str) -> Result<Effect, Outcome> {
    if line.agent.is_answering() && !line.during_turn {
        let message = "cannot switch model while a response is streaming. Wait for it to finish or press Ctrl+C to \
                       cancel it.";
        return Err(Outcome::error(Code::TurnRunning, message));
    }
    let choice = line.session.host.providers.resolve(text).await?;
    let message = line.session.host.providers.explain(text, &choice).await?;
    let outcome = Outcome::ok(Code::ModelSet, message)
        .with_data(json!({"provider": choice.provider, "model": choice.model, "thinking": choice.level}));
    Ok(Effect::Change(outcome, CommandChange::Model(Chosen { model: Some(choice), model_override: None })))
}
