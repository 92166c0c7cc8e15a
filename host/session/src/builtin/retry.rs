//! `/retry`: sends the last message again if its turn failed or was stopped before an answer.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};

use super::{BeginsTurn, BuiltIn, Effect};
use crate::unanswered::unanswered;

pub(super) static COMMAND: BuiltIn = BuiltIn {
    needs_living_agent: true,
    begins_turn: |_, argument| if argument.is_empty() { BeginsTurn::IfIdle { releases: true } } else { BeginsTurn::No },
    ..BuiltIn::new(
        Spec {
            name: "retry",
            argument: Argument::None,
            summary: "Send the last message again if it has no answer",
            completion: Completion::None,
        },
        |line, _| {
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
        },
    )
};

/// The outcome of `/retry` and `/drop` if the last message has an answer.
pub(super) fn nothing_unanswered() -> Outcome {
    Outcome::error(Code::NothingUnanswered, "there is no message without an answer.")
}
