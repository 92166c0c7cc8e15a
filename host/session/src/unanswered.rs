//! Finds the message that `/retry` sends again and `/drop` removes from the conversation.

use patchbay_agent::Agent;
use patchbay_core::{AssistantPart, AssistantRecord, Attachment, Code, MessageKind, Outcome, TurnData, text};
use patchbay_store::{LastMessage, MessageRow, StoreError};

use crate::{Session, line::context::LineContext};

/// Length limit of a message's excerpt, in characters.
const EXCERPT: usize = 50;

/// The last message to an agent, if its turn failed or was stopped before the model answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnansweredMessage {
    /// The number of the message's first row.
    pub(crate) first: u64,
    /// The number of the message's last row.
    pub(crate) last: u64,
    /// Number of answers that only called tools or broke off before their text.
    pub(crate) answers: u32,
    /// The beginning of the message, cleaned.
    pub(crate) excerpt: String,
}

/// The hint that a front shows if a message has no answer.
const HINT: &str =
    "The message has no answer. /retry sends it again, /drop takes it out; otherwise the next message includes it.";

/// Returns the last message of the line's agent if it has no answer. The caller must know that no turn is running.
pub(crate) async fn unanswered(line: &LineContext) -> Result<Option<UnansweredMessage>, StoreError> {
    line.session.unanswered_of(&line.agent).await
}

/// Returns the hint that a front shows below a failed turn whose message has no answer, or `None` for other outcomes.
pub fn unanswered_hint(outcome: &Outcome) -> Option<&'static str> {
    outcome.turn().is_some_and(|turn| turn.unanswered && !outcome.is_ok()).then_some(HINT)
}

impl Session {
    async fn unanswered_of(&self, agent: &Agent) -> Result<Option<UnansweredMessage>, StoreError> {
        let last = self.log().store().last_message(self.id(), agent.id()).await?;
        Ok(last.and_then(without_answer))
    }

    /// Notes in the outcome of a failed turn whether its message has no answer. A user who stopped the turn knows that.
    pub(crate) async fn note_unanswered(&self, agent: &Agent, outcome: &mut Outcome) {
        if outcome.code == Code::TurnCancelled {
            return;
        }
        match self.unanswered_of(agent).await {
            Ok(Some(_)) => {
                let turn = outcome.turn().cloned().unwrap_or_default();
                outcome.data = Some(TurnData { unanswered: true, ..turn }.into());
            }
            Ok(None) => {}
            Err(error) => tracing::error!("whether a message was answered could not be read: {error}"),
        }
    }
}

fn without_answer(message: LastMessage) -> Option<UnansweredMessage> {
    let LastMessage { rows, answer, answers } = message;
    if answer.as_ref().is_some_and(is_answer) {
        return None;
    }
    let (first, last) = (rows.first()?, rows.last()?);
    Some(UnansweredMessage { first: first.seq, last: last.seq, answers, excerpt: excerpt(last) })
}

/// Returns whether a model's answer is meant for the user: it has text, or it is complete and calls no tool. After a
/// complete answer that calls tools, the turn continues.
fn is_answer(row: &MessageRow) -> bool {
    let record = row.data.clone().and_then(|data| serde_json::from_value::<AssistantRecord>(data).ok());
    match record {
        Some(record) if !record.interrupted => !record.parts.iter().any(calls_tool),
        _ => !row.content.trim().is_empty(),
    }
}

fn calls_tool(part: &AssistantPart) -> bool {
    matches!(part, AssistantPart::ToolCall { .. })
}

fn excerpt(row: &MessageRow) -> String {
    let skill = row.data.as_ref().and_then(|data| data.get("skill")).and_then(serde_json::Value::as_str);
    match (row.kind, skill) {
        (MessageKind::Skill, Some(skill)) => text::excerpt(&format!("/skill {skill}"), EXCERPT),
        _ => text::excerpt(&Attachment::text_or_placeholders(&row.content, row.data.as_ref()), EXCERPT),
    }
}

#[cfg(test)]
mod tests {
    use patchbay_core::AgentId;
    use serde_json::{Value, json};

    use super::*;

    fn row(seq: u64, kind: MessageKind, content: &str, data: Value) -> MessageRow {
        MessageRow { seq, agent: AgentId::from_bytes([1; 16]), kind, content: content.to_owned(), data: Some(data) }
    }

    fn answer(content: &str, interrupted: bool, parts: &Value) -> MessageRow {
        let usage = json!({"input": 0, "output": 0, "thinking": 0, "cache_read": 0, "cache_write": 0});
        let data = json!({"provider": "p", "adapter": "a", "model": "m", "usage": usage, "interrupted": interrupted, "parts": parts});
        row(9, MessageKind::Assistant, content, data)
    }

    #[test]
    fn message_is_unanswered_until_the_model_answers_it() {
        let none = json!([]);
        let call = json!([{"type": "tool_call", "id": "c", "name": "a__b", "input": "{}"}]);
        for (answer, expected) in [
            (None, true),
            (Some(answer("Yes.", false, &none)), false),
            // An empty answer from the model.
            (Some(answer("", false, &none)), false),
            (Some(answer("Half a", true, &none)), false),
            (Some(answer(" \n", true, &none)), true),
            (Some(answer("", false, &call)), true),
            (Some(answer("Let me look.", false, &call)), true),
            (Some(row(9, MessageKind::Assistant, "Unreadable", Value::Null)), false),
        ] {
            let rows = vec![row(3, MessageKind::User, "hi", Value::Null)];
            let message = LastMessage { rows, answer: answer.clone(), answers: 1 };
            assert_eq!(without_answer(message).is_some(), expected, "{answer:?}");
        }
    }

    #[test]
    fn unanswered_message_has_its_rows_and_an_excerpt() {
        let skill = row(3, MessageKind::Skill, "Instructions", json!({"skill": "guide"}));
        let input = row(4, MessageKind::User, "to\nthe sea", Value::Null);
        let found = |rows: &[&MessageRow]| {
            let rows = rows.iter().copied().cloned().collect();
            without_answer(LastMessage { rows, answer: None, answers: 0 })
        };
        let message = found(&[&skill, &input]).unwrap();
        assert_eq!((message.first, message.last, &*message.excerpt), (3, 4, "to the sea"));
        assert_eq!(found(&[&skill]).unwrap().excerpt, "/skill guide");
        assert_eq!(found(&[]), None);
    }
}
