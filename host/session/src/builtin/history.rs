//! `/history [N]`: shows the last messages of the agent in view and their answers, shortened. In this file, an exchange is a
//! message with its answer.

use patchbay_command::{Argument, Completion, Spec};
use patchbay_core::{Code, MessageKind, Outcome};
use patchbay_store::StoreError;
use serde_json::json;

use super::{BuiltIn, CommandKind};
use crate::{line::context::LineContext, recap};

/// Number of messages that are shown with their answers if there is no argument.
const DEFAULT: usize = 10;
/// Largest number of messages that can be requested.
const MAX: usize = 100;
/// Size limit of the shown text, in bytes. Earlier messages are left out.
const BYTES: usize = 64 << 10;

pub(super) static COMMAND: BuiltIn = BuiltIn {
    kind: CommandKind::Shows,
    ..BuiltIn::new(
        Spec {
            name: "history",
            argument: Argument::Optional { usage: "[N]" },
            summary: "Show the last N messages and their answers",
            completion: Completion::None,
        },
        |line, argument| {
            Box::pin(async move {
                let Some(count) = count(argument) else {
                    let message = format!("/history requires a number from 1 to {MAX}.");
                    return Outcome::error(Code::InvalidArgs, message).into();
                };
                match last_exchanges(line, count).await {
                    Ok(shown) if shown.exchanges == 0 => {
                        Outcome::ok(Code::HistoryEmpty, "There are no messages.").into()
                    }
                    Ok(shown) => Outcome::ok(Code::HistoryListed, shown.text)
                        .with_data(json!({"exchanges": shown.exchanges}))
                        .into(),
                    Err(error) => Outcome::error(Code::StoreFailed, format_args!("{error}.")).into(),
                }
            })
        },
    )
};

fn count(argument: &str) -> Option<usize> {
    if argument.is_empty() {
        return Some(DEFAULT);
    }
    argument.parse().ok().filter(|count| (1..=MAX).contains(count))
}

struct ShownHistory {
    text: String,
    exchanges: usize,
}

/// Returns the last exchanges, oldest first, separated by blank lines. Reads one exchange at a time, to bound memory.
async fn last_exchanges(line: &LineContext, count: usize) -> Result<ShownHistory, StoreError> {
    let (store, session, agent) = (line.session.log().store(), line.session.id(), line.agent.id());
    let (mut before, mut bytes, mut exchanges) = (u64::MAX, 0, 0);
    // Only the newest exchange can belong to the running turn.
    let mut is_running = line.agent.is_answering();
    // Whether the message that follows in the conversation joined an earlier turn.
    let mut is_joined = false;
    // The exchanges, newest first.
    let mut blocks: Vec<String> = Vec::new();
    let mut more = false;
    while let Some((said, answer)) = store.exchange_before(session, agent, before).await? {
        before = said.seq;
        let mut lines = recap::lines(&said, answer.as_ref(), std::mem::take(&mut is_running));
        // A skill's instructions without an answer share the answer of the next message. So does a message whose turn the next
        // message joined.
        let leads = (said.kind == MessageKind::Skill || is_joined) && answer.is_none();
        is_joined = said.data.as_ref().is_some_and(|data| data.get("joined").is_some());
        let next = blocks.last_mut().filter(|_| leads);
        if next.is_some() {
            lines.pop();
        }
        let text = lines.join("\n");
        bytes += text.len();
        if (exchanges > 0 && bytes > BYTES) || (exchanges == count && next.is_none()) {
            more = true;
            break;
        }
        match next {
            Some(next) => next.insert_str(0, &format!("{text}\n")),
            None => {
                exchanges += 1;
                blocks.push(text);
            }
        }
    }
    if more {
        blocks.push("\u{2026} earlier messages are left out".to_owned());
    }
    blocks.reverse();
    Ok(ShownHistory { text: blocks.join("\n\n"), exchanges })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_is_from_one_to_a_hundred() {
        for (argument, expected) in [
            ("", Some(10)),
            ("1", Some(1)),
            ("100", Some(100)),
            ("0", None),
            ("101", None),
            ("-1", None),
            ("ten", None),
        ] {
            assert_eq!(count(argument), expected, "{argument:?}");
        }
    }
}
