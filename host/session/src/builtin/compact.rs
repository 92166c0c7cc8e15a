//! `/compact [FOCUS]`: has the model summarise the conversation of the agent in view now.

use patchbay_agent::{Compacted, TurnEnding};
use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, Outcome, TurnCause, text};
use serde_json::json;

use super::{BeginsTurn, BuiltIn};
use crate::line::context::LineContext;

pub(super) static COMMAND: BuiltIn = BuiltIn {
    needs_living_agent: true,
    begins_turn: |_, _| BeginsTurn::IfIdle { releases: false },
    ..BuiltIn::new(
        Spec {
            name: "compact",
            argument: Argument::Optional { usage: "[FOCUS]" },
            summary: "Summarise the conversation now, with emphasis on FOCUS",
            completion: Completion::None,
        },
        |line, focus| Box::pin(async move { compact(line, focus).await.into() }),
    )
};

async fn compact(line: &LineContext, focus: &str) -> Result<Outcome, Outcome> {
    // Requires the right to run a turn, because no turn may begin on the conversation meanwhile.
    if line.turn.is_none() {
        let message =
            "cannot compact while a response is streaming. Wait for it to finish or press Ctrl+C to cancel it.";
        return Err(Outcome::error(Code::TurnRunning, message));
    }
    let ending = TurnEnding { agent: line.agent.id(), began: 0, report_to: None };
    let outside = line.session.outside_now(&line.client).await;
    let turn = line.session.turn(&line.agent, TurnCause::Person, ending, 0, line.stop.clone(), outside);
    match line.agent.compact_now(&turn, focus).await? {
        Some(Compacted { before, after }) => {
            let [said_before, said_after] = [before, after].map(text::with_commas);
            let message = format!("Compacted: {said_before} tokens became {said_after}.");
            Ok(Outcome::ok(Code::Compacted, message).with_data(json!({"before": before, "after": after})))
        }
        None => Err(Outcome::error(Code::CompactEmpty, "there is nothing to compact.")),
    }
}
