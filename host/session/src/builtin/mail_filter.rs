//! `/mail-filter --from UUID`: lists the mail from one sender.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};

use super::BuiltIn;
use crate::line::context::LineContext;

pub(super) static COMMAND: BuiltIn = BuiltIn::new(
    Spec {
        name: "mail-filter",
        argument: Argument::Required { usage: "--from UUID", what: "--from UUID" },
        summary: "List the mail of the agent in view from one sender",
        completion: Completion::None,
    },
    |line, argument| Box::pin(async move { filter(line, argument).await.into() }),
);

async fn filter(line: &LineContext, argument: &str) -> Result<Outcome, Outcome> {
    let mut words = argument.split_whitespace();
    let (Some("--from"), Some(uuid), None) = (words.next(), words.next(), words.next()) else {
        return Err(Outcome::error(Code::InvalidArgs, "/mail-filter requires --from UUID."));
    };
    let from = line.session.find_agent(uuid).await?;
    let (outcome, _) = line.session.list_mail(line.agent.id(), Some(from.id)).await?;
    Ok(outcome)
}
