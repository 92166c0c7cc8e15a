//! `/retry`: sends the last message again if its turn failed or was stopped before an answer.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};
use patchbay_skill::Snapshot;

use super::{BeginsTurn, BuiltIn, Effect, EffectFuture};
use crate::{line::context::LineContext, unanswered::unanswered};

pub(crate) struct RetryCommand;

static SPEC: Spec = Spec {
    name: "retry",
    argument: Argument::None,
    summary: "Send the last message again if it got no answer",
    completion: Completion::None,
};

impl BuiltIn for RetryCommand {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn needs_living_agent(&self) -> bool {
        true
    }

    fn begins_turn(&self, _: &Snapshot, argument: &str) -> BeginsTurn {
        if argument.is_empty() { BeginsTurn::IfIdle { releases: true } } else { BeginsTurn::No }
    }

    fn run<'a>(&'a self, line: &'a LineContext, _: &'a str) -> EffectFuture<'a> {
        Box::pin(async move {
            if line.turn.is_none() {
                let message = "cannot retry while a response is streaming. Wait for it to finish or press Ctrl+C to \
                               cancel it.";
                return Outcome::error(Code::TurnRunning, message).into();
            }
            match unanswered(line).await {
                Ok(Some(message)) => Effect::Retry(message),
                Ok(None) => nothing_unanswered().into(),
                Err(error) => Outcome::error(Code::StoreFailed, format_args!("{error}.")).into(),
            }
        })
    }
}

/// The outcome of `/retry` and `/drop` if the last message has an answer.
pub(super) fn nothing_unanswered() -> Outcome {
    Outcome::error(Code::NothingUnanswered, "there is no message without an answer.")
}
