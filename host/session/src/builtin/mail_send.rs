//! `/mail-send UUID "TEXT"`: sends mail from the agent in view to a living agent.

use patchbay_command::{Argument, Completion, Spec, quoted};
use patchbay_core::{Code, Outcome};

use super::{BuiltIn, Effect};
use crate::line::context::LineContext;

pub(super) static COMMAND: BuiltIn = BuiltIn {
    needs_living_agent: true,
    ..BuiltIn::new(
        Spec {
            name: "mail-send",
            argument: Argument::Required { usage: "UUID \"TEXT\"", what: "an agent and a quoted message" },
            summary: "Send mail from the agent in view to another agent",
            completion: Completion::Agents,
        },
        |line, argument| Box::pin(async move { send(line, argument).await.into() }),
    )
};

async fn send(line: &LineContext, argument: &str) -> Result<Effect, Outcome> {
    let invalid = |message: &str| Outcome::error(Code::InvalidArgs, message);
    let (uuid, message) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    let message = match message.trim_start() {
        "" => return Err(invalid("/mail-send requires an agent and a quoted message.")),
        message if message.starts_with('"') => quoted(message, "the message")?,
        _ => return Err(invalid("the message must be quoted: /mail-send UUID \"text\".")),
    };
    let to = line.session.find_agent(uuid).await?;
    Ok(Effect::Prepare(line.session.send_mail(line.agent.id(), to, message.to_owned())))
}
