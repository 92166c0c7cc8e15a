//! `/drop`: removes the last message from the conversation if its turn failed or was stopped before an answer. Its rows stay
//! stored, but are no longer sent to the model.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome};
use patchbay_store::DroppedMessage;

use super::{BeginsTurn, BuiltIn, CommandChange, Effect, retry::nothing_unanswered};
use crate::unanswered::unanswered;

pub(super) static COMMAND: BuiltIn = BuiltIn {
    needs_living_agent: true,
    begins_turn: |_, argument| {
        if argument.is_empty() { BeginsTurn::IfIdle { releases: false } } else { BeginsTurn::No }
    },
    ..BuiltIn::new(
        Spec {
            name: "drop",
            argument: Argument::None,
            summary: "Take back the last message if it has no answer",
            completion: Completion::None,
        },
        |line, _| {
            Box::pin(async move {
                // Requires the right to run a turn. Otherwise this could drop the message of a turn that is just beginning.
                if line.turn.is_none() {
                    let message = "cannot drop a message while a response is streaming. Wait for it to finish or press \
                                   Ctrl+C to cancel it.";
                    return Outcome::error(Code::TurnRunning, message).into();
                }
                match unanswered(line).await {
                    Ok(Some(message)) => {
                        let words = format!("Dropped: {}", message.excerpt);
                        let dropped =
                            DroppedMessage { agent: line.agent.id(), first: message.first, last: message.last };
                        Effect::Change(Outcome::ok(Code::MessageDropped, words), CommandChange::Drop(dropped))
                    }
                    Ok(None) => nothing_unanswered().into(),
                    Err(error) => Outcome::error(Code::StoreFailed, format_args!("{error}.")).into(),
                }
            })
        },
    )
};
