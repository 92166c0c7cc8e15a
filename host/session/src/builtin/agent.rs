//! `/agent NAME`: changes the persona. The conversation and the snapshot stay the same.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};
use serde_json::json;

use super::{BeginsTurn, BuiltIn, CommandChange, Effect};
use crate::{Session, SessionError, persona::Persona};

pub(super) static COMMAND: BuiltIn = BuiltIn {
    begins_turn: |_, _| BeginsTurn::NoButDelays,
    ..BuiltIn::new(
        Spec {
            name: "agent",
            argument: Argument::Required { usage: "NAME", what: "an agent name" },
            summary: "Switch the active persona",
            completion: Completion::Personas,
        },
        |line, name| {
            Box::pin(async move {
                match read(&line.session, name).await {
                    Ok(persona) => {
                        let files: Vec<_> = persona.files.iter().map(|file| file.name.clone()).collect();
                        let outcome = Outcome::ok(Code::AgentSet, format!("Active agent set to '{}'.", persona.name))
                            .with_data(json!({"name": persona.name, "files": files, "skipped": persona.skipped}));
                        Effect::Change(outcome, CommandChange::Persona(persona))
                    }
                    Err(error) => Outcome::error(error.code(), error).into(),
                }
            })
        },
    )
};

async fn read(session: &Session, name: &str) -> Result<Persona, SessionError> {
    let surroundings = session.state().persona.surroundings.clone();
    Ok(Persona { surroundings, ..session.host.personas(session.workspace()).await?.read(name)? })
}
